package decisions

import (
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Plan is what is to be published for one Placement, and the writes that lead there.
//
// Carried out in order, the writes keep these promises to a reader who selects the pages by label,
// between any two of them: a cluster of the old and of the new answer is never missing, no page
// lists more than v1alpha1.MaxDecisionsPerPage, every page is whole, and group indexes are dense
// from 0 if they were before. Stopping anywhere is safe: NewPlan goes on from whatever it finds.
type Plan struct {
	// Pages are the pages to be, by group index, then page number.
	Pages []Page
	// Writes are what it takes, in order. None when what is published is right.
	Writes []Write
	// Foreign are the names of pages that carry the Placement's label and that something else
	// controls, sorted. They are left alone; as a reader cannot rely on them, the Placement's own
	// pages hold the whole answer nevertheless.
	Foreign []string
	// Changed reports that another set of clusters is selected than was published, or that nothing
	// was published. Events speak only of such plans.
	Changed bool
	// ScoresHeld reports that pages are out of date in order or scores only, and left so because of
	// Answer.HoldScores.
	ScoresHeld bool
	// ScoresWritten reports that some write brings new order or scores to a page whose clusters
	// stay the same.
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

// Write is one request, or on a hub where pages have a status subresource, the few that stand for
// it.
type Write struct {
	Op Op
	// Page is the whole content after this write; for Delete, the page to go. A plan may write a
	// page twice, or delete one that it created: before each write set Page.Current to what the one
	// before returned.
	Page Page
	// DecisionsChanged reports that the page lists other clusters than before this write. Otherwise
	// only labels, owners, order or scores change, which no event speaks of.
	DecisionsChanged bool
}

// NewPlan compares what is published with the answer.
//
// The published pages are those with the Placement's label, and those it controls that have no such
// label (unfinished ones, which are completed or deleted); others are ignored. A page that is being
// deleted counts as gone. The function taken reports whether a page name is in use by an object
// that is not among them; nil means that none is.
func NewPlan(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision, taken func(name string) bool, a Answer) Plan {
	var p Plan
	var drafts []*draft
	names := make(map[string]bool, len(published))
	for _, pd := range published {
		names[pd.Name] = true
		switch pl.StandingOf(pd) {
		case v1alpha1.PageOwn:
			drafts = append(drafts, &draft{
				name: pd.Name, number: numberOf(pd.Name, pl.Name), current: pd, visible: true,
				group: pd.Labels[v1alpha1.DecisionGroupNameLabel], index: indexOf(pd.Labels[v1alpha1.DecisionGroupIndexLabel]),
				have: pd.Status.Decisions,
			})
		case v1alpha1.PageUnfinished:
			drafts = append(drafts, &draft{name: pd.Name, number: numberOf(pd.Name, pl.Name), current: pd, index: unseen})
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
			p.Pages = append(p.Pages, l.final(page))
		}
	}
	p.Writes = newSequence(l).writes
	return p
}

// changed reports whether the entries on the published pages differ from the decision.
func changed(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision, l *layout) bool {
	pages, entries, distinct := 0, 0, 0
	elsewhere := map[int]bool{} // on no page of ours
	for _, pd := range published {
		standing := pl.StandingOf(pd)
		if standing == v1alpha1.PageUnrelated || standing == v1alpha1.PageUnfinished {
			continue
		}
		pages++
		entries += len(pd.Status.Decisions)
		if standing == v1alpha1.PageOwn {
			continue
		}
		for j := range pd.Status.Decisions {
			if i, ok := l.ids[pd.Status.Decisions[j].ClusterName]; ok && l.seen[i] == 0 {
				elsewhere[i] = true
			}
		}
	}
	for _, n := range l.seen {
		if n > 0 {
			distinct++
		}
	}
	distinct += len(elsewhere)
	return pages == 0 || entries != len(l.seen) || distinct != len(l.seen)
}

// write fills in what a page is to say.
func (p *Plan) write(l *layout, d *draft) {
	clusters := d.kept
	if len(d.added) > 0 {
		clusters = slices.Concat(d.kept, d.added)
	}
	clusters = l.inOrder(clusters)
	same := len(d.added) == 0 && d.visible && d.have != nil && len(clusters) == len(d.have)
	if same && l.upToDate(clusters, d.have) {
		d.want = d.have
		return
	}
	if same && l.answer.SortByScore {
		if l.answer.HoldScores && !slices.ContainsFunc(d.have, func(e v1alpha1.ClusterDecision) bool { return e.Score == nil }) {
			p.ScoresHeld = true
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

// inOrder sorts clusters as a page lists them.
func (l *layout) inOrder(clusters []int) []int {
	if l.answer.SortByScore {
		if !slices.IsSorted(clusters) {
			clusters = slices.Clone(clusters)
			slices.Sort(clusters)
		}
		return clusters
	}
	for k := 1; k < len(clusters); k++ {
		if l.answer.Choices[clusters[k-1]].Name > l.answer.Choices[clusters[k]].Name {
			clusters = slices.Clone(clusters)
			l.sortByName(clusters)
			break
		}
	}
	return clusters
}

func (l *layout) upToDate(clusters []int, have []v1alpha1.ClusterDecision) bool {
	for k, i := range clusters {
		c := &l.answer.Choices[i]
		if have[k].ClusterName != c.Name || have[k].Reason != "" || (have[k].Score != nil) != l.answer.SortByScore ||
			have[k].Score != nil && *have[k].Score != c.Score {
			return false
		}
	}
	return true
}

func (l *layout) entry(i int) v1alpha1.ClusterDecision {
	e := v1alpha1.ClusterDecision{ClusterName: l.answer.Choices[i].Name}
	if l.answer.SortByScore {
		score := l.answer.Choices[i].Score
		e.Score = &score
	}
	return e
}

func (l *layout) final(d *draft) Page {
	return Page{Name: d.name, GroupName: d.home.name, GroupIndex: d.home.index, Decisions: d.want, Queue: l.answer.Queue, Revision: l.answer.Revision, Current: d.current}
}

// GroupStatus is the plan's groups as the Placement's status lists them.
func (p Plan) GroupStatus() []v1alpha1.DecisionGroupStatus {
	var out []v1alpha1.DecisionGroupStatus
	for _, page := range p.Pages {
		if page.GroupIndex == len(out) {
			out = append(out, v1alpha1.DecisionGroupStatus{DecisionGroupIndex: int32(page.GroupIndex), DecisionGroupName: page.GroupName})
		}
		g := &out[page.GroupIndex]
		g.Decisions = append(g.Decisions, page.Name)
		g.ClusterCount += int32(len(page.Decisions))
	}
	return out
}

// Selected is the names of the clusters on the pages, in page order.
func (p Plan) Selected() []string {
	var out []string
	for _, page := range p.Pages {
		for i := range page.Decisions {
			out = append(out, page.Decisions[i].ClusterName)
		}
	}
	return out
}
