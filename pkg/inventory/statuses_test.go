package inventory_test

import (
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// TestStatusOfAnotherClient: a status that Berth did not write, or that a late request of Berth
// wrote, affects the Placement; one that Berth is writing does not.
func TestStatusOfAnotherClient(t *testing.T) {
	placement := func(version string, status int) client.Object {
		pl := fixture.Placement("n", "p").Obj()
		pl.UID, pl.ResourceVersion, pl.Status.NumberOfSelectedClusters = "p", version, int32(status)
		return pl
	}
	policy := func(version string, status int) client.Object {
		s := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s", ResourceVersion: version}}
		s.Spec.Placement = "p"
		s.Status.Conditions = []metav1.Condition{{Type: "Ready", ObservedGeneration: int64(status)}}
		return s
	}
	type hub struct {
		*inventory.Inventory
		object func(version string, status int) client.Object
		// affected are Placements that the last event affected, told those that OnAffected was
		// called with.
		affected, told []inventory.Key
	}
	assume := func(h *hub, o client.Object) {
		switch o := o.(type) {
		case *v1alpha1.Placement:
			h.AssumePlacement(o)
		case *berthv1alpha1.SelectionPolicy:
			h.AssumeSelectionPolicy(o)
		}
	}
	watched := func(h *hub, version string, status int) { h.affected = h.Update(h.object(version, status)) }
	tests := map[string]struct {
		act  func(h *hub)
		want bool
	}{
		"another client":             {act: func(h *hub) { watched(h, "11", 2) }, want: true},
		"the same status":            {act: func(h *hub) { watched(h, "11", 1) }},
		"Berth, before the response": {act: func(h *hub) { h.AnnounceStatus(h.object("10", 1)); watched(h, "11", 2); assume(h, h.object("11", 2)) }},
		"Berth, after the response":  {act: func(h *hub) { h.AnnounceStatus(h.object("10", 1)); assume(h, h.object("11", 2)); watched(h, "11", 2) }},
		"another client before the response": {act: func(h *hub) {
			h.AnnounceStatus(h.object("10", 1))
			watched(h, "11", 2)
			watched(h, "12", 3)
			assume(h, h.object("11", 2))
		}, want: true},
		"another client after the response": {act: func(h *hub) {
			end := h.AnnounceStatus(h.object("10", 1))
			assume(h, h.object("11", 2))
			end()
			watched(h, "12", 3)
		}, want: true},
		"two writers": {act: func(h *hub) {
			for version := 11; version < 30; version++ {
				watched(h, strconv.Itoa(version), version)
			}
		}},
		"a late request": {act: func(h *hub) { h.AnnounceStatus(h.object("10", 1))(); watched(h, "11", 2) }, want: true},
	}
	follower := inventory.New(inventory.Options{Follows: true})
	follower.Update(placement("10", 1))
	if affected := follower.Update(placement("11", 2)); len(affected) > 0 {
		t.Errorf("in an inventory that follows another process, a status affects %v", affected)
	}
	for kind, object := range map[string]func(string, int) client.Object{"Placement": placement, "SelectionPolicy": policy} {
		for name, tc := range tests {
			t.Run(kind+", "+name, func(t *testing.T) {
				h := &hub{object: object}
				h.Inventory = inventory.New(inventory.Options{OnAffected: func(keys []inventory.Key) { h.told = keys }})
				h.Update(placement("10", 1))
				h.Update(object("10", 1))
				tc.act(h)
				if got := slices.Contains(slices.Concat(h.affected, h.told), inventory.Key{Namespace: "n", Name: "p"}); got != tc.want {
					t.Errorf("the Placement is affected: %v, want %v", got, tc.want)
				}
			})
		}
	}
}
