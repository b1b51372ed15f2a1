package decisions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// sequence orders the writes. It tracks what readers see after the writes so far, and adds only
// writes that keep Plan's guarantees.
type sequence struct {
	l        *layout
	holders  []int // by cluster: the number of visible pages that list it
	slots    slots
	visible  []*draft // pages that readers see
	toDelete []*draft // pages to be deleted
	number   int      // of the last temporary page
	writes   []Write
	// finishing is true once all pages have their clusters, marked once a page that stays has the
	// revision, or if none of these has any.
	finishing, marked bool
}

// removal is an entry that a page will lose.
type removal struct {
	entry v1alpha1.ClusterDecision
	id    int // of the cluster; noID if it is not selected
}

const noID = -1

// newSequence orders the writes in four steps: labels, additions, other changes, deletions.
func newSequence(l *layout) *sequence {
	s := &sequence{l: l, holders: l.seen, slots: slots{limit: 4*len(l.drafts) + 4, top: -1}}
	s.marked = l.grouping.Revision == 0 || !slices.ContainsFunc(l.drafts, func(d *draft) bool { return d.targetGroup != nil && d.revision() != "" })
	var adding []*draft
	for _, d := range l.drafts {
		s.slots.change(d.label, 1)
		if d.visible {
			s.visible = append(s.visible, d)
		}
		if d.targetGroup == nil {
			s.toDelete = append(s.toDelete, d)
			continue
		}
		d.metadataCurrent = d.current != nil && l.finalPage(d).hasMetadata(l.placement) && (l.grouping.Edited == nil || !l.grouping.Edited(d.current))
		s.marked = s.marked || d.revision() == strconv.FormatInt(l.grouping.Revision, 10)
		d.toRemove = l.removals(d)
		if len(d.added) > 0 || !d.visible {
			adding = append(adding, d)
		}
	}
	slices.SortStableFunc(adding, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(a.additionOrder(), b.additionOrder()), cmp.Compare(a.targetGroup.index, b.targetGroup.index), inPageOrder(a, b))
	})
	if len(adding) == 0 {
		s.deleteBehind()
	}
	s.relabel()
	s.add(adding)
	s.finish()
	return s
}

// additionOrder is 0 for a page that loses no entries, because it can be written at any time.
func (d *draft) additionOrder() int {
	if len(d.toRemove) == 0 {
		return 0
	}
	return len(d.want) + len(d.toRemove)
}

// removals returns the entries that a published page will lose, without duplicates.
func (l *layout) removals(d *draft) []removal {
	if len(d.kept) == len(d.have) {
		return nil
	}
	var out []removal
	stays := make(map[string]bool, len(d.kept))
	for _, i := range d.kept {
		stays[l.grouping.Choices[i].Name] = true
	}
	for _, e := range d.have {
		if stays[e.ClusterName] {
			continue
		}
		stays[e.ClusterName] = true
		id, ok := l.ids[e.ClusterName]
		if !ok {
			id = noID
		}
		out = append(out, removal{entry: e, id: id})
	}
	return out
}

// add writes every page that gains clusters. Entries that the page will lose stay until all
// additions are written, if they fit. An entry that no other visible page lists always stays; if it
// does not fit, a temporary page lists it.
func (s *sequence) add(pending []*draft) {
	for len(pending) > 0 {
		waiting := pending[:0:0]
		for k, d := range pending {
			bound, loose := s.split(d)
			switch stays := len(d.want) + len(bound); {
			case stays > v1alpha1.MaxDecisionsPerPage:
				waiting = append(waiting, d)
				continue
			case stays+len(loose) <= v1alpha1.MaxDecisionsPerPage && len(waiting)+len(pending)-k > 1:
				bound, loose = append(bound, loose...), nil
			}
			for _, i := range d.added {
				s.holders[i]++
			}
			for _, r := range loose {
				if r.id != noID {
					s.holders[r.id]--
				}
			}
			d.toRemove = bound
			s.update(d, s.union(d), true)
		}
		if len(waiting) == len(pending) {
			s.addTemporaryPages(waiting[0])
		}
		pending = waiting
	}
}

// split divides the entries that a page will lose: bound ones are on no other visible page at this
// point, loose ones are.
func (s *sequence) split(d *draft) (bound, loose []removal) {
	for _, r := range d.toRemove {
		if r.id != noID && s.holders[r.id] == 1 {
			bound = append(bound, r)
		} else {
			loose = append(loose, r)
		}
	}
	return bound, loose
}

// union returns the wanted entries and the entries that the page must still list.
func (s *sequence) union(d *draft) []v1alpha1.ClusterDecision {
	if len(d.toRemove) == 0 {
		return d.want
	}
	out := slices.Clone(d.want)
	for _, r := range d.toRemove {
		out = append(out, r.entry)
	}
	if !s.l.grouping.SortByScore {
		slices.SortFunc(out, func(a, b v1alpha1.ClusterDecision) int { return strings.Compare(a.ClusterName, b.ClusterName) })
	}
	return out
}

