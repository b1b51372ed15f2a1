package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

func newMemoryHub(t *testing.T, objects ...client.Object) *memoryhub.Hub {
	return memoryhub.New(memoryhub.Builder(t).WithIndex(&berthv1alpha1.PlacementEviction{}, evictionIndex, evictedPlacement), objects...)
}

// evictionHub is a hub in memory, with the reconciler of its evictions.
type evictionHub struct {
	*memoryhub.Hub
	*EvictionReconciler
}

func newEvictionHub(t *testing.T, objects ...client.Object) *evictionHub {
	t.Helper()
	hub, inv := newMemoryHub(t, objects...), inventory.New(inventory.Options{})
	for _, o := range objects {
		inv.Update(o)
	}
	inv.Started()
	return &evictionHub{hub, &EvictionReconciler{Client: hub, Inventory: inv, Now: func() time.Time { return fixture.Now }}}
}

// reconcile reconciles Placement n/p and returns when it is reconciled again.
func (h *evictionHub) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// conditions are the lines "<type> <status> <reason>: <message>" of an eviction; nil if it is
// deleted.
func (h *evictionHub) conditions(t *testing.T, name string) []string {
	t.Helper()
	e := &berthv1alpha1.PlacementEviction{}
	if err := h.Get(t.Context(), types.NamespacedName{Namespace: "n", Name: name}, e); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, c := range e.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}

// evictedWith is Placement n/p, created an hour ago, with conditions.
func evictedWith(conditions ...metav1.Condition) *v1alpha1.Placement {
	pl := fixture.Placement("n", "p").Obj()
	pl.CreationTimestamp, pl.Status.Conditions = metav1.NewTime(fixture.Now.Add(-time.Hour)), conditions
	return pl
}

