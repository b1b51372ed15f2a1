package decisions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// draft is one page during planning: what is published and what will be. Clusters of the Grouping
// are indexes into its Choices.
type draft struct {
	name    string
	number  int // n of <placement>-decision-<n>; 0 for a page named otherwise
	current *v1alpha1.PlacementDecision
	visible bool   // published: readers selecting by label see it
	group   string // published group name
	index   int    // published group index, or noIndex

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
	name  string
	index int // the published index if there is one; after assignIndexes the new one
	pages []*draft
	size  int
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
	byName    map[string][]*group
	wanted    []string // by cluster: its group name
	kept      []bool   // by cluster: whether a page that lists it keeps it
	seen      []int    // by cluster: the number of published pages that list it
	taken     map[string]bool
	inUse     func(string) bool
}

func newLayout(pl *v1alpha1.Placement, pages []*draft, taken map[string]bool, inUse func(string) bool, a Grouping) *layout {
	n := len(a.Choices)
	l := &layout{
		placement: pl, grouping: a, drafts: pages, taken: taken, inUse: inUse, byName: map[string][]*group{},
		wanted: make([]string, n), kept: make([]bool, n), seen: make([]int, n),
	}
	for _, c := range a.Groups {
		for _, i := range c.Choices {
			l.wanted[i] = c.GroupName
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

// keepClusters keeps each cluster on its first published page with the right group name, as far as
// the lengths allow.
func (l *layout) keepClusters() {
	type key struct {
		name  string
		index int
		page  string // only with onePage, because two pages may have the same index
	}
	groups := map[key]*group{}
	for _, page := range l.drafts {
		if !page.visible || page.index == noIndex {
			continue
		}
		at := key{name: page.group, index: page.index}
		if l.grouping.onePage {
			at.page = page.name
		}
		g := groups[at]
		for _, i := range page.listed {
			if l.kept[i] || l.wanted[i] != page.group || len(page.kept) == v1alpha1.MaxDecisionsPerPage ||
				g != nil && g.size == l.grouping.Length {
				continue
			}
			if g == nil {
				g = &group{name: page.group, index: page.index}
				groups[at] = g
				l.groups = append(l.groups, g)
			}
			l.keepOnPage(i, page, g)
		}
	}
	slices.SortStableFunc(l.groups, func(a, b *group) int { return cmp.Compare(a.index, b.index) })
	for _, g := range l.groups {
		l.byName[g.name] = append(l.byName[g.name], g)
	}
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
	g.size++
}

// relabelPages gives pages without a group (renamed, shortened or wrongly labelled) a new one if
// they list clusters that no page keeps. Writing a label is cheaper than moving 100 clusters.
func (l *layout) relabelPages() {
	for _, page := range l.drafts {
		if !page.visible || page.targetGroup != nil {
			continue
		}
		name, stays := l.bestGroup(page)
		if len(stays) == 0 {
			continue
		}
		g := l.groupWithSpace(name, len(stays))
		if g == nil {
			g = &group{name: name, index: page.index}
			l.groups = append(l.groups, g)
			l.byName[name] = append(l.byName[name], g)
		}
		for _, i := range stays {
			l.keepOnPage(i, page, g)
		}
		slices.SortFunc(g.pages, inPageOrder)
	}
}

// bestGroup returns the group name to which most of a page's clusters that no page keeps belong,
// and these clusters. It prefers the page's current name; among equals the first in Groups wins.
func (l *layout) bestGroup(page *draft) (string, []int) {
	byName := map[string][]int{}
	for _, i := range page.listed {
		if !l.kept[i] {
			byName[l.wanted[i]] = append(byName[l.wanted[i]], i)
		}
	}
	name, most := page.group, byName[page.group]
	if len(most) == 0 {
		for _, c := range l.grouping.Groups {
			if got := byName[c.GroupName]; len(got) > len(most) {
				name, most = c.GroupName, got
			}
		}
	}
	return name, most[:min(len(most), v1alpha1.MaxDecisionsPerPage, l.grouping.Length)]
}

func (l *layout) groupWithSpace(name string, n int) *group {
	if l.grouping.onePage {
		return nil
	}
	for _, g := range l.byName[name] {
		if g.size+n <= l.grouping.Length {
			return g
		}
	}
	return nil
}

// assignRest finds a page for all other clusters: first free space on the pages of existing groups,
// then new groups. If a group name is new, each of its Groups entries is split separately.
func (l *layout) assignRest() {
	known := map[string]bool{}
	for name := range l.byName {
		known[name] = true
	}
	for _, c := range l.grouping.Groups {
		var left []int
		for _, i := range c.Choices {
			if !l.kept[i] {
				left = append(left, i)
			}
		}
		l.sortByName(left)
		if known[c.GroupName] {
			for _, g := range l.byName[c.GroupName] {
				left = l.fill(g, left)
			}
		}
		for len(left) > 0 {
			left = l.fill(l.newGroup(c.GroupName), left)
		}
	}
	if len(l.groups) == 0 { // nothing selected: publish one empty page
		g := l.newGroup("")
		g.pages = append(g.pages, &draft{targetGroup: g, index: unseen})
	}
}

func (l *layout) newGroup(name string) *group {
	g := &group{name: name, index: noIndex}
	l.groups = append(l.groups, g)
	l.byName[name] = append(l.byName[name], g)
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
		page := &draft{targetGroup: g, index: unseen}
		g.pages = append(g.pages, page)
		put(page)
	}
	return left
}

// assignIndexes gives the groups dense indexes from 0. Groups keep their index if possible; groups
// with the highest indexes and new groups fill the gaps.
func (l *layout) assignIndexes() {
	ordered := make([]*group, len(l.groups))
	var rest []*group
	for _, g := range l.groups {
		if uint(g.index) < uint(len(ordered)) && ordered[g.index] == nil {
			ordered[g.index] = g
		} else {
			rest = append(rest, g)
		}
	}
	for i := range ordered {
		if ordered[i] == nil {
			ordered[i], rest = rest[0], rest[1:]
		}
		ordered[i].index = i
	}
	l.groups = ordered
}

// assignPageNames turns new pages into published pages that are free, and names the others.
func (l *layout) assignPageNames() {
	var fresh, names []*draft
	for _, g := range l.groups {
		for _, page := range g.pages {
			if page.name == "" {
				fresh = append(fresh, page)
			}
		}
	}
	for _, page := range l.drafts {
		if page.targetGroup == nil && l.isFree(page) {
			names = append(names, page)
		}
	}
	for n := 0; len(names) < len(fresh); {
		var page draft
		page, n = l.newDraft(n)
		names = append(names, &page)
	}
	slices.SortFunc(names, inPageOrder)
	for k, page := range fresh {
		where := names[k]
		where.targetGroup, where.added = page.targetGroup, page.added
		pages := page.targetGroup.pages
		pages[slices.Index(pages, page)] = where
		if where.current == nil {
			l.drafts = append(l.drafts, where)
		}
	}
	for _, g := range l.groups {
		slices.SortFunc(g.pages, inPageOrder)
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
			return draft{name: name, number: n, index: unseen}, n
		}
	}
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
