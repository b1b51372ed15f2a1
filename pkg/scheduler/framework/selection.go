package framework

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Peer is another Placement that the affinity of a SelectionPolicy names.
type Peer struct {
	Name string
	// With and ApartFrom are the paths of the terms that name it, in the policy; empty if none
	// does.
	With, ApartFrom string
	// Mutual is true if the peer's policy also keeps it apart from this Placement. Older is true if
	// the peer is the older one of both.
	Mutual, Older bool
	// Clusters are the indexes of the clusters that the peer has (Subject.Has). For With alone they
	// are without what a change adds that may still be rejected, unless the peer has nothing else.
	Clusters Bitset
}

// Excludes reports whether ApartFrom excludes a cluster, by index. Of two Placements that are apart
// from each other, the one that has a cluster keeps it; if both have it, the older one does.
func (p *Peer) Excludes(cluster int, own Bitset) bool {
	if p.ApartFrom == "" || !p.Clusters.Has(cluster) {
		return false
	}
	return !p.Mutual || p.Older || !own.Has(cluster)
}

// CapacityRequest is what one Placement uses on each of its clusters, in the units of UnitsOf.
type CapacityRequest struct {
	Placement types.NamespacedName
	Created   time.Time
	Amounts   map[v1alpha1.ResourceName]int64
}

// Before reports whether a Placement keeps a cluster before another one, if the cluster is too
// small for both: the older one does.
func (r *CapacityRequest) Before(other *CapacityRequest) bool {
	return cmp.Or(
		r.Created.Compare(other.Created),
		cmp.Compare(r.Placement.Namespace, other.Placement.Namespace),
		cmp.Compare(r.Placement.Name, other.Placement.Name),
	) < 0
}

// Equal reports whether two requests of the same Placement are equal. Both may be nil.
func (r *CapacityRequest) Equal(other *CapacityRequest) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Created.Equal(other.Created) && maps.Equal(r.Amounts, other.Amounts)
}

// Capacity is one resource of all clusters, by index, in the units of UnitsOf.
type Capacity struct {
	// Allocatable is 1 more than the amount, so that 0 means that the cluster does not report the
	// resource.
	Allocatable *Vector[int64]
	// Requested is the sum of the requests of the Placements that have the cluster.
	Requested *Vector[int64]
}

// Free returns what is allocatable and not requested on a cluster, which is negative if more is
// requested; false if the cluster does not report the resource.
func (c *Capacity) Free(cluster int) (free int64, reported bool) {
	if c == nil {
		return 0, false
	}
	allocatable := c.Allocatable.Get(cluster)
	return allocatable - 1 - c.Requested.Get(cluster), allocatable > 0
}

// PolicyMatches are the indexes of the clusters that belong to each tier and group of a
// SelectionPolicy, and that match each of its preferences. A cluster belongs to the first tier and
// the first group that match it.
type PolicyMatches struct{ Tiers, Groups, Preferences []Bitset }

// PolicyMatchesKey is the key of PolicyMatches in the CycleState.
const PolicyMatchesKey StateKey = "PolicyMatches"

// Clone implements StateData. The sets are shared, because nobody changes them.
func (m *PolicyMatches) Clone() StateData { return m }

// SelectionPolicy returns the policy of the Placement; nil if there is none, or more than one.
func (s *Subject) SelectionPolicy() *berthv1alpha1.SelectionPolicy {
	if len(s.SelectionPolicies) == 1 {
		return s.SelectionPolicies[0]
	}
	return nil
}

// MissingPolicy returns why the SelectionPolicy that the Placement requires does not apply to it;
// empty if it does, or if none is required.
func (s *Subject) MissingPolicy() string {
	name, required := s.Placement.Annotations[v1alpha1.SelectionPolicyAnnotation]
	if !required {
		return ""
	}
	problem, result := "does not exist or names another Placement", "the published decision stays"
	if s.Last == nil {
		result = "nothing is published"
	}
	for _, policy := range s.SelectionPolicies {
		switch {
		case policy.Name != name:
		case policy.DeletionTimestamp.IsZero():
			return ""
		default:
			problem = "is being deleted"
		}
	}
	return fmt.Sprintf("SelectionPolicy %s, which the annotation %s requires, %s; %s", name, v1alpha1.SelectionPolicyAnnotation, problem, result)
}

// withCapacities returns the Fleet with the allocatable amounts of one other cluster.
func (f *Fleet) withCapacities(cluster *Cluster) map[v1alpha1.ResourceName]*Capacity {
	if len(f.Capacities) == 0 {
		return nil
	}
	all := maps.Clone(f.Capacities)
	for name, c := range all {
		if cluster.Index < c.Allocatable.Len() {
			all[name] = &Capacity{Allocatable: c.Allocatable.With(cluster.Index, AllocatableOf(cluster.ManagedCluster, name)), Requested: c.Requested}
		}
	}
	return all
}

// AllocatableOf returns the value of Capacity.Allocatable for a cluster, which may be nil.
func AllocatableOf(cluster *v1alpha1.ManagedCluster, name v1alpha1.ResourceName) int64 {
	if cluster == nil {
		return 0
	}
	amount, reported := cluster.Status.Allocatable[name]
	if !reported {
		return 0
	}
	return 1 + UnitsOf(name, amount, false)
}

// maxUnits is the largest amount: a petabyte, or a million million cores.
const maxUnits = 1 << 50

// MaxExactRequests is a number of requests whose sum is exact: MaxExactRequests * maxUnits is below
// the bound of AddUnits. Sums of more requests may be too small.
const MaxExactRequests = 1 << 11

// UnitsOf returns an amount of a resource as a whole number: thousandths of a core for cpu, else
// units. Fractions are rounded up if up is true, else down. Negative amounts are 0.
func UnitsOf(name v1alpha1.ResourceName, amount resource.Quantity, up bool) int64 {
	scale, factor := resource.Scale(0), 1.0
	if name == v1alpha1.ResourceCPU {
		scale, factor = resource.Milli, 1000
	}
	approximate := amount.AsApproximateFloat64() * factor
	switch {
	case !(approximate > 0): // also NaN
		return 0
	case approximate >= maxUnits:
		return maxUnits
	}
	units := amount.ScaledValue(scale)
	if !up && resource.NewScaledQuantity(units, scale).Cmp(amount) > 0 {
		units--
	}
	return units
}

// AddUnits adds two amounts. The sum is bounded, so that it does not overflow.
func AddUnits(a, b int64) int64 {
	if a > math.MaxInt64/2-b {
		return math.MaxInt64 / 2
	}
	return a + b
}
