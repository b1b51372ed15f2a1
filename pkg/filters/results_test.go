package filters

import (
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestMoreChangesThanTheLogKeeps: all clusters are evaluated again.
func TestMoreChangesThanTheLogKeeps(t *testing.T) {
	gold := func(name string) fixture.ClusterBuilder { return fixture.Cluster(name).Set("s").Label("tier", "gold") }
	p := newPredicate(t)
	inv := hub(ask().Predicate(fixture.MatchCEL(`managedCluster.metadata.labels.?tier.orValue("") == "gold"`)), gold("c1"), gold("c2"))
	evaluateAll(t.Context(), p, inv, "p")
	inv.Update(fixture.Cluster("c1").Set("s").Obj())
	for range 10_000 {
		inv.Update(gold("c3").Obj())
		inv.Delete(gold("c3").Obj())
	}
	if result, _, _ := evaluateAll(t.Context(), p, inv, "p"); result.Clusters.Len() != 1 {
		t.Errorf("%d match", result.Clusters.Len())
	}
}

// TestResultsOfEarlierCyclesStay: a Snapshot keeps its matches when clusters change later, with
// evaluations that are charged and with others.
func TestResultsOfEarlierCyclesStay(t *testing.T) {
	for name, match := range map[string]fixture.Match{
		"a label": fixture.MatchLabel("tier", "gold"),
		"CEL":     fixture.MatchCEL(`managedCluster.metadata.labels.?tier.orValue("") == "gold"`),
	} {
		t.Run(name, func(t *testing.T) {
			gold := func(name string) fixture.ClusterBuilder { return fixture.Cluster(name).Set("s").Label("tier", "gold") }
			p, inv := newPredicate(t), hub(ask().Predicate(match), gold("c1"), gold("c2"))
			first, _, _ := evaluateAll(t.Context(), p, inv, "p")
			inv.Update(fixture.Cluster("c1").Set("s").Obj())
			second, _, _ := evaluateAll(t.Context(), p, inv, "p")
			if first.Clusters.Len() != 2 || second.Clusters.Len() != 1 || !second.SkipFilter {
				t.Errorf("%d matched at first, then %d", first.Clusters.Len(), second.Clusters.Len())
			}
		})
	}
}

// TestTrialsChangeNoResults: a trial evaluates a changed cluster for itself.
func TestTrialsChangeNoResults(t *testing.T) {
	for name, match := range map[string]fixture.Match{
		"a label": fixture.MatchLabel("tier", "gold"),
		"CEL":     fixture.MatchCEL(`managedCluster.metadata.labels.?tier.orValue("") == "gold"`),
	} {
		t.Run(name, func(t *testing.T) {
			p, inv := newPredicate(t), hub(ask().Predicate(match), fixture.Cluster("c1").Label("tier", "gold"))
			result, _, state := evaluateAll(t.Context(), p, inv, "p")
			snapshot := state.Snapshot()
			for range 2 {
				trial := framework.NewCycleState(snapshot.WithCluster(framework.NewCluster(fixture.Cluster("c1").Set("s").Obj(), 0)))
				tried, status := p.PreFilter(t.Context(), trial, snapshot.Subject.Placement)
				if !status.IsSuccess() || tried.Clusters.Len() != 0 || result.Clusters.Len() != 1 {
					t.Fatalf("%s: %d match in the trial, %d without", status.Code(), tried.Clusters.Len(), result.Clusters.Len())
				}
				if again, _, _ := evaluateAll(t.Context(), p, inv, "p"); again.Clusters.Len() != 1 {
					t.Fatalf("%d match after the trial", again.Clusters.Len())
				}
			}
		})
	}
}
