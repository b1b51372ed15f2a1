package selection

import (
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Demand is the wanted and the allowed number of clusters, and of which kinds they are.
type Demand struct {
	// Number is the wanted number of clusters; negative means all that are available.
	Number int
	// Limit is the maximum number of clusters; negative means no limit.
	Limit int
	// Spread are the topology spread constraints, in their order.
	Spread []v1alpha1.SpreadConstraintsTerm
	// SpreadWeight is the weight of the Spread prioritizer, which scores the clusters again after
	// each selected one.
	SpreadWeight int64
	// Tiers are ordered alternatives. All clusters are from the first sufficient tier that is
	// usable, otherwise from the first sufficient one. If none is, and always with Overflow, tiers
	// are filled in order. Candidates in no tier are not chosen.
	Tiers    []Tier
	Overflow bool
	// Groups are how many clusters of a kind are chosen. Their minima are filled first, in order.
	Groups []Group
}

// Group is the number of clusters of a kind. A negative Max means no maximum.
type Group struct {
	Name     string
	Min, Max int
}

// DemandOf returns the demand of a Placement under a limit, without the weight of Spread.
func DemandOf(pl *v1alpha1.Placement, limit int) Demand {
	return Demand{Number: int(ptr.Deref(pl.Spec.NumberOfClusters, -1)), Limit: limit, Spread: pl.Spec.SpreadPolicy.SpreadConstraints}
}

// Wanted returns the wanted number of clusters, given the number of available ones: those that the
// tiers and the maxima of groups permit.
func (d Demand) Wanted(available int) int {
	if d.Number < 0 {
		return available
	}
	return d.Number
}

// Capped reports whether the limit, and not the number of available clusters, ended the selection.
func (d Demand) Capped(chosen, missing int) bool {
	return d.Limit >= 0 && chosen == d.Limit && missing > 0
}

// count returns how many of the available clusters to select.
func (d Demand) count(available int) int {
	n := min(available, d.Wanted(available))
	if d.Limit >= 0 {
		n = min(n, d.Limit)
	}
	return n
}

// Shortfall is what a selection lacks.
type Shortfall struct {
	// Missing is the number of wanted clusters that are not chosen.
	Missing int
	// BlockedBy is the spread constraint that ended the selection early; empty if none did. Lacking
	// describes the candidates that lack its topology key, or that of a constraint before it.
	BlockedBy, Lacking string
	// Unmet are the groups with fewer clusters than their minimum, in order.
	Unmet []Unmet
	// Full are the positions of the groups whose maximum ended the selection although they have
	// more candidates.
	Full []int
	// NoTierSufficient is true if no tier has its Min and the mode is not Overflow.
	NoTierSufficient bool
}

// Unmet is the position of a group in the demand, and how many clusters it lacks.
type Unmet struct{ Group, Missing int }
