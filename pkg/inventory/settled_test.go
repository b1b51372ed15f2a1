package inventory_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var memoryKey = inventory.Key{Namespace: "n", Name: "memory"}

// settleMemory settles Placement n/memory, whose answer is all clusters whose label "other" is x.
func settleMemory(inv *inventory.Inventory, snapshot *framework.Snapshot) {
	inv.Settle(snapshot, &framework.Settled{
		Sets: snapshot.Sets, All: true, Selected: framework.Bitset{}.Set(snapshot.Cluster("c1").Index),
		Passes: []framework.SettledFilter{{Passes: func(c *framework.Cluster) framework.Passing {
			if c.Labels["other"] == "x" {
				return framework.Passes
			}
			return framework.Excluded
		}}},
	})
}

func grown(memory string) *v1alpha1.ManagedCluster { return c1().Allocatable("memory", memory).Obj() }

func TestSettledPlacementIsSkipped(t *testing.T) {
	skipped := 0
	inv := inventory.New(inventory.Options{OnSettled: func(n int) { skipped += n }})
	fill(inv)
	settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
	if diff := cmp.Diff([]string{"n/cel"}, names(inv.Update(grown("2Gi")))); diff != "" {
		t.Errorf("a change that the Placement survives (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n/cel"}, names(inv.Update(grown("3Gi")))); diff != "" {
		t.Errorf("another one (-want +got):\n%s", diff)
	}
	if skipped != 2 {
		t.Errorf("%d attempts were skipped, want 2", skipped)
	}
	lost := grown("4Gi")
	lost.Labels["other"] = "y"
	if diff := cmp.Diff([]string{"n/cel", "n/memory"}, names(inv.Update(lost))); diff != "" {
		t.Errorf("a change that it does not survive (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n/cel", "n/memory"}, names(inv.Update(grown("5Gi")))); diff != "" {
		t.Errorf("after that, each change starts an attempt (-want +got):\n%s", diff)
	}
}

// TestSkippedAttemptCountsOnce has a cluster in two sets that the Placement may use, as a cluster
// is in its own set and in the global one.
func TestSkippedAttemptCountsOnce(t *testing.T) {
	skipped := 0
	inv := inventory.New(inventory.Options{OnSettled: func(n int) { skipped += n }})
	fill(inv)
	inv.Update(fixture.SelectorSet("global", &metav1.LabelSelector{}))
	inv.Update(fixture.Binding("n", "global"))
	settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
	if slices.Contains(names(inv.Update(grown("2Gi"))), "n/memory") {
		t.Fatal("the attempt is not skipped")
	}
	if skipped != 1 {
		t.Errorf("one attempt was skipped, but %d are counted", skipped)
	}
}

// TestStartedAttemptIsNotCountedAsSkipped has a cluster that joins one set of the Placement, while
// it stays in another one.
func TestStartedAttemptIsNotCountedAsSkipped(t *testing.T) {
	skipped := 0
	for range 20 { // The sets are in the order of a map.
		inv := inventory.New(inventory.Options{OnSettled: func(n int) { skipped += n }})
		fill(inv)
		inv.Update(fixture.SelectorSet("big", &metav1.LabelSelector{MatchLabels: map[string]string{"size": "big"}}))
		inv.Update(fixture.Binding("n", "big"))
		settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
		c := grown("2Gi")
		c.Labels["size"] = "big"
		if !slices.Contains(names(inv.Update(c)), "n/memory") {
			t.Fatal("the attempt is skipped")
		}
	}
	if skipped != 0 {
		t.Errorf("every attempt was started, but %d are counted as skipped", skipped)
	}
}

