package inventory

import (
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
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
	// writing are other clusters that are being published, each acquired in the table of names.
	writing framework.Bitset
	// unlabelled are clusters on pages without label of which the Placement is the controller. As
	// in Open Cluster Management each counts as a decision, of which the Placement does not know.
	unlabelled framework.Bitset
	// written are clusters on pages that Berth writes or wrote, each acquired in the table of
	// names. The Placement has them until the whole decision is published, or a page was read that
	// does not list them, because the response of a write can be lost. They are known only if
	// others depend on them.
	written framework.Bitset
	// target are the clusters that the open change adds, leaving those that it removes. progressing
	// is true while it is published in steps. A Placement that is not decided makes no change.
	target, leaving framework.Bitset
	progressing     bool
}

// has returns the clusters that the Placement has, for those that depend on it.
func (c *claim) has() framework.Bitset {
	return c.listed.Clone().Or(c.writing).Or(c.written).Or(c.target)
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

// claimOf returns the claim of a Placement. If the Placement does not exist, call claimChanged
// afterwards, which drops an empty claim.
func (inv *Inventory) claimOf(key Key) *claim {
	if inv.claims[key] == nil {
		inv.claims[key] = &claim{}
	}
	return inv.claims[key]
}

// claimChanged makes the next Snapshot read a claim again, and tells others at the end of the
// event, if any depend on it.
func (inv *Inventory) claimChanged(key Key) {
	if p := inv.placements[key]; p != nil {
		p.subject = nil
	} else if inv.claims[key].writing.Len() == 0 {
		delete(inv.claims, key)
	}
	inv.holdingChanged(key)
}

// StoreClaim is Claim for the Placement of an attempt. It does nothing if that was deleted or
// replaced meanwhile.
func (inv *Inventory) StoreClaim(subject *framework.Subject, clusters []string) {
	inv.claim(subject.Key(), clusters, subject)
}

// Claim counts a decision on each of the clusters that are not published yet. It replaces the
// Placement's earlier claim. The claim to a cluster ends when it is published.
func (inv *Inventory) Claim(key Key, clusters []string) {
	inv.claim(key, clusters, nil)
}

// claim is Claim if the Placement is still that of the subject, if there is one.
func (inv *Inventory) claim(key Key, clusters []string, subject *framework.Subject) {
	inv.processOwn(func(e *event) {
		if p := inv.placements[key]; subject != nil && (p == nil || p.object.UID != subject.Placement.UID) {
			return
		}
		var listed framework.Bitset
		if c := inv.claims[key]; c != nil {
			listed = c.listed
		}
		writing := slices.DeleteFunc(slices.Clone(clusters), func(name string) bool {
			i, known := inv.names.index[name]
			return known && listed.Has(i)
		})
		if !inv.isWriting(key, writing) {
			inv.dispatch(Input{Kind: InputReserved, Placement: key, Clusters: writing}, e)
		}
	})
}

// isWriting reports whether exactly these clusters are being published.
func (inv *Inventory) isWriting(placement Key, clusters []string) bool {
	next := inv.names.acquireAll(clusters)
	defer inv.names.releaseAll(next)
	var writing framework.Bitset
	if c := inv.claims[placement]; c != nil {
		writing = c.writing
	}
	return writing.Covers(next) && next.Covers(writing)
}

// setWriting replaces the clusters that are being published.
func (inv *Inventory) setWriting(placement Key, clusters []string) {
	c := inv.claimOf(placement)
	before := c.writing
	inv.countInstead(c, &c.writing, inv.names.acquireAll(clusters))
	inv.names.releaseAll(before)
	inv.claimChanged(placement)
}

// countInstead replaces one of the sets that count as decisions, listed, writing or unlabelled. A
// cluster in several of them counts once.
func (inv *Inventory) countInstead(c *claim, set *framework.Bitset, next framework.Bitset) {
	before := *set
	*set = nil
	counts := func(i int) bool { return c.listed.Has(i) || c.writing.Has(i) || c.unlabelled.Has(i) }
	for i := range before.All {
		if !next.Has(i) && !counts(i) {
			inv.count(i, -1)
		}
	}
	for i := range next.All {
		if !before.Has(i) && !counts(i) {
			inv.count(i, 1)
		}
	}
	*set = next
}

// addWritten stores that a cluster may be on a page, if decisions can depend on that.
func (inv *Inventory) addWritten(placement Key, i int) {
	if c := inv.claims[placement]; inv.dependsOnClaim(placement) && !c.written.Has(i) {
		inv.names.hold(i)
		c.written = c.written.Set(i)
		inv.holdingChanged(placement)
	}
}

// pageRead ends the clusters of addWritten that are on no page, after a page was read because the
// response to its write was lost. The other pages of the Placement are known.
func (inv *Inventory) pageRead(placement Key, e *event) {
	if c := inv.claims[placement]; c != nil && c.written.Len() > 0 {
		if missed := c.written.Without(inv.pages.listedBy(placement)); missed.Len() > 0 {
			inv.dispatch(Input{Kind: InputMissed, Placement: placement, Clusters: inv.names.of(missed)}, e)
		}
	}
}

// removeWritten ends what addWritten stored of single clusters.
func (inv *Inventory) removeWritten(placement Key, clusters []string) {
	c := inv.claims[placement]
	if c == nil {
		return
	}
	for _, name := range clusters {
		if i, known := inv.names.index[name]; known && c.written.Has(i) {
			c.written.Unset(i)
			inv.names.release(i)
		}
	}
	inv.claimChanged(placement)
}

// dependsOnClaim reports whether decisions can depend on what a Placement has.
func (inv *Inventory) dependsOnClaim(placement Key) bool {
	return inv.placements[placement] != nil && inv.selections.dependent[placement.Namespace] > 0
}

// endWritten ends what addWritten stored.
func (inv *Inventory) endWritten(c *claim) {
	inv.names.releaseAll(c.written)
	c.written = nil
}

// setListed replaces the clusters of the last published decision, which are not being published any
// more.
func (inv *Inventory) setListed(c *claim, clusters []string) {
	before := c.listed
	inv.countInstead(c, &c.listed, inv.names.acquireAll(clusters))
	inv.names.releaseAll(before)
	for i := range c.writing.All {
		if c.listed.Has(i) {
			c.writing.Unset(i)
			inv.names.release(i)
		}
	}
}

// updateTarget reads the open change of a Placement again.
func (inv *Inventory) updateTarget(placement Key) {
	p := inv.placements[placement]
	if p == nil {
		return
	}
	p.claim.target, p.claim.leaving, p.claim.progressing = nil, nil, false
	if framework.WhyNotDecided(p.object) != "" {
		return
	}
	if open := inv.openRecord(p); open != nil {
		p.claim.target, p.claim.leaving, p.claim.progressing = open.added, open.removed, open.object.Status.Phase == berthv1alpha1.PhaseProgressing
	}
}

// count changes the number of decisions on a cluster.
func (inv *Inventory) count(i int, n int32) {
	inv.counts.add(i, n)
	inv.fleet = nil
}
