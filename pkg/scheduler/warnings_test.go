package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWarnings: what is valid and yet probably a mistake.
func TestWarnings(t *testing.T) {
	exact := func() fixture.PlacementBuilder { return ask().Mode(v1alpha1.PrioritizerPolicyModeExact) }
	overClaim := func(pl *v1alpha1.Placement) {
		pl.Spec.SpreadPolicy.SpreadConstraints[0].TopologyKeyType = v1alpha1.TopologyKeyTypeClaim
	}
	const configurations = "spec.prioritizerPolicy.configurations"
	const hasScore = `managedCluster.scores("r").exists(s, s.name == "v")`
	const negative = configurations + "[0].weight: a cluster without the score counts as 0, and with a negative weight it comes before clusters with a score above 0; " +
		"to leave such clusters out, add to each predicate the CEL expression " + hasScore
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		edit      func(pl *v1alpha1.Placement)
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
		"no such claims": {
			placement: ask().Predicate(fixture.MatchClaim("k", metav1.LabelSelectorOpIn, "1")).Predicate(fixture.MatchClaim("a", metav1.LabelSelectorOpIn, "x")),
			want: []string{`spec.predicates[1].requiredClusterSelector.claimSelector: no cluster that the namespace can use has claims that match "a in (x)"; ` +
				"claims are in status.clusterClaims of a cluster, and labelSelector matches labels"},
		},
		"no such label to spread over": {
			placement: ask().Spread("a", 1, v1alpha1.ScheduleAnyway).Spread("zone", 1, v1alpha1.ScheduleAnyway),
			want: []string{`spec.spreadPolicy.spreadConstraints[1].topologyKey: no cluster that the namespace can use has the label zone, ` +
				"so the constraint spreads nothing; name a label or a claim that clusters have"},
		},
		"a claim to spread over that is a label": {
			placement: ask().Spread("a", 1, v1alpha1.DoNotSchedule), edit: overClaim,
			want: []string{`spec.spreadPolicy.spreadConstraints[0].topologyKey: no cluster that the namespace can use has the claim a, ` +
				"so no cluster is selected; clusters have the label a: set topologyKeyType to Label"},
		},
		"a claim to spread over": {placement: ask().Spread("k", 1, v1alpha1.DoNotSchedule), edit: overClaim},
		"sets that are not bound": {
			placement: ask().Sets("s1", "s3", "gone"),
			want: []string{"spec.clusterSets: ignored, because no ManagedClusterSet of that name is bound to the namespace: s3, gone; " +
				"name a bound one: s1, s2; or create a ManagedClusterSetBinding"},
		},
		"only a set that is not bound": {
			placement: ask().Sets("s3").Predicate(fixture.MatchLabel("a", "z")),
			want: []string{"spec.clusterSets: ignored, because no ManagedClusterSet of that name is bound to the namespace: s3; " +
				"name a bound one: s1, s2; or create a ManagedClusterSetBinding"},
		},
		"many sets that are not bound": {
			placement: ask().Sets("s1", "b", "c", "d", "e", "f", "g"),
			want: []string{"spec.clusterSets: ignored, because no ManagedClusterSet of that name is bound to the namespace: b, c, d, e, f and 1 more; " +
				"name a bound one: s1, s2; or create a ManagedClusterSetBinding"},
		},
		"no set is bound": {
			placement: fixture.Placement("empty", "p").Sets("s1"),
			want: []string{"spec.clusterSets: ignored, because no ManagedClusterSet of that name is bound to the namespace: s1; " +
				"create a ManagedClusterSetBinding"},
		},
		"an empty name of a set": {
			placement: ask().Sets("s1", ""),
			want:      []string{`spec.clusterSets[1]: "" is not the name of a ManagedClusterSet: remove it; an empty list means all bound sets`},
		},
		"a group's name twice": {
			placement: ask(),
			edit: func(pl *v1alpha1.Placement) {
				pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{{GroupName: "g"}, {GroupName: "h"}, {GroupName: "g"}}
			},
			want: []string{"spec.decisionStrategy.groupStrategy.decisionGroups[2].groupName: g is also the name of " +
				"spec.decisionStrategy.groupStrategy.decisionGroups[0]: programs that read a group by its name get the clusters of both; give each group its own name"},
		},
		"a negative weight": {placement: ask().AddOn("r", "v", -1), want: []string{negative}},
		"a negative weight, and every cluster has the score": {
			placement: ask().AddOn("r", "v", -1), clusters: []fixture.ClusterBuilder{fixture.Cluster("c")},
		},
		"a negative weight, and no cluster has the score": {
			placement: ask().AddOn("r", "w", -1),
			want:      []string{configurations + `[0].scoreCoordinate.addOn: no cluster that the namespace can use has an AddOnPlacementScore "r" with the score "w", which counts as 0`},
		},
		"a negative weight, without the clusters that lack the score": {
			placement: ask().AddOn("r", "v", -1).Predicate(fixture.MatchCEL(hasScore)),
		},
		"a negative weight, and one predicate of two requires the score": {
			placement: ask().AddOn("r", "v", -1).Predicate(fixture.MatchCEL(hasScore)).Predicate(fixture.MatchLabel("a", "x")), want: []string{negative},
		},
		"no clusters yet": {placement: ask().Predicate(fixture.MatchLabel("a", "z")).AddOn("s", "v", 1), clusters: []fixture.ClusterBuilder{}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.clusters == nil {
				tc.clusters = []fixture.ClusterBuilder{fixture.Cluster("c").Label("a", "x").Claim("k", "1"), fixture.Cluster("d")}
			}
			inv := fleet(tc.placement, tc.clusters...)
			for _, set := range []string{"s2", "s3"} {
				inv.Update(fixture.Set(set))
			}
			inv.Update(fixture.Binding("ns", "s2"))
			inv.Update(fixture.Binding("ns", "gone"))
			inv.Update(fixture.Score("c", "r").Value("v", 0).Obj())
			pl := tc.placement.Obj()
			if tc.edit != nil {
				tc.edit(pl)
			}
			if diff := cmp.Diff(tc.want, decide.Warnings(inv.SnapshotOfNew(pl, fixture.Now, nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestScoreAdvice: the CEL expression of the warning about a negative weight leaves out clusters
// without the score, which were selected first.
func TestScoreAdvice(t *testing.T) {
	pl := ask().Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("r", `v"\w`, -1).Number(1)
	choose := func() (chosen, warnings []string) {
		inv := fleet(pl, fixture.Cluster("c"), fixture.Cluster("d"), fixture.Cluster("e"))
		inv.Update(fixture.Score("c", "r").Value(`v"\w`, 7).Obj())
		inv.Update(fixture.Score("d", "r").Value("v", 9).Obj())
		s := newScheduler(t)
		r := s.Decide(t.Context(), inv.Snapshot(key, fixture.Now, nil))
		defer s.Release(r.Decision)
		return selected(r.Decision), decide.Warnings(inv.SnapshotOfNew(pl.Obj(), fixture.Now, nil))
	}
	chosen, warnings := choose()
	if len(warnings) != 1 || !slices.Equal(chosen, []string{"d"}) {
		t.Fatalf("selects %q with the warnings %q, want d and one", chosen, warnings)
	}
	_, advice, _ := strings.Cut(warnings[0], "the CEL expression ")
	pl = pl.Predicate(fixture.MatchCEL(advice))
	if chosen, warnings := choose(); len(warnings) > 0 || !slices.Equal(chosen, []string{"c"}) {
		t.Errorf("with %s: selects %q, warnings %q; want c and none", advice, chosen, warnings)
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
