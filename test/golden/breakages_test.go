package golden

import (
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// breakages are ways to break a result. Each keeps some results right: wantCaught is a little less
// than the number that it breaks.
var breakages = map[string]struct {
	spoil      func(a *answer, e *evaluation)
	wantCaught int
}{
	"the reference's own answers": {func(a *answer, e *evaluation) { *a = e.want.answer }, 295},
	"always misconfigured": {func(a *answer, e *evaluation) {
		var published []string
		for _, p := range e.world.pages {
			if key := placementOf(e.want.Placement); p.Namespace == key.Namespace && p.Labels[v1alpha1.PlacementLabel] == key.Name {
				for _, d := range p.Status.Decisions {
					published = append(published, d.ClusterName)
				}
			}
		}
		slices.Sort(published)
		*a = answer{
			Decisions:  []page{{Name: placementOf(e.want.Placement).Name + "-decision-1", Clusters: slices.Compact(published)}},
			Conditions: []condition{{Type: "PlacementMisconfigured", Status: "True", Reason: "Misconfigured", Message: "x"}},
		}
	}, 995},
	"nothing at all":      {func(a *answer, _ *evaluation) { *a = answer{} }, 1055},
	"never left alone":    {func(a *answer, _ *evaluation) { a.Skipped = "" }, 18},
	"never misconfigured": {func(a *answer, _ *evaluation) { a.addCondition("PlacementMisconfigured", "False", "Succeedconfigured") }, 120},
	"always satisfied":    {func(a *answer, _ *evaluation) { a.addCondition("PlacementSatisfied", "True", "AllDecisionsScheduled") }, 490},
	"no messages":         {func(a *answer, _ *evaluation) { clearMessages(a) }, 1010},
	"a candidate too few": {func(a *answer, _ *evaluation) {
		a.AvailableClusters = a.AvailableClusters[min(1, len(a.AvailableClusters)):]
	}, 765},
	"taints forgotten":    {func(a *answer, _ *evaluation) { forgetTaints(a) }, 240},
	"scores off by one":   {func(a *answer, _ *evaluation) { addTo(a.Scores, 1) }, 635},
	"one part off by one": {func(a *answer, _ *evaluation) { addTo(a.PrioritizerScores["Balance"].Scores, 1) }, 520},
	"weights forgotten":   {func(a *answer, _ *evaluation) { forgetWeights(a) }, 430},
	"ranking upside down": {func(a *answer, _ *evaluation) { slices.Reverse(a.Ranking) }, 525},
	"one cluster too few": {func(a *answer, _ *evaluation) { dropFirst(a) }, 655},
	"another cluster":     {func(a *answer, _ *evaluation) { swapIn(a) }, 120},
	"a cluster twice":     {func(a *answer, _ *evaluation) { repeatFirst(a) }, 655},
	"the count forgotten": {func(a *answer, _ *evaluation) { a.NumberOfSelectedClusters = 0 }, 620},
	"pages upside down":   {func(a *answer, _ *evaluation) { eachPage(a, func(p *page) { slices.Reverse(p.Clusters) }) }, 445},
	"pages named at will": {func(a *answer, _ *evaluation) { eachPage(a, func(p *page) { p.Name += "x" }) }, 915},
	"pages without groups": {func(a *answer, _ *evaluation) {
		eachPage(a, func(p *page) { p.Labels[v1alpha1.DecisionGroupNameLabel] = "" })
	}, 65},
	"indexes from 1": {func(a *answer, _ *evaluation) {
		eachPage(a, func(p *page) { p.Labels[v1alpha1.DecisionGroupIndexLabel] += "1" })
	}, 915},
	"group status empty": {func(a *answer, _ *evaluation) { a.GroupStatus = nil }, 915},
	"no events":          {func(a *answer, _ *evaluation) { a.Events = nil }, 705},
	"events every time": {func(a *answer, e *evaluation) {
		if len(a.Events) == 0 {
			a.Events = e.want.Events
		}
	}, 4},
	"scores listed twice": {func(a *answer, _ *evaluation) { a.Events = append(a.Events, a.Events...) }, 735},
	"notes cut":           {func(a *answer, _ *evaluation) { cutNotes(a) }, 575},
	"no timer":            {func(a *answer, _ *evaluation) { a.RequeueAfterSeconds = nil }, 70},
	"the reference's timer": {func(a *answer, e *evaluation) {
		a.RequeueAfterSeconds = e.want.RequeueAfterSeconds
	}, 65},
}

func (a *answer) addCondition(kind, status, reason string) {
	for i := range a.Conditions {
		if a.Conditions[i].Type == kind {
			a.Conditions[i].Status, a.Conditions[i].Reason = status, reason
		}
	}
}

func clearMessages(a *answer) {
	for i := range a.Conditions {
		a.Conditions[i].Message = ""
	}
}

func forgetTaints(a *answer) {
	if len(a.FilterResults) > 1 {
		a.FilterResults[1].Clusters = a.FilterResults[0].Clusters
	}
}

func addTo(scores map[string]int64, n int64) {
	for name := range scores {
		scores[name] += n
	}
}

func forgetWeights(a *answer) {
	for name, p := range a.PrioritizerScores {
		a.PrioritizerScores[name] = part{Weight: 1, Scores: p.Scores}
	}
}

func eachPage(a *answer, change func(*page)) {
	for i := range a.Decisions {
		change(&a.Decisions[i])
	}
}

func dropFirst(a *answer) {
	eachPage(a, func(p *page) { p.Clusters = p.Clusters[min(1, len(p.Clusters)):] })
	a.NumberOfSelectedClusters = len(a.clusters())
}

// swapIn replaces the first cluster by the worst one.
func swapIn(a *answer) {
	chosen := setOf(a.clusters())
	if len(a.Ranking) == 0 || chosen[a.Ranking[len(a.Ranking)-1]] || len(a.Decisions) == 0 || len(a.Decisions[0].Clusters) == 0 {
		return
	}
	a.Decisions[0].Clusters[0] = a.Ranking[len(a.Ranking)-1]
	slices.Sort(a.Decisions[0].Clusters)
}

func repeatFirst(a *answer) {
	eachPage(a, func(p *page) {
		p.Clusters = append(p.Clusters[:min(1, len(p.Clusters)):min(1, len(p.Clusters))], p.Clusters...)
	})
}

func cutNotes(a *answer) {
	for i := range a.Events {
		a.Events[i].Note = a.Events[i].Note[:len(a.Events[i].Note)/2]
	}
}
