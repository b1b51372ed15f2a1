package inventory

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// page is a PlacementDecision, with its decisions as name indexes.
type page struct {
	object  *v1alpha1.PlacementDecision
	indexes []int
	// leaving pages are being deleted, and gone once their finalizers are. They do not count as
	// published, but their names are taken.
	leaving bool
	// owner is the Placement whose page this is, by label, or by owner reference while it has no
	// label.
	owner Key
}

// pageTable are the hub's PlacementDecisions and the counts over them.
type pageTable struct {
	byName      map[Key]*page
	byPlacement map[Key]map[string]*page
	// byIndex lists the pages on which a name stands.
	byIndex map[int]map[*page]bool
	counts  decisionCounts
	// taken are the names of pages that a Placement cannot use for its own: other pages have them,
	// or ones that are being deleted.
	taken map[Key]map[string]bool
	// deleted are pages that Berth deleted and whose last events are still on their way.
	deleted map[types.UID]bool
	// announced are pages that are being written.
	announced map[Key]*announcement
	// seen is the latest resource version that the watch reported.
	seen uint64
}

// announcement is a write without a response yet.
type announcement struct {
	// content is the page as it is to be; nil for a deletion.
	content *v1alpha1.PlacementDecision
	// gone is the page of that name that the watch has reported as deleted meanwhile.
	gone types.UID
}

func newPageTable() pageTable {
	return pageTable{
		byName:      map[Key]*page{},
		byPlacement: map[Key]map[string]*page{},
		byIndex:     map[int]map[*page]bool{},
		taken:       map[Key]map[string]bool{},
		deleted:     map[types.UID]bool{},
		announced:   map[Key]*announcement{},
	}
}

// saw notes how far the watch is.
func (t *pageTable) saw(object *v1alpha1.PlacementDecision) {
	if version, ok := versionOf(object); ok {
		t.seen = max(t.seen, version)
	}
}

// Announce records that Berth is writing or deleting a page. A watch event with exactly that
// content affects no Placement. The returned function ends this.
func (inv *Inventory) Announce(page *v1alpha1.PlacementDecision, deleted bool) (end func()) {
	name := nameOf(page)
	if deleted {
		page = nil
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.pages.announced[name] = &announcement{content: page}
	return func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		delete(inv.pages.announced, name)
	}
}

// isNews reports whether a watch event is anything but the announced write of that page. Content is
// nil for a deletion; a page that is being deleted counts as deleted.
func (t *pageTable) isNews(name Key, content *v1alpha1.PlacementDecision) bool {
	if content != nil && isLeaving(content) {
		content = nil
	}
	announced, ok := t.announced[name]
	if !ok || (announced.content == nil) != (content == nil) {
		return true
	}
	return content != nil && !sameContent(announced.content, content)
}

// isLeaving says whether a page is being deleted: it stays until its finalizers are gone.
func isLeaving(page *v1alpha1.PlacementDecision) bool { return page.DeletionTimestamp != nil }

// assumePage takes in a page that was written, unless the watch has reported since that it was
// deleted: nothing would ever take it out again. A watch that was interrupted reports the deletion
// with an older version of the page than the one written.
func (inv *Inventory) assumePage(object *v1alpha1.PlacementDecision) {
	if a := inv.pages.announced[nameOf(object)]; a != nil && a.gone != "" && a.gone == object.UID {
		return
	}
	version, ok := versionOf(object)
	if ok && version <= inv.pages.seen && !inv.pages.has(object) {
		return
	}
	inv.updatePage(object, wakeSet{})
}

// assumeDeleted takes in that the deletion of a page was accepted: it is gone, or is being deleted
// while it has finalizers. If the watch reported its end first, no more events follow.
func (inv *Inventory) assumeDeleted(object *v1alpha1.PlacementDecision) {
	if !inv.pages.has(object) {
		return
	}
	if len(object.Finalizers) > 0 {
		leaving := object.DeepCopy()
		leaving.DeletionTimestamp = new(metav1.Now())
		inv.updatePage(leaving, wakeSet{})
		return
	}
	if object.UID != "" {
		inv.pages.deleted[object.UID] = true
	}
	inv.removePage(nameOf(object), wakeSet{})
}

// has says whether the page, and no other of its name, is there.
func (t *pageTable) has(object *v1alpha1.PlacementDecision) bool {
	p := t.byName[nameOf(object)]
	return p != nil && p.object.UID == object.UID
}

func nameOf(object *v1alpha1.PlacementDecision) Key {
	return Key{Namespace: object.Namespace, Name: object.Name}
}

// listing are the pages on which a name stands.
func (t *pageTable) listing(i int) []*page {
	var pages []*page
	for p := range t.byIndex[i] {
		pages = append(pages, p)
	}
	return pages
}

