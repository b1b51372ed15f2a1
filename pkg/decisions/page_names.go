package decisions

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// assignPageNames turns new pages into published pages that are free, and names the others. A free
// page keeps its index if it can.
func (l *layout) assignPageNames() {
	var fresh []*draft
	free, names := l.freePages()
	for _, g := range l.groups {
		for _, page := range g.pages {
			if page.name != "" {
				continue
			}
			if same := free[g.index]; same != nil {
				delete(free, g.index)
				l.becomes(page, same)
				continue
			}
			fresh = append(fresh, page)
		}
	}
	for _, page := range free {
		names = append(names, page)
	}
	for n := 0; len(names) < len(fresh); {
		var page draft
		page, n = l.newDraft(n)
		names = append(names, &page)
	}
	slices.SortFunc(names, inPageOrder)
	for k, page := range fresh {
		l.becomes(page, names[k])
	}
	for _, g := range l.groups {
		slices.SortFunc(g.pages, inPageOrder)
	}
}

// freePages returns the published pages that new pages can become: one for each index of the plan,
// and the others.
func (l *layout) freePages() (byIndex map[int]*draft, others []*draft) {
	byIndex = map[int]*draft{}
	for _, page := range l.drafts {
		if page.targetGroup != nil || !l.isFree(page) {
			continue
		}
		if index := page.label.index; page.visible && index >= 0 && index < len(l.groups) && byIndex[index] == nil {
			byIndex[index] = page
		} else {
			others = append(others, page)
		}
	}
	return byIndex, others
}

// becomes gives the clusters of a new page to one with a name.
func (l *layout) becomes(fresh, page *draft) {
	page.targetGroup, page.added = fresh.targetGroup, fresh.added
	pages := fresh.targetGroup.pages
	pages[slices.Index(pages, fresh)] = page
	if page.current == nil {
		l.drafts = append(l.drafts, page)
	}
}

// isFree reports whether a published page may lose all its content in the write of its new content:
// none of its clusters moves to another page.
func (l *layout) isFree(page *draft) bool {
	return !slices.ContainsFunc(page.listed, func(i int) bool { return !l.kept[i] })
}

// newDraft returns a page with the first unused number after n.
func (l *layout) newDraft(n int) (draft, int) {
	for n++; ; n++ {
		name := v1alpha1.PageName(l.placement.Name, n)
		if !l.taken[name] && (l.inUse == nil || !l.inUse(name)) {
			l.taken[name] = true
			return draft{name: name, number: n, label: label{index: unseen}}, n
		}
	}
}

// numberOf returns the number in a page's name; 0 for a name that Berth does not give.
func numberOf(page, placement string) int {
	if owner, number, _ := v1alpha1.NumberOfPage(page); owner == placement {
		return number
	}
	return 0
}

// indexOf parses a group index in canonical form; noIndex if it is not one.
func indexOf(text string) int {
	if n, _ := strconv.Atoi(text); n >= 0 && strconv.Itoa(n) == text {
		return n
	}
	return noIndex
}
