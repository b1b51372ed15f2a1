package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var key = inventory.Key{Namespace: "ns", Name: "p"}

func newScheduler(tb testing.TB) *scheduler.Scheduler {
	tb.Helper()
	profiles, err := scheduler.NewProfiles(context.Background(), nil, builtin.DefaultProfile(), builtin.Registry(), &framework.Handle{})
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

func selected(r *scheduler.Result) []string {
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
	for _, v := range s.Explain(ctx, r.Result, "") {
		flips[v.Cluster] = v.SelectedWith
	}
	if diff := cmp.Diff(map[string]string{"c1": "label a=x", "c2": "label a=x", "c3": "label a=x"}, flips); diff != "" {
		t.Errorf("flips (-want +got):\n%s", diff)
	}
	s.Explain(ctx, r.Result, "c3")
	inv.Update(fixture.Cluster("c1").Set("s1").Label("a", "x").Obj())
	if diff := cmp.Diff([]string{"c1"}, selected(s.Decide(ctx, inv.Snapshot(key, fixture.Now, nil)).Result)); diff != "" {
		t.Errorf("selected after a label changed (-want +got):\n%s", diff)
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
			for _, v := range s.Explain(ctx, r.Result, "") {
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
