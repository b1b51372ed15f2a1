package filters

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
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
	var texts []string
	for _, r := range got {
		texts = append(texts, r.Text)
	}
	without := `without CEL "` + `managedCluster.metadata.name == \"d\""`
	want := []string{
		"predicates[1] without label b", "predicates[0] without label a and " + without, "cluster label b=y", "cluster label a=x and " + without,
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Fatalf("relaxations (-want +got):\n%s", diff)
	}
	first, second := got[2], got[3]
	if first.Placement != nil || first.Cluster.Labels["b"] != "y" || second.Cluster.Labels["a"] != "x" || got[0].Cluster != nil {
		t.Errorf("got %+v", got)
	}
	if selector := got[1].Placement.Spec.Predicates[0].RequiredClusterSelector; len(selector.LabelSelector.MatchLabels) > 0 || !slices.Equal(selector.CelSelector.CelExpressions, []string{matching}) {
		t.Errorf("the loosened predicate is %+v", selector)
	}
	if kept := second.Placement.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions; !slices.Equal(kept, []string{matching}) {
		t.Errorf("kept expressions are %q", kept)
	}
	if before := pl.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions; len(before) != 2 {
		t.Errorf("the Placement itself is changed: %q", before)
	}
}

// TestRelaxSelectors: how the labels and claims of a cluster without any change for each selector.
func TestRelaxSelectors(t *testing.T) {
	const in, notIn, present, absent = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	one := func(matches ...fixture.Match) fixture.PlacementBuilder { return ask().Predicate(matches...) }
	bare, full := fixture.Cluster("c"), fixture.Cluster("c").Label("a", "x").Claim("k", "1")
	for name, tc := range map[string]struct {
		placement  fixture.PlacementBuilder
		cluster    fixture.ClusterBuilder
		want       []string
		wantClaims []v1alpha1.ManagedClusterClaim
	}{
		"a label of several":     {placement: one(fixture.MatchLabelExpression("a", in, "z", "y")), cluster: bare, want: []string{"cluster label a=y"}},
		"any label":              {placement: one(fixture.MatchLabelExpression("a", present)), cluster: bare, want: []string{"cluster label a=true"}},
		"no label":               {placement: one(fixture.MatchLabelExpression("a", absent)), cluster: full, want: []string{"no cluster label a"}, wantClaims: []v1alpha1.ManagedClusterClaim{{Name: "k", Value: "1"}}},
		"another label":          {placement: one(fixture.MatchLabelExpression("a", notIn, "x")), cluster: full, want: []string{"no cluster label a"}, wantClaims: []v1alpha1.ManagedClusterClaim{{Name: "k", Value: "1"}}},
		"a claim":                {placement: one(fixture.MatchClaim("k", in, "1")), cluster: bare, want: []string{"cluster claim k=1"}, wantClaims: []v1alpha1.ManagedClusterClaim{{Name: "k", Value: "1"}}},
		"any claim, then others": {placement: one(fixture.MatchClaim("l", present)), cluster: full, want: []string{"cluster claim l=true"}, wantClaims: []v1alpha1.ManagedClusterClaim{{Name: "k", Value: "1"}, {Name: "l", Value: "true"}}},
		"a label that it has, and one that it has not": {
			placement: one(fixture.MatchLabel("a", "x"), fixture.MatchLabel("b", "y")), cluster: full, want: []string{"cluster label b=y"}, wantClaims: []v1alpha1.ManagedClusterClaim{{Name: "k", Value: "1"}},
		},
		"contradictory labels":              {placement: one(fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("a", notIn, "x")), cluster: bare},
		"contradictory claims":              {placement: one(fixture.MatchClaim("k", in, "1"), fixture.MatchClaim("k", absent)), cluster: bare},
		"the cluster set":                   {placement: one(fixture.MatchLabel(v1alpha1.ClusterSetLabel, "t")), cluster: bare},
		"an expression":                     {placement: one(fixture.MatchCEL("1 > 2")), cluster: bare},
		"a predicate that selects it":       {placement: one(), cluster: bare},
		"only predicates that can be met":   {placement: one(fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("a", absent)).Predicate(fixture.MatchLabel("b", "y")), cluster: bare, want: []string{"cluster label b=y"}},
		"of predicates of equal costs, all": {placement: one(fixture.MatchLabel("b", "y")).Predicate(fixture.MatchLabel("a", "x")), cluster: bare, want: []string{"cluster label b=y", "cluster label a=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, state := newPredicate(t), stateOf(hub(tc.placement, tc.cluster))
			var got []string
			for _, r := range p.Relax(context.Background(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0)) {
				if r.Cluster == nil {
					continue
				}
				got = append(got, r.Text)
				if diff := cmp.Diff(tc.wantClaims, r.Cluster.Status.ClusterClaims); diff != "" {
					t.Errorf("claims (-want +got):\n%s", diff)
				}
				if len(r.Cluster.Claims) != len(tc.wantClaims) {
					t.Errorf("claims are read as %v", r.Cluster.Claims)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoosen: the requirements that a cluster does not meet are removed from the Placement.
func TestLoosen(t *testing.T) {
	const in, notIn, present, absent = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	one := func(matches ...fixture.Match) fixture.PlacementBuilder { return ask().Predicate(matches...) }
	full := fixture.Cluster("c").Label("a", "x").Claim("k", "1")
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		want      []string
	}{
		"all are met":          {one(fixture.MatchLabel("a", "x"), fixture.MatchClaim("k", in, "1")), nil},
		"a label":              {one(fixture.MatchLabel("a", "y"), fixture.MatchLabelExpression("a", present)), []string{"predicate without label a"}},
		"a label and a claim":  {one(fixture.MatchLabel("b", "y"), fixture.MatchClaim("k", notIn, "1")), []string{"predicate without label b and predicate without claim k"}},
		"contradictory labels": {one(fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("a", absent)), []string{"predicate without label a"}},
		"an expression":        {one(fixture.MatchCEL("1 > 2")), []string{`without CEL "1 > 2"`}},
	} {
		t.Run(name, func(t *testing.T) {
			p, state := newPredicate(t), stateOf(hub(tc.placement, full))
			var got []string
			for _, r := range p.Relax(context.Background(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0)) {
				if r.Cluster == nil {
					got = append(got, r.Text)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
