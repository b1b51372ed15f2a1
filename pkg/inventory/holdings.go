package inventory

import (
	"maps"

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
	// wanted is what one Placement requests, while Placements are compared; else -1.
	wanted int64
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

// addLanded stores that a cluster that is being published may be on a page, if it is of interest.
func (inv *Inventory) addLanded(key Key, i int) {
	if inv.keepsLanded(key) {
		p := inv.placements[key]
		p.landed = p.landed.Set(i)
		inv.holdingChanged(key)
	}
}

func (inv *Inventory) keepsLanded(key Key) bool {
	return inv.placements[key] != nil && inv.selections.holding[key.Namespace] > 0
}

// placementChanged marks a Placement that was created, edited or deleted, if it is of interest.
func (inv *Inventory) placementChanged(key Key) {
	if inv.selections.holding[key.Namespace] > 0 {
		inv.holdings.policyChanged(key)
	}
}

// CountsClusters reports whether a SelectionPolicy makes decisions depend on the clusters that the
// Placements of a namespace have.
func (inv *Inventory) CountsClusters(namespace string) bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.selections.holding[namespace] > 0
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
			inv.endStart(affectedSet{key: {}})
		}
	}
	clear(inv.holdings.pending)
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
// because of that, and its decision depends on it. The cluster is too small for all that have it,
// or a younger Placement that is apart from it has it, too.
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
	has := p.listed.Clone()
	for i := range inv.inFlight[p.key] {
		has = has.Set(i)
	}
	for i := range p.landed.All {
		has = has.Set(i)
	}
	if open := inv.openRecord(p); open != nil {
		for _, i := range open.added {
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

// addPeers adds the Placements whose affinity names one that changed: those that want to be
// together with it, and those apart from it that may have a cluster now or must leave one.
func (inv *Inventory) addPeers(key Key, old, next *holding, affected affectedSet) {
	if old.has.Len()+next.has.Len() == 0 {
		return
	}
	left, joined := old.has.Without(next.has), next.has.Without(old.has)
	for other, s := range inv.selections.affinities[key.Namespace] {
		if p := inv.placements[other]; p != nil && other != key && inv.peerAffects(p, s, old, next, left, joined) {
			affected.add(other)
		}
	}
}

// peerAffects reports whether the decision of a Placement with affinity may differ after the
// holding of another one changed: clusters left and joined it.
func (inv *Inventory) peerAffects(p *placement, s *selectionPolicy, old, next *holding, left, joined framework.Bitset) bool {
	is := s.relationTo(next.placement)
	if old.placement != next.placement && s.relationTo(old.placement) != is {
		return true
	}
	var own framework.Bitset
	if h := inv.holdings.byPlacement[p.key]; h != nil {
		own = h.has
	}
	switch {
	case is.with && left.Len()+joined.Len() > 0:
		return true
	case !is.apart:
		return false
	case left.Len() > 0 || own.Intersects(joined) || joined.Len() > 0 && inv.dependsOnQualifying(p):
		return true
	}
	// The older of two Placements keeps a cluster only if both are apart from each other.
	return own.Intersects(next.has) && (termFor(old.apartFrom, p) == "") != (termFor(next.apartFrom, p) == "")
}
