package explanation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// answerTo returns the status that answers a spec in namespace ns.
func answerTo(t *testing.T, e *Explainer, spec berthv1alpha1.PlacementExplanationSpec) (*Result, *berthv1alpha1.PlacementExplanationStatus) {
	t.Helper()
	pex := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e", UID: "e"}, Spec: spec}
	q, err := QuestionOf(pex)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		a := e.Explain(context.Background(), &q)
		if a.Report != nil {
			a.SetStatus(&pex.Status, fixture.Now)
			return &a, &pex.Status
		}
		if a.Retry == 0 {
			t.Fatalf("no answer: %+v", a)
		}
		if clock, fake := e.Scheduler.Clock.(*clocktesting.FakeClock); fake {
			clock.Step(a.Retry)
		}
	}
	t.Fatal("no end")
	return nil, nil
}

func numbered(n int32) *berthv1alpha1.PlacementTemplate {
	return &berthv1alpha1.PlacementTemplate{
		Spec: fixture.Placement("", "").Number(n).Predicate(fixture.MatchLabel("gpu", "true")).Obj().Spec,
	}
}

// TestWhatIf: the status compares the Placement without and with the edits.
func TestWhatIf(t *testing.T) {
	edits := func(all ...berthv1alpha1.ClusterEdit) []berthv1alpha1.ClusterEdit { return all }
	for name, tc := range map[string]struct {
		spec      berthv1alpha1.PlacementExplanationSpec
		want      string
		unmatched int
	}{
		"a larger number":    {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Template: numbered(2)}, "Updated: c1 -> c1 c3", 0},
		"the same spec":      {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Template: numbered(1)}, "Unchanged: c1 -> c1", 0},
		"a new Placement":    {berthv1alpha1.PlacementExplanationSpec{Placement: "new", Template: numbered(2)}, "Created:  -> c1 c3", 0},
		"a drained cluster":  {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c1"})}, "Updated: c1 -> c3", 0},
		"the end of a drain": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c1", Remove: true})}, "Unchanged: c1 -> c1", 0},
		"a taint": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "taint", Cluster: "c1", Key: "k", Effect: "NoSelect"})}, "Updated: c1 -> c3", 0},
		"a label": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Template: numbered(3), Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "label", Cluster: "c2", Key: "gpu", Value: "true"})}, "Updated: c1 -> c1 c2 c3", 0},
		"a label that ends the membership": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "label", Cluster: "c1", Key: v1alpha1.ClusterSetLabel, Value: "other"})}, "Updated: c1 -> c3", 0},
		"lost clusters": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "lose", Key: "label:gpu", Value: "true"})}, "Updated: c1 -> ", 0},
		"a template and lost clusters": {berthv1alpha1.PlacementExplanationSpec{Template: numbered(2), Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c3"})}, "Updated: c1 c3 -> c1", 0},
		"a cluster of others": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "label", Cluster: "o1", Key: v1alpha1.ClusterSetLabel, Value: "ns"})}, "Unchanged: c1 -> c1", 1},
		"no such domain": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "lose", Key: "claim:zone", Value: "z"}, berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c1"})}, "Updated: c1 -> c3", 1},
		"an eviction of a cluster that it does not have": {berthv1alpha1.PlacementExplanationSpec{Placement: "p", Edits: edits(
			berthv1alpha1.ClusterEdit{Kind: "evict", Cluster: "c3"})}, "Unchanged: c1 -> c1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExplainer(t)
			a, status := answerTo(t, e, tc.spec)
			c := status.Change
			got := fmt.Sprintf("%s: %s -> %s", c.Operation, strings.Join(c.Before, " "), strings.Join(c.After, " "))
			if got != tc.want || a.Unmatched != tc.unmatched || c.Truncated {
				t.Errorf("got %s with %d unmatched, want %s with %d\n%+v", got, a.Unmatched, tc.want, tc.unmatched, c)
			}
			// The question leaves nothing behind.
			if _, again := answerTo(t, e, berthv1alpha1.PlacementExplanationSpec{Placement: "p"}); again.SelectedClusters != 1 || again.Change != nil {
				t.Errorf("afterwards: %+v", again)
			}
		})
	}
}