func (inv *Inventory) updatePage(object *v1alpha1.PlacementDecision, woken wakeSet) {
	if inv.pages.deleted[object.UID] {
		return
	}
	name := nameOf(object)
	old := inv.pages.byName[name]
	if old != nil && earlier(object, old.object) {
		return
	}
	if old != nil && samePage(old.object, object) {
		old.object = object
		inv.restate(old.owner)
		return
	}
	if old != nil {
		inv.removePage(name, woken)
	}
	p := &page{object: object, owner: ownerOf(object)}
	p.leaving = isLeaving(object)
	for _, d := range object.Status.Decisions {
		i := inv.names.hold(d.ClusterName)
		p.indexes = append(p.indexes, i)
		if !p.leaving {
			inv.pages.counts.add(i, 1)
		}
		if inv.pages.byIndex[i] == nil {
			inv.pages.byIndex[i] = map[*page]bool{}
		}
		inv.pages.byIndex[i][p] = true
		if !p.leaving {
			inv.arrived(p.owner, i)
		}
	}
	inv.fleet = nil
	inv.pages.byName[name] = p
	inv.setTaken(p, true)
	if inv.pages.byPlacement[p.owner] == nil {
		inv.pages.byPlacement[p.owner] = map[string]*page{}
	}
	inv.pages.byPlacement[p.owner][object.Name] = p
	if inv.restate(p.owner) {
		woken[p.owner] = true
	}
}

// setTaken says whether a page has a name that a Placement would use for its own, but cannot.
func (inv *Inventory) setTaken(p *page, taken bool) {
	name, _, ok := v1alpha1.NumberOfPage(p.object.Name)
	user := Key{Namespace: p.object.Namespace, Name: name}
	switch {
	case !ok || user == p.owner && !p.leaving:
		return
	case !taken:
		delete(inv.pages.taken[user], p.object.Name)
		if len(inv.pages.taken[user]) == 0 {
			delete(inv.pages.taken, user)
		}
	default:
		if inv.pages.taken[user] == nil {
			inv.pages.taken[user] = map[string]bool{}
		}
		inv.pages.taken[user][p.object.Name] = true
	}
	inv.restate(user)
}

func (inv *Inventory) deletePage(object *v1alpha1.PlacementDecision, woken wakeSet) {
	if a := inv.pages.announced[nameOf(object)]; a != nil {
		a.gone = object.UID
	}
	if inv.pages.deleted[object.UID] {
		delete(inv.pages.deleted, object.UID)
		return
	}
	if inv.pages.has(object) {
		inv.removePage(nameOf(object), woken)
	}
}

func (inv *Inventory) removePage(name Key, woken wakeSet) {
	p := inv.pages.byName[name]
	if p == nil {
		return
	}
	for _, i := range p.indexes {
		if !p.leaving {
			inv.pages.counts.add(i, -1)
		}
		delete(inv.pages.byIndex[i], p)
		if len(inv.pages.byIndex[i]) == 0 {
			delete(inv.pages.byIndex, i)
		}
		inv.names.release(i)
	}
	inv.fleet = nil
	delete(inv.pages.byName, name)
	inv.setTaken(p, false)
	delete(inv.pages.byPlacement[p.owner], name.Name)
	if len(inv.pages.byPlacement[p.owner]) == 0 {
		delete(inv.pages.byPlacement, p.owner)
	}
	if inv.restate(p.owner) {
		woken[p.owner] = true
	}
}

// Published returns the queue that the pages of a Placement record, empty when none does, and how
// many clusters they list. Only pages count that this very Placement controls: others can be made
// to quote a queue by everybody who writes pages.
func (inv *Inventory) Published(placement Key) (queue string, clusters int) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[placement]
	if p == nil {
		return "", 0
	}
	var listed framework.Bitset
	own := inv.pages.byPlacement[placement]
	for _, object := range inv.subject(p).LabelledPages() {
		if !p.object.Controls(object) {
			continue
		}
		if queue == "" {
			queue = object.Annotations[v1alpha1.QueueAnnotation]
		}
		for _, i := range own[object.Name].indexes {
			listed = listed.Set(i)
		}
	}
	return queue, listed.Len()
}

// restate drops the cached Subject, so that the next Snapshot reads the Placement's pages again. It
// returns false if there is no such Placement.
func (inv *Inventory) restate(owner Key) bool {
	p := inv.placements[owner]
	if p != nil {
		p.subject = nil
	}
	return p != nil
}

func ownerOf(object *v1alpha1.PlacementDecision) Key {
	if name := object.PlacementName(); name != "" {
		return Key{Namespace: object.Namespace, Name: name}
	}
	return Key{}
}

// older says whether a is a state of the same object before b.
func older(a, b metav1.Object) bool { return a.GetUID() == b.GetUID() && earlier(a, b) }

// earlier says whether a was written before b: resource versions of one kind are ordered numbers.
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

// samePage leaves out what nothing in Berth reads.
func samePage(a, b *v1alpha1.PlacementDecision) bool { return a.UID == b.UID && sameContent(a, b) }

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

// decisionCounts counts the decisions on each name, and the names with each count.
type decisionCounts struct {
	byIndex   framework.Vector[int32]
	histogram []int32
	frozen    *framework.DecisionCounts
}

func (c *decisionCounts) add(i int, n int32) {
	old := c.byIndex.Get(i)
	c.byIndex.Set(i, old+n)
	c.frozen = nil
	for int(old+n) >= len(c.histogram) {
		c.histogram = append(c.histogram, 0)
	}
	if old > 0 {
		c.histogram[old]--
	}
	if old+n > 0 {
		c.histogram[old+n]++
	}
	for len(c.histogram) > 0 && c.histogram[len(c.histogram)-1] == 0 {
		c.histogram = c.histogram[:len(c.histogram)-1]
	}
}

func (c *decisionCounts) freeze() *framework.DecisionCounts {
	if c.frozen == nil {
		c.frozen = &framework.DecisionCounts{ByIndex: c.byIndex.Freeze(), Histogram: append([]int32(nil), c.histogram...)}
	}
	return c.frozen
}
