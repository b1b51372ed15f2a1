package decisions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// draft is one page during planning: what is published and what will be. Clusters of the Grouping
// are indexes into its Choices.
type draft struct {
	name    string
	number  int // n of <placement>-decision-<n>; 0 for a page named otherwise
	current *v1alpha1.PlacementDecision
	visible bool // published: readers selecting by label see it
	label   label

	listed      []int // clusters of the answer that the published page lists
	kept        []int // those of them that stay on this page
	added       []int // clusters that move to this page
	targetGroup *group

	have            []v1alpha1.ClusterDecision // what readers see after the writes so far
	want            []v1alpha1.ClusterDecision // what readers will see in the end
	toRemove        []removal                  // entries of have that are not in want
	metadataCurrent bool                       // labels, queue and owner are correct
}

// group is one decision group of the plan.
type group struct {
	label
	entry int // of Grouping.Groups
	pages []*draft
	size  int // without clusters that leave
}

const (
	noIndex = -1 // a published page whose group index is missing or invalid
	unseen  = -2 // a page that readers do not see
)

// layout assigns clusters to pages.
type layout struct {
	placement *v1alpha1.Placement
	grouping  Grouping
	ids       map[string]int
	drafts    []*draft // published and unfinished pages, in page order; then the new ones
	groups    []*group
	byEntry   [][]*group // by entry of Grouping.Groups, in the order of their indexes
	wanted    []int      // by cluster: its entry of Grouping.Groups
	kept      []bool     // by cluster: whether a page that lists it keeps it
	seen      []int      // by cluster: the number of published pages that list it
	taken     map[string]bool
	inUse     func(string) bool
}

func newLayout(pl *v1alpha1.Placement, pages []*draft, taken map[string]bool, inUse func(string) bool, a Grouping) *layout {
	n := len(a.Choices)
	l := &layout{
		placement: pl, grouping: a, drafts: pages, taken: taken, inUse: inUse, byEntry: make([][]*group, len(a.Groups)+1),
		wanted: make([]int, n), kept: make([]bool, n), seen: make([]int, n),
	}
	for entry, c := range a.Groups {
		for _, i := range c.Choices {
			l.wanted[i] = entry
		}
	}
	slices.SortFunc(l.drafts, inPageOrder)
	l.findPublished()
	l.keepClusters()
	l.relabelPages()
	l.assignRest()
	l.assignIndexes()
	l.assignPageNames()
	return l
}

// findPublished finds the published pages of each cluster.
func (l *layout) findPublished() {
	l.ids = make(map[string]int, len(l.grouping.Choices))
	for i := range l.grouping.Choices {
		l.ids[l.grouping.Choices[i].Name] = i
	}
	last := make([]int, len(l.grouping.Choices)) // the draft that listed the cluster last, from 1
	for d, page := range l.drafts {
		if !page.visible {
			continue
		}
		page.listed = make([]int, 0, len(page.current.Status.Decisions))
		for j := range page.current.Status.Decisions {
			i, ok := l.ids[page.current.Status.Decisions[j].ClusterName]
			if !ok || last[i] == d+1 {
				continue
			}
			last[i] = d + 1
			page.listed = append(page.listed, i)
			l.seen[i]++
		}
	}
}

// part is a published decision group: all pages with one name and index.
type part struct {
	label
	page string // only with onePage, because two pages may have the same label
}

// keepClusters keeps each cluster on its first published page with the right group name, as far as
// the lengths allow.
func (l *layout) keepClusters() {
	groups := l.publishedGroups()
	for _, page := range l.drafts {
		g := groups[l.partOf(page)]
		if g == nil {
			continue
		}
		for _, i := range page.listed {
			fits := g.size < l.grouping.Length || l.grouping.Choices[i].Leaves
			if !l.kept[i] && l.wanted[i] == g.entry && len(page.kept) < v1alpha1.MaxDecisionsPerPage && fits {
				l.keepOnPage(i, page, g)
			}
		}
	}
	for _, g := range groups {
		if len(g.pages) > 0 {
			l.groups = append(l.groups, g)
		}
	}
	slices.SortFunc(l.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.index, b.index), inPageOrder(a.pages[0], b.pages[0]))
	})
	for _, g := range l.groups {
		l.byEntry[g.entry] = append(l.byEntry[g.entry], g)
	}
}

