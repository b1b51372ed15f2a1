package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// explainPlacement is a PlacementExplanation of namespace ns, created age before the test.
func explainPlacement(name, placement string, age time.Duration) *berthv1alpha1.PlacementExplanation {
	return &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Time{Time: fixture.Now.Add(-age)},
		},
		Spec: berthv1alpha1.PlacementExplanationSpec{Placement: placement},
	}
}

// explainHub is a hub in memory and the reconciler of its PlacementExplanations.
type explainHub struct {
	*memoryhub.Hub
	*ExplanationReconciler
}

func newExplainHub(t *testing.T, objects ...client.Object) *explainHub {
	t.Helper()
	hub := newMemoryHub(t, objects...)
	return &explainHub{hub, &ExplanationReconciler{
		Client: hub, Reader: hub, Explainer: newExplainer(t), Now: func() time.Time { return fixture.Now },
	}}
}

// reconcile reconciles namespace ns and returns after which time it is reconciled again.
func (h *explainHub) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns"}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// get returns a PlacementExplanation, nil if it does not exist.
func (h *explainHub) get(t *testing.T, name string) *berthv1alpha1.PlacementExplanation {
	t.Helper()
	e := &berthv1alpha1.PlacementExplanation{}
	err := h.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: name}, e)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// conditions returns Explained and Throttled of a PlacementExplanation.
