package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

const (
	memory   = v1alpha1.PrioritizerResourceAllocatableMemory
	additive = v1alpha1.PrioritizerPolicyModeAdditive
	exact    = v1alpha1.PrioritizerPolicyModeExact
)

func ask() fixture.PlacementBuilder { return fixture.Placement("ns", "p") }

func TestPolicy(t *testing.T) {
	addOn := func(edit func(*v1alpha1.PrioritizerConfig)) *v1alpha1.Placement {
		p := ask().AddOn("r", "v", 3).Obj()
		edit(&p.Spec.PrioritizerPolicy.Configurations[0])
		return p
	}
	tests := map[string]struct {
		placement *v1alpha1.Placement
		want      []string
		wantErr   string
	}{
		"the defaults":                     {placement: ask().Obj(), want: []string{"Balance×1", "Steady×1"}},
		"Additive lays over the defaults":  {placement: ask().Mode(additive).Prioritizer(memory, 2).Prioritizer("Steady", 3).Obj(), want: []string{"Balance×1", "Steady×3", memory + "×2"}},
		"no mode is Additive":              {placement: ask().Prioritizer(memory, -2).Obj(), want: []string{"Balance×1", "Steady×1", memory + "×-2"}},
		"Exact is what is listed":          {placement: ask().Mode(exact).Prioritizer(memory, 2).Obj(), want: []string{memory + "×2"}},
		"Exact with nothing":               {placement: ask().Mode(exact).Obj()},
		"0 switches off":                   {placement: ask().Prioritizer("Balance", 0).Prioritizer(memory, 0).Obj(), want: []string{"Steady×1"}},
		"the last weight wins":             {placement: ask().Mode(exact).Prioritizer(memory, 2).Prioritizer("Steady", 1).Prioritizer(memory, 5).Obj(), want: []string{memory + "×5", "Steady×1"}},
		"switched off by the last":         {placement: ask().Mode(exact).Prioritizer(memory, 2).Prioritizer(memory, 0).Obj()},
		"add-on coordinates are distinct":  {placement: ask().Mode(exact).AddOn("r", "v", 1).AddOn("r", "w", 2).AddOn("r", "v", 3).Obj(), want: []string{"AddOn/r/v×3", "AddOn/r/w×2"}},
		"a weight that is absent is 1":     {placement: addOn(func(c *v1alpha1.PrioritizerConfig) { c.Weight = nil }), want: []string{"Balance×1", "Steady×1", "AddOn/r/v×1"}},
		"an AddOn ignores a stray builtIn": {placement: addOn(func(c *v1alpha1.PrioritizerConfig) { c.ScoreCoordinate.BuiltIn = "Nonsense" }), want: []string{"Balance×1", "Steady×1", "AddOn/r/v×3"}},
		"a BuiltIn ignores a stray addOn": {placement: addOn(func(c *v1alpha1.PrioritizerConfig) {
			c.ScoreCoordinate.Type, c.ScoreCoordinate.BuiltIn = v1alpha1.ScoreCoordinateTypeBuiltIn, memory
		}), want: []string{"Balance×1", "Steady×1", memory + "×3"}},
		"an unknown mode":             {placement: ask().Mode("Fuzzy").Obj(), wantErr: `spec.prioritizerPolicy.mode: Unsupported value: "Fuzzy": supported values: "Additive", "Exact"`},
		"no coordinate":               {placement: addOn(func(c *v1alpha1.PrioritizerConfig) { c.ScoreCoordinate = nil }), wantErr: `spec.prioritizerPolicy.configurations[0].scoreCoordinate: Required value: name a prioritizer, for example {type: BuiltIn, builtIn: Steady}`},
		"no coordinate, weight 0":     {placement: addOn(func(c *v1alpha1.PrioritizerConfig) { c.ScoreCoordinate, *c.Weight = nil, 0 }), wantErr: `spec.prioritizerPolicy.configurations[0].scoreCoordinate: Required value: name a prioritizer, for example {type: BuiltIn, builtIn: Steady}`},
		"an unknown prioritizer":      {placement: ask().Prioritizer("Nonsense", 1).Obj(), wantErr: `spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn: Unsupported value: "Nonsense": supported values: "Balance", "ResourceAllocatableCPU", "ResourceAllocatableMemory", "Spread", "Steady"`},
		"AddOn is no BuiltIn":         {placement: ask().Prioritizer("AddOn", 1).Obj(), wantErr: `spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn: Unsupported value: "AddOn": supported values: "Balance", "ResourceAllocatableCPU", "ResourceAllocatableMemory", "Spread", "Steady"`},
		"unknown, of weight 0":        {placement: ask().Prioritizer("Nonsense", 0).Obj(), want: []string{"Balance×1", "Steady×1"}},
		"no addOn block":              {placement: addOn(func(c *v1alpha1.PrioritizerConfig) { c.ScoreCoordinate.AddOn = nil }), wantErr: `spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn: Required value: addOn is required when type is AddOn`},
		"Spread is for the selection": {placement: ask().Prioritizer(v1alpha1.PrioritizerSpread, 4).Obj(), want: []string{"Balance×1", "Steady×1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(ask(), fixture.Cluster("c1"))
			tc.placement.Generation = 2
			inv.Update(tc.placement)
			r := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			var got []string
			for _, s := range r.Scores {
				got = append(got, fmt.Sprintf("%s×%d", s.Plugin, s.Weight))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("prioritizers (-want +got):\n%s", diff)
			}
			if r.Failure.Reason() != tc.wantErr || r.Misconfigured() != (tc.wantErr != "") {
				t.Errorf("got %s %q, want %q", r.Failure.Code(), r.Failure.Reason(), tc.wantErr)
			}
			if m := r.Conditions()[0].Message; tc.wantErr != "" && m != tc.wantErr {
				t.Errorf("the condition says %q", m)
			}
		})
	}
}

