package decisions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// draft is one page while a plan is made: what is published, and what is to be. Clusters of the
// answer are known by their index in Answer.Choices.
type draft struct {
	name    string
	number  int // n of <placement>-decision-<n>; 0 for a page named otherwise
	current *v1alpha1.PlacementDecision
	visible bool   // published: readers selecting by label see it
	group   string // published group name
	index   int    // published group index, or noIndex

	listed []int // clusters of the answer that the published page lists
	kept   []int // those of them that stay
	added  []int // those that come
	home   *group

	have    []v1alpha1.ClusterDecision // what readers see, as the plan goes on
	want    []v1alpha1.ClusterDecision // what they are to see
	going   []removal                  // of have, what is not wanted
	dressed bool                       // labels, queue and owner are as they are to be
}

// group is one decision group as it is to be.
type group struct {
	name  string
	index int // published index when there is one, and finally the index to be
	pages []*draft
	size  int
}

const (
	noIndex = -1 // a published page whose group index is missing or no index
	unseen  = -2 // a page no reader sees
)

// layout says where each cluster goes.
type layout struct {
	placement *v1alpha1.Placement
	answer    Answer
	ids       map[string]int
	drafts    []*draft // published and unfinished pages, in page order; then the new ones
	groups    []*group
	byName    map[string][]*group
	wanted    []string // by cluster: the name of the group that claims it
	home      []*draft // by cluster: its page to be
	kept      []bool   // by cluster: its page to be lists it already
	seen      []int    // by cluster: how many published pages list it
	taken     map[string]bool
	inUse     func(string) bool
}

func newLayout(pl *v1alpha1.Placement, pages []*draft, taken map[string]bool, inUse func(string) bool, a Answer) *layout {
	n := len(a.Choices)
	l := &layout{
		placement: pl, answer: a, drafts: pages, taken: taken, inUse: inUse, byName: map[string][]*group{},
		wanted: make([]string, n), home: make([]*draft, n), kept: make([]bool, n), seen: make([]int, n),
	}
	for _, c := range a.Claims {
		for _, i := range c.Choices {
			l.wanted[i] = c.GroupName
		}
	}
	slices.SortFunc(l.drafts, inPageOrder)
	l.list()
	l.keep()
	l.adopt()
	l.settle()
	l.number()
	l.place()
	return l
}

