package filters

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// preparingPredicate is a Predicate of a controller: what takes long to compile is compiled by
// Prepare only.
func preparingPredicate(t *testing.T) *Predicate {
	t.Helper()
	p, err := NewPredicate(t.Context(), nil, &framework.Handle{Client: fake.NewFakeClient()})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Predicate)
}

// fresh is an expression that nothing has compiled yet.
func fresh(t *testing.T, n int) fixture.Match {
	return fixture.MatchCEL(fmt.Sprintf("%q != '%d'", t.Name(), n))
}

// TestNewPredicate: only a controller splits the work.
func TestNewPredicate(t *testing.T) {
	if p := preparingPredicate(t); p.slice != cycleCost || !p.prepares || p.Name() != "Predicate" {
		t.Errorf("of a controller: %d, %t, %s", p.slice, p.prepares, p.Name())
	}
	p, err := NewPredicate(t.Context(), nil, &framework.Handle{})
	if err != nil || p.(*Predicate).slice <= sliceCost || p.(*Predicate).prepares {
		t.Errorf("of a simulation: %v, %v", p, err)
	}
}

func TestFiltersRead(t *testing.T) {
	for _, plugin := range []framework.ClusterReader{newPredicate(t), TaintToleration{}, Eviction{}} {
		if diff := cmp.Diff(framework.Reads{}, plugin.Reads(nil)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", plugin, diff)
		}
	}
	if name := (TaintToleration{}).Name(); name != "TaintToleration" {
		t.Errorf("named %s", name)
	}
	index := indexTolerations(fixture.Placement("n", "p").Toleration("k", v1alpha1.TolerationOpExists, "", "").Obj().Spec.Tolerations)
	if got := index.Clone().(tolerationIndex); len(got) != 1 {
		t.Errorf("cloned: %v", got)
	}
}

// TestPrepared: until Prepare is done, a cycle neither decides nor compiles; cheap predicates it
// compiles itself.
func TestPrepared(t *testing.T) {
	quick := ask().Predicate(fixture.MatchLabel("a", "x")).Obj()
	slow := ask().Predicate(fresh(t, 1)).Obj()
	tests := map[string]struct {
		prepares     bool
		placement    *v1alpha1.Placement
		wantPrepared bool
	}{
		"quick, in a controller": {prepares: true, placement: quick, wantPrepared: true},
		"slow, in a controller":  {prepares: true, placement: slow},
		"slow, in a simulation":  {placement: slow, wantPrepared: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPredicate(t)
			if tc.prepares {
				p = preparingPredicate(t)
			}
			inv := inventory.New(inventory.Options{})
			inv.Update(tc.placement)
			cluster := framework.NewCluster(fixture.Cluster("c").Label("a", "x").Obj(), 0)
			try := func() (*framework.Status, *framework.Status, *framework.CycleState) {
				state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))
				_, status := p.PreFilter(t.Context(), state, tc.placement)
				return status, p.Filter(t.Context(), state, tc.placement, cluster), state
			}
			if got := p.Prepared(tc.placement); got != tc.wantPrepared {
				t.Errorf("prepared: %t", got)
			}
			before, filtered, state := try()
			if before.IsUnfinished() == tc.wantPrepared || filtered.IsUnfinished() == tc.wantPrepared {
				t.Errorf("PreFilter %s %q, Filter %s %q", before.Code(), before.Reason(), filtered.Code(), filtered.Reason())
			}
			if again := state.Requeue(); tc.wantPrepared && !again.IsZero() || !tc.wantPrepared && !again.Equal(fixture.Now.Add(slicePause)) {
				t.Errorf("again at %v", again)
			}
			if !p.Prepare(tc.placement, func() bool { return true }) || !p.Prepared(tc.placement) {
				t.Error("one expression is not compiled at once")
			}
			if status, filtered, _ := try(); !status.IsSuccess() || !filtered.IsSuccess() {
				t.Errorf("afterwards: %v, %v", status.Err(), filtered.Err())
			}
		})
	}
}

