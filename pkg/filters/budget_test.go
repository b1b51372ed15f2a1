package filters

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// loops is an expression of n nested loops of ten rounds, true in the end.
func loops(n int) string {
	return strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", n) + "true" + strings.Repeat(")", n)
}

// atLimit is an expression that costs more than the limit, and takes little time for that; below
// costs a little less.
var (
	atLimit = replacing(13)
	below   = replacing(0)
)

func replacing(times int) string {
	return `["aa"]` + strings.Repeat(".map(x, x + x)", 13) + `.all(x, [` + strings.Repeat("0, ", times) + `0].all(i, x.replace("a", "` +
		strings.Repeat("b", 60) + `") != ""))`
}

func fleetOf(n int) []fixture.ClusterBuilder {
	clusters := make([]fixture.ClusterBuilder, n)
	for i := range clusters {
		clusters[i] = fixture.Cluster(fmt.Sprintf("c%03d", i)).Label("parity", fmt.Sprint(i%2))
	}
	return clusters
}

func evaluateAll(ctx context.Context, p *Predicate, inv *inventory.Inventory, name string) (*framework.PreFilterResult, *framework.Status, *framework.CycleState) {
	state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: name}, fixture.Now, nil))
	p.Prepare(state.Snapshot().Subject.Placement, func() bool { return false })
	result, status := p.PreFilter(ctx, state, state.Snapshot().Subject.Placement)
	return result, status, state
}

func manyTexts(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprint("v", i)
	}
	return texts
}

// manyValues are requirements of 1,000 values each, none of which matches.
func manyValues(n int) []fixture.Match {
	values := make([]string, 1_000)
	for i := range values {
		values[i] = fmt.Sprintf("%s%03d", strings.Repeat("v", 60), i)
	}
	return slices.Repeat([]fixture.Match{fixture.MatchLabelExpression("parity", metav1.LabelSelectorOpNotIn, values...)}, n)
}

// TestSelectorsYield: a cycle stops evaluating selectors after half of its time, and the next
// one continues. Many values are compiled ahead of cycles.
func TestSelectorsYield(t *testing.T) {
	inv, p := hub(ask().Predicate(manyValues(5)...), fleetOf(100)...), newPredicate(t)
	snapshot := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil)
	if !isExpensive(snapshot.Subject.Placement.Spec.Predicates) {
		t.Error("5,000 values are compiled in a cycle")
	}
	p.Prepare(snapshot.Subject.Placement, func() bool { return false })
	for cycle := 1; ; cycle++ {
		state := framework.NewCycleState(snapshot)
		state.PauseWhen(func() bool { return true })
		result, status := p.PreFilter(t.Context(), state, snapshot.Subject.Placement)
		if status.IsSuccess() {
			if n := result.Clusters.Len(); cycle != 7 || n != 100 {
				t.Errorf("%d match after %d cycles, want 100 after 7", n, cycle)
			}
			return
		}
		if !status.IsUnfinished() || state.Requeue().IsZero() || cycle > 7 {
			t.Fatalf("cycle %d: %s %q", cycle, status.Code(), status.Reason())
		}
	}
}

