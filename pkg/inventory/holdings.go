package inventory

import (
	"maps"
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// holdings are the claims and requests as other Placements know them, in the namespaces with a
// SelectionPolicy that depends on them. They are brought up to date before each Snapshot and, once
// the inventory is started, at the end of each event.
type holdings struct {
	byPlacement map[Key]*holding
	// changed are the Placements whose holding must be computed again.
	changed map[Key]struct{}
	// affinity are the namespaces whose cycles and followers must be computed again; both are by
	// namespace.
	affinity       map[string]struct{}
	affinityCycles map[string]map[Key]string
	followers      map[string]followers
	// capacities are the requested resources.
	capacities map[v1alpha1.ResourceName]*capacity
	// capacityRequests are those of the Placements that have a cluster, by its index.
	capacityRequests framework.Vector[[]*framework.CapacityRequest]
}

// holding is what others know of one Placement.
type holding struct {
	// placement is the Placement as it was when the holding was computed; nil if it did not exist.
	placement *placement
	// has are the indexes of its clusters. Each is acquired in the table of names.
	has framework.Bitset
	// followed are those of them where Placements that are with it may be.
	followed framework.Bitset
	// capacityRequest is nil if it requests nothing. amounts are its amounts.
	capacityRequest *framework.CapacityRequest
	amounts         []requestedAmount
	// apartFrom are the terms of its affinity, without with.
	apartFrom []affinityTerm
}

// requestedAmount is an amount of a resource.
type requestedAmount struct {
	*capacity
	resource v1alpha1.ResourceName
	amount   int64
}

// capacity is one resource of all clusters.
type capacity struct {
	allocatable, requested framework.Vector[int64]
	// users is the number of Placements that request it.
	users int
}

// policyChanged marks the namespace of a Placement whose policy changed.
func (h *holdings) policyChanged(placement Key) {
	h.changed[placement] = struct{}{}
	h.affinity[placement.Namespace] = struct{}{}
}

// holdingChanged marks a Placement whose clusters may have changed, if others depend on them.
func (inv *Inventory) holdingChanged(key Key) {
	if inv.selections.dependent[key.Namespace] > 0 {
		inv.holdings.changed[key] = struct{}{}
	}
}

// placementChanged marks a Placement that was created, edited or deleted, if others depend on it.
func (inv *Inventory) placementChanged(key Key) {
	if inv.selections.dependent[key.Namespace] > 0 {
		inv.holdings.policyChanged(key)
	}
}

// CountsClusters reports whether a SelectionPolicy makes decisions depend on the clusters that the
// Placements of a namespace have.
func (inv *Inventory) CountsClusters(namespace string) bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.selections.dependent[namespace] > 0
}

// addHoldings adds the Placements that depend on what differs after an event in what others have.
// During the initial listing it does nothing: all are decided at its end.
func (inv *Inventory) addHoldings(affected affectedSet) {
	if !inv.started {
		return
	}
	others, cause := inv.updateHoldings()
	for key := range affected {
		delete(others, key)
	}
	inv.setCauseText(others, cause)
	inv.endStart(others)
	maps.Copy(affected, others)
}

// updateHoldings brings all holdings up to date. It returns the Placements whose decision may
// differ, and the cause. A Placement is not affected by its own claim, unless it is shut out.
func (inv *Inventory) updateHoldings() (affected affectedSet, cause string) {
	h := &inv.holdings
	if len(h.changed)+len(h.affinity) == 0 {
		return nil, ""
	}
	affected = affectedSet{}
	inv.addAffinityChanges()
	freed, moved, edited := freedCapacity{}, "", ""
	left := make(map[Key]framework.Bitset, len(h.changed))
	for key := range h.changed {
		inv.unsettleLeaders(key)
		first, before := &edited, h.byPlacement[key]
		if inv.updateHolding(key, freed, affected) {
			first = &moved
		}
		if *first == "" || key.Name < *first {
			*first = key.Name
		}
		if next := h.byPlacement[key]; before != nil && next != nil {
			left[key] = before.has.Without(next.has)
		}
	}
	inv.addFitting(freed, affected)
	for key := range h.changed {
		if len(h.changed) == 1 {
			delete(affected, key) // Of several, each may be affected by the others.
		}
		if inv.isShutOut(h.byPlacement[key], left[key]) {
			affected.add(key)
		}
	}
	clear(h.changed)
	for namespace := range h.affinity {
		inv.updateAffinityCycles(namespace, affected)
		inv.updateFollowers(namespace)
	}
	clear(h.affinity)
	if moved == "" {
		return affected, "Placement " + edited + ": SelectionPolicy"
	}
	return affected, "Placement " + moved + ": clusters"
}