// TestPreparedIsForOneSpec: another object, generation or spec is prepared again, and a deleted
// Placement is forgotten.
func TestPreparedIsForOneSpec(t *testing.T) {
	of := func(edit func(*v1alpha1.Placement)) *v1alpha1.Placement {
		pl := ask().Predicate(fresh(t, 1)).Obj()
		edit(pl)
		return pl
	}
	tests := map[string]struct {
		edit   func(*v1alpha1.Placement)
		forget string
		want   bool
	}{
		"the same":         {edit: func(*v1alpha1.Placement) {}, want: true},
		"another object":   {edit: func(pl *v1alpha1.Placement) { pl.UID = "second" }},
		"a generation":     {edit: func(pl *v1alpha1.Placement) { pl.Generation++ }},
		"another spec":     {edit: func(pl *v1alpha1.Placement) { pl.Spec.Predicates = append(pl.Spec.Predicates, pl.Spec.Predicates...) }},
		"another text":     {edit: func(pl *v1alpha1.Placement) { pl.Spec.Predicates = ask().Predicate(fresh(t, 2)).Obj().Spec.Predicates }},
		"another name":     {edit: func(pl *v1alpha1.Placement) { pl.Name = "q" }},
		"gone":             {edit: func(*v1alpha1.Placement) {}, forget: "p"},
		"another one gone": {edit: func(*v1alpha1.Placement) {}, forget: "q", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := preparingPredicate(t)
			p.Prepare(of(func(*v1alpha1.Placement) {}), func() bool { return false })
			if tc.forget != "" {
				p.Forget(types.NamespacedName{Namespace: "n", Name: tc.forget})
			}
			pl := of(tc.edit)
			if got := p.Prepared(pl); got != tc.want {
				t.Errorf("prepared: %t", got)
			}
			if got := p.compiledForm(pl) != nil; got != tc.want {
				t.Errorf("taken: %t", got)
			}
		})
	}
}

// TestPrepareYields: each call compiles one expression that is new, however late it is; the last
// one is done.
func TestPrepareYields(t *testing.T) {
	p := preparingPredicate(t)
	pl := ask().Predicate(fresh(t, 1), fresh(t, 2)).Predicate(fresh(t, 3)).Obj()
	for call, want := range []bool{false, false, true} {
		if got := p.Prepare(pl, func() bool { return true }); got != want || p.Prepared(pl) != want {
			t.Errorf("call %d: done %t, want %t", call, got, want)
		}
	}
}

