package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var key = inventory.Key{Namespace: "ns", Name: "p"}

func newScheduler(tb testing.TB) *scheduler.Scheduler {
	tb.Helper()
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		tb.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

// fleet is an inventory of clusters in set s1, bound to namespace ns, where Placement p asks.
func fleet(p fixture.PlacementBuilder, clusters ...fixture.ClusterBuilder) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	inv.Update(p.Obj())
	for _, c := range clusters {
		inv.Update(c.Set("s1").Obj())
	}
	return inv
}

func selected(r *decide.Decision) []string {
	var names []string
	for _, s := range r.Selected {
		names = append(names, s.Cluster.Name)
	}
	return names
}

// TestExplainLeavesNoTrace: what a trial found out must be taken for true neither by the next trial
// nor by the next cycle.
func TestExplainLeavesNoTrace(t *testing.T) {
	ctx := context.Background()
	s := newScheduler(t)
	inv := fleet(fixture.Placement("ns", "p").Predicate(fixture.MatchLabel("a", "x")), fixture.Cluster("c1"), fixture.Cluster("c2"), fixture.Cluster("c3"))
	r := s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil))
	flips := map[string]string{}
	for _, v := range s.Explain(ctx, r.Decision, "") {
		flips[v.Cluster] = v.SelectedWith
	}
	if diff := cmp.Diff(map[string]string{"c1": "predicate without label a", "c2": "predicate without label a", "c3": "predicate without label a"}, flips); diff != "" {
		t.Errorf("flips (-want +got):\n%s", diff)
	}
	s.Explain(ctx, r.Decision, "c3")
	inv.Update(fixture.Cluster("c1").Set("s1").Label("a", "x").Obj())
	if diff := cmp.Diff([]string{"c1"}, selected(s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil)).Decision)); diff != "" {
		t.Errorf("selected after a label changed (-want +got):\n%s", diff)
	}
}

// TestVerdicts: the rank, the scores and the reason of each candidate, or of one.
func TestVerdicts(t *testing.T) {
	ctx := context.Background()
	inv := fleet(ask().Number(1).Predicate(fixture.MatchLabel("a", "x")).AddOn("r", "v", 1).AddOn("r", "w", 2).AddOn("old", "v", 3),
		fixture.Cluster("a").Label("a", "x"), fixture.Cluster("b").Label("a", "x"), fixture.Cluster("c"))
	inv.Update(fixture.Score("a", "r").Value("v", 5).Obj())
	inv.Update(fixture.Score("b", "r").Value("v", 3).Value("w", 4).Obj())
	inv.Update(fixture.Score("a", "old").Value("v", 7).ValidUntil(fixture.At(-1)).Obj())
	inv.Update(fixture.Score("b", "old").Value("v", 0).ValidUntil(fixture.At(0)).Obj())
	s := newScheduler(t)
	r := s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil))
	scores := func(v, w int64) map[string]int64 {
		return map[string]int64{"AddOn/r/v": v, "AddOn/r/w": w, "AddOn/old/v": 0, "Balance": 100, "Steady": 0}
	}
	want := []framework.ClusterVerdict{
		{Cluster: "a", Rank: 2, Score: new(int64(105)), Scores: scores(5, 0), Distance: new(int64(-6)), Reason: "rank 2 of 2, 1 selected", SelectedWith: "+6 score",
			Unscored: map[string]string{"AddOn/r/w": "no score", "AddOn/old/v": "expired"}},
		{Cluster: "b", Rank: 1, Score: new(int64(111)), Scores: scores(3, 4), Distance: new(int64(6)), Reason: "rank 1 of 2", Selected: true},
		{Cluster: "c", Plugin: "Predicate", Reason: "labels do not match a=x", SelectedWith: "predicate without label a and +12 score"},
	}
	if diff := cmp.Diff(want, s.Explain(ctx, r.Decision, "")); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	for i, name := range []string{"a", "b", "c"} {
		if diff := cmp.Diff(want[i:i+1], s.Explain(ctx, r.Decision, name)); diff != "" {
			t.Errorf("%s alone (-want +got):\n%s", name, diff)
		}
	}
}

