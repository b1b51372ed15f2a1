package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// methods are those that an attempt calls; fails is true if the change is not published when the
// method panics. before prepares the hub.
var methods = map[string]struct {
	fails  bool
	before func(h *panicHub)
}{
	"PreEnqueue":     {fails: true},
	"PreFilter":      {fails: true},
	"Filter":         {fails: true},
	"PostFilter":     {fails: true, before: func(h *panicHub) { h.inv.Update(ask().Number(1000).Obj()) }},
	"PreScore":       {fails: true},
	"Score":          {fails: true},
	"NormalizeScore": {fails: true},
	"Reserve":        {fails: true},
	"Unreserve":      {fails: true, before: func(h *panicHub) { h.denies = true }},
	"Counts":         {fails: true},
	"Permit":         {fails: true},
	"Transition":     {fails: true},
	"PreBind":        {fails: true},
	"Bind":           {fails: true},
	"Verify":         {fails: true},
	"Prepared":       {fails: true},
	"Prepare":        {fails: true},
	"PolicyPrepared": {fails: true, before: addPolicy},
	"PreparePolicy":  {fails: true, before: addPolicy},
	// The answer does not depend on these.
	"PostBind":        {},
	"ReportSelection": {},
}

func addPolicy(h *panicHub) {
	h.inv.Update(&berthv1alpha1.SelectionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p"},
	})
}

// TestPluginPanics: a plugin that panics in any method harms no other attempt. The attempt says
// which plugin it was, in the status and in an event, the published decision stays, and nothing
// stays reserved.
func TestPluginPanics(t *testing.T) {
	for method, tc := range methods {
		for kind, value := range panicValues {
			for goroutines, size := range map[string]int{"one goroutine": 1 << 20, "several goroutines": 64} {
				t.Run(method+" with "+kind+" in "+goroutines, func(t *testing.T) {
					h := newPanicHub(t, 200)
					h.scheduler.ChunkSize = size
					h.attempt()
					h.add(1)
					if tc.before != nil {
						tc.before(h)
					}
					h.in, h.value = method, value.value
					want := fmt.Sprintf("Panicker: panic in %s: %s", method, value.text)
					h.checkPanic(h.attempt(), tc.fails, want)
					h.in, h.denies = "", false
					for range 2 {
						if a := h.attempt(); a.Failure != nil || a.Err != nil || len(report.Plugins(a)) > 0 {
							t.Fatalf("the next attempt: %v, %v, %v", a.Failure.Err(), a.Err.Err(), report.Plugins(a))
						}
					}
					if n := len(h.snapshot().Subject.LastNames()); n != h.published() || n < 200 || h.counted() != 1 || h.reserved {
						t.Errorf("then %d clusters are published, %d known, the new one counts %d, reserved: %t", h.published(), n, h.counted(), h.reserved)
					}
				})
			}
		}
	}
}

// checkPanic checks an attempt in which the plugin panicked.
func (h *panicHub) checkPanic(a *scheduler.Attempt, fails bool, want string) {
	h.t.Helper()
	defer h.scheduler.Release(a.Decision)
	events := report.Plugins(a)
	if len(events) != 1 || events[0].Reason != "PluginPanicked" || events[0].Note != want || events[0].Action != "Panicker" {
		h.t.Errorf("events %v, want one with %q", events, want)
	}
	if _, _, late := a.TimedOut(); late {
		h.t.Error("the attempt timed out")
	}
	if !fails {
		if a.Failure != nil || a.Err != nil || h.published() < 200 || h.counted() != 1 {
			h.t.Errorf("the change is not published: %v, %v", a.Failure.Err(), a.Err.Err())
		}
		return
	}
	failure := a.Failure
	if failure == nil {
		failure = a.Err
	}
	if failure.Code() != framework.Error || failure.Plugin() != "Panicker" || failure.Err().Error() != want {
		h.t.Errorf("failure %v, want %q", failure.Err(), want)
	}
	if h.published() != 200 || h.counted() != 0 || h.reserved && h.in != "Unreserve" {
		h.t.Errorf("%d clusters are published, the new one counts %d, reserved: %t", h.published(), h.counted(), h.reserved)
	}
	if a.Failure != nil {
		var conditions []metav1.Condition
		report.SetConditions(a, &conditions)
		if c := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionSatisfied); c == nil || c.Status != metav1.ConditionFalse || c.Message != want {
			h.t.Errorf("PlacementSatisfied is %v", c)
		}
	}
}

