package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// situation is what the causes of TestRealCause have in common: c1 and c2 are in eu, c3 is in us
// and has no zone, c4 is tainted.
type situation struct {
	placement fixture.PlacementBuilder
	groups    []berthv1alpha1.SelectionGroup
	limit     *int
	// published are the clusters of revision 1.
	published []string
	pinned    bool
	// held is true if a policy demands approval.
	held bool
	want string
}

func (s *situation) decide(t *testing.T) *scheduler.Attempt {
	t.Helper()
	if s.pinned {
		s.placement = s.placement.Annotation(berthv1alpha1.PinnedRevisionAnnotation, "1")
	}
	inv := fleet(s.placement, inRegion("c1", "eu").Label("zone", "a"), inRegion("c2", "eu").Label("zone", "a"), inRegion("c3", "us"),
		inRegion("c4", "us").Label("zone", "b").TaintAt("t", "", v1alpha1.TaintEffectNoSelect, fixture.At(-20)))
	if s.groups != nil {
		inv.Update(policyFor("p", selectionSpec{Groups: s.groups}))
	}
	if s.held {
		inv.Update(fixture.ApprovalPolicy("ns", "approve"))
	}
	if s.published != nil {
		inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists(s.published...).Obj())
		record := changes.NewRecord(s.placement.Obj(), 0, 1, changes.NewChange(nil, s.published))
		record.Status.Phase = berthv1alpha1.PhasePublished
		inv.Update(record)
	}
	snapshot := inv.Snapshot(key, fixture.Now, nil)
	if s.limit != nil {
		snapshot.Limit, snapshot.Queue = *s.limit, &framework.QueueAdmission{Admitted: true, Limit: *s.limit, LimitBy: "root.q clusters"}
	}
	return newScheduler(t).Decide(context.Background(), snapshot)
}

