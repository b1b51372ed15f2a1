package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestHeldChanges: plugins allow and reject held changes.
func TestHeldChanges(t *testing.T) {
	const open = "p-decision-1: c1 | [c1 c2] | True/Held"
	const passed = "p-decision-1: c1 c2 |  | "
	tests := map[string]struct {
		then      func(d *desk)
		want      string
		wantWoken int
	}{
		"one of two allows":   {func(d *desk) { d.allow("x", true) }, open, 1},
		"the last one allows": {func(d *desk) { d.allow("x", true); d.attempt(); d.allow("x", false); d.allow("y", true) }, passed, 2},
		"both at once":        {func(d *desk) { d.allow("x", true); d.allow("y", true) }, passed, 2},
		"who does not wait":   {func(d *desk) { d.allow("z", false) }, open, 0},
		"a Placement that is not there": {func(d *desk) {
			if d.heldChanges.Allow("other", "x") || d.heldChanges.Reject("other", "x", "no") {
				d.t.Error("it waits")
			}
		}, open, 0},
		"a restart forgets what was allowed": {func(d *desk) {
			d.allow("x", true)
			d.attempt()
			d.restart()
			d.attempt()
			d.allow("y", true)
		}, open, 1},
		"what is allowed holds for that change": {func(d *desk) { d.allow("x", true); d.allow("y", true); d.add("c3") }, "p-decision-1: c1 | [c1 c2 c3] | True/Held", 2},
		"one rejects":                           {func(d *desk) { d.reject("y") }, "p-decision-1: c1 |  | False/Rejected", 1},
		"rejected, then allowed":                {func(d *desk) { d.reject("y"); d.allow("x", false); d.allow("y", false) }, "p-decision-1: c1 |  | False/Rejected", 1},
		"a rejection outlives a restart":        {func(d *desk) { d.reject("y"); d.attempt(); d.restart() }, "p-decision-1: c1 |  | False/Rejected", 0},
		"rejected, then an edit: held again": {func(d *desk) {
			d.reject("y")
			d.attemptUntilStable()
			d.now = d.now.Add(time.Second)
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) })
		}, open, 1},
		"a Placement that is gone": {func(d *desk) {
			d.scheduler.Forget(key)
			d.allow("x", false)
		}, open, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			d.y.answer = holds
			d.attemptUntilStable()
			tc.then(d)
			d.attemptUntilStable()
			d.expect(tc.want)
			if len(d.requeued) != tc.wantWoken {
				t.Errorf("requeued %v, want %d times", d.requeued, tc.wantWoken)
			}
		})
	}
}

// TestAnswersOutliveFailures: an attempt that fails, waits or decides nothing forgets no answer of
// a plugin.
func TestAnswersOutliveFailures(t *testing.T) {
	tests := map[string]struct {
		begin, end func(d *desk)
		want       plan.Outcome
	}{
		"failed": {
			begin: func(d *desk) { d.fore.answer = framework.AsStatus(errHubDown) },
			end:   func(d *desk) { d.fore.answer = nil },
			want:  plan.Failed,
		},
		"waiting": {
			begin: func(d *desk) { d.fore.answer = awaits },
			end:   func(d *desk) { d.fore.answer = nil },
			want:  plan.Waiting,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			d.y.answer = holds
			d.attemptUntilStable()
			d.allow("x", true)
			tc.begin(d)
			if a, _ := d.try(); a.Outcome != tc.want {
				t.Errorf("outcome %s, want %s", a.Outcome, tc.want)
			}
			tc.end(d)
			d.allow("y", true)
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
		})
	}
}

func (d *desk) allow(plugin string, want bool) {
	d.t.Helper()
	if got := d.heldChanges.Allow(d.placement.UID, plugin); got != want {
		d.t.Errorf("allowing for %s: %t, want %t", plugin, got, want)
	}
}

func (d *desk) reject(plugin string) {
	d.t.Helper()
	if !d.heldChanges.Reject(d.placement.UID, plugin, "no") {
		d.t.Errorf("%s rejects nothing", plugin)
	}
}

// TestHeldChangesList: List returns a held change until it is rejected or published.
func TestHeldChangesList(t *testing.T) {
	d := holding(t)
	want := []framework.HeldChange{{
		Key: key, UID: "ns/p", Revision: 2, Added: []string{"c2"}, Plugins: map[string]time.Time{"x": fixture.Now.Add(time.Hour)},
		Since: fixture.Now,
	}}
	for range 2 {
		if diff := cmp.Diff(want, d.heldChanges.List()); diff != "" {
			t.Errorf("held changes (-want +got):\n%s", diff)
		}
		d.now = d.now.Add(time.Minute)
		d.restart()
		d.attemptUntilStable()
	}
	d.reject("x")
	if got := d.heldChanges.List(); len(got) > 0 {
		t.Errorf("rejected, and still listed: %v", got)
	}
	d = holding(t)
	d.x.answer = nil
	d.attemptUntilStable()
	if got := d.heldChanges.List(); len(got) > 0 {
		t.Errorf("published, and still listed: %v", got)
	}
}

