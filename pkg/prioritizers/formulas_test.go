package prioritizers

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

const none = framework.NoScore

// hub is an inventory of clusters in set s, all that Placement n/p sees.
func hub(clusters ...fixture.ClusterBuilder) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	inv.Update(fixture.Placement("n", "p").Obj())
	for _, c := range clusters {
		inv.Update(c.Set("s").Obj())
	}
	return inv
}

// scores runs a plugin over all clusters, which are feasible, as the engine does.
func scores(t *testing.T, plugin framework.Plugin, inv *inventory.Inventory, seconds int) (map[string]int64, *framework.CycleState) {
	t.Helper()
	ctx := context.Background()
	state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.At(seconds).Time, nil))
	snapshot := state.Snapshot()
	var feasible []*framework.Cluster
	for i := range snapshot.Sets[0].Members.All {
		feasible = append(feasible, snapshot.Clusters.Get(i))
	}
	pl := snapshot.Subject.Placement
	if p, ok := plugin.(framework.PreScorePlugin); ok {
		if status := p.PreScore(ctx, state, pl, feasible); !status.IsSuccess() {
			t.Fatalf("PreScore: %v", status.Err())
		}
	}
	all := map[string]int64{}
	for _, c := range feasible {
		x, status := plugin.(framework.ScorePlugin).Score(ctx, state, pl, c)
		switch {
		case status.IsSkip():
			x = none
		case !status.IsSuccess():
			t.Fatalf("Score of %s: %v", c.Name, status.Err())
		}
		all[c.Name] = x
	}
	if p, ok := plugin.(framework.NormalizeScorer); ok {
		if status := p.NormalizeScore(ctx, state, pl, nil); !status.IsSuccess() {
			t.Fatalf("NormalizeScore: %v", status.Err())
		}
	}
	return all, state
}