// TestRealCause: each cause, with nothing, some, enough and more selected or published.
func TestRealCause(t *testing.T) {
	const (
		zone     = "spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)"
		excluded = ": of 4 candidates 1 excluded by TaintToleration"
		none     = "False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate: of 4 candidates 4 excluded by Predicate"
		all      = "True AllDecisionsScheduled: All cluster decisions scheduled"
	)
	spread := func() fixture.PlacementBuilder { return ask().Spread("zone", 1, v1alpha1.DoNotSchedule) }
	bounds := func(region string, least, most int32) berthv1alpha1.SelectionGroup {
		return berthv1alpha1.SelectionGroup{Name: region, ClusterSelector: byRegion(region), Min: &least, Max: &most}
	}
	groups := func(all ...berthv1alpha1.SelectionGroup) []berthv1alpha1.SelectionGroup { return all }
	nothing := fixture.MatchLabel("region", "ap")
	for name, s := range map[string]situation{
		"enough":                          {placement: ask().Number(2), want: all},
		"all that qualify":                {placement: ask(), want: all},
		"none wanted, none published":     {placement: ask().Number(0), want: all},
		"none wanted, none qualify":       {placement: ask().Number(0).Predicate(nothing), want: all},
		"none wanted, group minima":       {placement: ask().Number(0), groups: groups(bounds("eu", 0, 2)), want: all},
		"scaled to zero, held":            {placement: ask().Number(0), published: []string{"c1", "c2"}, held: true, want: "False DecisionPending: Clusters published: 2, wanted: 0, awaited: the removal of 2; see condition DecisionPending"},
		"scaled to zero":                  {placement: ask().Number(0), published: []string{"c1", "c2"}, want: all},
		"more than wanted, held":          {placement: ask().Number(1), published: []string{"c1", "c2", "c3"}, held: true, want: "False DecisionPending: Clusters published: 3, wanted: 1, awaited: the removal of 2; see condition DecisionPending"},
		"the filters leave none":          {placement: ask().Predicate(nothing), want: none},
		"the filters leave none of three": {placement: ask().Number(3).Predicate(nothing), want: none},
		"the filters leave some":          {placement: ask().Number(4), want: "False NotAllDecisionsScheduled: 1 cluster decisions unscheduled" + excluded},
		"the filters leave none of those published": {placement: ask().Number(3).Predicate(nothing), published: []string{"c1"}, held: true,
			want: "False DecisionPending: Clusters published: 1, wanted: 3, no longer qualified: 1; see condition DecisionPending. " +
				"After the change: No ManagedCluster matches any of the cluster predicate: of 4 candidates 4 excluded by Predicate"},
		"a quota of none":                       {placement: ask().Number(2), limit: new(0), want: "False NotAllDecisionsScheduled: 2 cluster decisions unscheduled by quota: root.q clusters" + excluded},
		"a quota of some":                       {placement: ask().Number(2), limit: new(1), want: "False NotAllDecisionsScheduled: 1 cluster decisions unscheduled by quota: root.q clusters" + excluded},
		"a quota and no cluster that qualifies": {placement: ask().Number(2).Predicate(nothing), limit: new(0), want: none},
		"spread, some": {placement: spread().Predicate(fixture.MatchLabel("zone", "a")).Toleration("t", v1alpha1.TolerationOpExists, "", "").Number(4),
			want: "False NotAllDecisionsScheduled: 2 cluster decisions unscheduled: of 4 candidates 2 excluded by Predicate"},
		"a key that some lack": {placement: spread().Number(3), want: "False SpreadUnsatisfiable: 1 cluster decisions unscheduled by " + zone + "; 1 cluster lacks the label zone" + excluded},
		"a key that all lack": {placement: ask().Spread("rack", 1, v1alpha1.DoNotSchedule).Number(3),
			want: "False SpreadUnsatisfiable: 3 cluster decisions unscheduled by spec.spreadPolicy.spreadConstraints[0] (Label rack, maxSkew 1); 3 clusters lack the label rack" + excluded},
		"a skew": {placement: ask().Spread("region", 1, v1alpha1.DoNotSchedule).Toleration("t", v1alpha1.TolerationOpExists, "", "").Predicate(fixture.MatchLabel("zone", "a"), fixture.MatchLabel("region", "us")),
			want: none},
		"a minimum, none":     {placement: ask().Number(3).Predicate(nothing), groups: groups(bounds("eu", 1, 2)), want: "False GroupUnsatisfiable: group eu has 0 of at least 1 clusters: of 4 candidates 4 excluded by Predicate"},
		"a minimum, some":     {placement: ask().Number(3), groups: groups(bounds("us", 2, 3)), want: "False GroupUnsatisfiable: group us has 1 of at least 2 clusters" + excluded},
		"a minimum, a quota":  {placement: ask().Number(2), groups: groups(bounds("eu", 2, 2)), limit: new(1), want: "False GroupUnsatisfiable: group eu has 1 of at least 2 clusters; 1 cluster decisions unscheduled by quota: root.q clusters" + excluded},
		"a maximum, none":     {placement: ask().Number(3), groups: groups(bounds("eu", 0, 0), bounds("us", 0, 0)), want: "False GroupUnsatisfiable: group eu has its maximum of 0, group us has its maximum of 0; 3 cluster decisions unscheduled" + excluded},
		"a maximum, of all":   {placement: ask(), groups: groups(bounds("eu", 0, 0), bounds("us", 0, 0)), want: "False GroupUnsatisfiable: group eu has its maximum of 0, group us has its maximum of 0" + excluded},
		"a maximum, some":     {placement: ask().Number(3), groups: groups(bounds("eu", 0, 1)), want: "False GroupUnsatisfiable: group eu has its maximum of 1; 1 cluster decisions unscheduled" + excluded},
		"a maximum, enough":   {placement: ask().Number(2), groups: groups(bounds("eu", 0, 1)), want: all},
		"a maximum, a quota":  {placement: ask().Number(3), groups: groups(bounds("eu", 0, 1)), limit: new(1), want: "False NotAllDecisionsScheduled: 2 cluster decisions unscheduled by quota: root.q clusters" + excluded},
		"a spread, a minimum": {placement: spread().Number(3), groups: groups(bounds("us", 1, 3)), want: "False SpreadUnsatisfiable: 1 cluster decisions unscheduled by " + zone + "; 1 cluster lacks the label zone; group us has 0 of at least 1 clusters (under the spread, minima are filled in the order of the groups)" + excluded},
		"pinned, none left": {placement: ask().Number(2).Predicate(fixture.MatchLabel("region", "us")), published: []string{"c1", "c2"}, pinned: true,
			want: "False PinUnsatisfiable: Revision 1, to which the Placement is pinned, has no clusters left: of 2 none qualifies: of 4 candidates 2 excluded by Predicate, 1 by TaintToleration"},
		"pinned, the filters leave none": {placement: ask().Predicate(nothing), published: []string{"c1"}, pinned: true,
			want: "False PinUnsatisfiable: Revision 1, to which the Placement is pinned, has no clusters left: of 1 none qualifies: of 4 candidates 4 excluded by Predicate"},
		"pinned, some left":              {placement: ask().Number(2), published: []string{"c1", "c4"}, pinned: true, want: "False NotAllDecisionsScheduled: 1 cluster decisions unscheduled; pinned to revision 1" + excluded},
		"pinned, enough":                 {placement: ask().Number(2), published: []string{"c1", "c3"}, pinned: true, want: all},
		"pinned, scaled to zero":         {placement: ask().Number(0), published: []string{"c4"}, pinned: true, want: all},
		"pinned, a spread and a maximum": {placement: spread().Number(2), groups: groups(bounds("eu", 0, 1)), published: []string{"c1", "c2"}, pinned: true, want: all},
		"a toleration that ran out": {placement: ask().Number(4).Toleration("t", v1alpha1.TolerationOpExists, "", "").Seconds(10),
			want: "False NotAllDecisionsScheduled: 1 cluster decisions unscheduled" + excluded + " (1 toleration ran out at 2026-08-01T11:59:50Z)"},
		"a toleration that has not run out": {placement: ask().Number(4).Toleration("t", v1alpha1.TolerationOpExists, "", "").Seconds(60), want: all},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.decide(t)
			var conditions []metav1.Condition
			report.SetConditions(a, &conditions)
			for _, c := range conditions {
				if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); c.Type == v1alpha1.PlacementConditionSatisfied && got != s.want {
					t.Errorf("got  %s\nwant %s", got, s.want)
				}
			}
		})
	}
}

