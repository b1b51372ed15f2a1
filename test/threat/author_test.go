package threat

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// author is the namespace of the attacker. One set with three clusters is bound to it.
const author = "author"

// probes are Placements that reveal as much as a Placement can. They do not use Balance, whose
// scores depend on other Placements by design.
func probes() map[string]fixture.PlacementBuilder {
	ask := func() fixture.PlacementBuilder {
		return fixture.Placement(author, "probe").Mode("Exact").Prioritizer("Steady", 1)
	}
	cel := func(text string) fixture.PlacementBuilder { return ask().Predicate(fixture.MatchCEL(text)) }
	return map[string]fixture.PlacementBuilder{
		"everything":               ask(),
		"one only":                 ask().Number(1),
		"more than there are":      ask().Number(100),
		"a set that is not bound":  ask().Sets("secret"),
		"both sets":                ask().Sets("mine", "secret"),
		"a set that may not exist": ask().Sets("rumour"),
		"resources":                fixture.Placement(author, "probe").Mode("Exact").Prioritizer("ResourceAllocatableCPU", 1),
		"a score":                  fixture.Placement(author, "probe").Mode("Exact").AddOn("usage", "cpu", 1),
		"labels":                   ask().Predicate(fixture.MatchLabel("owner", "rival")),
		"spread":                   ask().Number(2).Spread("zone", 1, v1alpha1.DoNotSchedule),
		"CEL on any cluster":       cel(`managedCluster.metadata.labels.owner == "rival"`),
		"CEL that fails on theirs": cel(`managedCluster.metadata.labels[?"owner"].orValue("") != "rival" || int("x") == 1`),
		// On one cluster this is dear enough to exhaust the budget of a few.
		"CEL that is dear on theirs": cel(`managedCluster.metadata.labels[?"owner"].orValue("") != "rival" || [1,2,3,4,5,6,7,8,9,10].all(a, ["` +
			`aa"].map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x).map(x, x+x)` +
			`.all(x, x.replace("a", "` + "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" + `") != ""))`),
		"CEL for scores": cel(`managedCluster.scores("usage").exists(s, s.value > 10)`),
		// The scores follow the map that CEL is given, not a name in it.
		"CEL for scores of theirs": cel(`{"metadata": dyn({"name": "theirs-1"})}.scores("usage").size() > 0`),
	}
}

// secrets are what lies outside; each alone must change nothing that the author sees.
func secrets() map[string][]client.Object {
	theirs := func(i string) fixture.ClusterBuilder {
		return fixture.Cluster("theirs-"+i).Set("secret").Label("owner", "rival").Label("zone", "z9").Allocatable("cpu", "900")
	}
	many := make([]client.Object, 0, 30)
	for _, tens := range "abc" {
		for _, ones := range "0123456789" {
			many = append(many, theirs(string(tens)+string(ones)).Obj())
		}
	}
	return map[string][]client.Object{
		"a set":                    {fixture.Set("secret")},
		"a set of that name":       {fixture.Set("rumour")},
		"a binding elsewhere":      {fixture.Set("secret"), fixture.Binding("rival", "secret")},
		"a cluster":                {fixture.Set("secret"), theirs("1").Obj()},
		"a cluster with a taint":   {fixture.Set("secret"), theirs("1").Taint("k", "v", v1alpha1.TaintEffectNoSelect).Obj()},
		"a cluster in no set":      {fixture.Cluster("theirs-1").Label("owner", "rival").Obj()},
		"many clusters":            append(many, fixture.Set("secret")),
		"scores":                   {theirs("1").Obj(), fixture.Score("theirs-1", "usage").Value("cpu", 99).Obj()},
		"a Placement elsewhere":    {fixture.Placement("rival", "probe").Number(2).Obj(), fixture.Binding("rival", "mine")},
		"a decision on my cluster": {fixture.Page("rival", "probe-decision-1").Of("probe").Lists("mine-1", "mine-1").Obj()},
		"a decision on theirs":     {fixture.Page("rival", "other-decision-1").Of("other").Lists("theirs-1", "gone").Obj()},
	}
}

// seen is everything that Berth reports about the author's Placement: conditions, events, pages,
// and the verdicts of berth explain.
func seen(t *testing.T, probe fixture.PlacementBuilder, outside []client.Object) string {
	t.Helper()
	objects := simulator.Objects{
		probe.Obj(), fixture.Set("mine"), fixture.Binding(author, "mine"),
		fixture.Score("mine-2", "usage").Value("cpu", 20).Obj(),
		fixture.Cluster("mine-1").Set("mine").Label("zone", "z1").Allocatable("cpu", "1").Obj(),
		fixture.Cluster("mine-2").Set("mine").Label("zone", "z1").Allocatable("cpu", "2").Obj(),
		fixture.Cluster("mine-3").Set("mine").Label("zone", "z2").Allocatable("cpu", "3").Obj(),
	}
	objects = append(objects, outside...)
	s, err := simulator.New(t.Context(), objects, fixture.Now, simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.Decide(t.Context(), types.NamespacedName{Namespace: author, Name: "probe"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAuthorLearnsNothingOfOthers: with and without each secret, each probe shows the same, to the
// byte.
func TestAuthorLearnsNothingOfOthers(t *testing.T) {
	for name, probe := range probes() {
		t.Run(name, func(t *testing.T) {
			want := seen(t, probe, nil)
			for secret, objects := range secrets() {
				if diff := cmp.Diff(want, seen(t, probe, objects)); diff != "" {
					t.Errorf("%s shows (-without +with):\n%s", secret, diff)
				}
			}
		})
	}
}

// TestBalanceDisclosesCountsOnly: with Balance the author sees that a cluster of the author's own
// is in use, and how much in proportion to the one that is used most. Nothing else shows, and
// nothing outside the pages does.
func TestBalanceDisclosesCountsOnly(t *testing.T) {
	probe := fixture.Placement(author, "probe")
	want := seen(t, probe, nil)
	for secret, objects := range secrets() {
		got := seen(t, probe, objects)
		onMine := secret == "a decision on my cluster"
		if shown := got != want; shown != onMine {
			t.Errorf("%s: shown is %t\n%s", secret, shown, cmp.Diff(want, got))
		}
	}
}