// addAffinityChanges adds the Placements that others began or ceased to depend on: the first policy
// of a namespace with affinity makes others depend on all its Placements, the last on none.
func (inv *Inventory) addAffinityChanges() {
	h := &inv.holdings
	for namespace := range h.affinity {
		for key := range inv.byNamespace[namespace] {
			if inv.dependsOnClaim(key) != (h.byPlacement[key] != nil) {
				h.changed[key] = struct{}{}
			}
		}
	}
}

// isShutOut reports whether others exclude a Placement from a cluster that it left, as they could
// not before, and its decision depends on that: the cluster is too small for all that have it, or a
// younger Placement that is apart from it has it, too.
func (inv *Inventory) isShutOut(h *holding, left framework.Bitset) bool {
	if left.Len() == 0 || !inv.dependsOnQualifying(h.placement) {
		return false
	}
	peers := inv.peersOf(h.placement)
	for i := range left.All {
		if !h.fits(i) || slices.ContainsFunc(peers, func(p framework.Peer) bool { return p.Excludes(i, nil) }) {
			return true
		}
	}
	return false
}

// updateHolding computes again which clusters a Placement has and what it requests. It returns
// whether the clusters changed.
func (inv *Inventory) updateHolding(key Key, freed freedCapacity, affected affectedSet) bool {
	p, old := inv.placements[key], inv.holdings.byPlacement[key]
	next := &holding{}
	if inv.dependsOnClaim(key) {
		inv.loadLast(p)
		next.placement, next.has, next.followed, next.capacityRequest = p, p.claim.has(), p.claim.followed(), inv.capacityRequestOf(p)
		if s := inv.selections.affinityOf(key); s != nil {
			next.apartFrom = s.apartFrom
		}
	}
	if old == nil {
		old = &holding{}
	}
	if old.capacityRequest.Equal(next.capacityRequest) {
		next.capacityRequest = old.capacityRequest
	}
	for i := range next.has.All {
		inv.names.hold(i)
	}
	inv.moveRequests(old, next, freed)
	if inv.started {
		inv.addPeers(key, old, next, affected)
	}
	inv.names.releaseAll(old.has)
	if p != nil {
		p.subject = nil
	}
	if inv.holdings.byPlacement[key] = next; next.placement == nil {
		delete(inv.holdings.byPlacement, key)
	}
	return !old.has.Equal(next.has) || !old.followed.Equal(next.followed)
}

// capacityRequest returns a request without amounts.
func (p *placement) capacityRequest() *framework.CapacityRequest {
	return &framework.CapacityRequest{Placement: p.key, Created: p.object.CreationTimestamp.Time}
}

// capacityRequestOf returns what the oldest policy of a Placement requests; nil if that is nothing.
func (inv *Inventory) capacityRequestOf(p *placement) *framework.CapacityRequest {
	var oldest *berthv1alpha1.SelectionPolicy
	for _, s := range inv.selections.of(p.key) {
		if oldest == nil || s.object.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = s.object
		}
	}
	if oldest == nil || len(oldest.Spec.Requests) == 0 {
		return nil
	}
	r := p.capacityRequest()
	r.Amounts = map[v1alpha1.ResourceName]int64{}
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
	if left.Len()+joined.Len() == 0 && old.followed.Equal(next.followed) && old.placement == next.placement && sameTerms(old.apartFrom, next.apartFrom) {
		return
	}
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
	case is.with && !old.followed.Equal(next.followed):
		return true
	case !is.apart:
		return false
	case left.Len() > 0 || own.Intersects(joined) || joined.Len() > 0 && inv.dependsOnQualifying(p):
		return true
	}
	// The older of two Placements keeps a cluster only if both are apart from each other.
	return own.Intersects(next.has) && (termFor(old.apartFrom, p) == "") != (termFor(next.apartFrom, p) == "")
}
