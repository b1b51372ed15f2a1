package inventory

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// page is a PlacementDecision, with its decisions as name indexes.
type page struct {
	object  *v1alpha1.PlacementDecision
	indexes []int
	// owner is the Placement whose page this is, by label, or by owner reference while it has no
	// label.
	owner Key
}

// pageTable holds the hub's PlacementDecisions.
type pageTable struct {
	byOwner[*page]
	// byIndex holds the pages that list a cluster, by the index of its name.
	byIndex map[int]few[*page]
	// taken are page names that a Placement cannot use, because a page of another owner, or one
	// that is being deleted, has the name.
	taken nested[Key, string, struct{}]
	// deleted are pages that Berth deleted and whose watch events have not arrived yet.
	deleted map[types.UID]bool
	// announced are the writes of pages that have not returned yet.
	announced map[Key]*announcement
	watched
}

// announcement is a write that has not returned yet.
type announcement struct {
	// content is the page to write; nil for a deletion.
	content *v1alpha1.PlacementDecision
	// gone is the UID of a page with that name that the watch has reported as deleted meanwhile.
	gone types.UID
}

// Announce records that Berth is writing or deleting a page. A watch event with exactly that
// content affects no Placement. The returned function ends this. The Placement has the clusters of
// the page until its whole decision is published, because the response of a write can be lost.
func (inv *Inventory) Announce(page *v1alpha1.PlacementDecision, deleted bool) (end func()) {
	name, owner := nameOf(page), ownerOf(page)
	if deleted {
		page = nil
	}
	inv.processOwn(func(e *event) {
		if page != nil && inv.dependsOnClaim(owner) {
			in := Input{Kind: InputLanded, Placement: owner}
			for _, d := range page.Status.Decisions {
				in.Clusters = append(in.Clusters, d.ClusterName)
			}
			inv.dispatch(in, e)
		}
		inv.pages.announced[name] = &announcement{content: page}
	})
	return func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		delete(inv.pages.announced, name)
	}
}

// isExternal reports whether a watch event is anything but the announced write of that page.
// Content is nil for a deletion; a page that is being deleted counts as deleted.
func (t *pageTable) isExternal(name Key, content *v1alpha1.PlacementDecision) bool {
	if content != nil && isDeleting(content) {
		content = nil
	}
	announced, ok := t.announced[name]
	if !ok || (announced.content == nil) != (content == nil) {
		return true
	}
	return content != nil && !sameContent(announced.content, content)
}

// isDeleting is true from the deletion of a page until its finalizers are gone. Such a page does
// not count as published, but no other page can have its name.
func isDeleting(page *v1alpha1.PlacementDecision) bool { return page.DeletionTimestamp != nil }

// assumeWritten stores a page that was written. It ignores the page if the watch has already
// reported its deletion, because no later event would remove it again. A watch that was interrupted
// reports the deletion with an older version of the page than the written one.
func (inv *Inventory) assumeWritten(object *v1alpha1.PlacementDecision, e *event) {
	if a := inv.pages.announced[nameOf(object)]; a != nil && a.gone != "" && a.gone == object.UID {
		return
	}
	version, ok := versionOf(object)
	if ok && version <= inv.pages.seen && !inv.pages.has(object) {
		return
	}
	inv.updatePage(object, e)
}

// assumeDeleted processes an accepted deletion of a page: the page is gone, or has finalizers and
// is being deleted. If the watch reported the deletion first, no more events follow.
func (inv *Inventory) assumeDeleted(object *v1alpha1.PlacementDecision, e *event) {
	if !inv.pages.has(object) {
		return
	}
	if len(object.Finalizers) > 0 {
		deleting := object.DeepCopy()
		deleting.DeletionTimestamp = new(metav1.Now())
		inv.updatePage(deleting, e)
		return
	}
	if object.UID != "" {
		inv.pages.deleted[object.UID] = true
	}
	inv.addDeleted(object)
	inv.removePage(inv.pages.byName[nameOf(object)], e)
}

// has is true if the table has this page, not another one of the same name.
func (t *pageTable) has(object *v1alpha1.PlacementDecision) bool {
	p := t.byName[nameOf(object)]
	return p != nil && p.object.UID == object.UID
}

func nameOf(object metav1.Object) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// maxForeignPages is the maximum number of pages of a Snapshot that have the label of its Placement
// and another controller: those whose names sort first.
const maxForeignPages = 20

// of returns the pages of a Placement that are not being deleted, sorted by name.
func (t *pageTable) of(p *placement) []*page {
	all := slices.DeleteFunc(slices.Collect(maps.Values(t.byPlacement[p.key])), func(page *page) bool { return isDeleting(page.object) })
	slices.SortFunc(all, func(a, b *page) int { return strings.Compare(a.object.Name, b.object.Name) })
	foreign := 0
	return slices.DeleteFunc(all, func(page *page) bool {
		if p.object.RelationOf(page.object) == v1alpha1.PageForeign {
			foreign++
			return foreign > maxForeignPages
		}
		return false
	})
}

// listedBy returns the clusters that the pages of a Placement list.
func (t *pageTable) listedBy(placement Key) (listed framework.Bitset) {
	for _, p := range t.byPlacement[placement] {
		if isDeleting(p.object) {
			continue
		}
		for _, i := range p.indexes {
			listed = listed.Set(i)
		}
	}
	return listed
}