// TestExplainManyClusters: changes are looked for if at most MaxSelectedWith clusters were not
// selected, and always for one cluster.
func TestExplainManyClusters(t *testing.T) {
	ctx := context.Background()
	for clusters, want := range map[int]string{decide.MaxSelectedWith + 1: "+1 score", decide.MaxSelectedWith + 2: ""} {
		t.Run(fmt.Sprint(clusters), func(t *testing.T) {
			inv := fleet(ask().Number(1))
			for i := range clusters {
				inv.Update(fixture.Cluster(fmt.Sprintf("c%03d", i)).Set("s1").Obj())
			}
			s := newScheduler(t)
			r := s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil))
			if verdicts := s.Explain(ctx, r.Decision, ""); len(verdicts) != clusters || verdicts[50].SelectedWith != want {
				t.Errorf("%d verdicts: %q", len(verdicts), verdicts[50].SelectedWith)
			}
			if verdicts := s.Explain(ctx, r.Decision, "c050"); len(verdicts) != 1 || verdicts[0].SelectedWith != "+1 score" {
				t.Errorf("alone: %+v", verdicts)
			}
		})
	}
}

// TestSelectedWithSeveralChanges: relaxations of several filters together.
func TestSelectedWithSeveralChanges(t *testing.T) {
	ctx := context.Background()
	tainted := fixture.Cluster("c").Taint("k", "v", v1alpha1.TaintEffectNoSelect)
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		want      string
	}{
		"a label and a toleration":             {ask().Predicate(fixture.MatchLabel("a", "x")), "predicate without label a and tolerate k=v:NoSelect"},
		"a toleration alone":                   {ask(), "tolerate k=v:NoSelect"},
		"a second predicate":                   {ask().Predicate(fixture.MatchLabel(v1alpha1.ClusterSetLabel, "x")).Predicate(fixture.MatchLabel("b", "y")), "predicates[0] without label cluster.open-cluster-management.io/clusterset and tolerate k=v:NoSelect"},
		"a label that the cluster cannot have": {ask().Predicate(fixture.MatchLabel(v1alpha1.ClusterSetLabel, "x")), "predicate without label cluster.open-cluster-management.io/clusterset and tolerate k=v:NoSelect"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScheduler(t)
			r := s.Decide(ctx, fleet(tc.placement, tainted).Snapshot(key, fixture.Now, nil))
			if verdicts := s.Explain(ctx, r.Decision, ""); len(verdicts) != 1 || verdicts[0].SelectedWith != tc.want {
				t.Errorf("got %+v", verdicts)
			}
		})
	}
}

// TestExplain: a verdict names the change that gets the cluster selected, and the distance of its
// score to the last selected or the first left out.
func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		number int32
		// scores are those of clusters a, b and so on.
		scores []int32
		want   map[string]string
	}{
		"equal scores":     {number: 1, scores: []int32{5, 5}, want: map[string]string{"a": "selected, distance 0", "b": "+1 score, distance 0"}},
		"different scores": {number: 2, scores: []int32{9, 4, 7, 2}, want: map[string]string{"a": "selected, distance 5", "b": "+3 score, distance -3", "c": "selected, distance 3", "d": "+6 score, distance -5"}},
		"none is wanted":   {number: 0, scores: []int32{9, 7, 4}, want: map[string]string{"a": "numberOfClusters 1", "b": "numberOfClusters 2", "c": "numberOfClusters 3"}},
		"all are selected": {number: 2, scores: []int32{9, 7}, want: map[string]string{"a": "selected", "b": "selected"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			inv := fleet(ask().Number(tc.number).AddOn("r", "v", 1))
			for i, score := range tc.scores {
				cluster := string(rune('a' + i))
				inv.Update(fixture.Cluster(cluster).Set("s1").Obj())
				inv.Update(fixture.Score(cluster, "r").Value("v", score).Obj())
			}
			s := newScheduler(t)
			r := s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil))
			got := map[string]string{}
			for _, v := range s.Explain(ctx, r.Decision, "") {
				text := v.SelectedWith
				if v.Selected {
					text = "selected"
				}
				if v.Distance != nil && tc.number > 0 {
					text += fmt.Sprintf(", distance %d", *v.Distance)
				}
				got[v.Cluster] = text
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectedWithToleration: no score gets a cluster with an untolerated PreferNoSelect selected.
func TestSelectedWithToleration(t *testing.T) {
	ctx, s := context.Background(), newScheduler(t)
	tainted := fixture.Cluster("b").Taint("k", "v", v1alpha1.TaintEffectPreferNoSelect)
	r := s.Decide(ctx, fleet(ask().Number(1), fixture.Cluster("a"), tainted).Snapshot(key, fixture.Now, nil))
	if verdicts := s.Explain(ctx, r.Decision, "b"); len(verdicts) != 1 || verdicts[0].SelectedWith != "tolerate k=v:PreferNoSelect and +1 score" {
		t.Errorf("got %+v", verdicts)
	}
}
