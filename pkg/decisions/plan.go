package decisions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Plan lists the pages to publish for one Placement, and the writes that lead there.
//
// Between any two writes, executed in order, this holds for readers that select pages by label: a
// cluster of both the old and the new decision is never missing, no page lists more than
// v1alpha1.MaxDecisionsPerPage clusters, and group indexes are dense from 0, each with one name, if
// they were before. Execution may stop at any point: NewPlan continues from what is published then.
type Plan struct {
	// Pages are the resulting pages, by group index, then page number.
	Pages []Page
	// Writes are the necessary writes, in order; none if the published pages are correct.
	Writes []Write
	// Foreign are the names of pages with the Placement's label that another object controls,
	// sorted. They are not changed, and the Placement's own pages list all its clusters regardless
	// of them.
	Foreign []string
	// Changed is true if the published clusters differ from the selected ones or nothing was
	// published. Only then events are sent.
	Changed bool
	// ScoresDeferred is true if DeferScores left pages with an outdated order or scores.
	ScoresDeferred bool
	// ScoresWritten is true if a write changes only the order or the scores of a page.
	ScoresWritten bool
}

// Op is the kind of a write.
type Op string

// The kinds of write.
const (
	Create Op = "Create"
	Update Op = "Update"
	Delete Op = "Delete"
)

// Write is one request, or several on a hub where PlacementDecision has a status subresource.
type Write struct {
	Op Op
	// Page is the content after this write; for Delete, the page to delete. A plan may write a page
	// twice, or delete a page that it created: before each write set Page.Current to the result of
	// the previous one.
	Page Page
	// DecisionsChanged is true if the page lists other clusters than before. Otherwise only labels,
	// owners, order or scores change, and no event is sent.
	DecisionsChanged bool
}

// NewPlan compares the published pages with a Grouping.
//
// published may also have pages without the label that the Placement controls (unfinished ones,
// which are completed or deleted). Other pages that do not count as published are ignored. taken
// reports whether another object has a page name; nil means that none has.
func NewPlan(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision, taken func(name string) bool, a Grouping) Plan {
	var p Plan
	var drafts []*draft
	names := make(map[string]bool, len(published))
	for _, pd := range published {
		names[pd.Name] = true
		switch pl.RelationOf(pd) {
		case v1alpha1.PageOwn:
			have := pd.Status.Decisions
			if have == nil && len(a.Choices) == 0 { // Open Cluster Management publishes an empty decision without status
				have = []v1alpha1.ClusterDecision{}
			}
			drafts = append(drafts, &draft{
				name: pd.Name, number: numberOf(pd.Name, pl.Name), current: pd, visible: true,
				label: label{name: pd.Labels[v1alpha1.DecisionGroupNameLabel], index: indexOf(pd.Labels[v1alpha1.DecisionGroupIndexLabel])},
				have:  have,
			})
		case v1alpha1.PageUnfinished:
			drafts = append(drafts, &draft{name: pd.Name, number: numberOf(pd.Name, pl.Name), current: pd, label: label{index: unseen}})
		case v1alpha1.PageForeign:
			p.Foreign = append(p.Foreign, pd.Name)
		}
	}
	slices.Sort(p.Foreign)
	l := newLayout(pl, drafts, names, taken, a)
	p.Changed = changed(pl, published, l)
	for _, g := range l.groups {
		for _, page := range g.pages {
			p.write(l, page)
			p.Pages = append(p.Pages, l.finalPage(page))
		}
	}
	p.Writes = newSequence(l).writes
	return p
}

// changed reports whether the entries on the published pages differ from the decision.
func changed(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision, l *layout) bool {
	first, entries, distinct := true, 0, 0
	for _, pd := range pl.PublishedPages(published) {
		first = false
		entries += len(pd.Status.Decisions)
	}
	for _, n := range l.seen {
		if n > 0 {
			distinct++
		}
	}
	return first || entries != len(l.seen) || distinct != len(l.seen)
}