func TestBudget(t *testing.T) {
	manyLabels := make([]fixture.Match, 5_000)
	for i := range manyLabels {
		manyLabels[i] = fixture.MatchLabel(fmt.Sprint("k", i), "v")
	}
	repeated := func(text string, n int) []fixture.Match {
		return slices.Repeat([]fixture.Match{fixture.MatchCEL(text)}, n)
	}
	for name, tc := range map[string]struct {
		clusters int
		matches  []fixture.Match
		want     string // What the Placement is misconfigured for.
	}{
		"one cluster at the limit":       {clusters: 1, matches: repeated(atLimit, 1)},
		"eleven clusters at the limit":   {clusters: 11, matches: repeated(atLimit, 1), want: `CEL "[\"aa\"].map(x, x + x)`},
		"eleven clusters of eleven":      {clusters: 11, matches: repeated(atLimit, 1), want: "evaluating it for 11 clusters costs more than the budget of 10011000"},
		"many clusters, each its share":  {clusters: 300, matches: repeated(loops(2), 1)},
		"three hundred at the limit":     {clusters: 300, matches: repeated(atLimit, 1), want: "costs more than the budget of 10300000"},
		"many expressions for one":       {clusters: 1, matches: repeated(below, 40), want: `, with 39 more expressions: evaluating`},
		"as many as are allowed":         {clusters: 1, matches: repeated("true", maxExpressions)},
		"too many expressions":           {clusters: 1, matches: repeated("true", maxExpressions+1), want: "spec.predicates: Forbidden: all predicates must have at most 100 CEL expressions of at most 65536 bytes in all"},
		"too long expressions":           {clusters: 1, matches: repeated("'"+strings.Repeat("x", clustercel.MaxLength-10)+"' != ''", 5), want: "spec.predicates: Forbidden: all predicates must have at most 100 CEL expressions"},
		"selectors alone":                {clusters: 300, matches: manyLabels},
		"as many values as are allowed":  {clusters: 1, matches: []fixture.Match{fixture.MatchLabelExpression("parity", metav1.LabelSelectorOpNotIn, manyTexts(maxSelectorValues-1)...)}},
		"too many values":                {clusters: 1, matches: manyValues(11), want: "spec.predicates: Forbidden: the selectors of all predicates must have at most 10000 requirements and values"},
		"selectors alone, more clusters": {clusters: 3_000, matches: manyLabels, want: "1 predicates: evaluating it for 3000 clusters costs more"},
	} {
		t.Run(name, func(t *testing.T) {
			inv := hub(ask().Predicate(tc.matches...), fleetOf(tc.clusters)...)
			_, status, _ := evaluateAll(t.Context(), newPredicate(t), inv, "p")
			if tc.want == "" && !status.IsSuccess() {
				t.Errorf("got %s %q", status.Code(), status.Reason())
			}
			if tc.want != "" && (status.Code() != framework.UnschedulableAndUnresolvable || !strings.Contains(status.Reason(), tc.want)) {
				t.Errorf("got %s %q, want %q", status.Code(), status.Reason(), tc.want)
			}
		})
	}
}

// TestHostileBesideGood: an expensive Placement delays others by at most one slice, and it
// is over after a number of slices that does not grow with what it would cost.
func TestHostileBesideGood(t *testing.T) {
	const good = 100
	handle := &framework.Handle{Client: interceptor.NewClient(nil, interceptor.Funcs{})}
	plugin, err := NewPredicate(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	p := plugin.(*Predicate)
	// On 1,000 clusters that is a hundred times the budget.
	inv := hub(ask().Predicate(fixture.MatchCEL(atLimit)), fleetOf(1_000)...)
	for i := range good {
		inv.Update(fixture.Placement("n", fmt.Sprint("good", i)).Predicate(fixture.MatchCEL(`managedCluster.metadata.labels.parity == "1"`)).Obj())
	}
	hostile := inventory.Key{Namespace: "n", Name: "p"}
	spent := func() uint64 {
		if c := p.compiled[hostile]; c != nil {
			return c.total + c.currentCost
		}
		return 0
	}
	answered := 0
	for cycle := 0; ; cycle++ {
		before := spent()
		_, status, state := evaluateAll(t.Context(), p, inv, "p")
		if cost := spent() - before; cost > sliceCost+clustercel.CostLimit {
			t.Fatalf("one cycle costs %d", cost)
		}
		if status.Code() == framework.UnschedulableAndUnresolvable {
			break
		}
		if status.Code() != framework.Pending || !state.Requeue().Equal(fixture.Now.Add(shortPause)) {
			t.Fatalf("got %s %q, again at %s", status.Code(), status.Reason(), state.Requeue())
		}
		if limit := (budgetBase + 1_000*budgetEach) / sliceCost; cycle > limit {
			t.Fatalf("no verdict after %d cycles", cycle)
		}
		if answered < good {
			result, status, _ := evaluateAll(t.Context(), p, inv, fmt.Sprint("good", answered))
			if !status.IsSuccess() || result.Clusters.Len() != 500 {
				t.Fatalf("a good Placement in between: %s %q", status.Code(), status.Reason())
			}
			answered++
		}
	}
	before := spent()
	for range 100 {
		if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); status.Code() != framework.UnschedulableAndUnresolvable {
			t.Fatalf("expression again: %s", status.Code())
		}
	}
	if spent() != before {
		t.Error("asking again costs something, though nothing changed")
	}
}

