package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
