package inventory

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// freedCapacity has, for each cluster and resource that changed, what was requested before.
type freedCapacity = nested[int, *capacity, int64]

// moveRequests replaces what a Placement requests of its old clusters by what it requests of the
// next ones.
func (inv *Inventory) moveRequests(old, next *holding, freed freedCapacity) {
	left, joined := old.has, next.has
	if old.capacityRequest == next.capacityRequest {
		left, joined = old.has.Without(next.has), next.has.Without(old.has)
	}
	if next.capacityRequest != nil {
		for name, amount := range next.capacityRequest.Amounts {
			next.amounts = append(next.amounts, requestedAmount{inv.useCapacity(name), name, amount})
		}
	}
	for i := range left.All {
		inv.setRequest(i, old, false, freed)
	}
	for i := range joined.All {
		inv.setRequest(i, next, true, freed)
	}
	for _, a := range old.amounts {
		if a.users--; a.users == 0 {
			delete(inv.holdings.capacities, a.resource)
			inv.fleet = nil
		}
	}
}

// setRequest adds the request of a holding to those of a cluster, or removes it.
func (inv *Inventory) setRequest(i int, h *holding, present bool, freed freedCapacity) {
	if h.capacityRequest == nil {
		return
	}
	requests := inv.holdings.capacityRequests.Get(i)
	at, _ := slices.BinarySearchFunc(requests, h.capacityRequest, func(a, b *framework.CapacityRequest) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	// Snapshots share the old one.
	sign, next := int64(1), append(make([]*framework.CapacityRequest, 0, len(requests)+1), requests[:at]...)
	if present {
		next = append(append(next, h.capacityRequest), requests[at:]...)
	} else {
		sign, next = -1, append(next, requests[at+1:]...)
	}
	inv.holdings.capacityRequests.Set(i, next)
	for _, a := range h.amounts {
		// Nothing fits on a cluster that does not report the resource, so its sum is not kept.
		if a.allocatable.Get(i) == 0 {
			continue
		}
		requested := a.requested.Get(i)
		if _, known := freed[i][a.capacity]; !known {
			freed.set(i, a.capacity, requested)
		}
		if len(requests)+len(next) > framework.MaxExactRequests {
			a.requested.Set(i, inv.requestedOf(i, a.resource))
		} else {
			a.requested.Set(i, requested+sign*a.amount)
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
func (inv *Inventory) useCapacity(name v1alpha1.ResourceName) *capacity {
	c := inv.holdings.capacities[name]
	if c == nil {
		c = &capacity{}
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
	return c
}

// updateCapacities stores the allocatable amounts of a cluster. before is nil after its creation,
// object after its deletion.
func (inv *Inventory) updateCapacities(i int, before *framework.Cluster, object *v1alpha1.ManagedCluster) {
	if before != nil {
		inv.updateResources(i, before.ManagedCluster, object)
	}
	if object != nil {
		inv.updateResources(i, object, object)
	}
}

// updateResources stores the amounts in object of the resources that a cluster reports or reported.
func (inv *Inventory) updateResources(i int, reports, object *v1alpha1.ManagedCluster) {
	for name := range reports.Status.Allocatable {
		c := inv.holdings.capacities[name]
		if c == nil {
			continue
		}
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

// maxFitSteps bounds how many amounts are compared after one event.
const maxFitSteps = 500_000

// addFitting adds the Placements for which a cluster was too full and is not any more, those that
// have a cluster that is too full or was, and those that depend on all qualifying clusters, for
// which one became too full. If to find them takes more than maxFitSteps, it adds all that request
// one of the resources: no event may wait for long.
func (inv *Inventory) addFitting(freed freedCapacity, affected affectedSet) {
	if !inv.started {
		return
	}
	for i, before := range freed {
		maps.DeleteFunc(before, func(c *capacity, requested int64) bool { return c.requested.Get(i) == requested })
		if len(before) == 0 {
			delete(freed, i)
		}
	}
	if len(freed) == 0 {
		return
	}
	changed, steps := map[*capacity]bool{}, 0
	for _, before := range freed {
		for c := range before {
			changed[c] = true
		}
	}
	requests := func(h *holding) bool {
		return slices.ContainsFunc(h.amounts, func(a requestedAmount) bool { return changed[a.capacity] })
	}
	for _, h := range inv.holdings.byPlacement {
		if requests(h) {
			steps += len(h.amounts) * len(freed)
		}
	}
	for key, h := range inv.holdings.byPlacement {
		if requests(h) && (steps > maxFitSteps || inv.isAffected(h, freed)) {
			affected.add(key)
		}
	}
}

// isAffected reports whether one of the clusters affects a Placement.
func (inv *Inventory) isAffected(h *holding, freed freedCapacity) bool {
	for i, changed := range freed {
		if inv.isAffectedBy(h, i, changed) {
			return true
		}
	}
	return false
}

func (inv *Inventory) isAffectedBy(h *holding, i int, changed map[*capacity]int64) bool {
	has, fits, fitted := h.has.Has(i), true, true
	for _, a := range h.amounts {
		free := a.allocatable.Get(i) - 1
		now, before := free-a.requested.Get(i), free-a.requested.Get(i)
		if requested, differs := changed[a.capacity]; differs {
			// What it has may have to leave the cluster, or need not any more.
			if before = free - requested; has && min(now, before) < 0 {
				return true
			}
		}
		fits, fitted = fits && free >= 0 && now >= a.amount, fitted && free >= 0 && before >= a.amount
		if !has && !fits && !fitted {
			return false
		}
	}
	return !has && fits != fitted && (fits || inv.dependsOnQualifying(h.placement))
}

// fits reports whether the request fits on a cluster that the Placement does not have.
func (h *holding) fits(i int) bool {
	for _, a := range h.amounts {
		if allocatable := a.allocatable.Get(i); allocatable == 0 || allocatable-1-a.requested.Get(i) < a.amount {
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
