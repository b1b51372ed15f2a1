package decisions

import (
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// relabel gives each page that readers see its final group name and index. The clusters stay on
// their pages.
//
// Only a page that is alone in its index can change the name of the index, and the last page of an
// index can leave it only if no higher index has pages. So pages move in this order: first those
// for which readers miss nothing, from the highest index down; then an empty page takes the place
// of one that is alone; and pages that block each other wait behind the last index.
func (s *sequence) relabel() {
	for pending := s.pendingLabels(); len(pending) > 0; pending = s.pendingLabels() {
		if !s.relabelAllowed(pending) && !s.fillNextIndex(pending) && !s.replaceLast(pending) {
			s.makeSpace(pending)
		}
	}
}

// goal returns the final label of a page. A page that will be deleted stays in its index, under the
// final name of that index, so that it keeps the index for the pages to come.
func (s *sequence) goal(d *draft) label {
	switch {
	case d.targetGroup != nil:
		return d.targetGroup.label
	case d.label.index >= 0 && d.label.index < len(s.l.groups):
		return s.l.groups[d.label.index].label
	}
	return d.label
}

// pendingLabels returns the pages whose label must change, from the highest index down. Before the
// other changes, a page that stays alone in its index is not among them: they include its label.
func (s *sequence) pendingLabels() []*draft {
	var pending []*draft
	for _, d := range s.visible {
		goal := s.goal(d)
		if d.label == goal || !s.finishing && d.staysAlone(goal) && s.slots.pages(goal.index) == 1 {
			continue
		}
		pending = append(pending, d)
	}
	slices.SortFunc(pending, fromTheEnd)
	return pending
}

// staysAlone reports whether the page is the only one of its group, and has the group's index.
func (d *draft) staysAlone(goal label) bool {
	return d.label.index == goal.index && d.targetGroup != nil && len(d.targetGroup.pages) == 1
}

func (s *sequence) pagesIn(index int) []*draft {
	var pages []*draft
	for _, d := range s.visible {
		if d.label.index == index {
			pages = append(pages, d)
		}
	}
	return pages
}

// relabelAllowed relabels the pages for which readers miss nothing, and reports whether there are
// any.
func (s *sequence) relabelAllowed(pending []*draft) bool {
	before := len(s.writes)
	for _, d := range pending {
		if goal := s.goal(d); s.slots.allows(d.label, goal) {
			s.write(d, goal, d.have, false)
		}
	}
	return len(s.writes) > before
}

// fillNextIndex creates an empty page in the next index, if a page waits for a higher one and no
// published page will be in the next.
func (s *sequence) fillNextIndex(pending []*draft) bool {
	next, waits := s.slots.top+1, false
	for _, d := range pending {
		index := s.goal(d).index
		if index == next {
			return false
		}
		waits = waits || index > next
	}
	if waits {
		s.keepIndex(s.l.groups[next].label)
	}
	return waits
}

// keepIndex adds an empty page to an index: a new one of the group that will have the index, an
// empty page that another index does not need any more or, without both, a temporary one.
func (s *sequence) keepIndex(in label) *draft {
	d := s.newPageFor(in.index)
	for _, empty := range s.toDelete {
		if d == nil && empty.visible && len(empty.have) == 0 && empty.label.index >= 0 && s.slots.pages(empty.label.index) > 1 {
			s.write(empty, in, empty.have, false)
			return empty
		}
	}
	if d == nil {
		d = s.newTemporaryPage()
	}
	s.write(d, in, []v1alpha1.ClusterDecision{}, true)
	return d
}

func (s *sequence) newPageFor(index int) *draft {
	if index >= len(s.l.groups) {
		return nil
	}
	for _, d := range s.l.groups[index].pages {
		if !d.visible {
			return d
		}
	}
	return nil
}

// replaceLast creates an empty page beside one that is the last of its index, and that could leave
// it otherwise.
func (s *sequence) replaceLast(pending []*draft) bool {
	for _, d := range pending {
		if name, found := s.slots.name(s.goal(d).index); found && name != s.goal(d).name || s.goal(d).index > s.slots.top+1 {
			continue
		}
		s.keepIndex(d.label)
		return true
	}
	return false
}

// makeSpace moves the pages of one index behind the last one, except a page that stays to change
// the name of the index: the index with the fewest pages of those that must change their name.
func (s *sequence) makeSpace(pending []*draft) {
	if next := s.slots.top + 1; next < len(s.l.groups) {
		s.keepIndex(s.l.groups[next].label)
		return
	}
	fewest, at := 0, -1
	for _, d := range pending {
		goal := s.goal(d).index
		if n := s.slots.pages(goal); at < 0 || n < fewest {
			fewest, at = n, goal
		}
	}
	pages := s.pagesIn(at)
	index := pages[0].label.index
	stays := slices.IndexFunc(pages, func(d *draft) bool { return s.goal(d).index == index })
	if stays < 0 {
		pages, stays = append(pages, s.keepIndex(pages[0].label)), len(pages)
	}
	behind := label{name: pages[0].label.name, index: s.slots.top + 1}
	for k, d := range pages {
		if k != stays {
			s.write(d, behind, d.have, false)
		}
	}
}
