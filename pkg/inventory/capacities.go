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
	if old.request == nil && next.request == nil {
		return
	}
	if old.request != next.request {
		if next.request != nil {
			for name := range next.request.Amounts {
				inv.useCapacity(name)
			}
		}
		for i := range old.has.All {
			inv.setRequest(i, old.request, false, freed)
		}
		for i := range next.has.All {
			inv.setRequest(i, next.request, true, freed)
		}
		if old.request != nil {
			for name := range old.request.Amounts {
				inv.releaseCapacity(name)
			}
		}
		return
	}
	for i := range old.has.Without(next.has).All {
		inv.setRequest(i, old.request, false, freed)
	}
	for i := range next.has.Without(old.has).All {
		inv.setRequest(i, next.request, true, freed)
	}
}

// setRequest adds a request to those of a cluster, or removes it.
func (inv *Inventory) setRequest(i int, request *framework.Request, present bool, freed freedCapacity) {
	if request == nil {
		return
	}
	requests := inv.holdings.requests.Get(i)
	at := slices.IndexFunc(requests, func(r *framework.Request) bool { return r.Placement == request.Placement })
	next := slices.Clone(requests) // Snapshots share the old one.
	if at >= 0 {
		next = slices.Delete(next, at, at+1)
	}
	if present {
		at, _ = slices.BinarySearchFunc(next, request, func(a, b *framework.Request) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		next = slices.Insert(next, at, request)
	}
	inv.holdings.requests.Set(i, next)
	for name := range request.Amounts {
		if c := inv.holdings.capacities[name]; c != nil {
			freed.changes(i, name, c.requested.Get(i))
			sum := int64(0)
			for _, r := range next {
				sum = framework.AddUnits(sum, r.Amounts[name])
			}
			c.requested.Set(i, sum)
		}
	}
	inv.fleet = nil
}

// useCapacity counts a Placement that requests a resource.
func (inv *Inventory) useCapacity(name v1alpha1.ResourceName) {
	c := inv.holdings.capacities[name]
	if c == nil {
		c = &capacity{}
		inv.holdings.capacities[name] = c
		for i := range inv.clusters.Len() {
			if cluster := inv.clusters.Get(i); cluster != nil {
				c.allocatable.Set(i, framework.AllocatableOf(cluster.ManagedCluster, name))
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
		if next := framework.AllocatableOf(object, name); next != c.allocatable.Get(i) {
			c.allocatable.Set(i, next)
			inv.fleet = nil
		}
	}
}

// addFitting adds the Placements for which a cluster was too full and is not any more, those that
// have a cluster that is too full now, and those that depend on all qualifying clusters, for which
// one became too full.
func (inv *Inventory) addFitting(freed freedCapacity, affected affectedSet) {
	if !inv.started {
		return
	}
	for i, before := range freed {
		for key, h := range inv.holdings.requesters {
			has, fits := h.has.Has(i), inv.fits(h.request, i, nil)
			differs := !has && fits.other != inv.fits(h.request, i, before).other
			if has && !fits.own || differs && (fits.other || inv.dependsOnQualifying(h.placement)) {
				affected.add(key)
			}
		}
	}
}

// fit is whether a request fits on a cluster on which it is, and on which it is not.
type fit struct{ own, other bool }

// fits compares a request with the free capacity of a cluster; before has earlier sums of requests.
func (inv *Inventory) fits(request *framework.Request, i int, before map[v1alpha1.ResourceName]int64) fit {
	f := fit{true, true}
	for name, amount := range request.Amounts {
		c := inv.holdings.capacities[name]
		allocatable, requested := c.allocatable.Get(i), c.requested.Get(i)
		if earlier, known := before[name]; known {
			requested = earlier
		}
		f.own = f.own && allocatable > 0 && allocatable-1 >= requested
		f.other = f.other && allocatable > 0 && allocatable-1-requested >= amount
	}
	return f
}

// freezeCapacities returns the part of a Fleet that SelectionPolicies request.
func (inv *Inventory) freezeCapacities() map[v1alpha1.ResourceName]*framework.Capacity {
	if len(inv.holdings.capacities) == 0 {
		return nil
	}
	frozen := make(map[v1alpha1.ResourceName]*framework.Capacity, len(inv.holdings.capacities))
	for name, c := range inv.holdings.capacities {
		frozen[name] = &framework.Capacity{Allocatable: c.allocatable.Freeze(), Requested: c.requested.Freeze()}
	}
	return frozen
}
