package filters

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func newPredicate(t *testing.T) *Predicate {
	t.Helper()
	p, err := NewPredicate(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Predicate)
}

// admitted are the names of the clusters that PreFilter lets through; Filter must say the same of
// each.
func admitted(t *testing.T, p *Predicate, inv *inventory.Inventory) []string {
	t.Helper()
	return admittedTo(t, p, inv, inventory.Key{Namespace: "n", Name: "p"})
}

func admittedTo(t *testing.T, p *Predicate, inv *inventory.Inventory, key inventory.Key) []string {
	t.Helper()
	state := framework.NewCycleState(inv.Snapshot(key, fixture.Now, nil))
	snapshot := state.Snapshot()
	result, status := p.PreFilter(context.Background(), state, snapshot.Subject.Placement)
	if !status.IsSuccess() && !status.IsSkip() {
		t.Fatalf("PreFilter: %v", status.Err())
	}
	var names []string
	for i := range snapshot.Sets[0].Members.All {
		cluster := snapshot.Clusters.Get(i)
		one := p.Filter(context.Background(), state, snapshot.Subject.Placement, cluster)
		if in := result == nil || result.Clusters.Has(i); in != one.IsSuccess() {
			t.Errorf("PreFilter admits %s: %t, Filter: %v", cluster.Name, in, one.Err())
		} else if in {
			names = append(names, cluster.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestPredicate(t *testing.T) {
	clusters := []fixture.ClusterBuilder{
		fixture.Cluster("both").Label("a", "x").Claim("k", "1"),
		fixture.Cluster("claim").Claim("k", "2").Claim("k", "1"),
		fixture.Cluster("label").Label("a", "x").Claim("k", "1").Claim("k", "2"),
		fixture.Cluster("none"),
	}
	const in, notIn, present = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		want      []string
	}{
		"no predicate selects all":      {placement: ask(), want: []string{"both", "claim", "label", "none"}},
		"an empty one, too":             {placement: ask().Predicate(), want: []string{"both", "claim", "label", "none"}},
		"a label":                       {placement: ask().Predicate(fixture.MatchLabel("a", "x")), want: []string{"both", "label"}},
		"not a label, missing or other": {placement: ask().Predicate(fixture.MatchLabelExpression("a", notIn, "x")), want: []string{"claim", "none"}},
		"a claim, the last of a name":   {placement: ask().Predicate(fixture.MatchClaim("k", in, "1")), want: []string{"both", "claim"}},
		"parts are ANDed": {
			placement: ask().Predicate(fixture.MatchLabel("a", "x"), fixture.MatchClaim("k", in, "1")), want: []string{"both"},
		},
		"predicates are ORed": {
			placement: ask().Predicate(fixture.MatchLabel("a", "x")).Predicate(fixture.MatchClaim("k", present)),
			want:      []string{"both", "claim", "label"},
		},
		"CEL is ANDed, too": {
			placement: ask().Predicate(fixture.MatchLabel("a", "x"), fixture.MatchCEL(`managedCluster.metadata.name == "label"`)),
			want:      []string{"label"},
		},
		"labels beside CEL": {
			placement: ask().Predicate(fixture.MatchLabel("a", "x")).Predicate(fixture.MatchCEL(`managedCluster.metadata.name == "none"`)),
			want:      []string{"both", "label", "none"},
		},
		"CEL after another predicate with CEL": {
			placement: ask().Predicate(fixture.MatchLabel("a", "z"), fixture.MatchCEL("true")).
				Predicate(fixture.MatchCEL(`managedCluster.metadata.name == "none"`)),
			want: []string{"none"},
		},
		"no match at all": {placement: ask().Predicate(fixture.MatchLabel("a", "z"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, admitted(t, newPredicate(t), hub(tc.placement, clusters...))); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPredicatesThatDoNotCompile(t *testing.T) {
	tests := map[string]fixture.Match{
		"a label operator": fixture.MatchLabelExpression("a", "Near"),
		"a label key":      fixture.MatchLabel("not a key", "x"),
		"a claim operator": fixture.MatchClaim("k", metav1.LabelSelectorOpIn),
		"CEL":              fixture.MatchCEL("1 +"),
	}
	for name, match := range tests {
		t.Run(name, func(t *testing.T) {
			state := stateOf(hub(ask().Predicate(match)))
			_, status := newPredicate(t).PreFilter(context.Background(), state, state.Snapshot().Subject.Placement)
			if status.Code() != framework.UnschedulableAndUnresolvable || status.Reason() == "" {
				t.Errorf("got %s %q: the Placement is misconfigured", status.Code(), status.Reason())
			}
		})
	}
}

// TestValidatePredicates: the end of the context ends a validation without a result.
func TestValidatePredicates(t *testing.T) {
	late, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx     context.Context
		matches []fixture.Match
		want    int
	}{
		"valid":                    {ctx: context.Background(), matches: []fixture.Match{fixture.MatchCEL("1 < 2")}},
		"invalid":                  {ctx: context.Background(), matches: []fixture.Match{fixture.MatchCEL("1 <")}, want: 1},
		"invalid, the first, late": {ctx: late, matches: []fixture.Match{fixture.MatchCEL("2 <"), fixture.MatchCEL("4 < 5")}, want: 1},
		"invalid, but not in time": {ctx: late, matches: []fixture.Match{fixture.MatchCEL("3 < 4"), fixture.MatchCEL("3 <")}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newPredicate(t).Validate(tc.ctx, ask().Predicate(tc.matches...).Obj()); len(got) != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	inv := hub(ask().Predicate(fixture.MatchLabel("a", "x")).Predicate(fixture.MatchClaim("k", metav1.LabelSelectorOpExists)).
		Predicate(fixture.MatchCEL("1 > 2")), fixture.Cluster("c"))
	state := stateOf(inv)
	status := newPredicate(t).Filter(context.Background(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0))
	want := `labels do not match a=x; claims do not match k; CEL "1 > 2" is false`
	if status.Reason() != want {
		t.Errorf("got %q, want %q", status.Reason(), want)
	}
}

// TestMatchesFollowChanges: the cache stays correct after any sequence of changes of the fleet.
func TestMatchesFollowChanges(t *testing.T) {
	gold := func(name string) fixture.ClusterBuilder { return fixture.Cluster(name).Set("s").Label("tier", "gold") }
	p := newPredicate(t)
	inv := hub(ask().Predicate(fixture.MatchLabel("tier", "gold")), gold("c1"), fixture.Cluster("c2"))
	check := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, admitted(t, p, inv)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	check("at first", "c1")
	inv.Update(gold("c2").Obj())
	check("c2 gets the label", "c1", "c2")
	inv.Update(fixture.Cluster("c1").Set("s").Obj())
	check("c1 loses it", "c2")
	inv.Delete(gold("c2").Obj())
	check("c2 goes")
	inv.Update(fixture.Cluster("c3").Set("s").Obj())
	check("c3, in the place of c2, has no label")
	inv.Update(gold("c4").Obj())
	check("c4 comes", "c4")
	inv.Update(ask().Generation(2).Predicate(fixture.MatchLabelExpression("tier", metav1.LabelSelectorOpDoesNotExist)).Obj())
	check("the predicate is another", "c1", "c3")
	inv.Update(ask().Generation(3).Obj())
	check("there is none", "c1", "c3", "c4")
	for range 10_000 { // More than the log keeps.
		inv.Update(gold("c5").Obj())
		inv.Delete(gold("c5").Obj())
	}
	inv.Update(ask().Generation(4).Predicate(fixture.MatchLabel("tier", "gold")).Obj())
	check("after many changes", "c4")
	for range 10_000 {
		inv.Update(gold("c6").Obj())
		inv.Delete(gold("c6").Obj())
	}
	inv.Update(gold("c1").Obj())
	check("after more than the log keeps", "c1", "c4")
}

// TestClustersAreEvaluatedOnce: later cycles evaluate only clusters that changed.
func TestClustersAreEvaluatedOnce(t *testing.T) {
	inv := hub(ask(), fixture.Cluster("c1"), fixture.Cluster("c2"))
	v := &matchCache{}
	update := func() (evaluated []string) {
		fits := func(c *framework.Cluster) bool {
			evaluated = append(evaluated, c.Name)
			return true
		}
		if !v.update(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil), fits, func() bool { return false }) {
			t.Error("not all are evaluated")
		}
		return evaluated
	}
	for _, step := range []struct {
		change *v1alpha1.ManagedCluster
		want   []string
	}{
		{nil, []string{"c1", "c2"}},
		{nil, nil},
		{fixture.Cluster("c1").Set("s").Allocatable("cpu", "3").Obj(), nil},
		{fixture.Cluster("c1").Set("s").Label("tier", "gold").Obj(), []string{"c1"}},
		{fixture.Cluster("c3").Set("s").Obj(), []string{"c3"}},
		{nil, nil},
	} {
		if step.change != nil {
			inv.Update(step.change)
		}
		if diff := cmp.Diff(step.want, update()); diff != "" {
			t.Errorf("evaluated (-want +got):\n%s", diff)
		}
	}
}

// TestCachesAreShared: Placements with the same selectors share a cache, whichever
// sets they choose from.
func TestCachesAreShared(t *testing.T) {
	gold := func(name, set string) fixture.ClusterBuilder {
		return fixture.Cluster(name).Set(set).Label("tier", "gold")
	}
	p := newPredicate(t)
	inv := hub(ask().Predicate(fixture.MatchLabel("tier", "gold")), gold("c1", "s"), fixture.Cluster("c2"))
	first, second := inventory.Key{Namespace: "n", Name: "p"}, inventory.Key{Namespace: "m", Name: "p"}
	inv.Update(fixture.Set("r"))
	inv.Update(fixture.Binding("m", "r"))
	inv.Update(fixture.Placement("m", "p").Predicate(fixture.MatchLabel("tier", "gold")).Obj())
	inv.Update(gold("c3", "r").Obj())
	check := func(step string, key inventory.Key, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, admittedTo(t, p, inv, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	check("the first's, at first", first, "c1")
	check("the second's", second, "c3")
	if len(p.caches) != 1 || p.compiled[first].cache != p.compiled[second].cache {
		t.Errorf("%d Placements share %d matchCache", len(p.compiled), len(p.caches))
	}
	inv.Update(fixture.Cluster("c1").Set("s").Obj())
	inv.Update(gold("c2", "r").Obj())
	check("c2, which moved", second, "c2", "c3")
	check("c1, which changed before the other was expression", first)
	inv.Update(fixture.Cluster("c3").Set("s").Obj())
	check("c3, which moved and changed", first)
	check("c3 is gone", second, "c2")
	inv.Update(ask().Generation(2).Predicate(fixture.MatchLabelExpression("tier", metav1.LabelSelectorOpDoesNotExist)).Obj())
	check("another question", first, "c1", "c3")
	check("the same question", second, "c2")
	if len(p.caches) != 2 {
		t.Errorf("two selectors have %d matchCache", len(p.caches))
	}
	p.Forget(first)
	p.Forget(second)
	p.Forget(second)
	if len(p.caches)+len(p.compiled) != 0 {
		t.Errorf("%d matchCache of Placements that are gone are remembered", len(p.caches))
	}
}

// TestStatusWritesCostNoCompilation: most new states of a Placement are writes of its own status.
func TestStatusWritesCostNoCompilation(t *testing.T) {
	p := newPredicate(t)
	expression := ask().Predicate(fixture.MatchLabel("a", "x"))
	inv := hub(expression, fixture.Cluster("c").Label("a", "x"))
	admitted(t, p, inv)
	key := inventory.Key{Namespace: "n", Name: "p"}
	before := p.compiled[key]
	written := expression.Obj()
	written.Status.NumberOfSelectedClusters = 1
	inv.Update(written)
	admitted(t, p, inv)
	if p.compiled[key] != before {
		t.Error("a write of the status made the predicates be compiled, and all clusters evaluated, again")
	}
	p.Forget(key)
	if p.compiled[key] != nil {
		t.Error("a Placement that is gone is remembered")
	}
}