func (inv *Inventory) updatePage(object *v1alpha1.PlacementDecision, e *event) {
	if inv.pages.deleted[object.UID] {
		return
	}
	name := nameOf(object)
	old := inv.pages.byName[name]
	if old != nil && earlier(object, old.object) {
		return
	}
	inv.addEdit(old, object)
	if old != nil && samePage(old.object, object) {
		old.object = object
		inv.pagesChanged(old.owner)
		return
	}
	inv.addObject(object)
	if old != nil {
		inv.removePage(old, e)
	}
	p := &page{object: object, owner: ownerOf(object)}
	for _, d := range object.Status.Decisions {
		i := inv.names.acquire(d.ClusterName)
		p.indexes = append(p.indexes, i)
		addTo(inv.pages.byIndex, i, p)
	}
	inv.pages.set(name, p.owner, p)
	inv.countPage(p, 1)
	inv.setTaken(p, true)
	if inv.pagesChanged(p.owner) {
		e.affected.add(p.owner)
	}
}

// countPage counts what a page of no Placement lists as decisions, n = 1, or no more, n = -1. Of a
// Placement, its claim counts, so that other writers of its pages cannot change that.
func (inv *Inventory) countPage(p *page, n int32) {
	switch {
	case isDeleting(p.object):
	case inv.placements[p.owner] == nil:
		for _, i := range p.indexes {
			inv.count(i, n)
		}
	case !p.isLabelled():
		c := &inv.placements[p.owner].claim
		if c.unlabelled == nil {
			c.unlabelled = map[int]int32{}
		}
		for _, i := range p.indexes {
			counted := c.counts(i)
			c.unlabelled[i] += n
			if c.unlabelled[i] == 0 {
				delete(c.unlabelled, i)
			}
			if c.counts(i) != counted {
				inv.count(i, n)
			}
		}
	}
}

// isLabelled reports whether a page has the label of its owner.
func (p *page) isLabelled() bool { return p.object.IsLabelledFor(p.owner.Name) }

// countPages counts the pages of a Placement before it is created or deleted, n = -1, and again
// afterwards, n = 1.
func (inv *Inventory) countPages(owner Key, n int32) {
	for _, p := range inv.pages.byPlacement[owner] {
		inv.countPage(p, n)
	}
}

// setTaken records that a page has a name that a Placement cannot use for its own page, or that the
// name is free again.
func (inv *Inventory) setTaken(p *page, taken bool) {
	name, _, ok := v1alpha1.NumberOfPage(p.object.Name)
	user := Key{Namespace: p.object.Namespace, Name: name}
	switch {
	case !ok || user == p.owner && !isDeleting(p.object):
		return
	case taken:
		inv.pages.taken.set(user, p.object.Name, struct{}{})
	default:
		inv.pages.taken.remove(user, p.object.Name)
	}
	inv.dropSubject(user)
}

func (inv *Inventory) removePage(p *page, e *event) {
	inv.pages.remove(nameOf(p.object), p.owner)
	inv.countPage(p, -1)
	for _, i := range p.indexes {
		removeFrom(inv.pages.byIndex, i, p)
		inv.names.release(i)
	}
	inv.setTaken(p, false)
	if inv.pagesChanged(p.owner) {
		e.affected.add(p.owner)
	}
}

// Published returns the queue annotation that Berth published last since the start, empty if none,
// and how many clusters it published last. kept is how many of them a lowered quota lets it keep:
// fewer if a change in progress ends with fewer, or some are Extra.
func (inv *Inventory) Published(placement Key) (queue string, clusters, kept int) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[placement]
	if p == nil {
		return "", 0, 0
	}
	if inv.loadLast(p); p.last == nil {
		return "", 0, 0
	}
	listed := p.claim.listed
	kept = max(0, listed.Len()-p.last.Extra)
	if p.claim.progressing {
		kept = min(kept, listed.Clone().Or(p.claim.target).Without(p.claim.leaving).Len())
	}
	return p.last.Queue, listed.Len(), kept
}

// dropSubject drops the cached Subject, so that the next Snapshot reads the Placement's pages
// again. It returns false if there is no such Placement.
func (inv *Inventory) dropSubject(owner Key) bool {
	p := inv.placements[owner]
	if p != nil {
		p.subject = nil
		inv.unsettle(p)
		inv.holdingChanged(owner)
	}
	return p != nil
}

func ownerOf(object *v1alpha1.PlacementDecision) Key {
	if name := object.PlacementName(); name != "" {
		return Key{Namespace: object.Namespace, Name: name}
	}
	return Key{}
}

// older is true if a is an earlier state of the same object (same UID) as b.
func older(a, b metav1.Object) bool { return a.GetUID() == b.GetUID() && earlier(a, b) }

// earlier is true if a was written before b. Resource versions of one kind are ordered numbers.
func earlier(a, b metav1.Object) bool {
	x, okA := versionOf(a)
	y, okB := versionOf(b)
	return okA && okB && x < y
}

// versionOf is false for an object that no API server has seen.
func versionOf(o metav1.Object) (uint64, bool) {
	if o.GetResourceVersion() == "" {
		return 0, false
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return version, err == nil
}

// samePage ignores the fields that Berth does not read. The revision is read after a restart.
func samePage(a, b *v1alpha1.PlacementDecision) bool {
	const revision = berthv1alpha1.RevisionAnnotation
	return a.UID == b.UID && a.Annotations[revision] == b.Annotations[revision] && sameContent(a, b)
}

func sameContent(a, b *v1alpha1.PlacementDecision) bool {
	return maps.Equal(a.Labels, b.Labels) &&
		a.Annotations[v1alpha1.QueueAnnotation] == b.Annotations[v1alpha1.QueueAnnotation] &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		(a.Status.Decisions == nil) == (b.Status.Decisions == nil) &&
		slices.EqualFunc(a.Status.Decisions, b.Status.Decisions, sameDecision) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

func sameDecision(a, b v1alpha1.ClusterDecision) bool {
	return a.ClusterName == b.ClusterName && a.Reason == b.Reason && (a.Score == nil) == (b.Score == nil) &&
		(a.Score == nil || *a.Score == *b.Score)
}
