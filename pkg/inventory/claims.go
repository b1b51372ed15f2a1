package inventory

import (
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// claim is what one Placement has, as sets of name indexes. A claim changes when an event arrives,
// when the engine stores it and when a page is announced; other Placements are told once, at the
// end (updateHoldings).
type claim struct {
	// listed are the clusters of the last published decision, each acquired in the table of names.
	// External edits of pages do not count: with them, a user who can write pages could take the
	// capacity of others.
	listed framework.Bitset
	// reserved are other clusters that the attempt's change adds, until they are published, also
	// while it is held. Each is acquired in the table of names. unpermitted is true while the
	// change may still be rejected.
	reserved    framework.Bitset
	unpermitted bool
	// unlabelled counts how often pages without label, of which the Placement is the controller,
	// list each cluster. As in Open Cluster Management such a cluster counts as a decision, of
	// which the Placement does not know.
	unlabelled map[int]int32
	// landed are clusters that may be on a page: Berth writes it, or wrote it. Each is acquired in
	// the table of names. The Placement has them until the whole decision is published, or a page
	// was read that does not list them, because the response of a write can be lost. They are known
	// only if others depend on them.
	landed framework.Bitset
	// target are the clusters that the open change adds, leaving those that it removes. permitted
	// is true once it is permitted, progressing while it is published in steps. A Placement that is
	// not decided, or whose pages belong to other writers, makes no change.
	target, leaving        framework.Bitset
	permitted, progressing bool
}

// has returns the clusters that the Placement has, for those that depend on it.
func (c *claim) has() framework.Bitset {
	return c.listed.Clone().Or(c.reserved).Or(c.landed).Or(c.target)
}

// followed returns where Placements that are with this one may be. What a change adds that may
// still be rejected counts only if there is nothing else.
func (c *claim) followed() framework.Bitset {
	kept := c.listed.Clone().Or(c.landed)
	if !c.unpermitted {
		kept = kept.Or(c.reserved)
	}
	if c.permitted {
		kept = kept.Or(c.target)
	}
	if kept.Len() == 0 {
		return c.has()
	}
	return kept
}

// incumbents returns the published clusters and those that the open change adds. A change in
// progress does not keep what it removes: a rollout that is half done would pull the target back.
func (c *claim) incumbents() framework.Bitset {
	if len(c.target)+len(c.leaving) == 0 {
		return c.listed
	}
	all := c.listed.Clone().Or(c.target)
	if c.progressing {
		return all.Without(c.leaving)
	}
	return all
}

// claimChanged makes the next Snapshot read a claim again, and tells others at the end of the
// event, if any depend on it.
func (inv *Inventory) claimChanged(p *placement) {
	p.subject = nil
	inv.holdingChanged(p.key)
}

// StoreClaim is Claim for the Placement of an attempt. It does nothing if that was deleted or
// replaced meanwhile.
func (inv *Inventory) StoreClaim(subject *framework.Subject, clusters []string, unpermitted bool) {
	inv.processOwn(func(e *event) {
		if p := inv.placementOf(subject); p != nil {
			inv.claim(p, clusters, unpermitted, e)
		}
	})
}

// Claim counts a decision on each of the clusters that are not published yet. It replaces the
// Placement's earlier claim. The claim to a cluster ends when it is published.
func (inv *Inventory) Claim(key Key, clusters []string) {
	inv.processOwn(func(e *event) {
		if p := inv.placements[key]; p != nil {
			inv.claim(p, clusters, false, e)
		}
	})
}

// claim is StoreClaim with the inventory locked.
func (inv *Inventory) claim(p *placement, clusters []string, unpermitted bool, e *event) {
	isIn := func(set framework.Bitset, name string) bool {
		i, known := inv.names.index[name]
		return known && set.Has(i)
	}
	reserved := slices.DeleteFunc(slices.Clone(clusters), func(name string) bool { return isIn(p.claim.listed, name) })
	differs := slices.ContainsFunc(reserved, func(name string) bool { return !isIn(p.claim.reserved, name) })
	unpermitted = unpermitted && len(reserved) > 0
	if differs || len(reserved) != p.claim.reserved.Len() || unpermitted != p.claim.unpermitted {
		inv.dispatch(Input{Kind: InputReserved, Placement: p.key, Clusters: reserved, Unpermitted: unpermitted}, e)
	}
}

// setReserved replaces the reserved clusters.
func (inv *Inventory) setReserved(p *placement, clusters []string, unpermitted bool) {
	before := p.claim.reserved
	p.claim.unpermitted = unpermitted
	inv.countInstead(&p.claim, &p.claim.reserved, inv.names.acquireAll(clusters))
	inv.names.releaseAll(before)
	inv.claimChanged(p)
}

// counts reports whether a cluster counts as a decision of the Placement.
func (c *claim) counts(i int) bool {
	return c.listed.Has(i) || c.reserved.Has(i) || c.unlabelled[i] > 0
}

// countInstead replaces one of the sets that count as decisions, listed or reserved. A cluster that
// counts for several reasons counts once.
func (inv *Inventory) countInstead(c *claim, set *framework.Bitset, next framework.Bitset) {
	before := *set
	*set = nil
	for i := range before.All {
		if !next.Has(i) && !c.counts(i) {
			inv.count(i, -1)
		}
	}
	for i := range next.All {
		if !before.Has(i) && !c.counts(i) {
			inv.count(i, 1)
		}
	}
	*set = next
}

// addLanded stores that clusters may be on a page, if decisions can depend on that.
func (inv *Inventory) addLanded(p *placement, clusters []string) {
	if !inv.dependsOnClaim(p.key) {
		return
	}
	for _, name := range clusters {
		if i, known := inv.names.index[name]; known && !p.claim.landed.Has(i) {
			inv.names.hold(i)
			p.claim.landed = p.claim.landed.Set(i)
			inv.claimChanged(p)
		}
	}
}

// pageRead ends the clusters of addLanded that are on no page, after a page was read because the
// response to its write was lost. The other pages of the Placement are known.
func (inv *Inventory) pageRead(placement Key, e *event) {
	if p := inv.placements[placement]; p != nil && p.claim.landed.Len() > 0 {
		if missed := p.claim.landed.Without(inv.pages.listedBy(placement)); missed.Len() > 0 {
			inv.dispatch(Input{Kind: InputMissed, Placement: placement, Clusters: inv.names.of(missed)}, e)
		}
	}
}

// removeLanded ends what addLanded stored of single clusters.
func (inv *Inventory) removeLanded(p *placement, clusters []string) {
	for _, name := range clusters {
		if i, known := inv.names.index[name]; known && p.claim.landed.Has(i) {
			p.claim.landed.Unset(i)
			inv.names.release(i)
		}
	}
	inv.claimChanged(p)
}

// dependsOnClaim reports whether decisions can depend on what a Placement has.
func (inv *Inventory) dependsOnClaim(placement Key) bool {
	return inv.placements[placement] != nil && inv.selections.dependent[placement.Namespace] > 0
}

// endLanded ends what addLanded stored.
func (inv *Inventory) endLanded(p *placement) {
	inv.names.releaseAll(p.claim.landed)
	p.claim.landed = nil
}

// updateTarget reads the open change of a Placement again.
func (inv *Inventory) updateTarget(placement Key) {
	p := inv.placements[placement]
	if p == nil {
		return
	}
	p.claim.target, p.claim.leaving, p.claim.permitted, p.claim.progressing = nil, nil, false, false
	if p.delegated && !inv.options.Follows || framework.WhyNotDecided(p.object) != "" {
		return
	}
	if open := inv.openRecord(p); open != nil {
		p.claim.target, p.claim.leaving = open.added, open.removed
		p.claim.permitted, p.claim.progressing = changes.IsPermitted(open.object), open.object.Status.Phase == berthv1alpha1.PhaseProgressing
	}
}

// count changes the number of decisions on a cluster.
func (inv *Inventory) count(i int, n int32) {
	inv.counts.add(i, n)
	inv.fleet = nil
}