// TestSlicesDoNotChangeTheResult: nor does the order in which clusters were added.
func TestSlicesDoNotChangeTheResult(t *testing.T) {
	expression := `managedCluster.metadata.labels.parity == "1" && ` + loops(2)
	other := loops(2) + ` && managedCluster.metadata.name < "c010"`
	parts := 0
	answer := func(slice uint64, late bool, clusters []fixture.ClusterBuilder) (names []string, total uint64) {
		p := newPredicate(t)
		p.slice = slice
		inv := hub(ask().Predicate(fixture.MatchCEL(expression), fixture.MatchCEL(other)).Predicate(fixture.MatchCEL(other+"&& false")).
			Predicate(fixture.MatchCEL(`managedCluster.metadata.name == "c020"`)), clusters...)
		for {
			state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))
			state.PauseWhen(func() bool { return late })
			result, status := p.PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
			if status.IsUnfinished() {
				parts++
				continue
			}
			for i := range result.Clusters.All {
				names = append(names, state.Snapshot().Clusters.Get(i).Name)
			}
			slices.Sort(names)
			return names, p.compiled[inventory.Key{Namespace: "n", Name: "p"}].total
		}
	}
	fleet := fleetOf(30)
	want, cost := answer(math.MaxUint64, false, fleet)
	if diff := cmp.Diff([]string{"c001", "c003", "c005", "c007", "c009", "c020"}, want); diff != "" {
		t.Fatal(diff)
	}
	slices.Reverse(fleet)
	// 0 stands for cycles that are late from the beginning.
	for _, slice := range []uint64{0, 1, 500, 10_000, math.MaxUint64} {
		parts = 0
		late, allowed := slice == 0, slice
		if late {
			allowed = math.MaxUint64
		}
		got, total := answer(allowed, late, fleet)
		if slice < 500 && parts < 30 {
			t.Errorf("in slices of %d: %d parts", slice, parts)
		}
		if diff := cmp.Diff(want, got); diff != "" || total != cost {
			t.Errorf("in slices of %d, at a cost of %d instead of %d: (-want +got)\n%s", slice, total, cost, diff)
		}
	}
}

// endsAfter is a context that ends once it was expression a number of times whether it has.
type endsAfter struct {
	context.Context
	left *int
}

func (c endsAfter) Err() error {
	if *c.left--; *c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestInterruptedEvaluation: an evaluation that the end of the context interrupts is made again by
// the next part. It fails the attempt only if it was the first of its part: then it needs too long
// alone.
func TestInterruptedEvaluation(t *testing.T) {
	for name, tc := range map[string]struct {
		evaluationState int
		want            framework.Code
		unfinished      bool
	}{
		"the first of a part":  {0, framework.Error, false},
		"the second of a part": {1, framework.Pending, true},
		"none":                 {3, framework.Success, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPredicate(t)
			inv := hub(ask().Predicate(fixture.MatchCEL(loops(1))), fleetOf(3)...)
			state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))
			_, status := p.PreFilter(endsAfter{t.Context(), &tc.evaluationState}, state, state.Snapshot().Subject.Placement)
			if status.Code() != tc.want || status.IsUnfinished() != tc.unfinished {
				t.Errorf("got %s %q, unfinished %t", status.Code(), status.Reason(), status.IsUnfinished())
			}
		})
	}
}