// TestSettleIsRefused checks that nothing is skipped if something happened after the Snapshot of
// the attempt.
func TestSettleIsRefused(t *testing.T) {
	page := func(names ...string) client.Object {
		return fixture.Page("n", "memory-decision-1").Of("memory").OwnedBy("memory").Version("8").Lists(names...).Obj()
	}
	for name, tt := range map[string]struct {
		meanwhile func(inv *inventory.Inventory, snapshot *framework.Snapshot)
		want      bool
	}{
		"nothing":                   {func(*inventory.Inventory, *framework.Snapshot) {}, true},
		"a change that it reads":    {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Update(grown("3Gi")) }, false},
		"a change that others read": {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Update(c1().Label("a", "y").Obj()) }, true},
		"an edit": {func(inv *inventory.Inventory, _ *framework.Snapshot) {
			edited := fixture.Placement("n", "memory").Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 2).Obj()
			edited.Generation = 2
			inv.Update(edited)
		}, false},
		"a page of its own": {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Update(page("c2")) }, false},
		"an assumed page": {func(inv *inventory.Inventory, _ *framework.Snapshot) {
			inv.AssumePage(page("c2").(*v1alpha1.PlacementDecision), false)
		}, false},
		"another decision": {func(inv *inventory.Inventory, s *framework.Snapshot) {
			inv.SetPublished(s.Subject, framework.PublishedOn(nil))
		}, false},
		"an unrelated binding": {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Update(fixture.Binding("far", "s1")) }, true},
		"a binding":            {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Update(fixture.Binding("n", "s2")) }, false},
		"a later Snapshot":     {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Snapshot(memoryKey, fixture.Now, nil) }, true},
		"a status of its own": {func(inv *inventory.Inventory, s *framework.Snapshot) {
			inv.AssumePlacement(s.Subject.Placement.DeepCopy())
		}, true},
		"a deleted cluster": {func(inv *inventory.Inventory, _ *framework.Snapshot) { inv.Delete(c1().Obj()) }, false},
		"a cluster of its sets": {func(inv *inventory.Inventory, _ *framework.Snapshot) {
			inv.Update(fixture.Cluster("c9").Set("s1").Obj())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inv := fullInventory()
			snapshot := inv.Snapshot(memoryKey, fixture.Now, nil)
			tt.meanwhile(inv, snapshot)
			settleMemory(inv, snapshot)
			if got := !slices.Contains(names(inv.Update(grown("4Gi"))), "n/memory"); got != tt.want {
				t.Errorf("the attempt is skipped: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestSnapshotEndsSettled checks that a change after a Snapshot starts an attempt: the one on the
// Snapshot does not see it.
func TestSnapshotEndsSettled(t *testing.T) {
	inv := fullInventory()
	settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
	inv.Snapshot(memoryKey, fixture.Now, nil)
	if !slices.Contains(names(inv.Update(grown("4Gi"))), "n/memory") {
		t.Error("the attempt is skipped")
	}
}

// TestCheckSettled checks that the attempt runs all the same, on a Snapshot that says so.
func TestCheckSettled(t *testing.T) {
	inv := inventory.New(inventory.Options{CheckSettled: true})
	fill(inv)
	settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
	if !slices.Contains(names(inv.Update(grown("4Gi"))), "n/memory") {
		t.Fatal("the attempt does not run")
	}
	if s := inv.Snapshot(memoryKey, fixture.Now, nil); !s.Skippable {
		t.Error("the Snapshot does not have Settled")
	}
	if inv.Snapshot(memoryKey, fixture.Now, nil).Skippable {
		t.Error("a later Snapshot has Settled, too")
	}
	settleMemory(inv, inv.Snapshot(memoryKey, fixture.Now, nil))
	inv.Update(grown("5Gi"))
	inv.Update(fixture.Binding("n", "s2"))
	if inv.Snapshot(memoryKey, fixture.Now, nil).Skippable {
		t.Error("the Snapshot has Settled, although another event affects the Placement")
	}
}

// TestInitialListingAffectsNoReaders: what is listed before the start affects no Placement that
// reads it, because all are decided at the start.
func TestInitialListingAffectsNoReaders(t *testing.T) {
	for _, awaits := range []bool{true, false} {
		inv := inventory.New(inventory.Options{AwaitsStart: awaits})
		inv.Update(fixture.Set("s1"))
		inv.Update(fixture.Binding("n", "s1"))
		if affected := inv.Update(fixture.Placement("n", "p").Spread("k", 1, v1alpha1.DoNotSchedule).Obj()); len(affected) != 1 {
			t.Errorf("the Placement itself: %v", affected)
		}
		listed := append(inv.Update(fixture.Cluster("a").Set("s1").Obj()), inv.Update(fixture.Cluster("a").Set("s1").Label("k", "v").Obj())...)
		if got := len(listed) == 0; got != awaits {
			t.Errorf("%t: affected before the start: %v", awaits, listed)
		}
		inv.Started()
		changed := append(inv.Update(fixture.Cluster("b").Set("s1").Obj()), inv.Update(fixture.Cluster("b").Set("s1").Label("k", "v").Obj())...)
		if len(changed) != 2 {
			t.Errorf("%t: affected after the start: %v", awaits, changed)
		}
	}
}