func TestEvictionConditions(t *testing.T) {
	at := func(ago time.Duration) fixture.EvictionBuilder {
		return fixture.Eviction("n", "e", "p", "c").Created(fixture.Now.Add(-ago))
	}
	page := func(clusters ...string) client.Object {
		return fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists(clusters...).Obj()
	}
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Why", Message: "because"}
	}
	const (
		accepted = "Valid True Accepted: The cluster is evicted as the DisruptionPolicies of the Placement allow"
		still    = "Executed False Waiting: The cluster is still published"
	)
	later := evictedWith()
	later.CreationTimestamp = metav1.NewTime(fixture.Now)
	foreign := fixture.Page("n", "foreign").Of("p").OwnedBy("other").Lists("c").Obj()
	for name, tc := range map[string]struct {
		eviction  fixture.EvictionBuilder
		others    []client.Object
		want      []string
		wantAfter time.Duration
	}{
		"a published cluster": {eviction: at(0), others: []client.Object{evictedWith(), page("b", "c")}, want: []string{accepted, still}},
		"a published cluster, and a misconfigured Placement": {
			eviction: at(0), others: []client.Object{evictedWith(condition(v1alpha1.PlacementConditionMisconfigured, "True")), page("c")},
			want: []string{accepted, still + ": PlacementMisconfigured=True Why"},
		},
		"a published cluster, and a held change": {
			eviction: at(0), others: []client.Object{evictedWith(
				condition(v1alpha1.PlacementConditionMisconfigured, "False"), condition(v1alpha1.PlacementConditionDecisionPending, "True"),
			), page("c")},
			want: []string{accepted, still + ": DecisionPending=True Why"},
		},
		"a published cluster, and a change in steps": {
			eviction: at(0), others: []client.Object{evictedWith(condition(v1alpha1.PlacementConditionDecisionProgressing, "False")), page("c")},
			want: []string{accepted, still + ": DecisionProgressing=False Why"},
		},
		"the cluster has left": {
			eviction: at(time.Minute).Valid(metav1.ConditionTrue), others: []client.Object{evictedWith(), page("b")},
			want: []string{accepted, "Executed True ClusterRemoved: The cluster is in no PlacementDecision of the Placement"},
		},
		"the cluster is on another object's page": {
			eviction: at(time.Minute).Valid(metav1.ConditionTrue), others: []client.Object{evictedWith(), foreign},
			want: []string{accepted, "Executed True ClusterRemoved: The cluster is in no PlacementDecision of the Placement"},
		},
		"a cluster that is not published yet": {
			eviction: at(unknownTime - time.Second), others: []client.Object{evictedWith(), page("b")}, want: []string{}, wantAfter: time.Second,
		},
		"a cluster that is not published": {
			eviction: at(unknownTime), others: []client.Object{evictedWith(), page("b")},
			want: []string{`Valid False ClusterNotSelected: spec.cluster: the published decision of Placement n/p does not have cluster "c"`},
		},
		"a cluster that is not published, and a slow clock": {
			eviction: at(-time.Hour), others: []client.Object{evictedWith(), page("b")},
			want: []string{`Valid False ClusterNotSelected: spec.cluster: the published decision of Placement n/p does not have cluster "c"`},
		},
		"a Placement not seen yet": {eviction: at(0), want: []string{}, wantAfter: unknownTime},
		"no Placement":             {eviction: at(unknownTime), want: []string{`Valid False PlacementNotFound: spec.placement: there is no Placement "p" in namespace n`}},
		"a later Placement": {
			eviction: at(time.Minute), others: []client.Object{later, page("c")},
			want: []string{"Valid False PlacementNotFound: spec.placement: Placement n/p was created after this eviction"},
		},
		"the Placement was deleted before": {
			eviction: at(time.Minute).Valid(metav1.ConditionTrue), want: []string{`Valid False PlacementNotFound: spec.placement: there is no Placement "p" in namespace n`},
		},
		"executed, and listed again": {
			eviction: at(time.Minute).Executed(fixture.Now.Add(-time.Minute)), others: []client.Object{evictedWith(), page("c")},
			want: []string{"Valid True Test: ", "Executed True Test: "}, wantAfter: 119 * time.Minute,
		},
		"executed two hours ago":   {eviction: at(3 * time.Hour).Executed(fixture.Now.Add(-2 * time.Hour)), others: []client.Object{evictedWith(), page("b")}},
		"refused now":              {eviction: at(time.Minute).Valid(metav1.ConditionFalse), others: []client.Object{evictedWith(), page("c")}, want: []string{"Valid False Test: "}, wantAfter: time.Hour},
		"of another Placement":     {eviction: fixture.Eviction("n", "e", "q", "c"), others: []client.Object{evictedWith(), page("c")}, want: []string{}},
		"executed, two hours less": {eviction: at(3 * time.Hour).Executed(fixture.Now.Add(time.Second - 2*time.Hour)), want: []string{"Valid True Test: ", "Executed True Test: "}, wantAfter: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEvictionHub(t, append(tc.others, tc.eviction.Obj())...)
			after := h.reconcile(t)
			if diff := cmp.Diff(tc.want, h.conditions(t, "e")); diff != "" || after != tc.wantAfter {
				t.Errorf("reconciled again after %s, want %s; conditions (-want +got):\n%s", after, tc.wantAfter, diff)
			}
			// The second time there is nothing to write.
			h.Written = nil
			if h.reconcile(t); len(h.Written) > 0 {
				t.Errorf("written again: %q", h.Written)
			}
		})
	}
}

// TestEvictionTime: the exclusion is measured from the removal, by the reconciler's clock.
func TestEvictionTime(t *testing.T) {
	h := newEvictionHub(t, evictedWith(), fixture.Eviction("n", "e", "p", "c").Created(fixture.Now.Add(-time.Hour)).Valid(metav1.ConditionTrue).Obj())
	h.reconcile(t)
	e := &berthv1alpha1.PlacementEviction{}
	h.MustGet(t, types.NamespacedName{Namespace: "n", Name: "e"}, e)
	if c := e.Status.Conditions[1]; c.Type != berthv1alpha1.EvictionExecuted || !c.LastTransitionTime.Time.Equal(fixture.Now) {
		t.Errorf("%s since %s", c.Type, c.LastTransitionTime)
	}
}