func (h *explainHub) conditions(t *testing.T, name string) (lines []string) {
	t.Helper()
	for _, c := range h.get(t, name).Status.Conditions {
		if c.Type == berthv1alpha1.ExplanationExplained || c.Type == berthv1alpha1.ExplanationThrottled {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return lines
}

func TestReconcileExplanationAnswers(t *testing.T) {
	tests := map[string]struct {
		placement string
		age       time.Duration
		does      func(h *explainHub)
		// wantAgain is when the namespace is reconciled again.
		wantAgain time.Duration
		want      []string
	}{
		"a Placement":              {placement: "p", wantAgain: time.Millisecond, want: []string{"Explained True Decided: 1 of 2 candidates are selected"}},
		"a disabled Placement":     {placement: "frozen", wantAgain: time.Millisecond, want: []string{"Explained True LeftAlone: disabled"}},
		"a Placement not seen yet": {placement: "nosuch", age: unknownTime - time.Second, wantAgain: unknownInterval},
		"a missing Placement": {
			placement: "nosuch", age: unknownTime, wantAgain: time.Millisecond,
			want: []string{`Explained False PlacementNotFound: spec.placement: there is no Placement "nosuch" in namespace ns`},
		},
		"a missing Placement, and a slow clock": {
			placement: "nosuch", age: -time.Hour, wantAgain: time.Millisecond,
			want: []string{`Explained False PlacementNotFound: spec.placement: there is no Placement "nosuch" in namespace ns`},
		},
		"an unfinished cycle": {
			placement: "p", wantAgain: time.Second,
			does: func(h *explainHub) {
				useClock(h.Explainer, func(clock *clocktesting.FakeClock) { clock.Step(150 * time.Millisecond) })
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newExplainHub(t, explainPlacement("e", tc.placement, tc.age))
			if tc.does != nil {
				tc.does(h)
			}
			again := h.reconcile(t)
			if diff := cmp.Diff(tc.want, h.conditions(t, "e")); diff != "" || again != tc.wantAgain {
				t.Errorf("reconciled again after %s, want %s; conditions (-want +got):\n%s", again, tc.wantAgain, diff)
			}
		})
	}
}

// TestReconcileExplanationOnce: an answer is written once, also while the cache lacks it, and the
// object is deleted at the end of its lifetime.
func TestReconcileExplanationOnce(t *testing.T) {
	h := newExplainHub(t, explainPlacement("e", "p", time.Minute))
	h.reconcile(t)
	e := h.get(t, "e")
	if e.Status.Candidates != 2 || e.Status.SelectedClusters != 1 || len(e.Status.Verdicts) != 2 {
		t.Errorf("the status is %+v", e.Status)
	}
	stale := e.DeepCopy()
	stale.Status = berthv1alpha1.PlacementExplanationStatus{}
	for _, cached := range []*berthv1alpha1.PlacementExplanation{stale, e} {
		cached.ResourceVersion = h.get(t, "e").ResourceVersion
		if err := h.Hub.Status().Update(t.Context(), cached); err != nil {
			t.Fatal(err)
		}
		h.Written = nil
		if again := h.reconcile(t); again != berthv1alpha1.ExplanationLifetime-time.Minute || len(h.Written) > 0 {
			t.Errorf("reconciled again after %s, written %v", again, h.Written)
		}
	}
	h.Now = func() time.Time { return fixture.Now.Add(berthv1alpha1.ExplanationLifetime) }
	if again := h.reconcile(t); again != 0 || h.get(t, "e") != nil {
		t.Errorf("an old one is not deleted; reconciled again after %s", again)
	}
	h.reconcile(t)
	if len(h.namespaces) > 0 {
		t.Errorf("remembered: %v", h.namespaces)
	}
}

// TestReconcileExplanationFails: what fails is tried again.
func TestReconcileExplanationFails(t *testing.T) {
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns"}}
	down := errors.New("hub is down")
	h := newExplainHub(t, explainPlacement("e", "p", 0))
	h.WriteError = down
	if _, err := h.Reconcile(t.Context(), request); err == nil || err.Error() != "writing the status of PlacementExplanation ns/e: hub is down" {
		t.Errorf("the error is %v", err)
	}
	h.WriteError = nil
	h.Lists["PlacementExplanationList"] = down
	if _, err := h.Reconcile(t.Context(), request); err == nil || err.Error() != "listing the PlacementExplanations of namespace ns: hub is down" {
		t.Errorf("the error is %v", err)
	}
	delete(h.Lists, "PlacementExplanationList")
	h.reconcile(t)
	if got := h.conditions(t, "e"); len(got) != 1 {
		t.Errorf("the conditions are %v", got)
	}
}

// TestReconcileExplanationThrottles: those beyond ten, and those of a namespace without share, know
// that they wait.
func TestReconcileExplanationThrottles(t *testing.T) {
	var objects []client.Object
	for i := range berthv1alpha1.MaxOpenExplanations + 1 {
		objects = append(objects, explainPlacement(fmt.Sprintf("e%02d", i), "p", time.Minute-time.Duration(i)*time.Second))
	}
	h := newExplainHub(t, objects...)
	for range objects {
		h.reconcile(t)
	}
	if diff := cmp.Diff([]string{
		"Throttled True TooManyOpen: Namespace ns has more than 10 PlacementExplanations: this one waits until another one is deleted",
	}, h.conditions(t, "e10")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := h.Delete(t.Context(), objects[3]); err != nil {
		t.Fatal(err)
	}
	h.reconcile(t)
	if diff := cmp.Diff([]string{
		"Throttled False NotThrottled: The explanation does not wait any more", "Explained True Decided: 1 of 2 candidates are selected",
	}, h.conditions(t, "e10")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReconcileExplanationWithoutShare(t *testing.T) {
	var objects []client.Object
	for i := range berthv1alpha1.MaxOpenExplanations {
		objects = append(objects, explainPlacement(fmt.Sprintf("e%02d", i), "p", time.Minute-time.Duration(i)*time.Second))
	}
	h := newExplainHub(t, objects...)
	useClock(h.Explainer, func(clock *clocktesting.FakeClock) { clock.Step(99 * time.Millisecond) })
	// A question to the debugger uses the same share.
	for range 5 {
		h.Explainer.Explain(t.Context(), &explanation.Question{Placement: types.NamespacedName{Namespace: "ns", Name: "p"}})
	}
	want := "Throttled True ShareUsed: The explanations of this namespace took so much time that the next one has to wait"
	for _, o := range objects {
		again := h.reconcile(t)
		if got := h.conditions(t, o.GetName()); len(got) == 1 && got[0] == want && again > time.Millisecond {
			return
		}
	}
	t.Error("none is throttled")
}

// TestReconcileExplanationBounds the requests for one namespace.
func TestReconcileExplanationBounds(t *testing.T) {
	for name, age := range map[string]time.Duration{"old": time.Hour, "throttled": 0} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for i := range maxExplanationWrites + berthv1alpha1.MaxOpenExplanations + 1 {
				objects = append(objects, explainPlacement(fmt.Sprintf("e%02d", i), "nosuch", age))
			}
			h := newExplainHub(t, objects...)
			if again := h.reconcile(t); again != time.Millisecond {
				t.Errorf("reconciled again after %s", again)
			}
			changed := 0
			for _, o := range objects {
				if e := h.get(t, o.GetName()); e == nil || len(e.Status.Conditions) > 0 {
					changed++
				}
			}
			if changed != maxExplanationWrites {
				t.Errorf("%d were changed", changed)
			}
		})
	}
}

// TestReconcileExplanationTooLarge: a template has a bound.
func TestReconcileExplanationTooLarge(t *testing.T) {
	e := explainPlacement("e", "", 0)
	e.Spec.Template = &berthv1alpha1.PlacementTemplate{}
	for i := range 20 {
		e.Spec.Template.Spec.ClusterSets = append(e.Spec.Template.Spec.ClusterSets, strings.Repeat("a", 4000)+fmt.Sprint(i))
	}
	h := newExplainHub(t, e)
	h.reconcile(t)
	if got := h.conditions(t, "e"); len(got) != 1 || !strings.HasPrefix(got[0], "Explained False TemplateTooLarge: spec.template: has 80") {
		t.Errorf("the conditions are %v", got)
	}
}

// TestReconcileExplanationInvalid: a mistake in the spec is reported, and the next one is answered.
func TestReconcileExplanationInvalid(t *testing.T) {
	e := explainPlacement("e", "p", time.Second)
	e.Spec.Domains = "region"
	h := newExplainHub(t, e, explainPlacement("f", "p", 0))
	h.reconcile(t)
	h.reconcile(t)
	got := append(h.conditions(t, "e"), h.conditions(t, "f")...)
	want := []string{
		`Explained False Invalid: spec.domains: "region" is not label:KEY, claim:NAME or cluster`,
		"Explained True Decided: 1 of 2 candidates are selected",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestReconcileExplanationReplaced: one that was deleted, or created again, since the cache saw it
// is not answered.
func TestReconcileExplanationReplaced(t *testing.T) {
	for name, live := range map[string][]client.Object{
		"deleted": nil, "created again": {func() client.Object { e := explainPlacement("e", "p", 0); e.UID = "other"; return e }()},
	} {
		t.Run(name, func(t *testing.T) {
			h := newExplainHub(t, explainPlacement("e", "p", 0))
			h.Reader = newMemoryHub(t, live...)
			h.reconcile(t)
			if got := h.conditions(t, "e"); len(got) > 0 {
				t.Errorf("the conditions are %v", got)
			}
		})
	}
}

// TestCompactExplanation: a question costs memory only while it is decided.
func TestCompactExplanation(t *testing.T) {
	e := explainPlacement("e", "p", 0)
	e.Annotations, e.Labels, e.Finalizers = map[string]string{"a": "b"}, map[string]string{"a": "b"}, []string{"a/b"}
	e.Spec.Template = &berthv1alpha1.PlacementTemplate{}
	e.Status.Candidates, e.Status.Conditions = 3, []metav1.Condition{{Type: berthv1alpha1.ExplanationThrottled}}
	want := explainPlacement("e", "", 0)
	want.Status.Conditions = e.Status.Conditions
	got, err := compact(e)
	if diff := cmp.Diff(client.Object(want), got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// TestReconcileExplanationForgets: nothing is remembered of a namespace whose last
// PlacementExplanation was deleted before it was answered.
func TestReconcileExplanationForgets(t *testing.T) {
	e := explainPlacement("e", "nosuch", 0)
	h := newExplainHub(t, e)
	h.reconcile(t)
	if h.namespaces["ns"].begun != "e" {
		t.Fatalf("begun is %q", h.namespaces["ns"].begun)
	}
	if err := h.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	h.reconcile(t)
	if len(h.namespaces) > 0 {
		t.Errorf("remembered: %v", h.namespaces)
	}
}

func TestExplainedCondition(t *testing.T) {
	report := &simulator.Report{Answer: &simulator.Answer{NumberOfSelectedClusters: 2, AvailableClusters: []string{"a", "b", "c"}}}
	for name, tc := range map[string]struct {
		answer explanation.Result
		want   string
	}{
		"decided": {explanation.Result{Report: report}, "True Decided: 2 of 3 candidates are selected"},
		"verdicts that do not fit": {
			explanation.Result{Report: report, LeftOut: 4},
			"True Decided: 2 of 3 candidates are selected; 4 verdicts are too large for the status: name the clusters in spec.clusters",
		},
		"no time for changes": {
			explanation.Result{Report: report, NoChange: 5},
			"True Decided: 2 of 3 candidates are selected; there was no time to look for a change that would select them for 5 clusters: name fewer in spec.clusters",
		},
		"terminating": {explanation.Result{Report: &simulator.Report{Skipped: "terminating"}}, "True LeftAlone: terminating"},
		"failed":      {explanation.Result{Failure: errors.New("no plan")}, "False DecisionFailed: no plan"},
		"timed out":   {explanation.Result{Failure: context.DeadlineExceeded, TimedOut: true}, "False TimedOut: context deadline exceeded"},
		"not found":   {explanation.Result{NotFound: true}, `False PlacementNotFound: spec.placement: there is no Placement "p" in namespace ns`},
	} {
		t.Run(name, func(t *testing.T) {
			c := explained(explainPlacement("e", "p", 0), &tc.answer)
			if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); c.Type != berthv1alpha1.ExplanationExplained || got != tc.want {
				t.Errorf("%s %s, want %s", c.Type, got, tc.want)
			}
		})
	}
}
