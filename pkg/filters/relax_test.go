package filters

import (
	"context"
	"slices"
	"testing"

	"github.com/berth-dev/berth/test/fixture"
)

// TestPredicateRelaxations: a relaxation changes the labels of the cluster, and keeps the
// expressions that match then; the cheapest predicate comes first.
func TestPredicateRelaxations(t *testing.T) {
	const matching, failing = `managedCluster.metadata.name == "c"`, `managedCluster.metadata.name == "d"`
	inv := hub(ask().
		Predicate(fixture.MatchLabel("a", "x"), fixture.MatchCEL(matching), fixture.MatchCEL(failing)).
		Predicate(fixture.MatchLabel("b", "y"), fixture.MatchCEL(matching)), fixture.Cluster("c"))
	p := newPredicate(t)
	state := stateOf(inv)
	pl := state.Snapshot().Subject.Placement
	if _, status := p.PreFilter(context.Background(), state, pl); !status.IsSuccess() {
		t.Fatal(status.Err())
	}
	got := p.Relax(context.Background(), state, pl, state.Snapshot().Clusters.Get(0))
	if len(got) != 2 {
		t.Fatalf("%d relaxations, want 2", len(got))
	}
	first, second := got[0], got[1]
	if first.Text != "label b=y" || first.Placement != nil || first.Cluster.Labels["b"] != "y" {
		t.Errorf("the first is %q with Placement %v", first.Text, first.Placement)
	}
	if want := `label a=x and without CEL "` + `managedCluster.metadata.name == \"d\""`; second.Text != want || second.Cluster.Labels["a"] != "x" {
		t.Errorf("the second is %q, want %q", second.Text, want)
	}
	if kept := second.Placement.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions; !slices.Equal(kept, []string{matching}) {
		t.Errorf("kept expressions are %q", kept)
	}
	if before := pl.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions; len(before) != 2 {
		t.Errorf("the Placement itself is changed: %q", before)
	}
}