// TestManyEvictions: other Placements get their turn between the writes for one Placement.
func TestManyEvictions(t *testing.T) {
	objects := []client.Object{evictedWith(), fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("c").Obj()}
	for i := range maxEvictionWrites + 5 {
		objects = append(objects, fixture.Eviction("n", fmt.Sprint("e", i), "p", "c").Created(fixture.Now).Obj())
	}
	h := newEvictionHub(t, objects...)
	if after := h.reconcile(t); len(h.Written) != maxEvictionWrites || after != time.Millisecond {
		t.Errorf("%d writes, again after %s", len(h.Written), after)
	}
	if after := h.reconcile(t); len(h.Written) != maxEvictionWrites+5 || after != 0 {
		t.Errorf("%d writes, again after %s", len(h.Written), after)
	}
}

// unordered lists evictions in the reverse order of their names. Caches list in any order.
type unordered struct{ client.Client }

func (u unordered) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := u.Client.List(ctx, list, options...)
	if evictions, ok := list.(*berthv1alpha1.PlacementEvictionList); ok {
		slices.Reverse(evictions.Items)
	}
	return err
}

// TestEvictionsInOrder: the oldest eviction is written first, then by name.
func TestEvictionsInOrder(t *testing.T) {
	objects := []client.Object{evictedWith(), fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("c").Obj()}
	for i, name := range []string{"c", "a", "b"} {
		objects = append(objects, fixture.Eviction("n", name, "p", "c").Created(fixture.Now.Add(-time.Duration(i/2)*time.Second)).Obj())
	}
	h := newEvictionHub(t, objects...)
	h.EvictionReconciler.Client = unordered{h.EvictionReconciler.Client}
	h.reconcile(t)
	h.CheckWritten(t, "patch status n/b", "patch status n/a", "patch status n/c")
}

// TestWaitingEvictions: each step changes a condition of the Placement, but evictions that wait are
// written only if what they wait for changes in kind, and not in their first seconds.
func TestWaitingEvictions(t *testing.T) {
	condition := metav1.Condition{Type: v1alpha1.PlacementConditionDecisionProgressing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingUpdate}
	objects := []client.Object{evictedWith(), fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("c").Obj()}
	const evictions = maxEvictionWrites
	for i := range evictions {
		objects = append(objects, fixture.Eviction("n", fmt.Sprint("e", i), "p", "c").Created(fixture.Now).Obj())
	}
	h := newEvictionHub(t, objects...)
	h.reconcile(t)
	for _, step := range []struct {
		message, reason string
		after           time.Duration
		writes          int
		again           time.Duration
	}{
		{"1 of 10 added", v1alpha1.ReasonRollingUpdate, time.Second, 0, waitingDelay - time.Second},
		{"2 of 10 added", v1alpha1.ReasonRollingUpdate, waitingDelay, evictions, 0},
		{"3 of 10 added", v1alpha1.ReasonRollingUpdate, time.Hour, 0, 0},
		{"3 of 10 added", v1alpha1.ReasonProgressDeadlineExceeded, time.Hour, evictions, 0},
	} {
		condition.Message, condition.Reason, h.Written = step.message, step.reason, nil
		pl := &v1alpha1.Placement{}
		h.MustGet(t, types.NamespacedName{Namespace: "n", Name: "p"}, pl)
		pl.Status.Conditions = []metav1.Condition{condition}
		if err := h.Status().Update(t.Context(), pl); err != nil {
			t.Fatal(err)
		}
		h.Written = nil
		h.Now = func() time.Time { return fixture.Now.Add(step.after) }
		if again := h.reconcile(t); len(h.Written) != step.writes || again != step.again {
			t.Errorf("%s %s: %d writes, again after %s; want %d and %s", step.reason, step.message, len(h.Written), again, step.writes, step.again)
		}
	}
}