// TestUnmetMaximum: the status of the policy names a maximum that leaves the Placement short.
func TestUnmetMaximum(t *testing.T) {
	s := situation{placement: ask().Number(3), groups: []berthv1alpha1.SelectionGroup{{Name: "eu", ClusterSelector: byRegion("eu"), Max: new(int32(1))}}}
	got := s.decide(t).SelectionStatus(policyFor("p", selectionSpec{})).Unmet
	want := []berthv1alpha1.UnmetGroup{{Group: "eu", Missing: 1, Relax: "2 clusters of the group qualify; its maximum is 1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unmet (-want +got):\n%s", diff)
	}
}

// TestRealVerdicts: the verdict on a cluster names what excludes that cluster.
func TestRealVerdicts(t *testing.T) {
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		want      map[string]string
	}{
		"none is wanted":              {ask().Number(0), map[string]string{"c1": "rank 1 of 3, numberOfClusters is 0"}},
		"a key that it lacks":         {ask().Number(1).Spread("zone", 1, v1alpha1.DoNotSchedule), map[string]string{"c2": "rank 2 of 3, 1 selected", "c3": "rank 3 of 3, lacks the label zone of spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)"}},
		"a skew that it exceeds":      {ask().Number(3).Spread("region", 1, v1alpha1.DoNotSchedule).Spread("zone", 9, v1alpha1.DoNotSchedule), map[string]string{"c3": "rank 3 of 3, lacks the label zone of spec.spreadPolicy.spreadConstraints[1] (Label zone, maxSkew 9)"}},
		"a toleration, which ran out": {ask().Toleration("t", v1alpha1.TolerationOpExists, "", "").Seconds(10), map[string]string{"c4": "taint t:NoSelect is not tolerated: the toleration ran out at 2026-08-01T11:59:50Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{placement: tc.placement}
			for _, v := range newScheduler(t).Explain(context.Background(), s.decide(t).Decision, "") {
				if want, ok := tc.want[v.Cluster]; ok && v.Reason != want {
					t.Errorf("%s: %q, want %q", v.Cluster, v.Reason, want)
				}
			}
		})
	}
}

// TestMissingScores: a score that no candidate has is reported, with and without others.
func TestMissingScores(t *testing.T) {
	scored := func(name, value string) *v1alpha1.AddOnPlacementScore {
		return fixture.Score("c1", name).Value(value, 0).Obj()
	}
	for name, tc := range map[string]struct {
		scores []*v1alpha1.AddOnPlacementScore
		want   string
	}{
		"none":            {want: "no candidate has the score r/v, which counts as 0"},
		"another object":  {scores: []*v1alpha1.AddOnPlacementScore{scored("q", "v")}, want: "no candidate has the score r/v, which counts as 0"},
		"another value":   {scores: []*v1alpha1.AddOnPlacementScore{scored("r", "w")}, want: "no candidate has the score r/v, which counts as 0"},
		"one of 0":        {scores: []*v1alpha1.AddOnPlacementScore{scored("r", "v")}},
		"one that is old": {scores: []*v1alpha1.AddOnPlacementScore{fixture.Score("c1", "r").Value("v", 7).ValidUntil(fixture.At(-9)).Obj()}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := fleet(ask().AddOn("r", "v", 1), fixture.Cluster("c1"), fixture.Cluster("c2"))
			for _, score := range tc.scores {
				inv.Update(score)
			}
			var want []framework.Intent
			if tc.want != "" {
				want = []framework.Intent{{Plugin: "AddOn", Reason: "ScoreMissing", Note: tc.want}}
			}
			got := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil)).Intents
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("intents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartialAdvice: advice says how many clusters it would select if that is not enough.
func TestPartialAdvice(t *testing.T) {
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		want      []string
	}{
		"enough":          {ask().Number(4), []string{"relaxing TaintToleration is enough"}},
		"partial":         {ask().Number(5), []string{"relaxing TaintToleration would select 4 of 5"}},
		"only both":       {ask().Number(4).Predicate(fixture.MatchLabel("region", "eu")), []string{"relaxing Predicate would select 3 of 4", "relaxing Predicate and TaintToleration is enough"}},
		"not the filters": {ask().Number(3).Spread("rack", 1, v1alpha1.DoNotSchedule), nil},
		"nothing missing": {ask().Number(2), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{placement: tc.placement}
			var got []string
			for _, advice := range newScheduler(t).Advise(context.Background(), s.decide(t).Decision) {
				got = append(got, advice.Note)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("advice (-want +got):\n%s", diff)
			}
		})
	}
}
