package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// labelled is a Placement with the label new.
func labelled(namespace, name, value string) *v1alpha1.Placement {
	pl := fixture.Placement(namespace, name).Obj()
	pl.Labels = map[string]string{"new": value}
	return pl
}

// selecting is a DisruptionPolicy of the namespace n with a selector.
// onlyNew selects the Placements with the label new=yes.
var onlyNew = &metav1.LabelSelector{MatchLabels: map[string]string{"new": "yes"}}

func selecting(name string, selector *metav1.LabelSelector) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy("n", name)
	policy.Spec.PlacementSelector = selector
	return policy
}

func TestDisruptionPolicyStatus(t *testing.T) {
	placements := []client.Object{labelled("n", "a", "yes"), labelled("n", "b", "yes"), labelled("n", "c", "no"), labelled("m", "d", "yes")}
	selected := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 3,
		Reason: "PlacementsSelected", Message: "The policy applies to the Placements that it selects",
	}
	none := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: 3,
		Reason: "NoPlacementsSelected", Message: "spec.placementSelector: it selects no Placement of the namespace",
	}
	missing := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "PlacementMissing", Message: message}}
	}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	invalid := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "InvalidSelector",
		Message: `DisruptionPolicy n/q: spec.placementSelector.matchExpressions[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist"`,
	}
	tests := map[string]struct {
		policy     *berthv1alpha1.DisruptionPolicy
		placements []client.Object
		want       berthv1alpha1.DisruptionPolicyStatus
	}{
		"all": {policy: fixture.ApprovalPolicy("n", "q"), placements: placements, want: berthv1alpha1.DisruptionPolicyStatus{Placements: 3, Conditions: []metav1.Condition{selected}}},
		"one by name": {
			policy: fixture.ApprovalPolicy("n", "q", "c"), placements: placements,
			want: berthv1alpha1.DisruptionPolicyStatus{Placements: 1, Conditions: []metav1.Condition{selected}},
		},
		"one of two by name": {
			policy: fixture.ApprovalPolicy("n", "q", "d", "c"), placements: placements, want: berthv1alpha1.DisruptionPolicyStatus{
				Placements: 1, Conditions: missing("spec.placements: the namespace has no Placement d; the policy applies to 1 of 2"),
			},
		},
		"many names": {
			policy: fixture.ApprovalPolicy("n", "q", "a", "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11"), placements: placements,
			want: berthv1alpha1.DisruptionPolicyStatus{Placements: 1, Conditions: missing(
				"spec.placements: the namespace has no Placement z0, z1, z10, z11, z2, z3, z4, z5, z6, z7 and 2 more; the policy applies to 1 of 13")},
		},
		"two by label": {
			policy: selecting("q", onlyNew), placements: placements,
			want: berthv1alpha1.DisruptionPolicyStatus{Placements: 2, Conditions: []metav1.Condition{selected}},
		},
		"none by name": {
			policy: fixture.ApprovalPolicy("n", "q", "d"), placements: placements, want: berthv1alpha1.DisruptionPolicyStatus{
				Conditions: missing("spec.placements: the namespace has no Placement d; the policy applies to 0 of 1"),
			},
		},
		"none of the namespace":            {policy: selecting("q", &metav1.LabelSelector{}), want: berthv1alpha1.DisruptionPolicyStatus{Conditions: []metav1.Condition{none}}},
		"no Placement":                     {policy: selecting("q", onlyNew), want: berthv1alpha1.DisruptionPolicyStatus{Conditions: []metav1.Condition{none}}},
		"an invalid selector":              {policy: selecting("q", wrong), placements: placements, want: berthv1alpha1.DisruptionPolicyStatus{Conditions: []metav1.Condition{invalid}}},
		"an invalid one, and no Placement": {policy: selecting("q", wrong), want: berthv1alpha1.DisruptionPolicyStatus{Conditions: []metav1.Condition{invalid}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.policy.Generation = 3
			hub := newMemoryHub(t, append([]client.Object{tc.policy}, tc.placements...)...)
			r := newPolicyReconciler(hub)
			key := client.ObjectKeyFromObject(tc.policy)
			// The second time there is nothing to write.
			for range 2 {
				if result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != (ctrl.Result{}) {
					t.Fatalf("got %v, error %v", result, err)
				}
			}
			got := &berthv1alpha1.DisruptionPolicy{}
			hub.MustGet(t, key, got)
			if diff := cmp.Diff(tc.want, got.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			hub.CheckWritten(t, "patch status n/q")
		})
	}
}

