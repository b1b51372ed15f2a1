package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// manyMarks filters clusters by their number, and writes to the state wherever a plugin may.
type manyMarks struct{}

func (manyMarks) Name() string { return "ManyMarks" }

func (manyMarks) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, c *framework.Cluster) *framework.Status {
	switch c.Index % 7 {
	case 0:
		return framework.NewStatus(framework.Unschedulable, c.Name)
	case 1:
		state.Demote(c.Index)
	case 2:
		state.SetFilterExpiry(c.Index, fixture.At(c.Index).Time)
	}
	return nil
}

func (manyMarks) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, c *framework.Cluster) (int64, *framework.Status) {
	state.RequeueAt(fixture.At(c.Index).Time)
	return int64(c.Index%201) - 100, nil
}

// TestManyCandidates: what is shared out among goroutines is what one after the other would have
// found, also in a room where others have been.
func TestManyCandidates(t *testing.T) {
	const many = 40_000
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	inv.Update(fixture.Placement("ns", "p").Number(30).Obj())
	for i := range many {
		inv.Update(fixture.Cluster(fmt.Sprintf("c%05d", i)).Set("s1").Obj())
	}
	inv.Update(fixture.Set("s2"))
	inv.Update(fixture.Binding("few", "s2"))
	inv.Update(fixture.Placement("few", "p").Obj())
	inv.Update(fixture.Cluster("other").Set("s2").Obj())
	profile := &plugins.Profile{
		Filter: []framework.FilterPlugin{manyMarks{}}, Score: []plugins.WeightedScore{{ScorePlugin: manyMarks{}, Weight: 1}},
	}
	s := scheduler.New(map[string]*plugins.Profile{v1alpha1.DefaultProfile: profile}, nil)
	for range 3 {
		r := s.Decide(context.Background(), inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil))
		checkManyMarks(t, r.Decision, many)
		s.Release(r.Decision)
		few := s.Decide(context.Background(), inv.Snapshot(inventory.Key{Namespace: "few", Name: "p"}, fixture.Now, nil))
		if len(few.Feasible) != 1 || few.Feasible[0].Name != "other" || few.Totals[0] != int64(many%201)-100 {
			t.Errorf("after many candidates, one has a total of %v", few.Totals)
		}
		s.Release(few.Decision)
	}
}

func checkManyMarks(t *testing.T, r *decide.Decision, many int) {
	t.Helper()
	var feasible, excluded int
	for j, c := range r.Feasible {
		if want := int64(c.Index%201) - 100; r.Totals[j] != want || j > 0 && r.Feasible[j-1].Index >= c.Index {
			t.Fatalf("%s is feasible number %d with a total of %d", c.Name, j, r.Totals[j])
		}
		feasible++
	}
	for _, e := range r.ExcludedBy() {
		excluded += e.Clusters
	}
	var want, got []string
	for i := 0; len(want) < 30; i++ {
		// The best score is that of 200, 401, 602 and so on.
		if n := 200 + 201*i; n%7 > 1 {
			want = append(want, fmt.Sprintf("c%05d", n))
		}
	}
	for _, s := range r.Selected {
		got = append(got, s.Cluster.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" || feasible+excluded != many {
		t.Errorf("%d feasible, %d excluded (-want +got):\n%s", feasible, excluded, diff)
	}
	for _, chosen := range r.Selected {
		if i := chosen.Cluster.Index; (i%7 == 2) == r.State.FilterExpiry(i).IsZero() {
			t.Errorf("the verdict on %s ends at %s", chosen.Cluster.Name, r.State.FilterExpiry(i))
		}
	}
}

// TestAttemptScoresAsASimulationDoes: that an attempt keeps no scores by plugin changes neither its
// answer nor its warnings.
func TestAttemptScoresAsASimulationDoes(t *testing.T) {
	ctx := context.Background()
	p := ask().AddOn("r", "v", 3).AddOn("r", "w", -2).AddOn("old", "v", 5).Prioritizer(v1alpha1.PrioritizerSteady, 2).Number(2).Obj()
	d := newDesk(t, ask(), "c1", "c2", "c3", "c4")
	d.placement.Spec = p.Spec
	for i, name := range []string{"c1", "c2", "c3"} {
		d.scores[name] = fixture.Score(name, "r").Value("v", int32(i*7)).Value("w", int32(i*i*5)).Obj()
		d.scores["old "+name] = fixture.Score(name, "old").Value("v", 9).ValidUntil(fixture.At(-1)).Obj()
	}
	d.restart()
	snapshot := d.inv.Snapshot(key, d.now, nil)
	want := d.scheduler.Decide(ctx, snapshot)
	got := d.scheduler.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return snapshot })
	if diff := cmp.Diff(want.Totals, got.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.State.Warnings(), got.State.Warnings()); diff != "" || len(want.State.Warnings()) != 1 {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(want.Scores) != 5 || got.Scores != nil {
		t.Errorf("%d and %d scores are kept", len(want.Scores), len(got.Scores))
	}
}
