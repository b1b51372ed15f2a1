package explanation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// newExplainer knows namespace ns with Placement p, clusters c1 to c4 (gpu on odd ones), and
// namespace other with Placement p and cluster o1.
func newExplainer(t *testing.T) *Explainer {
	t.Helper()
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{})
	for _, set := range []string{"ns", "other"} {
		inv.Update(fixture.Set(set))
		inv.Update(fixture.Binding(set, set))
		inv.Update(fixture.Placement(set, "p").Number(1).Predicate(fixture.MatchLabel("gpu", "true")).Obj())
	}
	for i := 1; i <= 4; i++ {
		c := fixture.Cluster(fmt.Sprint("c", i)).Set("ns")
		if i%2 == 1 {
			c = c.Label("gpu", "true")
		}
		inv.Update(c.Obj())
	}
	inv.Update(fixture.Cluster("o1").Set("other").Label("gpu", "true").Obj())
	return &Explainer{Inventory: inv, Scheduler: scheduler.New(profiles, nil), Now: func() time.Time { return fixture.Now }}
}

// TestExplanationTakesNoPlace: a Placement that waits for a place in a queue is told when it is
// free, also if it was explained just before.
func TestExplanationTakesNoPlace(t *testing.T) {
	e := newExplainer(t)
	var affected []types.NamespacedName
	e.Queues = admission.NewQueues(admission.QueuesOptions{
		Published: e.Inventory.Published, Recorded: e.Inventory.RecordedQueue, Now: e.Now,
		OnAffected: func(keys []types.NamespacedName) { affected = append(affected, keys...) },
	})
	text := fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b}]")
	if _, err := e.Queues.Configure(&corev1.ConfigMap{Data: map[string]string{admission.QueuesKey: text}}); err != nil {
		t.Fatal(err)
	}
	in := func(namespace, queue string) *v1alpha1.Placement {
		pl := fixture.Placement(namespace, "p").Obj()
		pl.Labels = map[string]string{"queue": queue}
		e.Inventory.Update(pl)
		e.Queues.Update(pl)
		return pl
	}
	e.Queues.Admission(in("ns", "root.a"), fixture.Now)
	waits := in("other", "root.a")
	if e.Queues.Admission(waits, fixture.Now).Admitted {
		t.Fatal("the queue has two places")
	}
	moved := in("ns", "root.b")
	affected = nil
	if result := e.Explain(t.Context(), about("other")); result.Failure != nil {
		t.Fatal(result.Failure)
	}
	e.Queues.Admission(moved, fixture.Now)
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "other", Name: "p"}}, affected); diff != "" {
		t.Errorf("affected (-want +got):\n%s", diff)
	}
}

// slowly gives the engine a cycle timeout of 100 ms and a clock that takes a step in each cycle.
func slowly(e *Explainer, step time.Duration) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	e.Scheduler.CycleTimeout, e.Scheduler.Clock = 100*time.Millisecond, clock
	e.Scheduler.Timer = func(_, point string) func() {
		if point == "Filter" {
			clock.Step(step)
		}
		return func() {}
	}
}

func about(namespace string) *Question {
	return &Question{Placement: types.NamespacedName{Namespace: namespace, Name: "p"}, Clusters: []string{"c2"}, Limit: 10}
}

// TestVerdictsDiscloseCandidatesOnly: the verdicts and the report do not depend on clusters outside
// the namespace's sets.
func TestVerdictsDiscloseCandidatesOnly(t *testing.T) {
	e, texts := newExplainer(t), map[string]string{}
	for _, asked := range []string{"o1", "x9"} {
		q := about("ns")
		q.Clusters = []string{asked, "c1"}
		a := e.Explain(context.Background(), q)
		if a.Report == nil {
			t.Fatalf("%+v", a)
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		texts[asked] = strings.ReplaceAll(string(text), asked, "asked")
	}
	if diff := cmp.Diff(texts["x9"], texts["o1"]); diff != "" {
		t.Errorf("a cluster that exists makes a difference (-missing +existing):\n%s", diff)
	}
	if !strings.Contains(texts["o1"], `{"cluster":"asked","selected":false,"reason":"not a candidate"}`) {
		t.Error(texts["o1"])
	}
}

// TestExplainIsCharged: slow explanations use up the share of their namespace, not that of others.
func TestExplainIsCharged(t *testing.T) {
	e := newExplainer(t)
	slowly(e, 90*time.Millisecond)
	for asked := 1; ; asked++ {
		a := e.Explain(context.Background(), about("ns"))
		if a.Throttled {
			if a.Retry <= 0 || asked < 3 {
				t.Errorf("throttled at question %d, for %s", asked, a.Retry)
			}
			break
		}
		if asked > 20 {
			t.Fatal("never throttled")
		}
	}
	if a := e.Explain(context.Background(), about("other")); a.Report == nil {
		t.Errorf("another namespace is throttled: %+v", a)
	}
}

// TestTrialsOfCostlyPredicates: the controller, which evaluates costly predicates in parts, names
// the same change with which a cluster would be selected as a simulation does.
func TestTrialsOfCostlyPredicates(t *testing.T) {
	const loop = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, "
	for name, handle := range map[string]*framework.Handle{"simulation": {}, "controller": {Client: fake.NewFakeClient()}} {
		t.Run(name, func(t *testing.T) {
			profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), handle)
			if err != nil {
				t.Fatal(err)
			}
			e := newExplainer(t)
			e.Scheduler = scheduler.New(profiles, nil)
			e.Scheduler.CycleTimeout = time.Minute
			e.Inventory.Update(fixture.Placement("ns", "p").Predicate(
				fixture.MatchCEL(`managedCluster.metadata.name != "c2"`), fixture.MatchCEL(strings.Repeat(loop, 2)+"true))"),
			).Obj())
			for i := 5; i < 400; i++ {
				e.Inventory.Update(fixture.Cluster(fmt.Sprint("c", i)).Set("ns").Obj())
			}
			a := e.Explain(context.Background(), about("ns"))
			for a.Retry > 0 {
				a = e.Explain(context.Background(), about("ns"))
			}
			if a.Report == nil || len(a.Report.Verdicts) != 1 {
				t.Fatalf("%+v", a)
			}
			if v := a.Report.Verdicts[0]; v.SelectedWith != `without CEL "managedCluster.metadata.name != \"c2\""` {
				t.Errorf("selected with %q; no time for %d", v.SelectedWith, a.NoChange)
			}
		})
	}
}