// TestIsExpensive: expressions, and more requirements and values than a cycle should compile.
func TestIsExpensive(t *testing.T) {
	values := make([]string, 998)
	tests := map[string]struct {
		matches [][]fixture.Match
		want    bool
	}{
		"nothing":             {},
		"a label":             {matches: [][]fixture.Match{{fixture.MatchLabel("a", "b")}}},
		"an expression":       {matches: [][]fixture.Match{{fixture.MatchCEL("true")}}, want: true},
		"in the second":       {matches: [][]fixture.Match{{fixture.MatchLabel("a", "b")}, {fixture.MatchCEL("true")}}, want: true},
		"a thousand":          {matches: [][]fixture.Match{{fixture.MatchLabelExpression("a", metav1.LabelSelectorOpIn, values...)}}},
		"one more":            {matches: [][]fixture.Match{{fixture.MatchLabelExpression("a", metav1.LabelSelectorOpIn, values...), fixture.MatchLabel("a", "b")}}, want: true},
		"one more predicate":  {matches: [][]fixture.Match{{fixture.MatchLabelExpression("a", metav1.LabelSelectorOpIn, values...)}, {}}, want: true},
		"a thousand of claim": {matches: [][]fixture.Match{{fixture.MatchClaim("a", metav1.LabelSelectorOpIn, values...)}}},
		"one more of claim":   {matches: [][]fixture.Match{{fixture.MatchClaim("a", metav1.LabelSelectorOpIn, values...), fixture.MatchLabel("a", "b")}}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := ask()
			for _, predicate := range tc.matches {
				pl = pl.Predicate(predicate...)
			}
			if got := isExpensive(pl.Obj().Spec.Predicates); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRequirements: ten values cost as much as a requirement.
func TestRequirements(t *testing.T) {
	pl := ask().
		Predicate(fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("b", metav1.LabelSelectorOpIn, manyTexts(25)...), fixture.MatchClaim("c", metav1.LabelSelectorOpIn, manyTexts(40)...)).
		Predicate(fixture.MatchLabel("a", "y")).Obj()
	if got := compile(pl).requirements; got != 1+1+(1+2)+(1+4)+1+1 {
		t.Errorf("got %d", got)
	}
}

// TestEvaluationStateForget: the cost of a cluster is subtracted, and an interrupted evaluation
// starts again.
func TestEvaluationStateForget(t *testing.T) {
	current := framework.NewCluster(fixture.Cluster("c").Obj(), 3)
	evaluationState := func() *evaluationState {
		l := &evaluationState{currentCost: 5}
		l.store(1)
		l.currentCost = 7
		l.store(2)
		l.current, l.answers, l.currentCost = current, []bool{true}, 11
		return l
	}
	tests := map[string]struct {
		index         int
		wantTotal     uint64
		wantEvaluated []int
		wantCurrent   bool
	}{
		"one that is evaluated": {index: 1, wantTotal: 7, wantEvaluated: []int{2}, wantCurrent: true},
		"the one current":       {index: 3, wantTotal: 12, wantEvaluated: []int{1, 2}},
		"another":               {index: 0, wantTotal: 12, wantEvaluated: []int{1, 2}, wantCurrent: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := evaluationState()
			l.forget(tc.index)
			l.forget(tc.index)
			var evaluated []int
			for i := range l.evaluated.All {
				evaluated = append(evaluated, i)
			}
			if diff := cmp.Diff(tc.wantEvaluated, evaluated); diff != "" {
				t.Errorf("evaluated (-want +got):\n%s", diff)
			}
			if l.total != tc.wantTotal {
				t.Errorf("total %d, want %d", l.total, tc.wantTotal)
			}
			if (l.current != nil) != tc.wantCurrent || (l.answers != nil) != tc.wantCurrent || (l.currentCost == 11) != tc.wantCurrent || !tc.wantCurrent && l.currentCost != 0 {
				t.Errorf("current %v with %v, currentCost %d", l.current, l.answers, l.currentCost)
			}
		})
	}
}

// TestTrialBesideEvaluation makes trials, as explanations do in cycles, while Prepare evaluates the
// same expressions outside of cycles. Each trial has a result.
func TestTrialBesideEvaluation(t *testing.T) {
	p, key := preparingPredicate(t), types.NamespacedName{Namespace: "n", Name: "p"}
	inv := hub(ask().Predicate(fixture.MatchCEL(loops(4))), fleetOf(4)...)
	first := inv.Snapshot(key, fixture.Now, nil)
	pl := first.Subject.Placement
	for !prefilter(t, p, first).IsSuccess() {
		p.Prepare(pl, never)
	}
	for _, c := range fleetOf(200)[4:] {
		inv.Update(c.Set("s").Obj())
	}
	if status := prefilter(t, p, inv.Snapshot(key, fixture.Now, nil)); !status.IsUnfinished() {
		t.Fatal(status)
	}
	running, done := make(chan struct{}), make(chan struct{})
	once := sync.Once{}
	go func() {
		defer close(done)
		p.Prepare(pl, func() bool {
			once.Do(func() { close(running) })
			return false
		})
	}()
	<-running
	for {
		if status := prefilter(t, p, first.Relaxed(framework.Relaxation{Placement: pl})); !status.IsSuccess() {
			t.Error(status)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestCostlyWorkOfAnOlderSnapshot leaves a cluster to Prepare, which then leaves the candidates and
// changes. When it is a candidate again, it is evaluated as it is.
func TestCostlyWorkOfAnOlderSnapshot(t *testing.T) {
	p, key := preparingPredicate(t), types.NamespacedName{Namespace: "n", Name: "p"}
	inv := hub(ask().Predicate(fixture.MatchCEL(
		`has(managedCluster.metadata.labels.cheap) || (has(managedCluster.metadata.labels.gold) && ` + below + `)`,
	)))
	inv.Update(fixture.Cluster("a").Set("s").Label("cheap", "1").Obj())
	inv.Update(fixture.Cluster("z").Set("s").Label("gold", "1").Obj())
	pl := inv.Placement(key)
	p.Prepare(pl, never)
	if status := prefilter(t, p, inv.Snapshot(key, fixture.Now, nil)); !status.IsUnfinished() {
		t.Fatal(status)
	}
	inv.Update(fixture.Cluster("z").Set("other").Label("silver", "1").Obj())
	if status := prefilter(t, p, inv.Snapshot(key, fixture.Now, nil)); !status.IsSuccess() {
		t.Fatal(status)
	}
	p.Prepare(pl, never)
	inv.Update(fixture.Set("other"))
	inv.Update(fixture.Binding("n", "other"))
	for {
		r, status := p.PreFilter(t.Context(), framework.NewCycleState(inv.Snapshot(key, fixture.Now, nil)), pl)
		if status.IsUnfinished() {
			p.Prepare(pl, never)
			continue
		}
		if !status.IsSuccess() || r.Clusters.Len() != 1 {
			t.Errorf("%v, %d clusters match, want 1: z is not gold", status.Err(), r.Clusters.Len())
		}
		return
	}
}

func never() bool { return false }

func prefilter(t *testing.T, p *Predicate, snapshot *framework.Snapshot) *framework.Status {
	t.Helper()
	_, status := p.PreFilter(t.Context(), framework.NewCycleState(snapshot), snapshot.Subject.Placement)
	return status
}

var preparedKey = types.NamespacedName{Namespace: "n", Name: "p"}

// rounds runs what a controller does for a Placement, Prepare and then a cycle, until it is
// decided. between is called after each cycle that is not finished.
func rounds(t *testing.T, p *Predicate, inv *inventory.Inventory, most int, between func(round int)) int {
	t.Helper()
	for round := range most {
		pl := inv.Placement(preparedKey)
		p.Prepare(pl, never)
		status := prefilter(t, p, inv.Snapshot(preparedKey, fixture.Now, nil))
		if status.IsSuccess() {
			return round + 1
		}
		if !status.IsUnfinished() {
			t.Fatal(status)
		}
		between(round)
	}
	return -1
}

// TestHeartbeatsDoNotRestartEvaluation: an update of a cluster that changes nothing that an
// expression can read does not drop what is evaluated of it.
func TestHeartbeatsDoNotRestartEvaluation(t *testing.T) {
	// Each expression takes a part of its own.
	six := slices.Repeat([]fixture.Match{fixture.MatchCEL(below)}, 6)
	run := func(heartbeats bool) int {
		p, inv := preparingPredicate(t), hub(ask().Predicate(six...), fixture.Cluster("c"))
		return rounds(t, p, inv, 40, func(round int) {
			if heartbeats {
				c := fixture.Cluster("c").Set("s").Obj()
				c.ResourceVersion = fmt.Sprint(round + 2)
				inv.Update(c)
			}
		})
	}
	quiet := run(false)
	if got := run(true); got != quiet {
		t.Errorf("with heartbeats that change nothing it is decided after %d rounds (-1: never), without after %d", got, quiet)
	}
}

// TestChangingClusterDoesNotKeepAPlacementUndecided: the agent of one cluster writes its own status
// once between two attempts.
func TestChangingClusterDoesNotKeepAPlacementUndecided(t *testing.T) {
	inv := hub(ask().Predicate(fixture.MatchCEL(loops(4))), fixture.Cluster("a"), fixture.Cluster("b"))
	p := preparingPredicate(t)
	if n := rounds(t, p, inv, 10, func(int) {}); n < 0 {
		t.Fatal("never decided at all")
	}
	change := func(round int) { inv.Update(fixture.Cluster("a").Set("s").Claim("n", fmt.Sprint(round)).Obj()) }
	change(-1)
	if n := rounds(t, p, inv, 200, change); n < 0 {
		state := framework.NewCycleState(inv.Snapshot(preparedKey, fixture.Now, nil))
		_, status := p.PreFilter(t.Context(), state, inv.Placement(preparedKey))
		t.Errorf("not decided in 200 attempts (%s); each asks for the next one after %s", status.Reason(), state.Requeue().Sub(fixture.Now))
	}
}

// TestCostlyExpressionIsAskedForSoon: the time between the Snapshot of a costly evaluation and the
// cycle that may use it is the evaluation, not half a second in which clusters change.
func TestCostlyExpressionIsAskedForSoon(t *testing.T) {
	inv := hub(ask().Predicate(fixture.MatchCEL(loops(4))), fixture.Cluster("a"))
	p := preparingPredicate(t)
	p.Prepare(inv.Placement(preparedKey), never)
	state := framework.NewCycleState(inv.Snapshot(preparedKey, fixture.Now, nil))
	if _, status := p.PreFilter(t.Context(), state, inv.Placement(preparedKey)); !status.IsUnfinished() {
		t.Fatal(status)
	}
	if wait := state.Requeue().Sub(fixture.Now); wait > 50*time.Millisecond {
		t.Errorf("the next attempt is after %s, for an evaluation of about a millisecond", wait)
	}
}

// TestEditedPredicatesAreNotEvaluated: what an earlier spec left is not evaluated after an edit.
func TestEditedPredicatesAreNotEvaluated(t *testing.T) {
	inv := hub(ask().Generation(1).Predicate(fixture.MatchCEL(below)), fixture.Cluster("c"))
	p := preparingPredicate(t)
	p.Prepare(inv.Placement(preparedKey), never)
	if status := prefilter(t, p, inv.Snapshot(preparedKey, fixture.Now, nil)); !status.IsUnfinished() {
		t.Fatal(status)
	}
	old := p.compiled[preparedKey]
	before := old.total + old.currentCost
	inv.Update(ask().Generation(2).Obj())
	p.Prepare(inv.Placement(preparedKey), never)
	if cost := old.total + old.currentCost - before; cost > 0 {
		t.Errorf("an edit that removes the expression evaluates it all the same, at a cost of %d", cost)
	}
}

// TestLargeClustersAreRenderedOutside: a cycle does not render a large cluster for CEL. Prepare
// does.
func TestLargeClustersAreRenderedOutside(t *testing.T) {
	large := fixture.Cluster("a")
	for i := range maxQuickSize + 1 {
		large = large.Claim(fmt.Sprint("claim-", i), "v")
	}
	inv := hub(ask().Predicate(fixture.MatchCEL(`managedCluster.metadata.name != "x"`)), large, fixture.Cluster("b"))
	p := preparingPredicate(t)
	p.Prepare(inv.Placement(preparedKey), never)
	if status := prefilter(t, p, inv.Snapshot(preparedKey, fixture.Now, nil)); !status.IsUnfinished() {
		t.Fatalf("got %v", status)
	}
	p.Prepare(inv.Placement(preparedKey), never)
	if status := prefilter(t, p, inv.Snapshot(preparedKey, fixture.Now, nil)); !status.IsSuccess() {
		t.Errorf("got %v", status)
	}
}