// TestSelection: selecting without ranking all candidates returns the same clusters as a full
// ranking by tier, total and name.
func TestSelection(t *testing.T) {
	s := newScheduler(t)
	rapid.Check(t, func(t *rapid.T) {
		p := ask().Mode(exact).AddOn("r", "v", 1)
		n := rapid.IntRange(0, 40).Draw(t, "clusters")
		k := rapid.IntRange(0, 40).Draw(t, "numberOfClusters")
		inv := fleet(p.Number(int32(k)))
		for i := range n {
			c := fixture.Cluster(fmt.Sprintf("c%02d", i)).Set("s1")
			if rapid.IntRange(0, 3).Draw(t, "taint") == 0 {
				c = c.Taint("t", "", v1alpha1.TaintEffectPreferNoSelect)
			}
			inv.Update(c.Obj())
			inv.Update(fixture.Score(fmt.Sprintf("c%02d", i), "r").Value("v", rapid.Int32Range(0, 4).Draw(t, "score")).Obj())
		}
		snapshot := inv.Snapshot(key, fixture.Now, nil)
		snapshot.Limit = rapid.IntRange(-1, 40).Draw(t, "limit")
		r := s.Decide(context.Background(), snapshot)
		want := min(k, n)
		if snapshot.Limit >= 0 {
			want = min(want, snapshot.Limit)
		}
		if len(r.Selected) != want {
			t.Fatalf("selected %d of %d, want %d", len(r.Selected), n, want)
		}
		for rank, i := range r.Ranking() {
			if rank < want && r.Selected[rank].Cluster != r.Feasible[i] {
				t.Fatalf("place %d has %s, the ranking %s", rank, r.Selected[rank].Cluster.Name, r.Feasible[i].Name)
			}
			if rank == 0 {
				continue
			}
			a, b := r.Ranking()[rank-1], i
			x, y := r.State.Demoted().Has(r.Feasible[a].Index), r.State.Demoted().Has(r.Feasible[b].Index)
			ordered := !x && y || x == y && (r.Totals[a] > r.Totals[b] || r.Totals[a] == r.Totals[b] && r.Feasible[a].Name < r.Feasible[b].Name)
			if !ordered {
				t.Fatalf("%s ranks before %s", r.Feasible[a].Name, r.Feasible[b].Name)
			}
		}
	})
}