// list looks up the published clusters.
func (l *layout) list() {
	l.ids = make(map[string]int, len(l.answer.Choices))
	for i := range l.answer.Choices {
		l.ids[l.answer.Choices[i].Name] = i
	}
	last := make([]int, len(l.answer.Choices)) // the draft that listed the cluster last, from 1
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

// keep leaves every cluster on the first published page of the group name that claims it, as far as
// the lengths allow.
func (l *layout) keep() {
	type key struct {
		name  string
		index int
		page  string // when each is a group of its own, also where two have the same index
	}
	groups := map[key]*group{}
	for _, page := range l.drafts {
		if !page.visible || page.index == noIndex {
			continue
		}
		at := key{name: page.group, index: page.index}
		if l.answer.onePage {
			at.page = page.name
		}
		g := groups[at]
		for _, i := range page.listed {
			if l.home[i] != nil || l.wanted[i] != page.group || len(page.kept) == v1alpha1.MaxDecisionsPerPage {
				continue
			}
			if g == nil {
				g = &group{name: page.group, index: page.index}
				groups[at] = g
				l.groups = append(l.groups, g)
			}
			if g.size == l.answer.Length {
				break
			}
			l.stay(i, page, g)
		}
	}
	slices.SortStableFunc(l.groups, func(a, b *group) int { return cmp.Compare(a.index, b.index) })
	for _, g := range l.groups {
		l.byName[g.name] = append(l.byName[g.name], g)
	}
}

func (l *layout) stay(i int, page *draft, g *group) {
	if page.home == nil {
		page.home = g
		g.pages = append(g.pages, page)
	}
	if page.kept == nil {
		page.kept = make([]int, 0, len(page.listed))
	}
	page.kept = append(page.kept, i)
	l.home[i], l.kept[i] = page, true
	g.size++
}

// adopt relabels pages that lost their group (renamed, cut shorter, or labelled wrongly) but list
// clusters that need a place: writing a label is cheaper than moving a hundred clusters.
func (l *layout) adopt() {
	for _, page := range l.drafts {
		if !page.visible || page.home != nil {
			continue
		}
		name, stays := l.mostWanted(page)
		if len(stays) == 0 {
			continue
		}
		g := l.roomFor(name, len(stays))
		if g == nil {
			g = &group{name: name, index: page.index}
			l.groups = append(l.groups, g)
			l.byName[name] = append(l.byName[name], g)
		}
		for _, i := range stays {
			l.stay(i, page, g)
		}
		slices.SortFunc(g.pages, inPageOrder)
	}
}

// mostWanted is the group name that claims most of a page's clusters without a place, and these
// clusters: its own name if that claims any, otherwise the first to be claimed among equals.
func (l *layout) mostWanted(page *draft) (string, []int) {
	byName := map[string][]int{}
	for _, i := range page.listed {
		if l.home[i] == nil {
			byName[l.wanted[i]] = append(byName[l.wanted[i]], i)
		}
	}
	name, most := page.group, byName[page.group]
	if len(most) == 0 {
		for _, c := range l.answer.Claims {
			if got := byName[c.GroupName]; len(got) > len(most) {
				name, most = c.GroupName, got
			}
		}
	}
	return name, most[:min(len(most), v1alpha1.MaxDecisionsPerPage, l.answer.Length)]
}

func (l *layout) roomFor(name string, n int) *group {
	if l.answer.onePage {
		return nil
	}
	for _, g := range l.byName[name] {
		if g.size+n <= l.answer.Length {
			return g
		}
	}
	return nil
}

// settle finds a place for every cluster that has none: free places first, first page first, then
// new groups. Where a group name is new, each claim is cut by itself.
func (l *layout) settle() {
	known := map[string]bool{}
	for name := range l.byName {
		known[name] = true
	}
	for _, c := range l.answer.Claims {
		var left []int
		for _, i := range c.Choices {
			if l.home[i] == nil {
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
	if len(l.groups) == 0 { // nothing selected: one page says so
		g := l.newGroup("")
		g.pages = append(g.pages, &draft{home: g, index: unseen})
	}
}

func (l *layout) newGroup(name string) *group {
	g := &group{name: name, index: noIndex}
	l.groups = append(l.groups, g)
	l.byName[name] = append(l.byName[name], g)
	return g
}

// fill puts as many of the clusters into the group as it takes and returns the others.
func (l *layout) fill(g *group, left []int) []int {
	put := func(page *draft) {
		n := min(len(left), v1alpha1.MaxDecisionsPerPage-len(page.kept)-len(page.added), l.answer.Length-g.size)
		for _, i := range left[:n] {
			l.home[i] = page
		}
		page.added = append(page.added, left[:n]...)
		g.size += n
		left = left[n:]
	}
	for _, page := range g.pages {
		put(page)
	}
	for len(left) > 0 && g.size < l.answer.Length {
		page := &draft{home: g, index: unseen}
		g.pages = append(g.pages, page)
		put(page)
	}
	return left
}

// number gives the groups indexes dense from 0. A group keeps its index where it can; the others,
// those with the highest indexes and the new ones, fill the holes.
func (l *layout) number() {
	ordered := make([]*group, len(l.groups))
	var rest []*group
	for _, g := range l.groups {
		if g.index >= 0 && g.index < len(ordered) && ordered[g.index] == nil {
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

// place turns new pages into published pages that are free, and names the others.
func (l *layout) place() {
	var fresh, names []*draft
	for _, g := range l.groups {
		for _, page := range g.pages {
			if page.name == "" {
				fresh = append(fresh, page)
			}
		}
	}
	for _, page := range l.drafts {
		if page.home == nil && len(names) < len(fresh) && l.free(page) {
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
		where.home, where.added = page.home, page.added
		for _, i := range page.added {
			l.home[i] = where
		}
		pages := page.home.pages
		pages[slices.Index(pages, page)] = where
		if where.current == nil {
			l.drafts = append(l.drafts, where)
		}
	}
	for _, g := range l.groups {
		slices.SortFunc(g.pages, inPageOrder)
	}
}

// free reports whether all of a published page may go in the write that brings its new content: no
// cluster waits there for a place elsewhere.
func (l *layout) free(page *draft) bool {
	return !slices.ContainsFunc(page.listed, func(i int) bool { return !l.kept[i] })
}

// newDraft is a page under the first number after n that nobody uses.
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
	slices.SortFunc(clusters, func(a, b int) int { return strings.Compare(l.answer.Choices[a].Name, l.answer.Choices[b].Name) })
}

// inPageOrder sorts by number; pages named otherwise come last, by name.
func inPageOrder(a, b *draft) int {
	if c := cmp.Compare(uint(a.number-1), uint(b.number-1)); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// numberOf is the number in a page's name; 0 for a name that Berth would not give.
func numberOf(page, placement string) int {
	owner, number, ok := v1alpha1.NumberOfPage(page)
	if !ok || owner != placement {
		return 0
	}
	return number
}

// indexOf parses a number from 0 in the one way it is written, or says noIndex.
func indexOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && strconv.Itoa(n) == text {
		return n
	}
	return noIndex
}
