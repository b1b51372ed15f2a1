package inventory

import (
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// freedCapacity has, for each cluster and resource that changed, what was requested before.
type freedCapacity map[int]map[v1alpha1.ResourceName]int64

func (f freedCapacity) changes(i int, name v1alpha1.ResourceName, before int64) {
	if f[i] == nil {
		f[i] = map[v1alpha1.ResourceName]int64{}
	}
	if _, known := f[i][name]; !known {
		f[i][name] = before
	}
}

// moveRequests replaces what a Placement requests of its old clusters by what it requests of the
// next ones.
func (inv *Inventory) moveRequests(old, next *holding, freed freedCapacity) {
	left, joined := old.has, next.has
	if old.capacityRequest == next.capacityRequest {
		left, joined = old.has.Without(next.has), next.has.Without(old.has)
	}
	for name := range amounts(next.capacityRequest) {
		inv.useCapacity(name)
	}
	for i := range left.All {
		inv.setRequest(i, old.capacityRequest, false, freed)
	}
	for i := range joined.All {
		inv.setRequest(i, next.capacityRequest, true, freed)
	}
	for name := range amounts(old.capacityRequest) {
		inv.releaseCapacity(name)
	}
}

// amounts are those of a request; none if it is nil.
func amounts(request *framework.CapacityRequest) map[v1alpha1.ResourceName]int64 {
	if request == nil {
		return nil
	}
	return request.Amounts
}

// setRequest adds a request to those of a cluster, or removes it.
func (inv *Inventory) setRequest(i int, request *framework.CapacityRequest, present bool, freed freedCapacity) {
	if request == nil {
		return
	}
	requests := inv.holdings.capacityRequests.Get(i)
	at, _ := slices.BinarySearchFunc(requests, request, func(a, b *framework.CapacityRequest) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	sign, next := int64(-1), slices.Clone(requests) // Snapshots share the old one.
	if present {
		sign, next = 1, slices.Insert(next, at, request)
	} else {
		next = slices.Delete(next, at, at+1)
	}
	inv.holdings.capacityRequests.Set(i, next)
	for name, amount := range request.Amounts {
		// Nothing fits on a cluster that does not report the resource, so its sum is not kept.
		c := inv.holdings.capacities[name]
		if c == nil || c.allocatable.Get(i) == 0 {
			continue
		}
		requested := c.requested.Get(i)
		freed.changes(i, name, requested)
		if len(requests)+len(next) > framework.MaxExactRequests {
			c.requested.Set(i, inv.requestedOf(i, name))
		} else {
			c.requested.Set(i, requested+sign*amount)
		}
	}
	inv.fleet = nil
}

// requestedOf adds up what is requested of a resource of a cluster.
func (inv *Inventory) requestedOf(i int, name v1alpha1.ResourceName) (sum int64) {
	for _, r := range inv.holdings.capacityRequests.Get(i) {
		sum = framework.AddUnits(sum, r.Amounts[name])
	}
	return sum
}

// useCapacity counts a Placement that requests a resource.
func (inv *Inventory) useCapacity(name v1alpha1.ResourceName) {
	c := inv.holdings.capacities[name]
	if c == nil {
		c = &capacity{wanted: -1}
		inv.holdings.capacities[name] = c
		for i := range inv.clusters.Len() {
			// A vector without values takes no memory: any user can request resources that no
			// cluster reports.
			if cluster := inv.clusters.Get(i); cluster != nil {
				if amount := framework.AllocatableOf(cluster.ManagedCluster, name); amount > 0 {
					c.allocatable.Set(i, amount)
				}
			}
		}
		inv.fleet = nil
	}
	c.users++
}

func (inv *Inventory) releaseCapacity(name v1alpha1.ResourceName) {
	c := inv.holdings.capacities[name]
	if c.users--; c.users == 0 {
		delete(inv.holdings.capacities, name)
		inv.fleet = nil
	}
}

// updateCapacities stores the allocatable amounts of a cluster; object is nil after its deletion.
func (inv *Inventory) updateCapacities(i int, object *v1alpha1.ManagedCluster) {
	for name, c := range inv.holdings.capacities {
		old, next := c.allocatable.Get(i), framework.AllocatableOf(object, name)
		if old == next {
			continue
		}
		if old == 0 {
			c.requested.Set(i, inv.requestedOf(i, name))
		}
		c.allocatable.Set(i, next)
		inv.fleet = nil
	}
}

// refilled is a cluster with resources whose requested amounts changed; before has the sums before.
type refilled struct {
	cluster int
	before  map[v1alpha1.ResourceName]int64
	changed []change
}

// change is what was free of a resource before, and is now.
type change struct {
	*capacity
	before, now int64
}

func (inv *Inventory) refilledBy(freed freedCapacity) []refilled {
	all := make([]refilled, 0, len(freed))
	for i, before := range freed {
		r := refilled{i, before, make([]change, 0, len(before))}
		for name, requested := range before {
			if c := inv.holdings.capacities[name]; c != nil && c.requested.Get(i) != requested {
				free := c.allocatable.Get(i) - 1
				r.changed = append(r.changed, change{c, free - requested, free - c.requested.Get(i)})
			}
		}
		if len(r.changed) > 0 {
			all = append(all, r)
		}
	}
	return all
}

// addFitting adds the Placements for which a cluster was too full and is not any more, those that
// have a cluster that is too full now, and those that depend on all qualifying clusters, for which
// one became too full.
func (inv *Inventory) addFitting(freed freedCapacity, affected affectedSet) {
	if !inv.started {
		return
	}
	all := inv.refilledBy(freed)
	if len(all) == 0 {
		return
	}
	for key, h := range inv.holdings.byPlacement {
		if h.capacityRequest == nil {
			continue
		}
		for name, amount := range h.capacityRequest.Amounts {
			inv.holdings.capacities[name].wanted = amount
		}
		if slices.ContainsFunc(all, func(r refilled) bool { return inv.isAffected(h, &r) }) {
			affected.add(key)
		}
		for name := range h.capacityRequest.Amounts {
			inv.holdings.capacities[name].wanted = -1
		}
	}
}

// isAffected reports whether a refilled cluster affects a Placement, whose amounts are in wanted.
// It runs for each such cluster of each Placement that requests anything.
func (inv *Inventory) isAffected(h *holding, r *refilled) bool {
	differs := false
	if h.has.Has(r.cluster) {
		for _, c := range r.changed {
			differs = differs || c.wanted >= 0 && c.now < 0
		}
		return differs
	}
	for _, c := range r.changed {
		differs = differs || c.wanted >= 0 && (c.before < c.wanted) != (c.now < c.wanted)
	}
	if !differs {
		return false
	}
	fits := inv.fits(h.capacityRequest, r.cluster, nil)
	return fits != inv.fits(h.capacityRequest, r.cluster, r.before) && (fits || inv.dependsOnQualifying(h.placement))
}

// fits reports whether a request fits on a cluster that the Placement does not have; before has
// earlier sums of requests.
func (inv *Inventory) fits(request *framework.CapacityRequest, i int, before map[v1alpha1.ResourceName]int64) bool {
	for name, amount := range request.Amounts {
		c := inv.holdings.capacities[name]
		allocatable, requested := c.allocatable.Get(i), c.requested.Get(i)
		if earlier, known := before[name]; known {
			requested = earlier
		}
		if allocatable == 0 || allocatable-1-requested < amount {
			return false
		}
	}
	return true
}

// freezeCapacities returns the part of a Fleet that SelectionPolicies request, of the resources
// that a cluster reports.
func (inv *Inventory) freezeCapacities() map[v1alpha1.ResourceName]*framework.Capacity {
	frozen := map[v1alpha1.ResourceName]*framework.Capacity{}
	for name, c := range inv.holdings.capacities {
		if c.allocatable.Len() > 0 {
			frozen[name] = &framework.Capacity{Allocatable: c.allocatable.Freeze(), Requested: c.requested.Freeze()}
		}
	}
	return frozen
}
