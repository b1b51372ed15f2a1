package inventory

import (
	"maps"
	"math"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// loadLast sets the last published decision from pages and records, if it is unknown or they
// changed.
func (inv *Inventory) loadLast(p *placement) {
	if _, unread := inv.unread[p.key]; p.last != nil && !unread {
		return
	}
	delete(inv.unread, p.key)
	last := inv.readLast(p)
	if p.last != nil || last != nil {
		inv.setLast(p, last)
	}
	if last != nil {
		inv.addInput(Input{Kind: InputPublished, Placement: p.key, Published: last, KeepsLanded: true})
	}
}

// readLast returns what the pages list; nil without pages. Pages that were damaged while no
// controller ran count as the records say.
func (inv *Inventory) readLast(p *placement) *framework.Published {
	own, history := inv.subject(p).OwnPages(), inv.historyOf(p)
	last := framework.PublishedOn(own)
	last.Revision = history.PageRevision(own)
	if inv.options.Follows {
		last.Queue = queueOn(inv.subject(p))
	} else if p.last != nil {
		last.Queue = p.last.Queue
	}
	last.SinceStart = (inv.started || inv.starting) && !p.delegated && !inv.options.Follows
	// Other writers may have decided meanwhile.
	if !p.delegated && !decidedByOCM(own) {
		if names, revision, ok := undamaged(own, history, last); ok {
			last.Names, last.Digest, last.Pages, last.Revision = names, framework.DigestOf(names), nil, revision
			return last
		}
	}
	if len(own) == 0 {
		return nil
	}
	if latest := history.Newest(berthv1alpha1.PhasePublished); latest != nil && latest.Spec.To == last.Digest {
		// The record of what other writers published is newer than their pages.
		last.Revision = max(last.Revision, latest.Spec.Revision)
	}
	return last
}

// undamaged returns the clusters that the records say were published last, if the pages are not
// newer than these, but list other clusters; ok is false if they do not, or if it is not known. If
// all pages are gone, these are the clusters of the last complete change: what was published of a
// later one is not known.
func undamaged(own []*v1alpha1.PlacementDecision, history changes.History, listed *framework.Published) (names []string, revision int64, ok bool) {
	latest := history.Latest(listed.Revision)
	if len(own) == 0 {
		latest = history.Newest(berthv1alpha1.PhasePublished)
	}
	switch {
	case latest == nil && len(own) > 0:
		names, ok = history.ClustersInSteps(listed.Names, listed.Revision)
		return names, listed.Revision, ok && !slices.Equal(names, listed.Names)
	case latest == nil || len(own) > 0 && (latest.Spec.To == listed.Digest || listed.Revision == 0):
		// Pages without a revision may be newer than all records.
		return nil, 0, false
	}
	names, ok = history.Clusters(listed.Names)
	return names, latest.Spec.Revision, ok
}

// decidedByOCM reports whether Open Cluster Management's placement controller wrote one of the
// pages last.
func decidedByOCM(pages []*v1alpha1.PlacementDecision) bool {
	return slices.ContainsFunc(pages, func(page *v1alpha1.PlacementDecision) bool {
		return framework.OtherWriter(page) == framework.OCMFieldManager
	})
}

// setLast stores the last published decision, and holds the indexes of its clusters.
func (inv *Inventory) setLast(p *placement, last *framework.Published) {
	p.subject = nil
	if last != nil && last.Generation == p.object.Generation {
		p.specBefore = nil
	}
	if p.last != nil && last != nil && slices.Equal(p.last.Names, last.Names) {
		p.last = last
		return
	}
	var names []string
	if last != nil {
		names = last.Names
	}
	c := &p.claim
	before := c.listed
	inv.countInstead(c, &c.listed, inv.names.acquireAll(names))
	inv.names.releaseAll(before)
	// These are not being published any more.
	for i := range c.reserved.All {
		if c.listed.Has(i) {
			c.reserved.Unset(i)
			inv.names.release(i)
		}
	}
	p.last = last
}

// readUnread loads what Placements have published of which pages arrived since, so that it counts
// as their decisions.
func (inv *Inventory) readUnread() {
	for _, key := range sortedPlacements(inv.unread) {
		if p := inv.placements[key]; p != nil {
			inv.loadLast(p)
		}
	}
	clear(inv.unread)
}

// delegates reports whether other writers own the pages of a Placement: from the time when
// scheduling is disabled until AdoptPages. After a start the status says so. Berth may not have
// written it yet when the annotation is removed, and removes it when it has adopted the pages.
func delegates(old *placement, object *v1alpha1.Placement) bool {
	switch {
	case object.IsDisabled():
		return true
	case old == nil || old.object.UID != object.UID:
		return object.SaysDisabled()
	}
	return old.delegated && (object.SaysDisabled() || !old.object.SaysDisabled())
}

// contents adds the object, after an earlier state of it if the object alone does not say who owns
// the pages.
func (p *placement) contents(add func(client.Object)) {
	if delegates(nil, p.object) != p.delegated {
		earlier := p.object.DeepCopy()
		if p.delegated {
			metav1.SetMetaDataAnnotation(&earlier.ObjectMeta, v1alpha1.PlacementDisableAnnotation, "true")
		} else {
			earlier.Status.Conditions = nil
		}
		add(earlier)
	}
	add(p.object)
}

// setDelegated stores whether other writers own the pages. As long as they do, the last published
// decision is what the pages list.
func (inv *Inventory) setDelegated(p *placement, delegated bool) {
	if delegated && !p.delegated && p.last != nil {
		p.before = p.last.Names
		inv.unread[p.key] = struct{}{}
	}
	if p.delegated != delegated {
		p.delegated, p.subject = delegated, nil
		inv.updateTarget(p.key)
		inv.holdingChanged(p.key)
	}
}

// Delegated reports whether other writers own the pages of a Placement, because scheduling is or
// was disabled. before are the clusters that Berth published last, if they are known.
func (inv *Inventory) Delegated(key Key) (before []string, delegated bool) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if p := inv.placements[key]; p != nil {
		return p.before, p.delegated
	}
	return nil, false
}

