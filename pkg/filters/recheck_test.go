package filters

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestTaintTolerationRecheck(t *testing.T) {
	for name, tt := range map[string]struct {
		effect      v1alpha1.TaintEffect
		toleration  bool
		seconds     int64
		published   bool
		wantPassing framework.Passing
	}{
		"NoSelect":                           {effect: noSelect, wantPassing: framework.Excluded},
		"NoSelect, tolerated":                {effect: noSelect, toleration: true, wantPassing: framework.Passes},
		"NoSelect, tolerated for a while":    {effect: noSelect, toleration: true, seconds: 100, wantPassing: framework.Unclear},
		"NoSelect, no longer tolerated":      {effect: noSelect, toleration: true, seconds: 5, wantPassing: framework.Excluded},
		"NoSelectIfNew":                      {effect: noSelectNew, wantPassing: framework.Excluded},
		"NoSelectIfNew, published":           {effect: noSelectNew, published: true, wantPassing: framework.Passes},
		"NoSelect, published":                {effect: noSelect, published: true, wantPassing: framework.Excluded},
		"PreferNoSelect":                     {effect: preferNoSel, wantPassing: framework.Unclear},
		"PreferNoSelect, tolerated":          {effect: preferNoSel, toleration: true, wantPassing: framework.Passes},
		"PreferNoSelect, tolerated a while":  {effect: preferNoSel, toleration: true, seconds: 100, wantPassing: framework.Unclear},
		"NoSelectIfNew, tolerated for a day": {effect: noSelectNew, toleration: true, seconds: 86400, wantPassing: framework.Unclear},
	} {
		t.Run(name, func(t *testing.T) {
			p := ask()
			if tt.toleration {
				p = p.Toleration("k", exists, "", "")
				if tt.seconds > 0 {
					p = p.Seconds(tt.seconds)
				}
			}
			inv := hub(p, fixture.Cluster("c").TaintAt("k", "v", tt.effect, fixture.At(-10)), fixture.Cluster("plain"))
			if tt.published {
				inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("c").Obj())
			}
			state := stateOf(inv)
			passes, ok := TaintToleration{}.Recheck(state)
			if !ok {
				t.Fatal("the plugin cannot filter again")
			}
			if got := passes(state.Snapshot().Cluster("c")); got != tt.wantPassing {
				t.Errorf("got %d, want %d", got, tt.wantPassing)
			}
			if got := passes(state.Snapshot().Cluster("plain")); got != framework.Passes {
				t.Errorf("a cluster without taints: %d", got)
			}
		})
	}
}

// TestRecheckIsFilter compares the results afterwards with those of Filter.
func TestRecheckIsFilter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, label) }
		p := ask()
		for range rapid.IntRange(0, 2).Draw(rt, "predicates") {
			p = p.Predicate(rapid.SampledFrom([]fixture.Match{
				fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("a", metav1.LabelSelectorOpNotIn, "y"), fixture.MatchClaim("k", metav1.LabelSelectorOpIn, "x"),
			}).Draw(rt, "match"))
		}
		inv := hub(p, fixture.Cluster("c").Label("a", draw("a", "x", "y", "z")).Claim("k", draw("k", "x", "y")))
		plugin, err := NewPredicate(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		predicate, state := plugin.(*Predicate), stateOf(inv)
		predicate.PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
		cluster := state.Snapshot().Cluster("c")
		want := framework.Passes
		if !predicate.Filter(t.Context(), state, state.Snapshot().Subject.Placement, cluster).IsSuccess() {
			want = framework.Excluded
		}
		passes, ok := predicate.Recheck(state)
		switch {
		case !ok:
			rt.Error("the plugin cannot filter again")
		case passes == nil && want != framework.Passes:
			rt.Error("all clusters pass afterwards")
		case passes != nil && passes(cluster) != want:
			rt.Errorf("the result is %d afterwards, was %d", passes(cluster), want)
		}
	})
}

// TestPredicateRecheckRefuses checks that expressions, whose cost is limited, and long selectors
// are left to attempts.
func TestPredicateRecheckRefuses(t *testing.T) {
	values := make([]string, 10*recheckRequirements)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	for name, p := range map[string]fixture.PlacementBuilder{
		"a long selector":      ask().Predicate(fixture.MatchLabelExpression("a", metav1.LabelSelectorOpNotIn, values...)),
		"an expression":        ask().Predicate(fixture.MatchCEL("true")),
		"a selector not valid": ask().Predicate(fixture.MatchLabelExpression("a", "Near")),
	} {
		plugin, err := NewPredicate(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		state := stateOf(hub(p, fixture.Cluster("c")))
		plugin.(*Predicate).PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
		if _, ok := plugin.(*Predicate).Recheck(state); ok {
			t.Errorf("%s: filters again", name)
		}
	}
	plugin, err := NewPredicate(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	inv := hub(ask().Predicate(fixture.MatchLabel("a", "x")))
	state := stateOf(inv)
	plugin.(*Predicate).PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
	edited := ask().Predicate(fixture.MatchLabel("a", "y")).Obj()
	edited.Generation = 7
	inv.Update(edited)
	if _, ok := plugin.(*Predicate).Recheck(framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))); ok {
		t.Error("filters again with the selectors of before an edit")
	}
}

// TestRecheckWithoutPolicies checks the filters that do nothing for an ordinary Placement.
func TestRecheckWithoutPolicies(t *testing.T) {
	inv := hub(ask(), fixture.Cluster("c"))
	for _, plugin := range []framework.Rechecker{PlacementAffinity{}, ResourceFit{}, Eviction{}, &SelectionPolicy{}} {
		if passes, ok := plugin.Recheck(stateOf(inv)); !ok || passes != nil {
			t.Errorf("%s: not all clusters pass", plugin.Name())
		}
	}
	inv.Update(fixture.Eviction("n", "e", "p", "c").Valid(metav1.ConditionTrue).Obj())
	if _, ok := (Eviction{}).Recheck(stateOf(inv)); ok {
		t.Error("Eviction filters again although there is an eviction")
	}
}
