package decisions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// sequence finds the order of writes. It keeps what readers see after the writes so far, and adds
// only writes that leave a state they may see.
type sequence struct {
	l       *layout
	holders []int // by cluster: how many visible pages list it
	indexes indexes
	going   []*draft // pages to be deleted
	number  int      // of the last bridge
	writes  []Write
}

// removal is an entry of a page that is to go.
type removal struct {
	entry v1alpha1.ClusterDecision
	id    int // of the cluster, or noID when it leaves the answer altogether
}

const noID = -1

// newSequence works in three steps: additions, then what changes otherwise, then deletions.
func newSequence(l *layout) *sequence {
	s := &sequence{l: l, holders: l.seen, indexes: indexes{count: make([]int, 2*len(l.drafts)+1), top: -1}}
	var adding []*draft
	for _, d := range l.drafts {
		s.indexes.change(d.index, 1)
		if d.home == nil {
			s.going = append(s.going, d)
			continue
		}
		d.dressed = d.current != nil && l.final(d).dressed(l.placement)
		d.going = l.removals(d)
		if len(d.added) > 0 || !d.visible {
			adding = append(adding, d)
		}
	}
	slices.SortStableFunc(adding, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(a.burden(), b.burden()), cmp.Compare(a.home.index, b.home.index), inPageOrder(a, b))
	})
	s.add(adding)
	s.finish()
	return s
}

// burden is 0 for a page that loses nothing: it can be written at any time.
func (d *draft) burden() int {
	if len(d.going) == 0 {
		return 0
	}
	return len(d.want) + len(d.going)
}

// removals are the entries of a published page that are not to stay, repetitions left out.
func (l *layout) removals(d *draft) []removal {
	if !d.visible || len(d.kept) == len(d.have) {
		return nil
	}
	var out []removal
	stays := make(map[string]bool, len(d.kept))
	for _, i := range d.kept {
		stays[l.answer.Choices[i].Name] = true
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

// add writes every page that gains clusters. What it loses stays on it until all is added, so far
// as it fits; a cluster that no other page lists yet stays on it in any case, and where that leaves
// no room, a page for the time being helps.
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
			d.going = bound
			s.write(d, s.union(d), true)
		}
		if len(waiting) == len(pending) {
			s.bridge(waiting[0])
		}
		pending = waiting
	}
}

// split divides what a page is to lose into clusters of the answer that no other page lists at this
// point, and the rest.
func (s *sequence) split(d *draft) (bound, loose []removal) {
	for _, r := range d.going {
		if r.id != noID && s.holders[r.id] == 1 {
			bound = append(bound, r)
		} else {
			loose = append(loose, r)
		}
	}
	return bound, loose
}

// union is what a page is to list, and what it still must.
func (s *sequence) union(d *draft) []v1alpha1.ClusterDecision {
	if len(d.going) == 0 {
		return d.want
	}
	out := slices.Clone(d.want)
	for _, r := range d.going {
		out = append(out, r.entry)
	}
	if !s.l.answer.SortByScore {
		slices.SortFunc(out, func(a, b v1alpha1.ClusterDecision) int { return strings.Compare(a.ClusterName, b.ClusterName) })
	}
	return out
}

// bridge lists on a page for the time being the clusters that a full page cannot let go otherwise.
func (s *sequence) bridge(d *draft) {
	bound, _ := s.split(d)
	for part := range slices.Chunk(bound, v1alpha1.MaxDecisionsPerPage) {
		entries := make([]v1alpha1.ClusterDecision, len(part))
		for k, r := range part {
			entries[k] = r.entry
			s.holders[r.id]++
		}
		s.bridgeWith(entries, d)
	}
}

// bridgeWith creates a page in the group that another one is published in.
func (s *sequence) bridgeWith(entries []v1alpha1.ClusterDecision, like *draft) {
	var page draft
	page, s.number = s.l.newDraft(s.number)
	page.home, page.want = &group{name: like.group, index: max(like.index, 0)}, entries
	s.write(&page, entries, true)
	s.going = append(s.going, &page)
}

// write adds one write. It gives the page its group to be unless that would leave a gap among the
// indexes: then a page stays in its group for now, and a new one opens the next.
func (s *sequence) write(d *draft, decisions []v1alpha1.ClusterDecision, changed bool) {
	op := Update
	if d.current == nil && !d.visible {
		op = Create
	}
	switch {
	case s.indexes.move(d.index, d.home.index):
		d.index, d.group = d.home.index, d.home.name
	case !d.visible:
		next := s.indexes.top + 1
		s.indexes.move(unseen, next)
		d.index, d.group = next, d.home.name
	}
	d.visible, d.dressed, d.have = true, true, decisions
	s.writes = append(s.writes, Write{Op: op, DecisionsChanged: changed, Page: Page{
		Name: d.name, GroupName: d.group, GroupIndex: d.index, Decisions: decisions, Queue: s.l.answer.Queue, Revision: s.l.answer.Revision, Current: d.current,
	}})
}

// finish brings every page to what it is to be, and deletes the others. All clusters are where they
// are to be by now: only the group indexes ask for an order. Pages of the highest group go first,
// so that groups close up from the end.
func (s *sequence) finish() {
	var pending []*draft
	for _, d := range s.l.drafts {
		if d.home != nil && d.unfinished() {
			pending = append(pending, d)
		}
	}
	byIndex := func(a, b *draft) int { return cmp.Or(cmp.Compare(b.index, a.index), inPageOrder(b, a)) }
	slices.SortStableFunc(pending, byIndex)
	slices.SortStableFunc(s.going, byIndex)
	for len(pending) > 0 {
		waiting := pending[:0:0]
		for _, d := range pending {
			if s.indexes.allow(d.index, d.home.index) {
				s.write(d, d.want, len(d.have) != len(d.want))
			} else {
				waiting = append(waiting, d)
			}
		}
		if len(waiting) == len(pending) && !s.deleteOne() {
			s.holdIndex(waiting)
		}
		pending = waiting
	}
	for len(s.going) > 0 && s.deleteOne() {
	}
}

func (d *draft) unfinished() bool {
	return !d.dressed || d.index != d.home.index || d.group != d.home.name || !sameDecisions(d.have, d.want)
}

// sameDecisions reports whether two lists are one: NewPlan takes over a published list that is
// right as it is.
func sameDecisions(a, b []v1alpha1.ClusterDecision) bool {
	return len(a) == len(b) && a != nil && (len(a) == 0 || &a[0] == &b[0])
}

// deleteOne deletes the first page that may go.
func (s *sequence) deleteOne() bool {
	for k, d := range s.going {
		if s.indexes.move(d.index, unseen) {
			s.writes = append(s.writes, Write{Op: Delete, DecisionsChanged: d.visible, Page: Page{
				Name: d.name, GroupName: d.group, GroupIndex: max(d.index, 0), Decisions: []v1alpha1.ClusterDecision{}, Current: d.current,
			}})
			s.going = slices.Delete(s.going, k, k+1)
			return true
		}
	}
	return false
}

// holdIndex helps out when pages wait for each other's index: a copy of one of them holds its index
// while it moves on.
func (s *sequence) holdIndex(waiting []*draft) {
	for _, d := range waiting {
		if d.home.index <= s.indexes.top+1 {
			s.bridgeWith(d.have, d)
			slices.SortStableFunc(s.going, func(a, b *draft) int { return cmp.Compare(b.index, a.index) })
			return
		}
	}
}
