package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// editPage edits the first page of Placement n/p as another client does.
func (h *setUpHub) editPage(manager string, clusters ...string) {
	h.t.Helper()
	page := &v1alpha1.PlacementDecision{}
	page.Namespace, page.Name = "n", "p-decision-1"
	if err := h.hub.Get(context.Background(), client.ObjectKeyFromObject(page), page); err != nil {
		h.t.Fatal(err)
	}
	page.Status.Decisions = nil
	for _, name := range clusters {
		page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
	}
	if err := h.hub.Status().Update(context.Background(), page); err != nil {
		h.t.Fatal(err)
	}
	at := metav1.NewTime(h.now)
	page.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at}}
	kept, err := compact(page)
	if err != nil {
		h.t.Fatal(err)
	}
	h.reconciler.Inventory.Update(kept.(*v1alpha1.PlacementDecision))
}

// TestRevertedEditsAreReported: each by an event and the metric, repeated ones of one field manager
// by a condition that ends when none follow.
func TestRevertedEditsAreReported(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a", "b")
	h.place(fixture.Placement("n", "p").Obj())
	h.reconciler.Inventory.Started()
	h.succeed()
	h.sent()
	condition := func() string { return h.condition(v1alpha1.PlacementConditionDecisionEdited) }
	const event = "Warning DecisionEdited EditReverted: Another client (field manager placement) edited PlacementDecisions p-decision-1; Berth reverted that"
	const edited = "True EditsReverted: Another client (field manager placement) edits the PlacementDecisions repeatedly, and Berth reverts each edit: stop it, " +
		"or have it decide alone with the annotation cluster.open-cluster-management.io/experimental-scheduling-disable: \"true\""
	for i, want := range []string{"", "", edited, edited} {
		h.now = h.now.Add(4 * time.Minute)
		got := changed(t, func() {
			h.editPage("placement", "b")
			h.succeed()
		}, editsReverted)
		if diff := cmp.Diff([]string{event}, warningsIn(h.sent())); diff != "" {
			t.Errorf("edit %d: events (-want +got):\n%s", i, diff)
		}
		if got["decision_edits_reverted_total placement"] != 1 {
			t.Errorf("edit %d: metrics %v", i, got)
		}
		if diff := cmp.Diff(want, condition()); diff != "" {
			t.Errorf("edit %d: condition (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff([]string{"a", "b"}, h.published()); diff != "" {
			t.Errorf("edit %d: published (-want +got):\n%s", i, diff)
		}
	}

	h.written()
	h.now = h.now.Add(editWindow - time.Second)
	if result := h.succeed(); condition() != edited || result.RequeueAfter != time.Second || len(h.written()) > 0 {
		t.Errorf("before the end the condition is %q, the result %v", condition(), result)
	}
	h.now = h.now.Add(time.Second)
	if result := h.succeed(); condition() != "" || result.RequeueAfter != 0 {
		t.Errorf("in the end the condition is %q, the result %v", condition(), result)
	}
}

// TestOtherEditsAreNotReported: edits that change nothing of Berth's, and those of a Placement that
// Berth does not decide.
func TestOtherEditsAreNotReported(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(h *setUpHub)
	}{
		"the same content": {func(h *setUpHub) { h.editPage("placement", "a", "b") }},
		"an edit that its writer reverts": {func(h *setUpHub) {
			h.editPage("placement", "b")
			h.editPage("placement", "a", "b")
		}},
		"Berth's own": {func(h *setUpHub) { h.editPage("berth", "b") }},
		"while scheduling is disabled": {func(h *setUpHub) {
			pl := h.placement()
			pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			h.reconciler.Inventory.Update(pl)
			h.editPage("placement", "b")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a", "b")
			h.place(fixture.Placement("n", "p").Obj())
			h.reconciler.Inventory.Started()
			h.succeed()
			h.sent()
			for range repeatedEdits {
				got := changed(t, func() {
					tc.edit(h)
					h.succeed()
				}, editsReverted)
				if sent := warningsIn(h.sent()); len(sent) > 0 || got["decision_edits_reverted_total placement"] != 0 {
					t.Errorf("events %v, metrics %v", sent, got)
				}
			}
			if got := h.condition(v1alpha1.PlacementConditionDecisionEdited); got != "" {
				t.Errorf("the condition is %q", got)
			}
		})
	}
}