// TestBudgetFollowsTheFleet: removed clusters are not charged any more, added ones are, and
// clusters of sets that the Placement may not use never are: its author would learn of them.
func TestBudgetFollowsTheFleet(t *testing.T) {
	p := newPredicate(t)
	expression := `managedCluster.metadata.labels.?size.orValue("") != "l" || ` + atLimit
	large := func(i int, set string) fixture.ClusterBuilder {
		return fixture.Cluster(fmt.Sprint("large", i)).Label("size", "l").Set(set)
	}
	inv := hub(ask().Predicate(fixture.MatchCEL(expression)), fleetOf(5)...)
	inv.Update(fixture.Set("theirs"))
	check := func(step string, want framework.Code) {
		t.Helper()
		if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); status.Code() != want {
			t.Errorf("%s: got %s %q, want %s", step, status.Code(), status.Reason(), want)
		}
	}
	for i := range 11 {
		inv.Update(large(i, "theirs").Obj())
	}
	check("clusters of others", framework.Success)
	for i := range 11 {
		inv.Update(large(i, "s").Obj())
	}
	check("they join", framework.UnschedulableAndUnresolvable)
	inv.Delete(large(3, "s").Obj())
	inv.Update(large(4, "theirs").Obj())
	check("two of them go", framework.Success)
	inv.Update(large(4, "s").Obj())
	inv.Update(large(3, "s").Obj())
	check("they come back", framework.UnschedulableAndUnresolvable)
	inv.Update(fixture.Cluster("large0").Set("s").Obj())
	check("one gets cheap", framework.Success)
}

func TestNothingIsCachedAfterTheContextEnds(t *testing.T) {
	p := newPredicate(t)
	inv := hub(ask().Predicate(fixture.MatchCEL(loops(4))), fleetOf(3)...)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the lease is lost"))
	if _, status, _ := evaluateAll(ctx, p, inv, "p"); status.Code() != framework.Error || !strings.Contains(status.Reason(), "the lease is lost") {
		t.Errorf("got %s %q, want an error", status.Code(), status.Reason())
	}
	if result, status, _ := evaluateAll(t.Context(), p, inv, "p"); !status.IsSuccess() || result.Clusters.Len() != 3 {
		t.Errorf("afterwards: %s %q", status.Code(), status.Reason())
	}
}

// TestClustersOfAnUnboundSetAreNotCharged: no cluster changes when a binding is deleted.
func TestClustersOfAnUnboundSetAreNotCharged(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters, expressions int
		text                  string
	}{
		"clusters that were evaluated":         {clusters: 11, expressions: 1, text: atLimit},
		"a cluster that was not evaluated yet": {clusters: 1, expressions: 40, text: below},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPredicate(t)
			expensive := fixture.MatchCEL(`managedCluster.metadata.labels.?size.orValue("") != "l" || ` + tc.text)
			inv := hub(ask().Predicate(slices.Repeat([]fixture.Match{expensive}, tc.expressions)...), fleetOf(5)...)
			inv.Update(fixture.Set("theirs"))
			inv.Update(fixture.Binding("n", "theirs"))
			for i := range tc.clusters {
				inv.Update(fixture.Cluster(fmt.Sprint("large", i)).Label("size", "l").Set("theirs").Obj())
			}
			if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); status.Code() != framework.UnschedulableAndUnresolvable {
				t.Fatalf("got %s %q", status.Code(), status.Reason())
			}
			inv.Delete(fixture.Binding("n", "theirs"))
			if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); !status.IsSuccess() {
				t.Errorf("without it: %s %q", status.Code(), status.Reason())
			}
		})
	}
}