func TestResourceAllocatable(t *testing.T) {
	memory := func(name, amount string) fixture.ClusterBuilder {
		return fixture.Cluster(name).Allocatable("memory", amount)
	}
	tests := map[string]struct {
		clusters []fixture.ClusterBuilder
		want     map[string]int64
	}{
		"the guide's fleet": {
			clusters: []fixture.ClusterBuilder{memory("c1", "60M"), memory("c2", "80M"), memory("c3", "100M")},
			want:     map[string]int64{"c1": -100, "c2": 0, "c3": 100},
		},
		"the guide's fleet and a fourth": {
			clusters: []fixture.ClusterBuilder{memory("c1", "60Mi"), memory("c2", "80Mi"), memory("c3", "100Mi"), memory("c4", "150Mi")},
			want:     map[string]int64{"c1": -100, "c2": -55, "c3": -11, "c4": 100},
		},
		"tenths of the range are truncated toward zero": {
			clusters: []fixture.ClusterBuilder{memory("c0", "0"), memory("c4", "4"), memory("c6", "6"), memory("c7", "7"), memory("c10", "10")},
			want:     map[string]int64{"c0": -100, "c4": -19, "c6": 19, "c7": 39, "c10": 100},
		},
		"all the same": {
			clusters: []fixture.ClusterBuilder{memory("c1", "1Gi"), memory("c2", "1024Mi")}, want: map[string]int64{"c1": 100, "c2": 100},
		},
		"one alone": {clusters: []fixture.ClusterBuilder{memory("c1", "1Gi")}, want: map[string]int64{"c1": 100}},
		"a cluster without it has no score and does not count for the range": {
			clusters: []fixture.ClusterBuilder{
				memory("c1", "1Gi"), memory("c2", "2Gi"), fixture.Cluster("c3"),
				fixture.Cluster("c4").OnlyAllocatable("memory", "9Gi"), fixture.Cluster("c5").Capacity("memory", "9Gi"),
			},
			want: map[string]int64{"c1": -100, "c2": 100, "c3": none, "c4": none, "c5": none},
		},
		"an amount that is no finite number counts for no range": {
			clusters: []fixture.ClusterBuilder{
				memory("c1", "1Gi"), memory("c2", "2Gi"), memory("c3", "0e309"), memory("c4", "1e309"), memory("c5", "-1e309"), memory("c6", "1e308"),
			},
			want: map[string]int64{"c1": -100, "c2": 100, "c3": none, "c4": none, "c5": none, "c6": none},
		},
		"the widest range": {
			clusters: []fixture.ClusterBuilder{memory("c1", "-8e307"), memory("c2", "0"), memory("c3", "8e307")},
			want:     map[string]int64{"c1": -100, "c2": 0, "c3": 100},
		},
		"nobody has any": {clusters: []fixture.ClusterBuilder{fixture.Cluster("c1")}, want: map[string]int64{"c1": none}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewResourceAllocatableMemory(context.Background(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := scores(t, plugin, hub(tc.clusters...), 0)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("cores, in thousandths", func(t *testing.T) {
		plugin, err := NewResourceAllocatableCPU(context.Background(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		cpu := func(name, amount string) fixture.ClusterBuilder {
			return fixture.Cluster(name).Allocatable("cpu", amount)
		}
		got, _ := scores(t, plugin, hub(cpu("c1", "1"), cpu("c2", "1500m"), cpu("c3", "3")), 0)
		if diff := cmp.Diff(map[string]int64{"c1": -100, "c2": -50, "c3": 100}, got); diff != "" {
			t.Errorf("scores (-want +got):\n%s", diff)
		}
	})
}

func TestBalance(t *testing.T) {
	others := func(counts map[string]int) []*v1alpha1.PlacementDecision {
		var pages []*v1alpha1.PlacementDecision
		for cluster, n := range counts {
			for i := range n {
				pages = append(pages, fixture.Page("m", fmt.Sprintf("%s-%d", cluster, i)).Of("other").Lists(cluster).Obj())
			}
		}
		return pages
	}
	tests := map[string]struct {
		pages []*v1alpha1.PlacementDecision
		want  map[string]int64
	}{
		"nothing is decided": {want: map[string]int64{"c1": 100, "c2": 100}},
		"4 of 10":            {pages: others(map[string]int{"c1": 4, "c2": 10}), want: map[string]int64{"c1": 18, "c2": -100}},
		"the most of any name counts, cluster or not": {
			pages: others(map[string]int{"c1": 1, "gone": 4}), want: map[string]int64{"c1": 50, "c2": 100},
		},
		"this Placement's own decisions do not count": {
			pages: append(others(map[string]int{"c1": 1}), fixture.Page("n", "p-decision-1").Of("p").Lists("c1", "c2", "c2").Obj()),
			want:  map[string]int64{"c1": -100, "c2": 100},
		},
		"those of its name in another namespace do": {
			pages: []*v1alpha1.PlacementDecision{fixture.Page("m", "p-decision-1").Of("p").Lists("c1").Obj()},
			want:  map[string]int64{"c1": -100, "c2": 100},
		},
		"an entry said twice counts twice": {
			pages: []*v1alpha1.PlacementDecision{fixture.Page("m", "x").Of("q").Lists("c1", "c2", "c2").Obj()},
			want:  map[string]int64{"c1": 0, "c2": -100},
		},
		"a page without label counts": {
			pages: []*v1alpha1.PlacementDecision{fixture.Page("n", "x").OwnedBy("p").Lists("c1").Obj()},
			want:  map[string]int64{"c1": -100, "c2": 100},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := hub(fixture.Cluster("c1"), fixture.Cluster("c2"))
			for _, page := range tc.pages {
				inv.Update(page)
			}
			got, _ := scores(t, Balance{}, inv, 0)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBalanceAfterAStart: the clusters that stay have the best score: the highest, or with a
// negative weight the lowest. These are the published ones or, with an open change, its target.
func TestBalanceAfterAStart(t *testing.T) {
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		started   bool
		change    func(*berthv1alpha1.PlacementChange)
		want      map[string]int64
	}{
		"no start":              {placement: fixture.Placement("n", "p"), want: map[string]int64{"c1": -100, "c2": 0, "c3": -100}},
		"after a start":         {placement: fixture.Placement("n", "p"), started: true, want: map[string]int64{"c1": 100, "c2": 0, "c3": -100}},
		"a positive weight":     {placement: fixture.Placement("n", "p").Prioritizer(v1alpha1.PrioritizerBalance, 2), started: true, want: map[string]int64{"c1": 100, "c2": 0, "c3": -100}},
		"a negative weight":     {placement: fixture.Placement("n", "p").Prioritizer(v1alpha1.PrioritizerBalance, -2), started: true, want: map[string]int64{"c1": -100, "c2": 0, "c3": -100}},
		"the last weight wins":  {placement: fixture.Placement("n", "p").Prioritizer(v1alpha1.PrioritizerBalance, -2).Prioritizer(v1alpha1.PrioritizerBalance, 1), started: true, want: map[string]int64{"c1": 100, "c2": 0, "c3": -100}},
		"an open change to c3":  {placement: fixture.Placement("n", "p"), started: true, change: func(*berthv1alpha1.PlacementChange) {}, want: map[string]int64{"c1": -100, "c2": 0, "c3": 100}},
		"a change that is over": {placement: fixture.Placement("n", "p"), started: true, change: func(r *berthv1alpha1.PlacementChange) { r.Status.Phase = berthv1alpha1.PhaseRejected }, want: map[string]int64{"c1": 100, "c2": 0, "c3": -100}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := hub(fixture.Cluster("c1"), fixture.Cluster("c2"), fixture.Cluster("c3"))
			pl := tc.placement.Obj()
			inv.Update(pl)
			inv.Update(fixture.Page("m", "q").Of("q").Lists("c1", "c1", "c2", "c3", "c3").Obj())
			inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("c1").Obj())
			if tc.change != nil {
				r := changes.NewRecord(pl, 0, 1, changes.NewChange([]string{"c1"}, []string{"c3"}))
				r.Status.Phase = berthv1alpha1.PhaseHeld
				tc.change(r)
				inv.Update(r)
			}
			if tc.started {
				inv.Started()
			}
			got, _ := scores(t, Balance{}, inv, 0)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSteady(t *testing.T) {
	inv := hub(fixture.Cluster("c1"), fixture.Cluster("c2"), fixture.Cluster("c3"))
	inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("c2").Obj())
	inv.Update(fixture.Page("n", "q-decision-1").Of("q").Lists("c3").Obj())
	inv.Update(fixture.Page("n", "p-decision-2").OwnedBy("p").Lists("c3").Obj())
	got, _ := scores(t, Steady{}, inv, 0)
	if diff := cmp.Diff(map[string]int64{"c1": 0, "c2": 100, "c3": 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestAddOn(t *testing.T) {
	inv := hub(fixture.Cluster("fresh"), fixture.Cluster("last"), fixture.Cluster("none"), fixture.Cluster("other"), fixture.Cluster("stale"))
	for _, score := range []fixture.ScoreBuilder{
		fixture.Score("fresh", "r").Value("v", -1000),
		fixture.Score("last", "r").Value("v", 7).ValidUntil(fixture.At(10)),
		fixture.Score("other", "r").Value("w", 7),
		fixture.Score("other", "q").Value("v", 7),
		fixture.Score("stale", "r").Value("v", 7).ValidUntil(fixture.At(-1)),
	} {
		inv.Update(score.Obj())
	}
	plugin := AddOn{}.ForAddOn(v1alpha1.AddOnScore{ResourceName: "r", ScoreName: "v"})
	if plugin.Name() != "AddOn/r/v" {
		t.Errorf("the coordinate's name is %q", plugin.Name())
	}
	tests := map[string]struct {
		seconds     int
		wantLast    int64
		wantWarning string
		wantRequeue bool
	}{
		"before the end": {wantLast: 7, wantRequeue: true, wantWarning: "AddOnPlacementScores stale/r expired"},
		"at the end":     {seconds: 10, wantLast: 7, wantRequeue: true, wantWarning: "AddOnPlacementScores stale/r expired"},
		"after it":       {seconds: 11, wantWarning: "AddOnPlacementScores last/r stale/r expired"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, state := scores(t, plugin, inv, tc.seconds)
			want := map[string]int64{"fresh": -1000, "last": tc.wantLast, "none": 0, "other": 0, "stale": 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]framework.Warning{{Plugin: "AddOn/r/v", Message: tc.wantWarning}}, state.Warnings()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if end := fixture.At(10).Time; state.Requeue().After(end) != tc.wantRequeue || tc.wantRequeue && state.Requeue().Sub(end) > 1 {
				t.Errorf("asks for a new attempt at %v; the score ends after %v", state.Requeue(), end)
			}
		})
	}
}