// TestEvictionsReadWhatBerthPublished: another writer's edit of a page neither executes an eviction
// nor makes one valid. A removal that Berth has published executes it.
func TestEvictionsReadWhatBerthPublished(t *testing.T) {
	page := func(clusters ...string) client.Object {
		return fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists(clusters...).Obj()
	}
	evicted := fixture.Eviction("n", "e", "p", "c").Created(fixture.Now.Add(-time.Minute)).Valid(metav1.ConditionTrue)
	stray := fixture.Eviction("n", "stray", "p", "z").Created(fixture.Now.Add(-time.Minute))
	h := newEvictionHub(t, evictedWith(), page("b", "c"), evicted.Obj(), stray.Obj())
	subject := h.Inventory.Subject(types.NamespacedName{Namespace: "n", Name: "p"})
	h.Inventory.Update(page("b", "z"))
	if after := h.reconcile(t); after != settleDelay {
		t.Errorf("reconciled again after %s", after)
	}
	executed := func() string { return strings.Join(h.conditions(t, "e"), ", ") }
	if got := executed(); !strings.Contains(got, "Executed False") {
		t.Errorf("after an edit: %s", got)
	}
	if got := strings.Join(h.conditions(t, "stray"), ", "); !strings.Contains(got, "Valid False ClusterNotSelected") {
		t.Errorf("of a stray cluster: %s", got)
	}
	h.Inventory.SetPublished(subject, &framework.Published{Names: []string{"b"}})
	h.reconcile(t)
	if got := executed(); !strings.Contains(got, "Executed True") {
		t.Errorf("after the removal: %s", got)
	}
}

// TestEvictionsLookAgain: an attempt starts another look if clusters are published that the last
// one did not read, also if the inventory had them only after it. A look that would read the same
// again could write twice what the cache does not have yet.
func TestEvictionsLookAgain(t *testing.T) {
	page := func(clusters ...string) *v1alpha1.PlacementDecision {
		return fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists(clusters...).Obj()
	}
	disabled := evictedWith()
	disabled.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	eviction := fixture.Eviction("n", "e", "p", "c").Created(fixture.Now.Add(-time.Minute)).Obj()
	key := types.NamespacedName{Namespace: "n", Name: "p"}
	for name, tc := range map[string]struct {
		objects []client.Object
		first   func(h *evictionHub)
		want    int
	}{
		"no eviction":  {[]client.Object{evictedWith(), page("c")}, func(*evictionHub) {}, 0},
		"no look":      {[]client.Object{evictedWith(), page("c"), eviction}, func(*evictionHub) {}, 1},
		"the same":     {[]client.Object{evictedWith(), page("c"), eviction}, func(h *evictionHub) { h.reconcile(t) }, 0},
		"others":       {[]client.Object{evictedWith(), page("b"), eviction}, func(h *evictionHub) { h.reconcile(t) }, 1},
		"a later page": {[]client.Object{evictedWith(), eviction}, func(h *evictionHub) { h.reconcile(t); h.Inventory.Update(page("c")) }, 1},
		"disabled": {[]client.Object{disabled, page("c"), eviction}, func(h *evictionHub) {
			h.reconcile(t)
			enabled := evictedWith()
			enabled.Generation++
			h.Inventory.Update(enabled)
			h.Inventory.AdoptPages(h.Inventory.Subject(key), 1)
		}, 1},
		"a look that failed": {[]client.Object{evictedWith(), page("c"), eviction}, func(h *evictionHub) {
			h.reconcile(t)
			h.Reads["Placement"] = errors.New("broken")
			_, _ = h.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEvictionHub(t, tc.objects...)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer queue.ShutDown()
			tc.first(h)
			if err := h.watchPublished(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
			h.Inventory.SetPublished(h.Inventory.Subject(key), &framework.Published{Names: []string{"c"}, Digest: framework.DigestOf([]string{"c"})})
			if got := queue.Len(); got != tc.want {
				t.Errorf("%d Placements are queued, want %d", got, tc.want)
			}
		})
	}
}

// TestEvictionsWaitForTheInventory: nothing is decided about an eviction before the inventory knows
// the Placement and its pages.
func TestEvictionsWaitForTheInventory(t *testing.T) {
	for name, inv := range map[string]func(*inventory.Inventory){
		"without Placement": func(inv *inventory.Inventory) { inv.Started() },
		"an older Placement": func(inv *inventory.Inventory) {
			older := evictedWith()
			older.UID = "older"
			inv.Update(older)
			inv.Started()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEvictionHub(t, evictedWith(), fixture.Eviction("n", "e", "p", "c").Created(fixture.Now.Add(-time.Hour)).Valid(metav1.ConditionTrue).Obj())
			h.Inventory = inventory.New(inventory.Options{})
			inv(h.Inventory)
			if after := h.reconcile(t); after != settleDelay || len(h.Written) > 0 {
				t.Errorf("again after %s, written %q", after, h.Written)
			}
		})
	}
}

func TestEvictionErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, breaks := range map[string]func(h *evictionHub){
		"the evictions cannot be listed": func(h *evictionHub) { h.Lists["PlacementEvictionList"] = broken },
		"the Placement cannot be read":   func(h *evictionHub) { h.Reads["Placement"] = broken },
	} {
		t.Run(name, func(t *testing.T) {
			h := newEvictionHub(t, evictedWith(), fixture.Eviction("n", "e", "p", "c").Obj())
			breaks(h)
			_, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "p"}})
			if !errors.Is(err, broken) || len(h.Written) > 0 {
				t.Errorf("error %v, written %q", err, h.Written)
			}
		})
	}
}

// protected is a hub on which a policy forbids all deletions.
type protected struct {
	client.Client
	deletions *int
}

func (p protected) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	*p.deletions++
	return apierrors.NewForbidden(schema.GroupResource{Resource: "placementevictions"}, o.GetName(), errors.New("by a policy"))
}

// TestRefusedEviction: an eviction that the API server refuses to delete, and more of them than are
// written in one turn, do not delay the others of the Placement.
func TestRefusedEviction(t *testing.T) {
	objects := []client.Object{evictedWith(), fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("c").Obj()}
	for i := range maxEvictionWrites + 1 {
		old := fixture.Eviction("n", fmt.Sprint("old-", i), "p", "b").Created(fixture.Now.Add(-3 * time.Hour))
		objects = append(objects, old.Executed(fixture.Now.Add(-2*time.Hour)).Obj())
	}
	h := newEvictionHub(t, append(objects, fixture.Eviction("n", "e", "p", "c").Created(fixture.Now).Obj())...)
	deletions := 0
	h.EvictionReconciler.Client = protected{h.Hub, &deletions}
	for turn, want := range []time.Duration{time.Millisecond, refusedRetry, refusedRetry} {
		if after := h.reconcile(t); after != want {
			t.Errorf("again after %s, want %s in turn %d", after, want, turn)
		}
	}
	if len(h.conditions(t, "e")) != 2 || deletions != maxEvictionWrites+1 {
		t.Errorf("an eviction waits for those that are refused, with %d requests", deletions)
	}
}

func TestEvictionSourceReadsPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("n", "p", "c1") {
		t.Run(name, func(t *testing.T) {
			hub := newEvictionHub(t, fixture.Placement("n", "p").Obj(), tc.Page)
			from, _, err := hub.source(t.Context(), types.NamespacedName{Namespace: "n", Name: "p"})
			if got := len(from.published) > 0; got != tc.Published || err != nil {
				t.Errorf("published %v, error %v", from.published, err)
			}
		})
	}
}