// TestCyclesLeaveCostlyExpressions: a cycle starts no expression that costs much, of predicates and
// of policies. Prepare continues, and result and cost are those of one long cycle.
func TestCyclesLeaveCostlyExpressions(t *testing.T) {
	const clusters = 8
	key := inventory.Key{Namespace: "n", Name: "p"}
	costly := `managedCluster.metadata.labels.parity == "1" && ` + below
	policy := &berthv1alpha1.SelectionPolicy{}
	policy.Namespace, policy.Name, policy.UID, policy.Generation, policy.Spec.Placement = "n", "s", "s", 1, "p"
	policy.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "t", ClusterSelector: v1alpha1.ClusterSelector{
		CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{costly}},
	}}}
	handle := &framework.Handle{Client: interceptor.NewClient(nil, interceptor.Funcs{})}
	never := func() bool { return false }

	predicate, err := NewPredicate(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	selection, err := NewSelectionPolicy(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	p, s := predicate.(*Predicate), selection.(*SelectionPolicy)
	inOneCycle := newPredicate(t)
	byPredicate := hub(ask().Predicate(fixture.MatchCEL(costly)), fleetOf(clusters)...)
	byPolicy := hub(ask(), fleetOf(clusters)...)
	byPolicy.Update(policy)
	if _, status, _ := evaluateAll(t.Context(), inOneCycle, byPredicate, "p"); !status.IsSuccess() {
		t.Fatal(status)
	}
	want := inOneCycle.compiled[key].total

	for name, tc := range map[string]struct {
		inv       *inventory.Inventory
		plugin    framework.PreFilterPlugin
		prepare   func(*v1alpha1.Placement, func() bool) bool
		prepared  func(*v1alpha1.Placement) bool
		evaluated func() *selectorMatches
	}{
		"predicates": {
			byPredicate, p, p.Prepare, p.Prepared,
			func() *selectorMatches { return p.compiled[key].selectorMatches },
		},
		"a policy": {
			byPolicy, s, func(_ *v1alpha1.Placement, yield func() bool) bool { return s.PreparePolicy(policy, yield) },
			func(*v1alpha1.Placement) bool { return s.PolicyPrepared(policy) },
			func() *selectorMatches { return s.compiled[key].tiers[0] },
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := tc.inv.Snapshot(key, fixture.Now, nil)
			pl := snapshot.Subject.Placement
			cycle := func() (*framework.PreFilterResult, *framework.Status) {
				return tc.plugin.PreFilter(t.Context(), framework.NewCycleState(tc.inv.Snapshot(key, fixture.Now, nil)), pl)
			}
			tc.prepare(pl, never)
			for n := 0; ; n++ {
				result, status := cycle()
				if status.IsSuccess() {
					if n < clusters/2/2 || result.Clusters.Len() != clusters/2 || !tc.prepared(pl) {
						t.Errorf("%d clusters after %d parts, prepared: %t", result.Clusters.Len(), n, tc.prepared(pl))
					}
					break
				}
				before := tc.evaluated().total
				if _, again := cycle(); !status.IsUnfinished() || !again.IsUnfinished() || tc.evaluated().total != before || n > clusters {
					t.Fatalf("part %d: %v, then %v at a cost of %d", n, status, again, tc.evaluated().total-before)
				}
				if tc.prepared(pl) {
					t.Fatal("there is work for Prepare, but it says there is none")
				}
				tc.prepare(pl, func() bool {
					if _, status := cycle(); !status.IsUnfinished() {
						t.Errorf("a cycle beside it: %v", status)
					}
					return false
				})
			}
			if got := tc.evaluated().total; got != want {
				t.Errorf("it costs %d, in one cycle %d", got, want)
			}
		})
	}
}

// TestPanicsLeaveNothingRunning: a panic in Prepare does not leave the Placement unfinished for
// ever.
func TestPanicsLeaveNothingRunning(t *testing.T) {
	plugin, err := NewPredicate(t.Context(), nil, &framework.Handle{Client: interceptor.NewClient(nil, interceptor.Funcs{})})
	if err != nil {
		t.Fatal(err)
	}
	p := plugin.(*Predicate)
	inv := hub(ask().Predicate(fixture.MatchCEL(loops(4))), fleetOf(3)...)
	if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); !status.IsUnfinished() {
		t.Fatal(status)
	}
	func() {
		defer func() { _ = recover() }()
		p.Prepare(inv.Placement(inventory.Key{Namespace: "n", Name: "p"}), func() bool { panic("broken") })
	}()
	for range 10 {
		if _, status, _ := evaluateAll(t.Context(), p, inv, "p"); status.IsSuccess() {
			return
		}
	}
	t.Error("it is never finished")
}