// TestComparedOf: the status has all that a comparison shows.
func TestComparedOf(t *testing.T) {
	want := simulator.Compared{Before: []string{"c1", "c2"}, After: []string{"c1"}, Published: 5}
	want.Change = &simulator.Change{
		Placement: "ns/p", Operation: simulator.Updated, Before: 2, After: 1, Published: 5, Added: []string{}, Removed: []string{"c2"},
		Pages: []simulator.PageChange{{Name: "p-decision-1", Operation: simulator.Updated}}, Conditions: []simulator.ConditionChange{},
		NeedsApproval: true,
	}
	status := &berthv1alpha1.PlacementExplanationStatus{Change: changeOf(&Result{Change: &want}, fixture.Now)}
	got, err := ComparedOf(types.NamespacedName{Namespace: "ns", Name: "p"}, status)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestSlowWhatIf: a question with slow cycles continues where it was, and has an end.
func TestSlowWhatIf(t *testing.T) {
	for name, tc := range map[string]struct {
		slow func(cycle int) bool
		want string
	}{
		"each stage is slow once": {func(cycle int) bool { return cycle == 1 || cycle == 3 || cycle == 5 }, "[c1] -> []"},
		"the edits are slow":      {func(cycle int) bool { return cycle > 2 && cycle%2 == 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, clock, cycle := newExplainer(t), clocktesting.NewFakeClock(fixture.Now), 0
			e.Scheduler.CycleTimeout, e.Scheduler.Clock = 100*time.Millisecond, clock
			e.Scheduler.Timer = func(_, point string) func() {
				if point == "Filter" {
					if cycle++; tc.slow(cycle) {
						clock.Step(150 * time.Millisecond)
					}
				}
				return func() {}
			}
			q := about("ns")
			q.Template, q.Edits = numbered(2), []berthv1alpha1.ClusterEdit{{Kind: "lose", Key: "gpu", Value: "true"}}
			for range 20 {
				a := e.Explain(context.Background(), q)
				clock.Step(a.Retry)
				if a.Retry > 0 {
					continue
				}
				got := ""
				if !a.TimedOut {
					got = fmt.Sprint(a.Change.Before, " -> ", a.Change.After)
				}
				if got != tc.want {
					t.Errorf("got %q after %d cycles, want %q: %+v", got, cycle, tc.want, a)
				}
				return
			}
			t.Errorf("no end after %d cycles", cycle)
		})
	}
}

// TestDomainsOfAQuestion: the answer has the losses as resilience reports them.
func TestDomainsOfAQuestion(t *testing.T) {
	e := newExplainer(t)
	_, status := answerTo(t, e, berthv1alpha1.PlacementExplanationSpec{Placement: "p", Template: numbered(2), Domains: "cluster"})
	want := &berthv1alpha1.ExplainedResilience{
		Message:   "2 of 4 clusters can be lost; not c1: 1 of 2 clusters would be missing (Predicate excludes 2); 1 other cannot be lost either",
		Satisfied: true, Selected: 2, Domains: 4, Survived: 2,
		Losses: []berthv1alpha1.DomainLoss{
			{Domain: "c1", Clusters: 1, Lost: 1, Missing: 1, Why: "Predicate excludes 2"},
			{Domain: "c3", Clusters: 1, Lost: 1, Missing: 1, Why: "Predicate excludes 2"},
		},
	}
	if diff := cmp.Diff(want, status.Resilience); diff != "" {
		t.Errorf("resilience (-want +got):\n%s", diff)
	}
}

// TestInvalidQuestions: mistakes name the field.
func TestInvalidQuestions(t *testing.T) {
	for want, spec := range map[string]berthv1alpha1.PlacementExplanationSpec{
		"spec.edits[1]: cluster: drain needs the name of a cluster": {Placement: "p", Edits: []berthv1alpha1.ClusterEdit{{Kind: "drain", Cluster: "c"}, {Kind: "drain"}}},
		"spec.edits[0]: cluster: lose needs none":                   {Placement: "p", Edits: []berthv1alpha1.ClusterEdit{{Kind: "lose", Cluster: "c", Key: "k", Value: "v"}}},
		`spec.edits[0]: key: "x:k" is not label:KEY`:                {Placement: "p", Edits: []berthv1alpha1.ClusterEdit{{Kind: "lose", Key: "x:k", Value: "v"}}},
		`spec.edits[0]: the taint "k": effect "" is not one of`:     {Placement: "p", Edits: []berthv1alpha1.ClusterEdit{{Kind: "taint", Cluster: "c", Key: "k"}}},
		`spec.domains: "region" is not label:KEY`:                   {Placement: "p", Domains: "region"},
	} {
		if _, err := QuestionOf(&berthv1alpha1.PlacementExplanation{Spec: spec}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
