package decisions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// sequence orders the writes. It tracks what readers see after the writes so far, and adds only
// writes that keep Plan's guarantees.
type sequence struct {
	l        *layout
	holders  []int // by cluster: the number of visible pages that list it
	indexes  indexes
	toDelete []*draft // pages to be deleted
	number   int      // of the last temporary page
	writes   []Write
}

// removal is an entry that a page will lose.
type removal struct {
	entry v1alpha1.ClusterDecision
	id    int // of the cluster; noID if it is not selected
}

const noID = -1

// newSequence orders the writes in three steps: additions, other changes, deletions.
func newSequence(l *layout) *sequence {
	s := &sequence{l: l, holders: l.seen, indexes: indexes{count: make([]int, 2*len(l.drafts)+1), top: -1}}
	var adding []*draft
	for _, d := range l.drafts {
		s.indexes.change(d.index, 1)
		if d.targetGroup == nil {
			s.toDelete = append(s.toDelete, d)
			continue
		}
		d.metadataCurrent = d.current != nil && l.finalPage(d).hasMetadata(l.placement)
		d.toRemove = l.removals(d)
		if len(d.added) > 0 || !d.visible {
			adding = append(adding, d)
		}
	}
	slices.SortStableFunc(adding, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(a.additionOrder(), b.additionOrder()), cmp.Compare(a.targetGroup.index, b.targetGroup.index), inPageOrder(a, b))
	})
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
			s.write(d, s.union(d), true)
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
	var page draft
	page, s.number = s.l.newDraft(s.number)
	page.targetGroup, page.want = &group{name: like.group, index: max(like.index, 0)}, entries
	s.write(&page, entries, true)
	s.toDelete = append(s.toDelete, &page)
}

// write adds one write. The page gets its target group, unless that would leave a gap among the
// indexes: then it stays in its group for now, and a new page gets the next index.
func (s *sequence) write(d *draft, decisions []v1alpha1.ClusterDecision, changed bool) {
	op := Update
	if d.current == nil && !d.visible {
		op = Create
	}
	switch {
	case s.indexes.move(d.index, d.targetGroup.index):
		d.index, d.group = d.targetGroup.index, d.targetGroup.name
	case !d.visible:
		next := s.indexes.top + 1
		s.indexes.move(unseen, next)
		d.index, d.group = next, d.targetGroup.name
	}
	d.visible, d.metadataCurrent, d.have = true, true, decisions
	s.writes = append(s.writes, Write{Op: op, DecisionsChanged: changed, Page: Page{
		Name: d.name, GroupName: d.group, GroupIndex: d.index, Decisions: decisions, Queue: s.l.grouping.Queue, Revision: s.l.grouping.Revision, Current: d.current,
	}})
}

// finish updates all other pages and deletes the rest. All clusters are on their target pages now,
// so only the group indexes restrict the order. Pages of the highest index come first, so that no
// gaps appear.
func (s *sequence) finish() {
	var pending []*draft
	for _, d := range s.l.drafts {
		if d.targetGroup != nil && d.unfinished() {
			pending = append(pending, d)
		}
	}
	byIndex := func(a, b *draft) int { return cmp.Or(cmp.Compare(b.index, a.index), inPageOrder(b, a)) }
	slices.SortStableFunc(pending, byIndex)
	slices.SortStableFunc(s.toDelete, byIndex)
	for len(pending) > 0 {
		waiting := pending[:0:0]
		for _, d := range pending {
			if s.indexes.allow(d.index, d.targetGroup.index) {
				s.write(d, d.want, len(d.have) != len(d.want))
			} else {
				waiting = append(waiting, d)
			}
		}
		if len(waiting) == len(pending) && !s.deleteOne() {
			s.breakIndexCycle(waiting)
		}
		pending = waiting
	}
	for s.deleteOne() {
	}
}

func (d *draft) unfinished() bool {
	return !d.metadataCurrent || d.index != d.targetGroup.index || d.group != d.targetGroup.name || !sameDecisions(d.have, d.want)
}

// sameDecisions reports whether two lists share memory: NewPlan reuses a published list that is
// correct.
func sameDecisions(a, b []v1alpha1.ClusterDecision) bool {
	return len(a) == len(b) && a != nil && (len(a) == 0 || &a[0] == &b[0])
}

// deleteOne deletes the first page that can be deleted without a gap among the indexes.
func (s *sequence) deleteOne() bool {
	for k, d := range s.toDelete {
		if s.indexes.move(d.index, unseen) {
			s.writes = append(s.writes, Write{Op: Delete, DecisionsChanged: d.visible, Page: Page{
				Name: d.name, GroupName: d.group, GroupIndex: max(d.index, 0), Decisions: []v1alpha1.ClusterDecision{}, Current: d.current,
			}})
			s.toDelete = slices.Delete(s.toDelete, k, k+1)
			return true
		}
	}
	return false
}

// breakIndexCycle is for pages that wait for each other's index: a copy of one of them holds its
// index while the page moves.
func (s *sequence) breakIndexCycle(waiting []*draft) {
	for _, d := range waiting {
		if d.targetGroup.index <= s.indexes.top+1 {
			s.addTemporaryPage(d.have, d)
			slices.SortStableFunc(s.toDelete, func(a, b *draft) int { return cmp.Compare(b.index, a.index) })
			return
		}
	}
}
