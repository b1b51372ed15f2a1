package inventory

import (
	"maps"
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// holdings are the clusters that Placements have, in the namespaces with a SelectionPolicy that
// needs them, and the capacity that they request. They are brought up to date before each Snapshot
// and, once the inventory is started, at the end of each event.
type holdings struct {
	byPlacement map[Key]*holding
	// changed are the Placements whose holding must be computed again. pending are affected
	// Placements that have not been queued yet, with the cause.
	changed map[Key]struct{}
	pending map[Key]string
	// affinity are the namespaces whose cycles must be computed again; cycles are by Placement.
	affinity map[string]struct{}
	cycles   map[string]map[Key]string
	// requesters are the Placements that request capacity, capacities the requested resources.
	requesters map[Key]*holding
	capacities map[v1alpha1.ResourceName]*capacity
	// requests are the requests of the Placements that have a cluster, by its index.
	requests framework.Vector[[]*framework.Request]
}

// holding is what one Placement has.
type holding struct {
	// placement is the Placement as it was when the holding was computed; nil if it did not exist.
	placement *placement
	// has are the indexes of its clusters. Each is acquired in the table of names.
	has framework.Bitset
	// request is nil if it requests nothing.
	request *framework.Request
	// apartFrom are the terms of its affinity, without with.
	apartFrom []affinityTerm
}

// capacity is one resource of all clusters.
type capacity struct {
	allocatable, requested framework.Vector[int64]
	// users is the number of Placements that request it.
	users int
}

func newHoldings() holdings {
	return holdings{
		byPlacement: map[Key]*holding{}, changed: map[Key]struct{}{}, pending: map[Key]string{}, affinity: map[string]struct{}{}, cycles: map[string]map[Key]string{},
		requesters: map[Key]*holding{}, capacities: map[v1alpha1.ResourceName]*capacity{},
	}
}

// policyChanged marks the namespace of a Placement whose policy changed.
func (h *holdings) policyChanged(placement Key) {
	h.changed[placement] = struct{}{}
	h.affinity[placement.Namespace] = struct{}{}
}

// holdingChanged marks a Placement whose clusters may have changed, if they are of interest.
func (inv *Inventory) holdingChanged(key Key) {
	if inv.selections.holding[key.Namespace] > 0 {
		inv.holdings.changed[key] = struct{}{}
	}
}

// addLanded stores that a cluster that is being published is on a page, if it is of interest.
func (inv *Inventory) addLanded(key Key, i int) {
	if p := inv.placements[key]; p != nil && inv.selections.holding[key.Namespace] > 0 {
		p.landed = p.landed.Set(i)
		inv.holdingChanged(key)
	}
}

// placementChanged marks a Placement that was created, edited or deleted, if it is of interest.
func (inv *Inventory) placementChanged(key Key) {
	if inv.selections.holding[key.Namespace] > 0 {
		inv.holdings.policyChanged(key)
	}
}

// addHoldings brings the holdings up to date after an event and adds the Placements that are
// affected by that. During the initial listing it does nothing.
func (inv *Inventory) addHoldings(affected affectedSet) {
	if !inv.started {
		return
	}
	inv.updateHoldings()
	for key, cause := range inv.holdings.pending {
		if _, known := affected[key]; !known {
			affected.add(key)
			inv.setCauseText(affectedSet{key: {}}, cause)
		}
	}
	clear(inv.holdings.pending)
}

// notify does the same after a change made by Berth itself, and calls OnAffected. The caller does
// not hold the lock.
func (inv *Inventory) notify() {
	affected := affectedSet{}
	inv.mu.Lock()
	inv.addHoldings(affected)
	inv.mu.Unlock()
	if keys := affected.keys(); len(keys) > 0 && inv.options.OnAffected != nil {
		inv.options.OnAffected(keys)
	}
}

// updateHoldings brings all holdings up to date. The Placements whose decision may differ become
// pending.
func (inv *Inventory) updateHoldings() {
	h := &inv.holdings
	if len(h.changed)+len(h.affinity) == 0 {
		return
	}
	affected := affectedSet{}
	for namespace := range h.affinity {
		// The first policy of a namespace makes all its Placements of interest, the last one none.
		for key := range inv.byNamespace[namespace] {
			if (inv.selections.holding[namespace] > 0) != (h.byPlacement[key] != nil) {
				h.changed[key] = struct{}{}
			}
		}
	}
	freed, changed := freedCapacity{}, h.changed
	h.changed = map[Key]struct{}{}
	moved, edited, again := "", "", affectedSet{}
	for key := range changed {
		cause, old := &edited, h.byPlacement[key]
		if inv.updateHolding(key, freed, affected) {
			cause = &moved
		}
		if *cause == "" || key.Name < *cause {
			*cause = key.Name
		}
		if inv.excludesItself(old, h.byPlacement[key]) {
			again.add(key)
		}
	}
	inv.addFitting(freed, affected)
	if len(changed) == 1 {
		for key := range changed {
			delete(affected, key)
		}
	}
	maps.Copy(affected, again)
	for namespace := range h.affinity {
		delete(h.affinity, namespace)
		inv.updateCycles(namespace, affected)
	}
	cause := "Placement " + moved + ": clusters"
	if moved == "" {
		cause = "Placement " + edited + ": SelectionPolicy"
	}
	for key := range affected {
		h.pending[key] = cause
	}
}

// excludesItself reports whether a Placement has left a cluster that may not qualify any more
// because of that, and its decision depends on it. The cluster is too small for all that have it, or
// a younger Placement that is apart from it has it, too.
func (inv *Inventory) excludesItself(old, next *holding) bool {
	return old != nil && next != nil && !next.has.Covers(old.has) && (next.request != nil || len(next.apartFrom) > 0) && inv.dependsOnQualifying(next.placement)
}

// updateHolding computes again which clusters a Placement has and what it requests. It returns
// whether the clusters changed.
func (inv *Inventory) updateHolding(key Key, freed freedCapacity, affected affectedSet) (moved bool) {
	p, old := inv.placements[key], inv.holdings.byPlacement[key]
	next := &holding{}
	if p != nil && inv.selections.holding[key.Namespace] > 0 {
		inv.restoreLast(p)
		next.placement, next.has, next.request = p, inv.clustersOf(p), inv.requestOf(p)
		if s := inv.selections.affinityOf(key); s != nil {
			next.apartFrom = s.apartFrom
		}
	}
	if old == nil {
		old = &holding{}
	}
	if old.request.Equal(next.request) {
		next.request = old.request
	}
	for i := range next.has.Without(old.has).All {
		inv.names.acquire(inv.names.slots[i].name)
	}
	inv.moveRequests(old, next, freed)
	moved = !old.has.Covers(next.has) || !next.has.Covers(old.has)
	if inv.started {
		inv.addPeers(key, old, next, affected)
	}
	for i := range old.has.Without(next.has).All {
		inv.names.release(i)
	}
	if p != nil {
		p.subject = nil
	}
	delete(inv.holdings.byPlacement, key)
	delete(inv.holdings.requesters, key)
	if next.placement != nil {
		inv.holdings.byPlacement[key] = next
	}
	if next.request != nil {
		inv.holdings.requesters[key] = next
	}
	return moved
}

// clustersOf returns the clusters that a Placement has: those of the last published decision, those
// that are being published, and those that its open change adds. External edits of pages do not
// count: with them, a user who can write pages could take the capacity of others.
func (inv *Inventory) clustersOf(p *placement) framework.Bitset {
	var has framework.Bitset
	if p.last != nil {
		for _, name := range p.last.Names {
			if i, known := inv.names.index[name]; known {
				has = has.Set(i)
			}
		}
	}
	for i := range inv.inFlight[p.key] {
		has = has.Set(i)
	}
	for i := range p.landed.All {
		has = has.Set(i)
	}
	if open := inv.historyOf(p).Open(); open != nil {
		for _, i := range inv.records.byPlacement[p.key][open.Name].added {
			has = has.Set(i)
		}
	}
	return has
}

// requestOf returns what the oldest policy of a Placement requests; nil if that is nothing.
func (inv *Inventory) requestOf(p *placement) *framework.Request {
	var oldest *berthv1alpha1.SelectionPolicy
	for _, s := range inv.selections.of(p.key) {
		if oldest == nil || s.object.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = s.object
		}
	}
	if oldest == nil || len(oldest.Spec.Requests) == 0 {
		return nil
	}
	r := &framework.Request{Placement: p.key, Created: p.object.CreationTimestamp.Time, Amounts: map[v1alpha1.ResourceName]int64{}}
	for name, amount := range oldest.Spec.Requests {
		r.Amounts[name] = framework.UnitsOf(name, amount, true)
	}
	return r
}

// dependsOnQualifying reports whether a decision may differ if a cluster that it did not select
// qualifies no more: tiers are sufficient or not, spread constraints count domains, and the scores
// of amounts are relative to those of all qualifying clusters.
func (inv *Inventory) dependsOnQualifying(p *placement) bool {
	return inv.selections.hasTiers(p.key) || len(p.object.Spec.SpreadPolicy.SpreadConstraints) > 0 || p.reads.cpu || p.reads.memory
}

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