func warningsIn(sent []string) (warnings []string) {
	for _, e := range sent {
		if strings.HasPrefix(e, "Warning") {
			warnings = append(warnings, e)
		}
	}
	return warnings
}

// TestEditsOfManagers: what the condition says after edits at these minutes, in order.
func TestEditsOfManagers(t *testing.T) {
	type edit struct {
		manager string
		edits   int
		minute  int
	}
	for name, tc := range map[string]struct {
		before bool // the condition was there at the start
		edits  []edit
		minute int
		want   string // the field managers that it names
		wantNo bool
	}{
		"no edits":                       {wantNo: true},
		"two at once":                    {edits: []edit{{"x", 2, 0}}, wantNo: true},
		"three pages at once":            {edits: []edit{{"x", 3, 0}}, want: "x"},
		"three in ten minutes":           {edits: []edit{{"x", 1, 0}, {"x", 1, 5}, {"x", 1, 9}}, minute: 9, want: "x"},
		"three in more":                  {edits: []edit{{"x", 1, 0}, {"x", 1, 5}, {"x", 1, 10}}, minute: 10, wantNo: true},
		"three of three":                 {edits: []edit{{"x", 1, 0}, {"y", 1, 0}, {"z", 1, 0}}, wantNo: true},
		"two repeatedly":                 {edits: []edit{{"y", 3, 0}, {"x", 4, 1}}, minute: 1, want: "x, y"},
		"slower ones keep it":            {edits: []edit{{"x", 3, 0}, {"x", 1, 9}, {"x", 1, 18}}, minute: 27, want: "x"},
		"quiet":                          {edits: []edit{{"x", 3, 0}}, minute: 10, wantNo: true},
		"many managers":                  {edits: []edit{{"a", 3, 0}, {"b", 3, 1}, {"c", 3, 2}, {"d", 3, 3}, {"e", 3, 4}, {"f", 3, 5}}, minute: 5, want: "b, c, d, e, f"},
		"from before the start":          {before: true, want: "someone"},
		"from before the start, with it": {before: true, edits: []edit{{"x", 3, 0}}, want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var e pageEdits
			pl := fixture.Placement("n", "p").Obj()
			at := func(minute int) time.Time { return fixture.Now.Add(time.Duration(minute) * time.Minute) }
			for _, edit := range tc.edits {
				e.add(placementKey, edit.manager, edit.edits, at(edit.minute))
			}
			var conditions []metav1.Condition
			if tc.before {
				conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionDecisionEdited, Status: metav1.ConditionTrue, Message: "(field manager someone)"}}
			}
			end := e.setCondition(pl, &conditions, at(tc.minute))
			if (len(conditions) == 0) != tc.wantNo || end.IsZero() != tc.wantNo {
				t.Fatalf("the conditions are %v until %v", conditions, end)
			}
			if !tc.wantNo && !strings.Contains(conditions[0].Message, "(field manager "+tc.want+")") {
				t.Errorf("the message is %s", conditions[0].Message)
			}
			if e.setCondition(pl, &conditions, end.Add(time.Hour)); len(conditions) > 0 {
				t.Errorf("an hour later the conditions are %v", conditions)
			}
		})
	}
}

// TestManagerNames: names are the text of other parties, in messages and as values of a label.
func TestManagerNames(t *testing.T) {
	for name, want := range map[string]string{
		"placement": "placement", "kubectl-edit": "kubectl-edit", "a\nb\x00c": "a?b?c", "\xff": "?",
		strings.Repeat("é", 64): strings.Repeat("é", 64), strings.Repeat("é", 65): strings.Repeat("é", 61) + "...",
	} {
		if got := managerText(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	labels := &labelSet{known: map[string]bool{}}
	values := map[string]bool{}
	for range 2 {
		for i := range 100 {
			values[labels.label(fmt.Sprint("manager-", i))] = true
		}
	}
	if len(values) != maxManagerLabels+1 || !values["Other"] || !values["manager-0"] {
		t.Errorf("%d values: %v", len(values), values)
	}
}