func (l *layout) partOf(page *draft) part {
	p := part{label: page.label}
	if l.grouping.onePage {
		p.page = page.name
	}
	return p
}

// publishedGroups returns the published groups that stay. If several entries have its name, a group
// is of the one with most of its clusters. Compact leaves each entry only as many groups as it
// needs, those with the lowest indexes.
func (l *layout) publishedGroups() map[part]*group {
	votes := l.entriesOfParts()
	groups := make(map[part]*group, len(votes))
	byEntry := make([][]*group, len(l.grouping.Groups))
	parts := make(map[*group]part, len(votes))
	for p, of := range votes {
		g := &group{label: p.label, entry: -1}
		for entry, n := range of {
			if g.entry < 0 || n > of[g.entry] || n == of[g.entry] && entry < g.entry {
				g.entry = entry
			}
		}
		groups[p], parts[g] = g, p
		byEntry[g.entry] = append(byEntry[g.entry], g)
	}
	if !l.grouping.Compact {
		return groups
	}
	for entry, all := range byEntry {
		slices.SortFunc(all, func(a, b *group) int {
			return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(parts[a].page, parts[b].page))
		})
		for _, g := range all[min(l.needed(entry), len(all)):] {
			delete(groups, parts[g])
		}
	}
	return groups
}

// entriesOfParts counts the clusters of each published group by the entries of its name.
func (l *layout) entriesOfParts() map[part]map[int]int {
	votes := map[part]map[int]int{}
	for _, page := range l.drafts {
		if !page.visible || page.label.index == noIndex {
			continue
		}
		for _, i := range page.listed {
			if l.grouping.Groups[l.wanted[i]].GroupName != page.label.name {
				continue
			}
			p := l.partOf(page)
			if votes[p] == nil {
				votes[p] = map[int]int{}
			}
			votes[p][l.wanted[i]]++
		}
	}
	return votes
}

// needed returns the smallest number of groups for an entry.
func (l *layout) needed(entry int) int {
	return (max(l.grouping.counted(l.grouping.Groups[entry].Choices), 1) + l.grouping.Length - 1) / l.grouping.Length
}

func (l *layout) keepOnPage(i int, page *draft, g *group) {
	if page.targetGroup == nil {
		page.targetGroup = g
		g.pages = append(g.pages, page)
	}
	if page.kept == nil {
		page.kept = make([]int, 0, len(page.listed))
	}
	page.kept = append(page.kept, i)
	l.kept[i] = true
	if !l.grouping.Choices[i].Leaves {
		g.size++
	}
}

// relabelPages gives pages without a group (renamed, shortened or wrongly labelled) a new one if
// they list clusters that no page keeps. Writing a label is cheaper than moving 100 clusters.
func (l *layout) relabelPages() {
	for _, page := range l.drafts {
		if !page.visible || page.targetGroup != nil {
			continue
		}
		entry, stays := l.bestEntry(page)
		if len(stays) == 0 {
			continue
		}
		g := l.groupWithSpace(entry, len(stays))
		if g == nil && l.grouping.Compact && len(l.byEntry[entry]) >= l.needed(entry) {
			continue
		}
		if g == nil {
			g = l.newGroup(entry)
			g.index = page.label.index
		}
		for _, i := range stays {
			l.keepOnPage(i, page, g)
		}
		slices.SortFunc(g.pages, inPageOrder)
	}
}