func TestDisruptionPolicyReconcile(t *testing.T) {
	key := types.NamespacedName{Namespace: "n", Name: "q"}
	memoryhub.CheckPatchAnswers(t, newMemoryHub, key, fixture.ApprovalPolicy("n", "q"), func(c client.Client) reconcile.Reconciler { return newPolicyReconciler(c) })
	t.Run("Placements cannot be listed", func(t *testing.T) {
		hub := newMemoryHub(t, fixture.ApprovalPolicy("n", "q"))
		broken := errors.New("broken")
		hub.Lists["PlacementList"] = broken
		result, err := newPolicyReconciler(hub).Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if !errors.Is(err, broken) || result != (ctrl.Result{}) || len(hub.Written) > 0 {
			t.Errorf("got %v, error %v after %q", result, err, hub.Written)
		}
	})
	t.Run("only the number changes", func(t *testing.T) {
		hub := newMemoryHub(t, fixture.ApprovalPolicy("n", "q"), labelled("n", "a", ""))
		for want := int32(1); want <= 2; want++ {
			if _, err := newPolicyReconciler(hub).Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			got := &berthv1alpha1.DisruptionPolicy{}
			if err := hub.Get(t.Context(), key, got); err != nil || got.Status.Placements != want {
				t.Errorf("%d Placements are counted, want %d; error %v", got.Status.Placements, want, err)
			}
			if err := hub.Create(t.Context(), labelled("n", "b", "")); want == 1 && err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("only the condition changes", func(t *testing.T) {
		policy := selecting("q", onlyNew)
		hub := newMemoryHub(t, policy)
		r := newPolicyReconciler(hub)
		for _, generation := range []int64{1, 2} {
			got := &berthv1alpha1.DisruptionPolicy{}
			hub.MustGet(t, key, got)
			got.Generation = generation
			if err := hub.Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
		got := &berthv1alpha1.DisruptionPolicy{}
		if err := hub.Get(t.Context(), key, got); err != nil || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].ObservedGeneration != 2 {
			t.Errorf("the status is %v, error %v", got.Status, err)
		}
	})
}

// laterQueue records what is to be queued later.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added map[string]time.Duration
}

func (q *laterQueue) AddAfter(request reconcile.Request, after time.Duration) {
	q.added[request.String()] = after
}

func TestPoliciesOfPlacement(t *testing.T) {
	yes, no := labelled("n", "p", "yes"), labelled("n", "p", "no")
	create := func(e event.CreateEvent) func(context.Context, *DisruptionPolicyReconciler, *laterQueue) {
		return func(ctx context.Context, r *DisruptionPolicyReconciler, q *laterQueue) {
			r.policiesOfPlacement().Create(ctx, e, q)
		}
	}
	update := func(before, after client.Object) func(context.Context, *DisruptionPolicyReconciler, *laterQueue) {
		return func(ctx context.Context, r *DisruptionPolicyReconciler, q *laterQueue) {
			r.policiesOfPlacement().Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	broken := errors.New("broken")
	delay := func(names ...string) map[string]time.Duration {
		all := map[string]time.Duration{}
		for _, name := range names {
			all[name] = time.Second
		}
		return all
	}
	tests := map[string]struct {
		send    func(context.Context, *DisruptionPolicyReconciler, *laterQueue)
		lists   error
		want    map[string]time.Duration
		wantLog bool
	}{
		"a Placement of the first list":   {send: create(event.CreateEvent{Object: yes, IsInInitialList: true}), want: delay()},
		"a Placement comes":               {send: create(event.CreateEvent{Object: yes}), want: delay("n/all", "n/named", "n/new")},
		"one without the label comes":     {send: create(event.CreateEvent{Object: no}), want: delay("n/all", "n/named")},
		"one of another namespace comes":  {send: create(event.CreateEvent{Object: labelled("m", "p", "yes")}), want: delay("m/other")},
		"an object of another kind comes": {send: create(event.CreateEvent{Object: fixture.Binding("n", "p")}), want: delay()},
		"a Placement gets the label":      {send: update(no, yes), want: delay("n/new")},
		"a Placement loses the label":     {send: update(yes, no), want: delay("n/new")},
		"a Placement's spec changes":      {send: update(yes, yes), lists: broken, want: delay()},
		"the list failed":                 {send: update(yes, no), lists: broken, want: delay(), wantLog: true},
		"a Placement goes": {
			send: func(ctx context.Context, r *DisruptionPolicyReconciler, q *laterQueue) {
				r.policiesOfPlacement().Delete(ctx, event.DeleteEvent{Object: yes}, q)
			},
			want: delay("n/all", "n/named", "n/new"),
		},
	}
	wrong := selecting("wrong", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newMemoryHub(t, fixture.ApprovalPolicy("n", "all"), fixture.ApprovalPolicy("n", "named", "p"), selecting("new", onlyNew),
				fixture.ApprovalPolicy("n", "another", "q"), fixture.ApprovalPolicy("m", "other"), wrong.DeepCopy())
			if tc.lists != nil {
				hub.Lists["DisruptionPolicyList"] = tc.lists
			}
			logged := 0
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
			q := &laterQueue{added: map[string]time.Duration{}}
			tc.send(ctx, newPolicyReconciler(hub), q)
			if diff := cmp.Diff(tc.want, q.added); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
			if (logged > 0) != tc.wantLog {
				t.Errorf("%d lines are logged", logged)
			}
		})
	}
}

func TestDisruptionPolicySetUp(t *testing.T) {
	memoryhub.CheckSetUp(t, newPolicyReconciler(nil).SetUp)
	generation := func(n int64) *berthv1alpha1.DisruptionPolicy {
		policy := fixture.ApprovalPolicy("n", "q")
		policy.Generation = n
		return policy
	}
	tests := map[string]struct {
		event memoryhub.Event
		want  []string
	}{
		"a policy comes":           {event: memoryhub.Event{After: generation(1)}, want: []string{"n/q"}},
		"a policy's spec changes":  {event: memoryhub.Event{Before: generation(1), After: generation(2)}, want: []string{"n/q"}},
		"a policy's status is new": {event: memoryhub.Event{Before: generation(1), After: generation(1)}},
		"a Placement comes":        {event: memoryhub.Event{After: labelled("n", "p", "")}, want: []string{"n/all"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t, fixture.ApprovalPolicy("n", "all"))
				m := memoryhub.NewManager(t, hub)
				m.Run(t, newPolicyReconciler(hub).SetUp)
				m.Send(t, tc.event)
				time.Sleep(recountDelay)
				synctest.Wait()
				hub.CheckRead(t, "DisruptionPolicy", tc.want...)
			})
		})
	}
}