// write sets the wanted entries of a page.
func (p *Plan) write(l *layout, d *draft) {
	clusters := slices.Concat(d.kept, d.added)
	if l.grouping.SortByScore {
		slices.Sort(clusters)
	} else {
		l.sortByName(clusters)
	}
	same := len(d.added) == 0 && d.visible && d.have != nil && len(clusters) == len(d.have)
	if same && l.upToDate(clusters, d.have) {
		d.want = d.have
		return
	}
	if same && l.grouping.SortByScore {
		if l.grouping.DeferScores && !slices.ContainsFunc(d.have, func(e v1alpha1.ClusterDecision) bool { return e.Score == nil }) {
			p.ScoresDeferred = true
			d.want = d.have
			return
		}
		p.ScoresWritten = true
	}
	d.want = make([]v1alpha1.ClusterDecision, len(clusters))
	for k, i := range clusters {
		d.want[k] = l.entry(i)
	}
}

func (l *layout) upToDate(clusters []int, have []v1alpha1.ClusterDecision) bool {
	for k, i := range clusters {
		c := &l.grouping.Choices[i]
		if have[k].ClusterName != c.Name || have[k].Reason != "" || (have[k].Score != nil) != l.grouping.SortByScore ||
			have[k].Score != nil && *have[k].Score != c.Score {
			return false
		}
	}
	return true
}

func (l *layout) entry(i int) v1alpha1.ClusterDecision {
	e := v1alpha1.ClusterDecision{ClusterName: l.grouping.Choices[i].Name}
	if l.grouping.SortByScore {
		score := l.grouping.Choices[i].Score
		e.Score = &score
	}
	return e
}

func (l *layout) finalPage(d *draft) Page {
	return Page{Name: d.name, GroupName: d.targetGroup.name, GroupIndex: d.targetGroup.index, Decisions: d.want, Queue: l.grouping.Queue, Revision: l.grouping.Revision, Current: d.current}
}

// GroupStatus returns the plan's groups for the Placement's status.
func (p Plan) GroupStatus() []v1alpha1.DecisionGroupStatus {
	var out []v1alpha1.DecisionGroupStatus
	for _, page := range p.Pages {
		if n := len(out); n == 0 || int(out[n-1].DecisionGroupIndex) != page.GroupIndex {
			out = append(out, v1alpha1.DecisionGroupStatus{DecisionGroupIndex: int32(page.GroupIndex), DecisionGroupName: page.GroupName})
		}
		g := &out[len(out)-1]
		g.Decisions = append(g.Decisions, page.Name)
		g.ClusterCount += int32(len(page.Decisions))
	}
	return out
}

// PublishedStatus is GroupStatus for the pages that are published, if an attempt plans none.
func PublishedStatus(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision) []v1alpha1.DecisionGroupStatus {
	var p Plan
	for _, pd := range pl.PublishedPages(published) {
		if index := indexOf(pd.Labels[v1alpha1.DecisionGroupIndexLabel]); index != noIndex {
			p.Pages = append(p.Pages, Page{Name: pd.Name, GroupName: pd.Labels[v1alpha1.DecisionGroupNameLabel], GroupIndex: index, Decisions: pd.Status.Decisions})
		}
	}
	slices.SortFunc(p.Pages, func(a, b Page) int {
		return cmp.Or(cmp.Compare(a.GroupIndex, b.GroupIndex), cmp.Compare(uint(numberOf(a.Name, pl.Name)-1), uint(numberOf(b.Name, pl.Name)-1)), strings.Compare(a.Name, b.Name))
	})
	return p.GroupStatus()
}

// Selected returns the names of the clusters on the pages, in page order.
func (p Plan) Selected() []string {
	var out []string
	for _, page := range p.Pages {
		for i := range page.Decisions {
			out = append(out, page.Decisions[i].ClusterName)
		}
	}
	return out
}
