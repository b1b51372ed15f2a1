package inventory

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// freedCapacity has, for each cluster and resource that changed, what was requested before.
type freedCapacity map[int]map[*capacity]int64

func (f freedCapacity) changes(i int, c *capacity, before int64) {
	if f[i] == nil {
		f[i] = map[*capacity]int64{}
	}
	if _, known := f[i][c]; !known {
		f[i][c] = before
	}
}

// keepChanges drops what is requested as before.
func (f freedCapacity) keepChanges() {
	for i, before := range f {
		maps.DeleteFunc(before, func(c *capacity, requested int64) bool { return c.requested.Get(i) == requested })
		if len(before) == 0 {
			delete(f, i)
		}
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
	// Snapshots share the old one.
	sign, next := int64(1), append(make([]*framework.CapacityRequest, 0, len(requests)+1), requests[:at]...)
	if present {
		next = append(append(next, request), requests[at:]...)
	} else {
		sign, next = -1, append(next, requests[at+1:]...)
	}
	inv.holdings.capacityRequests.Set(i, next)
	for name, amount := range request.Amounts {
		// Nothing fits on a cluster that does not report the resource, so its sum is not kept.
		c := inv.holdings.capacities[name]
		if c == nil || c.allocatable.Get(i) == 0 {
			continue
		}
		requested := c.requested.Get(i)
		freed.changes(i, c, requested)
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

// requester is a Placement that requests something, and its amounts.
type requester struct {
	*holding
	key     Key
	amounts []requestedAmount
}

type requestedAmount struct {
	*capacity
	amount int64
}

// requesters returns the Placements that request something, and the number of all their amounts.
func (inv *Inventory) requesters() (all []requester, amounts int) {
	for key, h := range inv.holdings.byPlacement {
		if h.capacityRequest == nil {
			continue
		}
		r := requester{h, key, make([]requestedAmount, 0, len(h.capacityRequest.Amounts))}
		for name, amount := range h.capacityRequest.Amounts {
			r.amounts = append(r.amounts, requestedAmount{inv.holdings.capacities[name], amount})
		}
		all, amounts = append(all, r), amounts+len(r.amounts)
	}
	return all, amounts
}

// maxFitSteps bounds how many amounts are compared after one event.
const maxFitSteps = 500_000

// addFitting adds the Placements for which a cluster was too full and is not any more, those that
// have a cluster that is too full now, and those that depend on all qualifying clusters, for which
// one became too full. If to find them takes more than maxFitSteps, it adds all that request
// something: no event may wait for long.
func (inv *Inventory) addFitting(freed freedCapacity, affected affectedSet) {
	if !inv.started {
		return
	}
	if freed.keepChanges(); len(freed) == 0 {
		return
	}
	all, amounts := inv.requesters()
	for _, r := range all {
		if amounts*len(freed) > maxFitSteps || inv.isAffected(&r, freed) {
			affected.add(r.key)
		}
	}
}

// isAffected reports whether one of the clusters affects a Placement.
func (inv *Inventory) isAffected(r *requester, freed freedCapacity) bool {
	for i, changed := range freed {
		if inv.isAffectedBy(r, i, changed) {
			return true
		}
	}
	return false
}

func (inv *Inventory) isAffectedBy(r *requester, i int, changed map[*capacity]int64) bool {
	has, fits, fitted := r.has.Has(i), true, true
	for _, a := range r.amounts {
		free := a.allocatable.Get(i) - 1
		now, before := free-a.requested.Get(i), free-a.requested.Get(i)
		if requested, differs := changed[a.capacity]; differs {
			if before = free - requested; has && now < 0 {
				return true
			}
		}
		fits, fitted = fits && free >= 0 && now >= a.amount, fitted && free >= 0 && before >= a.amount
		if !has && !fits && !fitted {
			return false
		}
	}
	return !has && fits != fitted && (fits || inv.dependsOnQualifying(r.placement))
}

// fits reports whether a request fits on a cluster that the Placement does not have.
func (inv *Inventory) fits(request *framework.CapacityRequest, i int) bool {
	for name, amount := range request.Amounts {
		c := inv.holdings.capacities[name]
		if allocatable := c.allocatable.Get(i); allocatable == 0 || allocatable-1-c.requested.Get(i) < amount {
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