// TestPluginPanicsInDryRuns: simulate, explain and the explorer decide without an attempt.
func TestPluginPanicsInDryRuns(t *testing.T) {
	for _, method := range []string{"PreEnqueue", "PreFilter", "Filter", "Score", "Permit", "Transition"} {
		t.Run(method, func(t *testing.T) {
			h := newPanicHub(t, 2)
			h.in = method
			for name, decide := range map[string]func() *scheduler.Attempt{
				"Decide":       func() *scheduler.Attempt { return h.scheduler.Decide(t.Context(), h.snapshot()) },
				"DecideInTime": func() *scheduler.Attempt { return h.scheduler.DecideInTime(t.Context(), h.snapshot()) },
			} {
				if events := report.Plugins(decide()); len(events) != 1 || events[0].Note != "Panicker: panic in "+method+": boom" {
					t.Errorf("%s: %v", name, events)
				}
			}
		})
	}
}

// TestPluginPanicsInExplanations: a verdict names the plugin, or lacks what the plugin suggests.
func TestPluginPanicsInExplanations(t *testing.T) {
	h := newPanicHub(t, 2)
	h.inv.Update(ask().Number(1).Obj())
	a := h.scheduler.Decide(t.Context(), h.snapshot())
	h.in = "Relax"
	if verdicts := h.scheduler.Explain(t.Context(), a.Decision, ""); len(verdicts) != 2 {
		t.Errorf("verdicts %v", verdicts)
	}
}

// TestPluginPanicsOutsideAttempts: methods that are called for an event, a request or the queue.
func TestPluginPanicsOutsideAttempts(t *testing.T) {
	h := newPanicHub(t, 2)
	h.attempt()
	pl := h.inv.Placement(key)
	younger := pl.DeepCopy()
	younger.CreationTimestamp = metav1.NewTime(pl.CreationTimestamp.Add(1e9))
	for method, check := range map[string]func() bool{
		"Less":           func() bool { return h.scheduler.Before(pl, younger) && !h.scheduler.Before(younger, pl) },
		"Reads":          func() bool { return h.scheduler.Reads(pl).Everything },
		"Validate":       func() bool { return len(h.scheduler.Validate(t.Context(), pl)) == 0 },
		"ValidatePolicy": func() bool { return h.scheduler.ValidatePolicy(t.Context(), &berthv1alpha1.SelectionPolicy{}) == nil },
		"DecodeCounts": func() bool {
			_, err := h.scheduler.DecodeCounts("Panicker", nil)
			return err != nil && strings.Contains(err.Error(), "Panicker: panic in DecodeCounts: boom")
		},
		"NeedsRecords": func() bool { return h.scheduler.NeedsRecords() > 1000*time.Hour },
		"Forget": func() bool {
			h.scheduler.Forget(key)
			return true
		},
	} {
		h.in = method
		if !check() {
			t.Errorf("wrong result while %s panics", method)
		}
	}
}

// TestRecountPanics: without its counts a limit would not hold, so nothing is published.
func TestRecountPanics(t *testing.T) {
	h := newPanicHub(t, 2)
	h.in = "Recount"
	h.scheduler.Recount(nil)
	h.in = ""
	if a := h.attempt(); a.Failure.Err() == nil || a.Failure.Err().Error() != "Panicker: panic in Recount: boom" || h.published() != 0 {
		t.Errorf("failure %v, %d clusters published", a.Failure.Err(), h.published())
	}
}

