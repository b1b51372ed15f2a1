package selection

import "github.com/berth-dev/berth/api/v1alpha1"

// Demand is the wanted and the allowed number of clusters, and how they are spread.
type Demand struct {
	// Number is the wanted number of clusters; negative means all feasible ones.
	Number int
	// Limit is the maximum number of clusters; negative means no limit. LimitBy names the quotas
	// that set it.
	Limit   int
	LimitBy string
	// Spread are the topology spread constraints, in their order.
	Spread []v1alpha1.SpreadConstraintsTerm
	// SpreadWeight is the weight of the Spread prioritizer, which scores the clusters again after
	// each selected one.
	SpreadWeight int64
}

// DemandOf returns the demand of a Placement under a limit, without the weight of Spread.
func DemandOf(pl *v1alpha1.Placement, limit int, limitBy string) Demand {
	d := Demand{Number: -1, Limit: limit, LimitBy: limitBy, Spread: pl.Spec.SpreadPolicy.SpreadConstraints}
	if n := pl.Spec.NumberOfClusters; n != nil {
		d.Number = int(*n)
	}
	return d
}

// Wanted returns the wanted number of clusters, given the number of feasible ones.
func (d Demand) Wanted(feasible int) int {
	if d.Number < 0 {
		return feasible
	}
	return d.Number
}

// Missing returns the number of wanted clusters that are not selected.
func (d Demand) Missing(feasible, chosen int) int { return d.Wanted(feasible) - chosen }

// Capped reports whether the limit, and not the number of feasible clusters, ended the selection.
func (d Demand) Capped(feasible, chosen int) bool {
	return d.Limit >= 0 && chosen == d.Limit && d.Missing(feasible, chosen) > 0
}

// count returns how many of the feasible clusters to select.
func (d Demand) count(feasible int) int {
	n := min(feasible, d.Wanted(feasible))
	if d.Limit >= 0 {
		n = min(n, d.Limit)
	}
	return n
}