// addTemporaryPages lists the bound entries of a full page on temporary pages.
func (s *sequence) addTemporaryPages(d *draft) {
	bound, _ := s.split(d)
	for part := range slices.Chunk(bound, v1alpha1.MaxDecisionsPerPage) {
		entries := make([]v1alpha1.ClusterDecision, len(part))
		for k, r := range part {
			entries[k] = r.entry
			s.holders[r.id]++
		}
		s.addTemporaryPage(entries, d)
	}
}

// addTemporaryPage creates a page in the published group of another page.
func (s *sequence) addTemporaryPage(entries []v1alpha1.ClusterDecision, like *draft) {
	in := like.label
	in.index = max(in.index, 0)
	page := s.newTemporaryPage()
	s.write(page, in, entries, true)
}

// newTemporaryPage returns a page that is deleted in the end.
func (s *sequence) newTemporaryPage() *draft {
	var page draft
	page, s.number = s.l.newDraft(s.number)
	s.toDelete = append(s.toDelete, &page)
	return &page
}

// update writes a page with its target label, unless readers would miss pages then: a page that
// they see keeps its label for now, and another one gets the next index.
func (s *sequence) update(d *draft, entries []v1alpha1.ClusterDecision, changed bool) {
	in := d.targetGroup.label
	if !s.slots.allows(d.label, in) {
		if in = d.label; !d.visible {
			in = label{name: d.targetGroup.name, index: s.slots.top + 1}
		}
	}
	s.write(d, in, entries, changed)
}

// write adds one write.
func (s *sequence) write(d *draft, in label, entries []v1alpha1.ClusterDecision, changed bool) {
	op := Update
	if d.current == nil && !d.visible {
		op = Create
	}
	if !d.visible {
		s.visible = append(s.visible, d)
	}
	s.slots.change(d.label, -1)
	s.slots.change(in, 1)
	d.visible, d.metadataCurrent, d.have, d.label = true, true, entries, in
	s.marked = s.marked || d.targetGroup != nil
	s.writes = append(s.writes, Write{Op: op, DecisionsChanged: changed, Page: Page{
		Name: d.name, GroupName: in.name, GroupIndex: in.index, Decisions: entries, Queue: s.l.grouping.Queue, Revision: s.l.grouping.Revision, Current: d.current,
	}})
}

// finish makes the remaining changes, and deletes pages from the highest index down. All clusters
// are on their target pages now.
func (s *sequence) finish() {
	var pending []*draft
	for _, d := range s.l.drafts {
		if d.targetGroup != nil && d.unfinished() {
			pending = append(pending, d)
		}
	}
	slices.SortStableFunc(pending, fromTheEnd)
	for _, d := range pending {
		s.update(d, d.want, len(d.have) != len(d.want))
	}
	s.finishing = true
	s.relabel()
	slices.SortStableFunc(s.toDelete, fromTheEnd)
	for _, d := range s.toDelete {
		s.mark()
		s.remove(d)
	}
}

// deleteBehind deletes pages behind the last group from the highest index down, so that no other
// page has to be kept there. It must not run before additions.
func (s *sequence) deleteBehind() {
	slices.SortStableFunc(s.toDelete, fromTheEnd)
	for len(s.toDelete) > 0 && s.toDelete[0].label.index >= len(s.l.groups) && s.slots.allows(s.toDelete[0].label, label{index: unseen}) && s.mark() {
		s.remove(s.toDelete[0])
		s.toDelete = s.toDelete[1:]
	}
}

func (s *sequence) remove(d *draft) {
	s.slots.change(d.label, -1)
	s.writes = append(s.writes, Write{Op: Delete, DecisionsChanged: d.visible, Page: Page{
		Name: d.name, GroupName: d.label.name, GroupIndex: max(d.label.index, 0), Decisions: []v1alpha1.ClusterDecision{}, Current: d.current,
	}})
	s.visible = slices.DeleteFunc(s.visible, func(other *draft) bool { return other == d })
}

// mark writes the revision to a page that stays and has an earlier one; best to a page that is
// written anyway. A deletion cannot carry it: without it, the deletion would count as damage after
// a restart. It returns false if such pages need another label first. All clusters are on their
// target pages.
func (s *sequence) mark() bool {
	if s.marked {
		return true
	}
	var page *draft
	for _, d := range s.l.drafts {
		if d.targetGroup != nil && d.revision() != "" && d.label.index >= 0 && (page == nil || page.label != page.targetGroup.label || !page.unfinished()) {
			page = d
		}
	}
	if page != nil {
		s.write(page, page.label, page.want, len(page.have) != len(page.want))
	}
	return s.marked
}

// fromTheEnd compares pages by index and number, the highest first.
func fromTheEnd(a, b *draft) int {
	return cmp.Or(cmp.Compare(b.label.index, a.label.index), inPageOrder(b, a))
}

// revision returns the revision on the published page, empty if it has none.
func (d *draft) revision() string {
	if d.current == nil {
		return ""
	}
	return d.current.Annotations[berthv1alpha1.RevisionAnnotation]
}

func (d *draft) unfinished() bool {
	return !d.metadataCurrent || d.label != d.targetGroup.label || !sameDecisions(d.have, d.want)
}

// sameDecisions reports whether two lists share memory: NewPlan reuses a published list that is
// correct.
func sameDecisions(a, b []v1alpha1.ClusterDecision) bool {
	return len(a) == len(b) && a != nil && (len(a) == 0 || &a[0] == &b[0])
}
