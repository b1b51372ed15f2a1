package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// whyAttemptsWait are the reasons for which an attempt of Placement n/p waits, and how long.
var whyAttemptsWait = map[string]struct {
	begin func(h *setUpHub)
	want  time.Duration
}{
	"its expressions are never compiled": {begin: func(h *setUpHub) {
		h.probe.prepare = func() bool { return false }
	}, want: 20 * time.Millisecond},
	"earlier attempts timed out": {begin: func(h *setUpHub) {
		s := h.reconciler.Scheduler
		clock := clocktesting.NewFakeClock(h.now)
		s.Clock = clock
		h.probe.filter = func(string) *framework.Status {
			clock.Step(s.CycleTimeout)
			return nil
		}
		for range 3 {
			clock.Step(s.AttemptDelay(h.reconciler.Inventory.Placement(placementKey)))
			h.succeed()
		}
	}, want: 5 * time.Minute},
}

// TestLostSetIsObeyedWhileAttemptsWait: the author of a Placement cannot keep the clusters of a set
// that is no longer bound by attempts that wait.
func TestLostSetIsObeyedWhileAttemptsWait(t *testing.T) {
	for name, tc := range whyAttemptsWait {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a", "b")
			inv := h.reconciler.Inventory
			h.place(fixture.Placement("n", "p").Obj())
			h.succeed()
			h.checkPublished("a", "b")
			tc.begin(h)

			// One cluster leaves the set.
			inv.Update(fixture.Cluster("a").Set("other").Obj())
			h.succeed()
			if diff := cmp.Diff([]string{"b"}, h.published()); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			// The set is no longer bound, less than a second later.
			h.now = h.now.Add(400 * time.Millisecond)
			inv.Delete(fixture.Binding("n", "s1"))
			if result, want := h.succeed(), min(tc.want, 600*time.Millisecond); result.RequeueAfter != want {
				t.Errorf("the next attempt is in %s, want %s", result.RequeueAfter, want)
			}
			h.now = h.now.Add(600 * time.Millisecond)
			h.succeed()
			if got := h.published(); len(got) > 0 {
				t.Errorf("published: %v", got)
			}
			// The attempt waits on.
			h.now = h.now.Add(time.Second)
			h.written()
			if result := h.succeed(); result.RequeueAfter != tc.want {
				t.Errorf("the next attempt is in %s, want %s", result.RequeueAfter, tc.want)
			}
			h.checkWritten()
		})
	}
}

// TestHeldRemovalWhileAttemptsWait: a removal that a plugin holds is tried again when the plugin
// asked for it, and at most once a second.
func TestHeldRemovalWhileAttemptsWait(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	whyAttemptsWait["earlier attempts timed out"].begin(h)
	// Each try asks twice: the second time as if the change were approved.
	const oneTry = 2
	tries := 0
	h.probe.permit = func() (*framework.Status, time.Duration) {
		tries++
		return framework.NewStatus(framework.Wait, "not now"), time.Minute
	}
	h.reconciler.Inventory.Delete(fixture.Binding("n", "s1"))
	if result := h.succeed(); result.RequeueAfter != time.Minute || tries != oneTry {
		t.Errorf("asked %d times, the next time in %s", tries, result.RequeueAfter)
	}
	for range 10 {
		h.succeed()
	}
	if diff := cmp.Diff([]string{"a"}, h.published()); diff != "" || tries != oneTry {
		t.Errorf("asked %d times within a second; published (-want +got):\n%s", tries, diff)
	}
	h.probe.permit = nil
	h.now = h.now.Add(time.Second)
	h.succeed()
	if got := h.published(); len(got) > 0 {
		t.Errorf("published: %v", got)
	}
}

// TestPagesAreRestoredWhileAttemptsWait: a deleted page is restored although attempts must wait.
func TestPagesAreRestoredWhileAttemptsWait(t *testing.T) {
	for name, tc := range whyAttemptsWait {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a", "b")
			h.place(fixture.Placement("n", "p").Obj())
			h.succeed()
			h.checkPublished("a", "b")
			h.reconciler.Inventory.Started()
			tc.begin(h)
			h.reconciler.Inventory.Delete(h.meddle(nil))
			for range 5 {
				h.succeed()
				h.now = h.now.Add(time.Second)
			}
			if got := h.published(); len(got) != 2 {
				t.Errorf("after five seconds %v are published", got)
			}
		})
	}
}
