package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWarnings: what is valid and yet probably a mistake.
func TestWarnings(t *testing.T) {
	exact := func() fixture.PlacementBuilder { return ask().Mode(v1alpha1.PrioritizerPolicyModeExact) }
	const configurations = "spec.prioritizerPolicy.configurations"
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		clusters  []fixture.ClusterBuilder
		want      []string
	}{
		"nothing": {placement: exact().Predicate(fixture.MatchLabel("a", "x")).AddOn("r", "v", 1).Prioritizer("Steady", 1)},
		"a prioritizer twice": {
			placement: ask().Prioritizer("Steady", 1).Prioritizer("Balance", 1).Prioritizer("Steady", 3),
			want:      []string{configurations + "[2].scoreCoordinate: Steady is listed at " + configurations + "[0].scoreCoordinate, too: only the last weight counts"},
		},
		"no prioritizer": {placement: exact(), want: []string{configurations + ": no prioritizer has a weight, and mode Exact uses no others: clusters are selected by name"}},
		"no weight":      {placement: exact().AddOn("r", "v", 0), want: []string{configurations + ": no prioritizer has a weight, and mode Exact uses no others: clusters are selected by name"}},
		"no such object": {
			placement: ask().AddOn("s", "v", 1),
			want:      []string{configurations + `[0].scoreCoordinate.addOn: no cluster that the namespace can use has an AddOnPlacementScore "s" with the score "v", which counts as 0`},
		},
		"no such score": {
			placement: ask().AddOn("r", "w", 1),
			want:      []string{configurations + `[0].scoreCoordinate.addOn: no cluster that the namespace can use has an AddOnPlacementScore "r" with the score "w", which counts as 0`},
		},
		"no such labels": {
			placement: ask().Predicate(fixture.MatchLabel("a", "x")).Predicate(fixture.MatchLabel("a", "z")),
			want:      []string{`spec.predicates[1].requiredClusterSelector.labelSelector: no cluster that the namespace can use has labels that match "a=z"`},
		},
		"no clusters yet": {placement: ask().Predicate(fixture.MatchLabel("a", "z")).AddOn("s", "v", 1), clusters: []fixture.ClusterBuilder{}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.clusters == nil {
				tc.clusters = []fixture.ClusterBuilder{fixture.Cluster("c").Label("a", "x"), fixture.Cluster("d")}
			}
			inv := fleet(tc.placement, tc.clusters...)
			inv.Update(fixture.Score("c", "r").Value("v", 0).Obj())
			if diff := cmp.Diff(tc.want, decide.Warnings(inv.SnapshotOfNew(tc.placement.Obj(), fixture.Now, nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarningsAreBounded: few and short, and without what takes too many comparisons.
func TestWarningsAreBounded(t *testing.T) {
	pl := ask().Predicate(fixture.MatchLabel("a", "z")).AddOn("r", "w", 1)
	for i := range 20 {
		pl = pl.AddOn("s", strings.Repeat("v", 1000)+fmt.Sprint(i), 1)
	}
	inv := fleet(pl, fixture.Cluster("c"))
	score := fixture.Score("c", "r").Value("v", 0).Obj()
	warnings := func() []string {
		inv.Update(score)
		return decide.Warnings(inv.SnapshotOfNew(pl.Obj(), fixture.Now, nil))
	}
	got := warnings()
	if len(got) != 10 || !strings.Contains(got[0], `the score "w"`) {
		t.Errorf("%d warnings, want 10: %q", len(got), got)
	}
	for _, w := range got {
		if len(w) > 512 {
			t.Errorf("%d bytes, want at most 512", len(w))
		}
	}
	score = score.DeepCopy()
	score.Status.Scores = make([]v1alpha1.AddOnPlacementScoreItem, 1_000_000)
	if got := warnings(); len(got) != 0 {
		t.Errorf("warns about what it did not look at to the end: %q", got)
	}
}