// TestPendingMessages: the condition says what waits, for whom, and until when.
func TestPendingMessages(t *testing.T) {
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("m%02d", i)
	}
	tests := map[string]struct {
		then func(d *desk)
		want string
	}{
		"held":        {func(*desk) {}, "Change 2 (1 added: c2, 0 removed) is held by x: not yet (expires 2026-08-01T13:00:00Z). An approval does not end the hold by x"},
		"held by two": {func(d *desk) { d.y.answer = holds }, "Change 2 (1 added: c2, 0 removed) is held by x: not yet (expires 2026-08-01T13:00:00Z); y: not yet (expires 2026-08-01T14:00:00Z). An approval does not end the hold by x and y"},
		"an approval helps": {func(d *desk) { d.x.approvable = true },
			"Change 2 (1 added: c2, 0 removed) is held by x: not yet (expires 2026-08-01T13:00:00Z if not approved). To approve it: kubectl placement approve placementchange/p-2 -n ns"},
		"an approval helps in part": {func(d *desk) { d.x.approvable, d.y.answer = true, holds },
			"Change 2 (1 added: c2, 0 removed) is held by x: not yet (expires 2026-08-01T13:00:00Z if not approved); y: not yet (expires 2026-08-01T14:00:00Z). " +
				"An approval does not end the hold by y. To approve it: kubectl placement approve placementchange/p-2 -n ns"},
		"approved, and held still": {func(d *desk) { d.approve("2") },
			"Change 2 (1 added: c2, 0 removed) is held by x: not yet. It is approved"},
		"rejected before it was the newest": {func(d *desk) {
			d.x.approvable = true
			d.answer("2", berthv1alpha1.Rejected)
			d.attemptUntilStable()
			d.add("c3")
			d.attemptUntilStable()
			d.remove("c3")
		}, "Change 2 (1 added: c2, 0 removed) was rejected by ann. The published decision stays. To publish the change, approve it: " +
			"kubectl placement approve placementchange/p-2 -n ns"},
		"at most ten names": {func(d *desk) { d.remove("c1"); d.remove("c2"); d.add(many...); d.x.approvable = true },
			"Change 3 (12 added: m00 m01 m02 m03 m04 m05 m06 m07 m08 m09 and 2 more, 1 removed: c1) is held by x: not yet (expires 2026-08-01T13:00:00Z if not approved). To approve it: kubectl placement approve placementchange/p-3 -n ns"},
		"expired": {func(d *desk) { d.now, d.x.approvable = d.now.Add(time.Hour), true },
			"Change 2 (1 added: c2, 0 removed) was not approved in time. The published decision stays. To publish the change, approve it: kubectl placement approve placementchange/p-2 -n ns"},
		"expired, and an approval is not enough": {func(d *desk) { d.now = d.now.Add(time.Hour) },
			"Change 2 (1 added: c2, 0 removed) was not permitted in time. The published decision stays. An approval does not end the hold by x. " +
				"To publish the change, approve it: kubectl placement approve placementchange/p-2 -n ns"},
		"rejected": {func(d *desk) { d.reject("x"); d.x.approvable = true },
			"Change 2 (1 added: c2, 0 removed) was rejected by x: no. The published decision stays. To publish the change, approve it: kubectl placement approve placementchange/p-2 -n ns"},
		"denied":            {func(d *desk) { d.x.answer = refuses }, "Change 2 (1 added: c2, 0 removed) is denied by x: never"},
		"waiting":           {func(d *desk) { d.x.answer = awaits }, "Change 2 (1 added: c2, 0 removed) waits for x: a fact"},
		"denied by Reserve": {func(d *desk) { d.fore.answer = refuses }, "Change 2 (1 added: c2, 0 removed) is denied by fore: never"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			tc.then(d)
			d.attemptUntilStable()
			if diff := cmp.Diff(tc.want, d.message()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if c := d.condition(v1alpha1.PlacementConditionDecisionPending); c.ObservedGeneration != d.placement.Generation {
				t.Errorf("observed generation %d, want %d", c.ObservedGeneration, d.placement.Generation)
			}
			// An event reports it once.
			if a := d.attempt(); report.OutcomeEvent(a) != nil && report.IsNewOutcome(a) {
				t.Errorf("reported again: %+v", report.OutcomeEvent(a))
			}
		})
	}
}

// TestPendingEvent: each outcome is reported once.
func TestPendingEvent(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	if a := d.attempt(); report.OutcomeEvent(a) != nil {
		t.Error("got no event")
	}
	d.x.answer = holds
	d.add("c2")
	for _, want := range []string{"DecisionHeld", ""} {
		got := ""
		if a := d.attempt(); report.OutcomeEvent(a) != nil && report.IsNewOutcome(a) {
			got = report.OutcomeEvent(a).Reason
		}
		if got != want {
			t.Errorf("events: %q, want %q", got, want)
		}
	}
}

// TestFirstDecisionHeld: one empty page says that the Placement was seen, and no cluster is
// published.
func TestFirstDecisionHeld(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.x.answer = holds
	d.attemptUntilStable()
	d.expect("p-decision-1: | [c1 c2] | True/Held")
	want := "Clusters published: 0, wanted: 2; see condition DecisionPending"
	if c := d.condition(v1alpha1.PlacementConditionSatisfied); c == nil || c.Status != "False" || c.Message != want {
		t.Errorf("PlacementSatisfied is %+v", c)
	}
	d.x.answer = nil
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 |  | ")
}

// TestEmptyAnswerHeld: that a Placement would lose all is a change that can wait, too.
func TestEmptyAnswerHeld(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer = holds
	d.remove("c1")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [] | True/Held")
	token := d.revision()
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [] | True/Held")
	if d.revision() != token || len(d.x.seen.HeldBy) != 1 {
		t.Errorf("the token was %s and is %s; held by %v", token, d.revision(), d.x.seen.HeldBy)
	}
}