// TestExplainEnds: a decision that always times out has no answer after three cycles.
func TestExplainEnds(t *testing.T) {
	e := newExplainer(t)
	slowly(e, 150*time.Millisecond)
	var got []string
	for range 3 {
		a := e.Explain(context.Background(), about("ns"))
		got = append(got, fmt.Sprint(a.Retry > 0, a.TimedOut))
		e.Scheduler.Clock.(*clocktesting.FakeClock).Step(time.Minute)
	}
	if diff := cmp.Diff([]string{"true false", "true false", "false true"}, got); diff != "" {
		t.Errorf("retry and timed out (-want +got):\n%s", diff)
	}
}

// TestStatusKeepsTheReport: the command prints from a status what it prints from a report.
func TestStatusKeepsTheReport(t *testing.T) {
	e := newExplainer(t)
	q := about("ns")
	q.Clusters = nil
	a := e.Explain(context.Background(), q)
	pex := &berthv1alpha1.PlacementExplanation{Spec: berthv1alpha1.PlacementExplanationSpec{Placement: "p"}}
	pex.Namespace = "ns"
	a.SetStatus(&pex.Status, fixture.Now)
	got := ReportOf(pex)
	want := *a.Report.Answer
	want.Candidates, want.FilterResults, want.Scores, want.Ranking, want.GroupStatus, want.Events = 4, nil, nil, nil, nil, nil
	for name, p := range want.PrioritizerScores {
		want.PrioritizerScores[name] = simulator.PrioritizerScores{Weight: p.Weight}
	}
	for i := range want.Decisions {
		want.Decisions[i].Labels = got.Decisions[i].Labels
	}
	if diff := cmp.Diff(&simulator.Report{Placement: "ns/p", Answer: &want}, got); diff != "" {
		t.Errorf("(-report +from the status):\n%s", diff)
	}
}

// TestStatusIsBounded: etcd accepts objects of 1.5 MiB.
func TestStatusIsBounded(t *testing.T) {
	long := strings.Repeat("x", 253)
	report := &simulator.Report{Answer: &simulator.Answer{PrioritizerScores: map[string]simulator.PrioritizerScores{}}}
	for i := range 1000 {
		scores := map[string]int64{}
		for j := range 64 {
			scores[fmt.Sprint(long, j)] = 100
		}
		report.Verdicts = append(report.Verdicts, framework.ClusterVerdict{Cluster: long, Reason: strings.Repeat("r", 70000), SelectedWith: long, Scores: scores})
		report.Decisions = append(report.Decisions, simulator.Decision{Name: fmt.Sprint(long, i), Clusters: make([]string, 100)})
		for j := range 100 {
			report.Decisions[i].Clusters[j] = long
		}
	}
	a := &Result{Report: report, Decided: true}
	var status berthv1alpha1.PlacementExplanationStatus
	a.SetStatus(&status, fixture.Now)
	text, err := json.Marshal(status)
	if err != nil || len(text) > 1280<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if a.LeftOut != 1000-len(status.Verdicts) || len(status.Verdicts) == 0 {
		t.Errorf("%d verdicts, %d left out", len(status.Verdicts), a.LeftOut)
	}
	if got := status.Decisions[999]; got.ClusterCount != 100 || len(got.Clusters) != 0 {
		t.Errorf("the last decision has count %d and %d names", got.ClusterCount, len(got.Clusters))
	}
}

// TestMovingIsBounded: a status has the first moving clusters, as far as they fit, and ReportOf
// returns them.
func TestMovingIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters, state int
		want            int
	}{
		"few":        {3, 10, 3},
		"many":       {berthv1alpha1.MaxMovingClusters + 1, 10, berthv1alpha1.MaxMovingClusters},
		"long texts": {berthv1alpha1.MaxMovingClusters, 10 * maxText, berthv1alpha1.MaxMovingBytes / (maxText + len(`{"cluster":"c-0000","state":""}`))},
	} {
		t.Run(name, func(t *testing.T) {
			pending := &simulator.Pending{Reason: "Progressing"}
			for i := range tc.clusters {
				pending.Moving = append(pending.Moving, berthv1alpha1.MovingCluster{Cluster: fmt.Sprintf("c-%04d", i), State: strings.Repeat("x", tc.state)})
			}
			e := &berthv1alpha1.PlacementExplanation{}
			a := &Result{Report: &simulator.Report{Answer: &simulator.Answer{Pending: pending}}}
			a.SetStatus(&e.Status, fixture.Now)
			if got := len(e.Status.Pending.Moving); got != tc.want {
				t.Errorf("%d moving clusters, want %d", got, tc.want)
			}
			got := ReportOf(e).Pending.Moving
			if len(got) != tc.want || got[1].Cluster != "c-0001" || len(got[1].State) != min(tc.state, maxText) {
				t.Errorf("the report has %d, the second is %+v", len(got), got[1])
			}
		})
	}
}
