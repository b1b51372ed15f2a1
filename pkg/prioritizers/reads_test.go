package prioritizers

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// stateless builds a plugin without data.
func stateless(plugin framework.Plugin) framework.PluginFactory {
	return func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return plugin, nil
	}
}

// TestReads: a change of an amount does not affect Placements that do not read it.
func TestReads(t *testing.T) {
	for name, tc := range map[string]struct {
		build framework.PluginFactory
		want  framework.Reads
	}{
		"ResourceAllocatableCPU":    {NewResourceAllocatableCPU, framework.Reads{CPU: true}},
		"ResourceAllocatableMemory": {NewResourceAllocatableMemory, framework.Reads{Memory: true}},
		"AddOn":                     {stateless(AddOn{}), framework.Reads{}},
		"Balance":                   {stateless(Balance{}), framework.Reads{}},
		"Steady":                    {stateless(Steady{}), framework.Reads{}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := tc.build(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if plugin.Name() != name {
				t.Errorf("named %s", plugin.Name())
			}
			if diff := cmp.Diff(tc.want, plugin.(framework.ClusterReader).Reads(nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestScoreWithoutCoordinate: AddOn itself has no score.
func TestScoreWithoutCoordinate(t *testing.T) {
	x, status := AddOn{}.Score(t.Context(), nil, nil, nil)
	if x != 0 || !status.IsSkip() || status.Reason() != "no coordinate" {
		t.Errorf("got %d, %s %q", x, status.Code(), status.Reason())
	}
}

// TestScoreWithoutPreScore: a score that needs what PreScore computes is an error without it.
func TestScoreWithoutPreScore(t *testing.T) {
	inv := hub(fixture.Cluster("c1").Allocatable("cpu", "1").Allocatable("memory", "1Gi"))
	inv.Update(fixture.Page("m", "other-decision-1").Of("other").Lists("c1").Obj())
	snapshot := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil)
	for name, build := range map[string]framework.PluginFactory{
		"Balance": stateless(Balance{}), "ResourceAllocatableCPU": NewResourceAllocatableCPU, "ResourceAllocatableMemory": NewResourceAllocatableMemory,
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := build(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			x, status := plugin.(framework.ScorePlugin).Score(t.Context(), framework.NewCycleState(snapshot), snapshot.Subject.Placement, snapshot.Clusters.Get(0))
			if x != 0 || !errors.Is(status.Err(), framework.ErrNotFound) {
				t.Errorf("got %d, %v", x, status.Err())
			}
		})
	}
}

// TestClonedStates: what a plugin keeps in the state of a cycle is copied with it.
func TestClonedStates(t *testing.T) {
	expired := &expiredState{names: []string{"a", "b"}}
	names := expired.Clone().(*expiredState)
	expired.names[0] = "x"
	if diff := cmp.Diff([]string{"a", "b"}, names.names); diff != "" {
		t.Errorf("expired scores (-want +got):\n%s", diff)
	}
	counts := &balanceState{max: 3}
	highest := counts.Clone().(*balanceState)
	counts.max = 4
	if highest.max != 3 {
		t.Errorf("the highest count is %v", highest.max)
	}
	amounts := &rangeState{min: 1, max: 2}
	span := amounts.Clone().(*rangeState)
	amounts.min, amounts.max = 5, 6
	if span.min != 1 || span.max != 2 {
		t.Errorf("the range is %v", *span)
	}
}

// TestSteadyLeaving: a cluster that the open change removes scores half of what it keeps.
func TestSteadyLeaving(t *testing.T) {
	var leaving, incumbents framework.Bitset
	leaving, incumbents = leaving.Set(1), incumbents.Set(1).Set(2)
	state := framework.NewCycleState(&framework.Snapshot{Subject: &framework.Subject{Leaving: leaving, Incumbents: incumbents}})
	for index, want := range map[int]int64{0: 0, 1: 50, 2: 100} {
		x, status := Steady{}.Score(t.Context(), state, nil, framework.NewCluster(fixture.Cluster("c").Obj(), index))
		if x != want || !status.IsSuccess() {
			t.Errorf("cluster %d scores %d, want %d", index, x, want)
		}
	}
}

// TestAddOnName tells coordinates apart.
func TestAddOnName(t *testing.T) {
	scorer := AddOn{}.ForAddOn(v1alpha1.AddOnScore{ResourceName: "r", ScoreName: "s"})
	if scorer.Name() != "AddOn/r/s" {
		t.Errorf("named %s", scorer.Name())
	}
}
