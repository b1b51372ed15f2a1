package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSelectionStatusBeforeItsWatchEvent: a status is compared with the one that was written last,
// also if the watch has not reported that one yet.
func TestSelectionStatusBeforeItsWatchEvent(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	policy := &berthv1alpha1.SelectionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s"},
		Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "p", ClusterNames: berthv1alpha1.ClusterNames{Include: []string{"a", "x"}}},
	}
	if err := h.hub.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	inv := h.reconciler.Inventory
	inv.Update(policy)
	onHub := func() *berthv1alpha1.SelectionPolicy {
		current := &berthv1alpha1.SelectionPolicy{}
		if err := h.hub.Get(t.Context(), client.ObjectKeyFromObject(policy), current); err != nil {
			t.Fatal(err)
		}
		return current
	}
	h.succeed()
	inv.Update(onHub())
	x := fixture.Cluster("x").Set("s1").Obj()
	inv.Update(x)
	h.succeed()
	inv.Delete(x)
	h.succeed()
	if diff := cmp.Diff([]string{"x"}, onHub().Status.UnknownNames); diff != "" {
		t.Errorf("unknown names (-want +got):\n%s", diff)
	}
}

// TestStatusOfAnEarlierSpec: an attempt that read an earlier spec of a policy says nothing of the
// new one.
func TestStatusOfAnEarlierSpec(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s", Generation: 1}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p"}}
	if err := h.hub.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	read := policy.DeepCopy()
	policy.Generation = 2
	if err := h.hub.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	h.reconciler.Inventory.Update(policy.DeepCopy())
	_, err := h.reconciler.writeSomeStatuses(t.Context(), []*berthv1alpha1.SelectionPolicy{read}, func(of *berthv1alpha1.SelectionPolicy) *berthv1alpha1.SelectionPolicyStatus {
		return &berthv1alpha1.SelectionPolicyStatus{Conditions: []metav1.Condition{{Type: berthv1alpha1.SelectionReady, ObservedGeneration: of.Generation}}}
	})
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// TestManySelectionPolicies: a user who creates very many policies for one Placement gets a status
// for each, and other Placements do not wait for them.
func TestManySelectionPolicies(t *testing.T) {
	const policies = 2*maxSelectionWrites + 5
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	inv := h.reconciler.Inventory
	create := func(i int) {
		name := fmt.Sprintf("%s-%03d", strings.Repeat("s", 240), policies-i)
		policy := &berthv1alpha1.SelectionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(fixture.Now.Add(time.Duration(i) * time.Second))},
			Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "p"},
		}
		if err := h.hub.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		inv.Update(policy)
	}
	statuses := func() (written int) {
		all := &berthv1alpha1.SelectionPolicyList{}
		if err := h.hub.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			if c := meta.FindStatusCondition(all.Items[i].Status.Conditions, berthv1alpha1.SelectionReady); c != nil && c.Status == metav1.ConditionFalse {
				written++
				if len(c.Message) > 1024 {
					t.Errorf("a message of %d bytes", len(c.Message))
				}
			}
		}
		return written
	}
	for i := range policies {
		create(i)
	}
	for _, want := range []int{maxSelectionWrites, 2 * maxSelectionWrites, policies} {
		result := h.succeed()
		if got := statuses(); got != want || (result.RequeueAfter == time.Millisecond) != (want < policies) {
			t.Errorf("%d statuses after one attempt, the next one after %s; want %d", got, result.RequeueAfter, want)
		}
	}
	h.written()
	create(policies)
	h.succeed()
	if got := h.written(); len(got) > 1 {
		t.Errorf("one more policy: %v, want one write", got)
	}
}

// TestTiersAreWrittenBeforePages: a program that reads a new page finds the tiers of its clusters.
// The status is written once, and pages do not wait for one that cannot be written.
func TestTiersAreWrittenBeforePages(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a", "b")
	h.place(fixture.Placement("n", "p").Obj())
	policy := &berthv1alpha1.SelectionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s"},
		Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "p", Tiers: []berthv1alpha1.SelectionTier{{Name: "all"}}},
	}
	if err := h.hub.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	h.reconciler.Inventory.Update(policy)
	step := func(want ...string) {
		t.Helper()
		var got []string
		for _, write := range h.written() {
			if strings.Contains(write, "SelectionPolicy") || strings.Contains(write, "PlacementDecision") {
				got = append(got, write)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	h.succeed()
	step("patch status of SelectionPolicy s", "create PlacementDecision p-decision-1", "update status of PlacementDecision p-decision-1", "update PlacementDecision p-decision-1")
	current := &berthv1alpha1.SelectionPolicy{}
	if err := h.hub.Get(t.Context(), client.ObjectKeyFromObject(policy), current); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, current.Status.Tiers[0].Clusters); diff != "" {
		t.Errorf("clusters of the tier (-want +got):\n%s", diff)
	}
	h.succeed()
	step()
	h.refuse = func(request string) error {
		if strings.Contains(request, "SelectionPolicy") {
			return errors.New("refused")
		}
		return nil
	}
	h.reconciler.Inventory.Update(fixture.Cluster("c").Set("s1").Obj())
	if _, err := h.reconcile(); err == nil || !strings.Contains(err.Error(), "writing the status of SelectionPolicy s: refused") {
		t.Errorf("the error is %v", err)
	}
	step("patch status of SelectionPolicy s", "update status of PlacementDecision p-decision-1", "update PlacementDecision p-decision-1", "patch status of SelectionPolicy s")
}
