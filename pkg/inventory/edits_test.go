package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEdits: edits of published content by other clients are stored until an attempt has seen them.
func TestEdits(t *testing.T) {
	key := inventory.Key{Namespace: "n", Name: "p"}
	page := func(version string, lists ...string) fixture.PageBuilder {
		return fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Version(version).Lists(lists...)
	}
	by := func(manager string, b fixture.PageBuilder) *v1alpha1.PlacementDecision {
		o := b.Obj()
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager}}
		return o
	}
	second := func() fixture.PageBuilder { return fixture.Page("n", "p-decision-2").Of("p").Version("7").Lists("c2") }
	edited := map[string]framework.PageEdit{"p-decision-1": {Manager: "x", Version: "7"}}
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		// initial is true for events of the initial listing.
		initial bool
		events  func(inv *inventory.Inventory)
		want    map[string]framework.PageEdit
	}{
		"other clusters": {events: func(inv *inventory.Inventory) { inv.Update(by("x", page("7", "c2"))) }, want: edited},
		"another group": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("7", "c1").Label(v1alpha1.DecisionGroupNameLabel, "g")))
		}, want: edited},
		"the label of another": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("7", "c1").Label(v1alpha1.PlacementLabel, "q")))
		}, want: edited},
		"a label that nobody reads": {events: func(inv *inventory.Inventory) { inv.Update(by("x", page("7", "c1").Label("team", "a"))) }},
		"no other writer":           {events: func(inv *inventory.Inventory) { inv.Update(page("7", "c2").Obj()) }},
		"an earlier version":        {events: func(inv *inventory.Inventory) { inv.Update(by("x", page("4", "c2"))) }},
		"a page more":               {events: func(inv *inventory.Inventory) { inv.Update(by("x", second())) }, want: map[string]framework.PageEdit{"p-decision-2": {Manager: "x", Version: "7"}}},
		"a page of another owner":   {events: func(inv *inventory.Inventory) { inv.Update(by("x", second().ControlledBy("ConfigMap", "c"))) }},
		"a page that another owner gives up": {events: func(inv *inventory.Inventory) {
			inv.Update(second().ControlledBy("ConfigMap", "c").Obj())
			inv.Update(by("x", second().Version("8")))
		}, want: map[string]framework.PageEdit{"p-decision-2": {Manager: "x", Version: "8"}}},
		"a page that another owner keeps": {events: func(inv *inventory.Inventory) {
			inv.Update(second().ControlledBy("ConfigMap", "c").Obj())
			inv.Update(by("x", second().Version("8").Lists("c3").ControlledBy("ConfigMap", "c")))
		}},
		"during the initial listing": {initial: true, events: func(inv *inventory.Inventory) { inv.Update(by("x", page("7", "c2"))) }},
		"while scheduling is disabled": {
			placement: fixture.Placement("n", "p").Annotation(v1alpha1.PlacementDisableAnnotation, "true"),
			events:    func(inv *inventory.Inventory) { inv.Update(by("x", page("7", "c2"))) },
		},
		"Berth's write in the same second": {events: func(inv *inventory.Inventory) {
			defer inv.Announce(page("5", "c2").Obj(), false)()
			inv.Update(by("x", page("7", "c2")))
		}},
		"another write during Berth's": {events: func(inv *inventory.Inventory) {
			defer inv.Announce(page("5", "c3").Obj(), false)()
			inv.Update(by("x", page("7", "c2")))
		}, want: edited},
		"a page that is read after a conflict": {events: func(inv *inventory.Inventory) {
			inv.AssumePage(by("x", page("7", "c2")), false)
			inv.Update(by("x", page("7", "c2")))
		}, want: edited},
		"and the Placement is edited": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("7", "c2")))
			inv.Update(fixture.Placement("n", "p").Generation(2).Number(3).Obj())
		}, want: edited},
		"and scheduling is disabled": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("7", "c2")))
			inv.Update(fixture.Placement("n", "p").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj())
		}},
		"seen by an attempt": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("7", "c2")))
			inv.ForgetEdits(key, inv.Snapshot(key, fixture.Now, nil).Subject.Edits)
		}},
		"seen by an attempt, and edited again": {events: func(inv *inventory.Inventory) {
			inv.Update(by("x", page("6", "c2")))
			seen := inv.Snapshot(key, fixture.Now, nil).Subject.Edits
			inv.Update(by("x", page("7", "c3")))
			inv.ForgetEdits(key, seen)
		}, want: edited},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			pl := fixture.Placement("n", "p").Obj()
			if tc.placement != (fixture.PlacementBuilder{}) {
				pl = tc.placement.Obj()
			}
			inv.Update(pl)
			inv.Update(page("5", "c1").Obj())
			if !tc.initial {
				inv.Started()
			}
			tc.events(inv)
			inv.Started()
			got := inv.Snapshot(key, fixture.Now, nil).Subject.Edits
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("edits (-want +got):\n%s", diff)
			}
		})
	}
}