// AssumePages processes the pages of a Placement among all those of its namespace, as a list at a
// resource version returned them, before their watch events arrive.
func (inv *Inventory) AssumePages(placement Key, pages []v1alpha1.PlacementDecision, resourceVersion string) {
	inv.processOwn(func(e *event) {
		listed := map[string]bool{}
		for i := range pages {
			if listed[pages[i].Name] = true; pages[i].PlacementName() == placement.Name {
				page := pages[i].DeepCopy() // A pointer into the list would keep all of it.
				framework.KeepOtherWriter(page)
				inv.assumeWritten(page, e)
			}
		}
		at, err := strconv.ParseUint(resourceVersion, 10, 64)
		if err != nil {
			at = math.MaxUint64
		}
		for name, p := range maps.Clone(inv.pages.byPlacement[placement]) {
			if version, ok := versionOf(p.object); ok && !listed[name] && version <= at {
				page := p.object.DeepCopy()
				page.Finalizers = nil // The page is gone.
				inv.assumeDeleted(page, e)
			}
		}
	})
}

// AdoptPages makes what the pages of the Subject list the last published decision, with a revision.
// Other writers own them no more. It does nothing if the Placement was deleted or replaced, or is
// disabled again.
func (inv *Inventory) AdoptPages(subject *framework.Subject, revision int64) {
	inv.processOwn(func(e *event) {
		p := inv.placementOf(subject)
		if p == nil || p.object.IsDisabled() {
			return
		}
		if inv.setDelegated(p, false); revision == 0 && subject.Last == nil {
			return // Nothing was published yet.
		}
		last := framework.PublishedOn(subject.OwnPages())
		if last.Revision = revision; subject.Last != nil {
			last.Queue = subject.Last.Queue
		}
		inv.dispatch(Input{Kind: InputPublished, Placement: p.key, Published: last}, e)
	})
	inv.published(subject.Key())
}

// SetPublished stores the last published decision of a Placement; nil if it is the same as before.
// It does nothing if the Placement was deleted or replaced, or if scheduling was disabled
// meanwhile.
func (inv *Inventory) SetPublished(subject *framework.Subject, last *framework.Published) {
	inv.processOwn(func(e *event) {
		p := inv.placementOf(subject)
		if p == nil || p.delegated || last == nil && p.claim.landed.Len() == 0 {
			return
		}
		next := last
		if last == nil {
			next = p.last
		} else if last.SinceStart && p.last != subject.Last {
			// An event affected the Placement during the attempt.
			changed := *last
			changed.SinceStart, next = false, &changed
		}
		inv.dispatch(Input{Kind: InputPublished, Placement: p.key, Published: next, Before: p.last}, e)
	})
	if last != nil {
		inv.published(subject.Key())
	}
}

// published calls the function of OnPublished.
func (inv *Inventory) published(placement Key) {
	if call := inv.onPublished.Load(); call != nil {
		(*call)(placement)
	}
}

// OnPublished sets a function that is called after the last published decision of a Placement
// changed. It must not block.
func (inv *Inventory) OnPublished(call func(placement Key)) { inv.onPublished.Store(&call) }

// setPublished is SetPublished, and AdoptPages if the decision is FromPages, with the inventory
// locked.
func (inv *Inventory) setPublished(p *placement, last *framework.Published, keepsLanded bool) {
	if !keepsLanded {
		inv.endLanded(p)
		p.before = nil
		inv.setDelegated(p, p.delegated && !last.FromPages)
	}
	delete(inv.unread, p.key)
	inv.setLast(p, last)
	inv.unsettle(p)
	inv.holdingChanged(p.key)
}

// endStart ends the time since the start for the Placements that an event affects, other than an
// edit of their pages or status, which is undone. If the first attempt of one is not published yet,
// it lasts until then. The first contents of readiness sources are part of the start.
func (inv *Inventory) endStart(affected affectedSet) {
	for key := range affected {
		if p := inv.placements[key]; p != nil && p.last != nil && p.last.SinceStart {
			last := *p.last
			last.SinceStart = last.FromPages
			p.last, p.subject = &last, nil
		}
	}
}

// pagesChanged drops what is known of a Placement's pages. It returns false if there is no such
// Placement.
func (inv *Inventory) pagesChanged(owner Key) bool {
	if p := inv.placements[owner]; p != nil && (p.last == nil || p.delegated || inv.options.Follows) {
		inv.unread[owner] = struct{}{}
	}
	return inv.dropSubject(owner)
}