func newPolicyReconciler(c client.Client) *DisruptionPolicyReconciler {
	synced := make(chan struct{})
	close(synced)
	return &DisruptionPolicyReconciler{Client: c, Inventory: inventory.New(inventory.Options{}), Synced: synced}
}

// TestPolicyBeyondTheLimit: a policy that does not apply because older ones select the Placement is
// not Ready, and is asked again when one of them changes.
func TestPolicyBeyondTheLimit(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	pl := fixture.Placement("n", "web").Obj()
	inv.Update(pl)
	hub := newMemoryHub(t, pl)
	for i := range berthv1alpha1.MaxPoliciesPerPlacement + 2 {
		policy := fixture.ApprovalPolicy("n", fmt.Sprintf("p%02d", i))
		inv.Update(policy)
		if err := hub.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	r := &DisruptionPolicyReconciler{Client: hub, Inventory: inv}
	ready := func(name string) *metav1.Condition {
		key := types.NamespacedName{Namespace: "n", Name: name}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		var policy berthv1alpha1.DisruptionPolicy
		hub.MustGet(t, key, &policy)
		return meta.FindStatusCondition(policy.Status.Conditions, berthv1alpha1.PolicyReady)
	}
	if c := ready("p31"); c.Status != metav1.ConditionTrue {
		t.Errorf("the last one that applies: %s: %s", c.Reason, c.Message)
	}
	const want = "34 DisruptionPolicies select Placement web; the oldest 32 apply, and this one does not. " +
		"Only forced removals of the Placement are published until fewer select it"
	if c := ready("p32"); c.Status != metav1.ConditionFalse || c.Reason != "TooManyPolicies" || c.Message != want {
		t.Errorf("the first one that does not: %s %s: %s", c.Status, c.Reason, c.Message)
	}
	q := &laterQueue{added: map[string]time.Duration{}}
	r.youngerPolicies().Create(t.Context(), event.CreateEvent{Object: fixture.ApprovalPolicy("n", "p30"), IsInInitialList: true}, q)
	if len(q.added) > 0 {
		t.Errorf("the first list queues %v", q.added)
	}
	for range 2 {
		gone := fixture.ApprovalPolicy("n", "p30")
		if err := hub.Delete(t.Context(), gone); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		inv.Delete(gone)
		r.youngerPolicies().Delete(t.Context(), event.DeleteEvent{Object: gone}, q)
	}
	if len(q.added) != 3 || q.added["n/p31"] != recountDelay || q.added["n/p32"] != recountDelay || q.added["n/p33"] != recountDelay {
		t.Errorf("queued are %v", q.added)
	}
	if c := ready("p32"); c.Status != metav1.ConditionTrue {
		t.Errorf("after a deletion: %s: %s", c.Reason, c.Message)
	}
	if c := ready("p33"); c.Status != metav1.ConditionFalse {
		t.Errorf("after a deletion, the last: %s: %s", c.Reason, c.Message)
	}
}