// TestHeldChangePanics: what a held change reserved stays reserved if the plugin panics later,
// until the change ends.
func TestHeldChangePanics(t *testing.T) {
	h := newPanicHub(t, 2)
	h.attempt()
	h.holds = true
	h.add(1)
	if a := h.attempt(); a.Outcome != plan.Held || h.counted() != 1 {
		t.Fatalf("outcome %s", a.Outcome)
	}
	h.in = "Permit"
	if a := h.attempt(); a.Outcome != plan.Failed || h.counted() != 1 {
		t.Errorf("outcome %s, the new cluster counts %d", a.Outcome, h.counted())
	}
	h.in = ""
	h.inv.Update(fixture.Cluster("c003").Obj()) // It left its set.
	if a := h.attempt(); a.Outcome != plan.Unchanged || h.counted() != 0 || h.reserved {
		t.Errorf("outcome %s, the cluster counts %d, reserved: %t", a.Outcome, h.counted(), h.reserved)
	}
}

// TestUnreservePanicsAtEnd: Unreserve is called again until it succeeds.
func TestUnreservePanicsAtEnd(t *testing.T) {
	h := newPanicHub(t, 2)
	h.attempt()
	h.holds = true
	h.add(1)
	h.attempt()
	h.inv.Update(fixture.Cluster("c003").Obj())
	h.in = "Unreserve"
	for range 2 {
		if a := h.attempt(); a.Err.Err() == nil || !h.reserved {
			t.Fatalf("%v, reserved: %t", a.Err.Err(), h.reserved)
		}
	}
	h.in = ""
	if a := h.attempt(); a.Err != nil || h.reserved {
		t.Errorf("%v, reserved: %t", a.Err.Err(), h.reserved)
	}
}

// TestForcesRemovalPanics: a removal of which it is not known whether it is forced is not.
func TestForcesRemovalPanics(t *testing.T) {
	h := newPanicHub(t, 2)
	h.attempt()
	h.waits = true
	h.inv.Update(fixture.Cluster("c001").Set("s1").Taint("a", "", v1alpha1.TaintEffectNoSelect).Obj())
	h.in = "ForcesRemoval"
	a := h.attempt()
	if events := report.Plugins(a); a.Outcome != plan.Waiting || h.published() != 2 || len(events) != 1 || events[0].Note != "Panicker: panic in ForcesRemoval: boom" {
		t.Errorf("outcome %s, %d clusters published, events %v", a.Outcome, h.published(), events)
	}
}

// TestPanicsAtRest: a check at rest that panics leads to an attempt.
func TestPanicsAtRest(t *testing.T) {
	for _, method := range []string{"Recheck", "Rescore", "passes", "settled Score", "Keeps", "DependsOn"} {
		t.Run(method, func(t *testing.T) {
			h := newPanicHub(t, 3, func(p *config.Plugins) { p.PostFilter.Disabled = []config.DisabledPlugin{{Name: config.All}} })
			h.settles = true
			h.inv.Update(ask().Number(1).Obj())
			settle := func() *framework.Settled {
				a := h.attempt()
				if a.Failure != nil || a.Err != nil {
					t.Fatal(a.Failure.Err(), a.Err.Err())
				}
				h.inv.Settle(a.Snapshot, a.Proof())
				return a.Proof()
			}
			settle()
			if settle() == nil {
				t.Fatal("the Placement does not settle")
			}
			change := func(label string) int {
				return len(h.inv.Update(fixture.Cluster("c003").Set("s1").Label("l", label).Obj()))
			}
			if change("1") != 0 {
				t.Fatal("a change without effect leads to an attempt")
			}
			h.in = method
			if method == "Recheck" || method == "Rescore" {
				if settle() != nil {
					t.Error("the Placement settles")
				}
			} else if change("2") == 0 {
				t.Error("no attempt follows")
			}
		})
	}
}
