package prioritizers

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// rescored returns what a plugin keeps after the scores of the hub's clusters.
func rescored(t *testing.T, plugin framework.Rescorer, inv *inventory.Inventory) (framework.SettledScore, *framework.CycleState) {
	t.Helper()
	_, state := scores(t, plugin, inv, 0)
	score, ok := plugin.Rescore(state)
	if !ok {
		t.Fatal("the plugin cannot score again")
	}
	return score, state
}

func memoryOf(amount string, name string) fixture.ClusterBuilder {
	b := fixture.Cluster(name)
	if amount == "" {
		return b
	}
	return b.Allocatable("memory", amount)
}

func TestResourceAllocatableKeeps(t *testing.T) {
	plugin, err := NewResourceAllocatableMemory(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cluster := func(amount string) *framework.Cluster {
		if amount == "none" {
			return nil
		}
		inv := hub(memoryOf(amount, "x"))
		fleet, _ := inv.View()
		return fleet.Cluster("x")
	}
	for name, tt := range map[string]struct {
		amounts       []string
		before, after string
		want          bool
	}{
		"within the range":              {[]string{"10", "20", "30"}, "20", "25", true},
		"to the lower end":              {[]string{"10", "20", "30"}, "20", "10", true},
		"to the upper end":              {[]string{"10", "20", "30"}, "20", "30", true},
		"below the range":               {[]string{"10", "20", "30"}, "20", "9", false},
		"above the range":               {[]string{"10", "20", "30"}, "20", "31", false},
		"from the lower end":            {[]string{"10", "20", "30"}, "10", "20", false},
		"from the upper end":            {[]string{"10", "20", "30"}, "30", "20", false},
		"the lower end stays":           {[]string{"10", "20", "30"}, "10", "10", true},
		"leaves from within":            {[]string{"10", "20", "30"}, "20", "none", true},
		"leaves from the end":           {[]string{"10", "20", "30"}, "30", "none", false},
		"joins within":                  {[]string{"10", "20", "30"}, "none", "11", true},
		"joins beyond":                  {[]string{"10", "20", "30"}, "none", "5", false},
		"no amount any more":            {[]string{"10", "20", "30"}, "20", "", true},
		"no amount any more, at an end": {[]string{"10", "20", "30"}, "10", "", false},
		"no amount before":              {[]string{"10", "", "30"}, "", "31", false},
		"never an amount":               {[]string{"10", "", "30"}, "", "", true},
		"the first amount":              {[]string{"", "", ""}, "", "5", false},
		"all equal":                     {[]string{"10", "10", "10"}, "10", "11", false},
	} {
		t.Run(name, func(t *testing.T) {
			var clusters []fixture.ClusterBuilder
			for i, amount := range tt.amounts {
				clusters = append(clusters, memoryOf(amount, "c"+strconv.Itoa(i)))
			}
			score, _ := rescored(t, plugin.(framework.Rescorer), hub(clusters...))
			if got := score.Keeps(cluster(tt.before), cluster(tt.after), nil); got != tt.want {
				t.Errorf("Keeps = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestBalanceKeeps(t *testing.T) {
	inv := hub(fixture.Cluster("a"), fixture.Cluster("b"))
	inv.Update(fixture.Page("other", "q-decision-1").Of("q").Lists("a", "gone").Obj())
	inv.Update(fixture.Page("other", "r-decision-1").Of("r").Lists("gone").Obj())
	inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("b", "gone").Obj())
	score, _ := rescored(t, Balance{}, inv)
	counts := func() *framework.DecisionCounts {
		fleet, _ := inv.View()
		return fleet.Counts
	}
	if score.DependsOn() != framework.OnDecisionCounts || !score.Keeps(nil, nil, counts()) {
		t.Error("the scores do not stay although nothing happened")
	}
	inv.Update(fixture.Page("other", "s-decision-1").Of("s").Lists("b").Obj())
	if !score.Keeps(nil, nil, counts()) {
		t.Error("the scores do not stay although the highest count is the same")
	}
	inv.Update(fixture.Page("other", "t-decision-1").Of("t").Lists("gone").Obj())
	for range 2 {
		if score.Keeps(nil, nil, counts()) {
			t.Error("the scores stay although the highest count has changed")
		}
	}
}

// TestRescoreIsScore compares the scores afterwards with those of the attempt.
func TestRescoreIsScore(t *testing.T) {
	memory, err := NewResourceAllocatableMemory(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := NewResourceAllocatableCPU(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(rt *rapid.T) {
		var clusters []fixture.ClusterBuilder
		for _, name := range names {
			b := memoryOf(rapid.SampledFrom([]string{"", "10", "20", "33"}).Draw(rt, "memory"), name)
			clusters = append(clusters, b.Allocatable("cpu", rapid.SampledFrom([]string{"1", "3", "7"}).Draw(rt, "cpu")))
		}
		inv := hub(clusters...)
		for _, page := range []string{"p-decision-1", "q-decision-1", "r-decision-1"} {
			inv.Update(fixture.Page("n", page).Of(page[:1]).Lists(rapid.SliceOfN(rapid.SampledFrom(names), 0, 5).Draw(rt, "decisions")...).Obj())
		}
		for _, plugin := range []framework.Plugin{Steady{}, Balance{}, memory, cpu} {
			want, _ := scores(t, plugin, inv, 0)
			score, state := rescored(t, plugin.(framework.Rescorer), inv)
			fleet := state.Snapshot().Fleet
			for name, x := range want {
				if got := score.Score(fleet.Cluster(name), fleet.Counts); got != x {
					rt.Errorf("%s: the score of %s is %d afterwards, was %d", plugin.Name(), name, got, x)
				}
			}
		}
	})
}