// TestSelectionFails: a Placement whose selection costs too much is misconfigured; nothing is
// decided, and no cluster is unpublished.
func TestSelectionFails(t *testing.T) {
	inv := fleet(ask().Number(750).Spread("rack", 1, v1alpha1.ScheduleAnyway).Prioritizer(v1alpha1.PrioritizerSpread, 1))
	for i := range 750 {
		inv.Update(fixture.Cluster(fmt.Sprintf("c%03d", i)).Set("s1").Label("rack", fmt.Sprint(i)).Obj())
	}
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("c000").Obj())
	r := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
	if !r.Misconfigured() || !strings.Contains(r.Failure.Reason(), "750 clusters to choose times 750 topology domains") {
		t.Errorf("the failure is %s %q", r.Failure.Code(), r.Failure.Reason())
	}
	if len(r.Selected) > 0 || r.Target != nil {
		t.Errorf("selected %d, proposed %v", len(r.Selected), r.Target)
	}
}

// TestConditions goes through the rows of the table of conditions, first to last.
func TestConditions(t *testing.T) {
	const zone = "zone"
	cluster := func(name, z string) client.Object { return fixture.Cluster(name).Set("s1").Label(zone, z).Obj() }
	bound := []client.Object{fixture.Set("s1"), fixture.Binding("ns", "s1")}
	two := append([]client.Object{cluster("c1", "a"), cluster("c2", "a")}, bound...)
	broken := fixture.MatchLabelExpression("a", "Near")
	tests := map[string]struct {
		objects   []client.Object
		placement fixture.PlacementBuilder
		limit     *int
		// want is "status reason message" of PlacementSatisfied.
		want              string
		wantMisconfigured string
	}{
		"no binding": {objects: []client.Object{fixture.Set("s1")}, placement: ask(),
			want: "False NoManagedClusterSetBindings No valid ManagedClusterSetBindings found in placement namespace"},
		"a binding of no set": {objects: []client.Object{fixture.Binding("ns", "s1")}, placement: ask(),
			want: "False NoManagedClusterSetBindings No valid ManagedClusterSetBindings found in placement namespace"},
		"no setNames set": {objects: bound, placement: ask().Sets("s8", "s9"),
			want: "False NoIntersection None of ManagedClusterSets [s8,s9] is bound to placement namespace"},
		"no candidates": {objects: append([]client.Object{fixture.Set("s2"), fixture.Binding("ns", "s2")}, bound...), placement: ask(),
			want: "False AllManagedClusterSetsEmpty All ManagedClusterSets [s1,s2] have no member ManagedCluster"},
		"no candidates and a mistake": {objects: bound, placement: ask().Predicate(broken),
			want: `False Misconfigured Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: ` +
				`Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist"`,
			wantMisconfigured: `Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: ` +
				`Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"a mistake": {objects: two, placement: ask().Predicate(broken),
			want: `False Misconfigured Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: ` +
				`Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist"`,
			wantMisconfigured: `Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: ` +
				`Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"nothing matches": {objects: two, placement: ask().Predicate(fixture.MatchLabel(zone, "z")),
			want: "False NoManagedClusterMatched No ManagedCluster matches any of the cluster predicate: of 2 candidates 2 excluded by Predicate"},
		"none is wanted": {objects: two, placement: ask().Number(0),
			want: "True AllDecisionsScheduled All cluster decisions scheduled"},
		"spread stops short": {objects: append([]client.Object{fixture.Cluster("c3").Set("s1").Obj()}, two...),
			placement: ask().Spread(zone, 2, v1alpha1.DoNotSchedule),
			want: "False SpreadUnsatisfiable 1 cluster decisions unscheduled by " +
				"spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 2); 1 cluster lacks the label zone"},
		"all scheduled":     {objects: two, placement: ask(), want: "True AllDecisionsScheduled All cluster decisions scheduled"},
		"as many as wanted": {objects: two, placement: ask().Number(2), want: "True AllDecisionsScheduled All cluster decisions scheduled"},
		"fewer than wanted": {objects: two, placement: ask().Number(5), want: "False NotAllDecisionsScheduled 3 cluster decisions unscheduled"},
		"excluded by two": {
			objects:   append([]client.Object{fixture.Cluster("c3").Set("s1").Label(zone, "b").Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj()}, two...),
			placement: ask().Number(5).Predicate(fixture.MatchLabelExpression(zone, metav1.LabelSelectorOpIn, "b")).Predicate(fixture.MatchLabelExpression("x", metav1.LabelSelectorOpExists)),
			want:      "False NoManagedClusterMatched No ManagedCluster matches any of the cluster predicate: of 3 candidates 2 excluded by Predicate, 1 by TaintToleration",
		},
		"capped":                  {objects: two, placement: ask(), limit: new(1), want: "False NotAllDecisionsScheduled 1 cluster decisions unscheduled"},
		"capped, and so many fit": {objects: two, placement: ask().Number(1), limit: new(1), want: "True AllDecisionsScheduled All cluster decisions scheduled"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			for _, o := range append(tc.objects, tc.placement.Generation(7).Obj()) {
				inv.Update(o)
			}
			snapshot := inv.Snapshot(key, fixture.Now, nil)
			if tc.limit != nil {
				snapshot.Limit = *tc.limit
			}
			conditions := newScheduler(t).Decide(context.Background(), snapshot).Conditions()
			misconfigured, satisfied := conditions[0], conditions[1]
			if diff := cmp.Diff(tc.want, fmt.Sprint(satisfied.Status, " ", satisfied.Reason, " ", satisfied.Message)); diff != "" {
				t.Errorf("PlacementSatisfied (-want +got):\n%s", diff)
			}
			want := "False Succeedconfigured Placement configurations check pass"
			if tc.wantMisconfigured != "" {
				want = "True Misconfigured " + tc.wantMisconfigured
			}
			if diff := cmp.Diff(want, fmt.Sprint(misconfigured.Status, " ", misconfigured.Reason, " ", misconfigured.Message)); diff != "" {
				t.Errorf("PlacementMisconfigured (-want +got):\n%s", diff)
			}
			if misconfigured.ObservedGeneration != 7 || satisfied.ObservedGeneration != 7 {
				t.Error("the conditions do not have the generation that they describe")
			}
		})
	}
}

func TestWhatNoAnswerCouldBePublishedFor(t *testing.T) {
	long := strings.Repeat("x", v1alpha1.MaxLabelValueLength+1)
	tests := map[string]struct {
		placement    fixture.PlacementBuilder
		wantProposal bool
	}{
		"a negative number": {placement: ask().Number(-1), wantProposal: true},
		"a name too long":   {placement: fixture.Placement("ns", long)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(tc.placement, fixture.Cluster("c1"))
			r := newScheduler(t).Decide(context.Background(), inv.Snapshot(inventory.Key{Namespace: "ns", Name: tc.placement.Obj().Name}, fixture.Now, nil))
			if !r.Misconfigured() {
				t.Errorf("got %v: the Placement is misconfigured", r.Failure.Err())
			}
			if p := r.Target; (p != nil) != tc.wantProposal || p != nil && len(p.Selected) > 0 {
				t.Errorf("the proposal is %+v", p)
			}
		})
	}
}

func TestProposal(t *testing.T) {
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		published []string
		want      *framework.Proposal
	}{
		"what is new and what goes": {placement: ask(), published: []string{"c2", "gone", "c9"},
			want: &framework.Proposal{Added: []string{"c1"}, Removed: []string{"c9", "gone"}}},
		"nothing changes": {placement: ask(), published: []string{"c1", "c2"}, want: &framework.Proposal{}},
		"a computed empty answer is an answer": {placement: ask().Number(0), published: []string{"c1"},
			want: &framework.Proposal{Removed: []string{"c1"}}},
		"a mistake leaves what is published": {placement: ask().Number(-1), published: []string{"c1"}},
		"a mistake, nothing published":       {placement: ask().Number(-1), want: &framework.Proposal{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(tc.placement, fixture.Cluster("c1"), fixture.Cluster("c2"))
			if tc.published != nil {
				inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists(tc.published...).Obj())
			}
			got := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil)).Target
			if (got == nil) != (tc.want == nil) {
				t.Fatalf("got %+v", got)
			}
			if got == nil {
				return
			}
			if diff := cmp.Diff([2][]string{tc.want.Added, tc.want.Removed}, [2][]string{got.Added, got.Removed}); diff != "" {
				t.Errorf("added and removed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSkipped(t *testing.T) {
	deleting := ask().Obj()
	now := fixture.At(0)
	deleting.DeletionTimestamp = &now
	tests := map[string]struct {
		placement *v1alpha1.Placement
		want      string
	}{
		"published":   {placement: ask().Obj()},
		"disabled":    {placement: ask().Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj(), want: "disabled"},
		"not so":      {placement: ask().Annotation(v1alpha1.PlacementDisableAnnotation, "True").Obj()},
		"terminating": {placement: deleting, want: "terminating"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := framework.WhyNotDecided(tc.placement); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
