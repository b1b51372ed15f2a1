package controllers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// edit writes a Placement to the hub and to the inventory.
func (h *setUpHub) edit(pl *v1alpha1.Placement) {
	h.t.Helper()
	if err := h.hub.Update(h.t.Context(), pl); err != nil {
		h.t.Fatal(err)
	}
	h.reconciler.Inventory.Update(pl)
}

// TestReconcileDisabled: the condition SchedulingDisabled is all that is written to a disabled
// Placement, once.
func TestReconcileDisabled(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	h.written()
	h.sent()
	disable := func(value string) {
		pl := h.placement()
		pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: value}
		h.edit(pl)
	}
	disable("true")
	got := changed(t, func() {
		for range 2 {
			if result := h.succeed(); result != (ctrl.Result{}) {
				t.Errorf("the result is %v", result)
			}
		}
	}, attemptsTotal, placementsNow)
	want := map[string]float64{"placements AllDecisionsScheduled True satisfied": -1, "placements SchedulingDisabled True disabled": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	h.checkWritten("patch status of Placement p")
	h.checkSent()
	wantCondition := `True DisabledByAnnotation: The annotation cluster.open-cluster-management.io/experimental-scheduling-disable is "true": ` +
		"the published decision stays as it is"
	if got := h.condition(v1alpha1.PlacementConditionSchedulingDisabled); got != wantCondition {
		t.Errorf("condition %q, want %q", got, wantCondition)
	}
	h.checkPublished("a")
	disable("false")
	h.succeed()
	if got := h.condition(v1alpha1.PlacementConditionSchedulingDisabled); got != "" {
		t.Errorf("enabled again, the condition is %q", got)
	}
}

// TestReconcileMisconfigured: an event and the condition name the field, once per message.
func TestReconcileMisconfigured(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	h.sent()
	message := func(operator metav1.LabelSelectorOperator) string {
		return fmt.Sprintf("Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: "+
			`Unsupported value: %q: supported values: "In", "NotIn", "Exists", "DoesNotExist"`, operator)
	}
	var events []string
	for _, operator := range []metav1.LabelSelectorOperator{"Near", "Near", "Far", ""} {
		pl := h.placement()
		pl.Generation++
		if pl.Spec.Predicates = nil; operator != "" {
			pl.Spec.Predicates = fixture.Placement("n", "p").Predicate(fixture.MatchLabelExpression("zone", operator, "x")).Obj().Spec.Predicates
		}
		h.edit(pl)
		h.succeed()
		events = append(events, h.sent()...)
		if operator == "" {
			h.checkPublished("a")
		} else if got, want := h.condition(satisfied), "False Misconfigured: "+message(operator); got != want {
			t.Errorf("condition %q, want %q", got, want)
		}
	}
	want := []string{"Warning Misconfigured Validate: " + message("Near"), "Warning Misconfigured Validate: " + message("Far")}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