// bestEntry returns the entry to which most of a page's clusters that no page keeps belong, and
// these clusters. It prefers entries with the page's current name; among equals the first one wins.
func (l *layout) bestEntry(page *draft) (entry int, stays []int) {
	byEntry := map[int][]int{}
	for _, i := range page.listed {
		if !l.kept[i] {
			byEntry[l.wanted[i]] = append(byEntry[l.wanted[i]], i)
		}
	}
	named := func(entry int) bool { return l.grouping.Groups[entry].GroupName == page.label.name }
	for k := range l.grouping.Groups {
		switch got := byEntry[k]; {
		case len(got) == 0:
		case len(stays) == 0, named(k) && !named(entry), named(k) == named(entry) && len(got) > len(stays):
			entry, stays = k, got
		}
	}
	return entry, stays[:min(len(stays), v1alpha1.MaxDecisionsPerPage, l.grouping.Length)]
}

func (l *layout) groupWithSpace(entry, n int) *group {
	if l.grouping.onePage {
		return nil
	}
	for _, g := range l.byEntry[entry] {
		if g.size+n <= l.grouping.Length {
			return g
		}
	}
	return nil
}

// assignRest finds a page for all other clusters: first free space on the pages of the entry's
// groups, then new groups.
func (l *layout) assignRest() {
	for entry, c := range l.grouping.Groups {
		var left []int
		for _, i := range c.Choices {
			if !l.kept[i] {
				left = append(left, i)
			}
		}
		l.sortByName(left)
		for _, g := range l.byEntry[entry] {
			left = l.fill(g, left)
		}
		for len(left) > 0 {
			left = l.fill(l.newGroup(entry), left)
		}
	}
	if len(l.groups) == 0 { // nothing selected: publish one empty page
		g := l.newGroup(len(l.grouping.Groups))
		g.pages = append(g.pages, &draft{targetGroup: g, label: label{index: unseen}})
	}
}

// newGroup adds a group to an entry; the one after the last entry is for an empty page.
func (l *layout) newGroup(entry int) *group {
	g := &group{entry: entry, label: label{index: noIndex}}
	if entry < len(l.grouping.Groups) {
		g.name = l.grouping.Groups[entry].GroupName
	}
	l.groups = append(l.groups, g)
	l.byEntry[entry] = append(l.byEntry[entry], g)
	return g
}

// fill puts as many of the clusters into the group as fit and returns the others.
func (l *layout) fill(g *group, left []int) []int {
	put := func(page *draft) {
		n := min(len(left), v1alpha1.MaxDecisionsPerPage-len(page.kept)-len(page.added), l.grouping.Length-g.size)
		page.added = append(page.added, left[:n]...)
		g.size += n
		left = left[n:]
	}
	for _, page := range g.pages {
		put(page)
	}
	for len(left) > 0 && g.size < l.grouping.Length {
		page := &draft{targetGroup: g, label: label{index: unseen}}
		g.pages = append(g.pages, page)
		put(page)
	}
	return left
}

// assignIndexes gives the groups dense indexes from 0, in the order of the entries, because readers
// roll out by index. Of an entry's groups, those that have one of its indexes keep it.
func (l *layout) assignIndexes() {
	ordered := make([]*group, len(l.groups))
	first := 0
	for _, groups := range l.byEntry {
		next := first + len(groups)
		slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(uint(a.index), uint(b.index)) })
		var rest []*group
		for _, g := range groups {
			if g.index >= first && g.index < next && ordered[g.index] == nil {
				ordered[g.index] = g
			} else {
				rest = append(rest, g)
			}
		}
		for i := first; i < next; i++ {
			if ordered[i] == nil {
				ordered[i], rest = rest[0], rest[1:]
			}
			ordered[i].index = i
		}
		first = next
	}
	l.groups = ordered
}

func (l *layout) sortByName(clusters []int) {
	slices.SortFunc(clusters, func(a, b int) int { return strings.Compare(l.grouping.Choices[a].Name, l.grouping.Choices[b].Name) })
}

// inPageOrder compares pages by number; pages with other names come last, by name.
func inPageOrder(a, b *draft) int {
	if c := cmp.Compare(uint(a.number-1), uint(b.number-1)); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}
