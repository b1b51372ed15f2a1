package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

const (
	satisfied     = v1alpha1.PlacementConditionSatisfied
	misconfigured = v1alpha1.PlacementConditionMisconfigured
	pending       = v1alpha1.PlacementConditionDecisionPending
)

// stages are the metrics of an attempt that reaches these stages.
func stages(names ...string) map[string]float64 {
	all := map[string]float64{}
	for _, name := range names {
		all["scheduling_duration_seconds "+name] = 1
	}
	return all
}

// checkSent compares the events since the last check.
func (h *setUpHub) checkSent(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.sent()); diff != "" {
		h.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// checkWritten compares the requests since the last check.
func (h *setUpHub) checkWritten(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.written()); diff != "" {
		h.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// checkPublished compares the clusters on pages. The condition Satisfied must be True.
func (h *setUpHub) checkPublished(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.published()); diff != "" {
		h.t.Errorf("published (-want +got):\n%s", diff)
	}
	if got := h.condition(satisfied); got != allScheduled {
		h.t.Errorf("condition %s: got %q, want %q", satisfied, got, allScheduled)
	}
	h.checkStatus()
}

// checkStatus compares the counts of the status with what is published.
func (h *setUpHub) checkStatus() {
	h.t.Helper()
	status, published := h.placement().Status, h.published()
	var grouped int32
	for _, group := range status.DecisionGroups {
		grouped += group.ClusterCount
	}
	if want := int32(len(published)); status.NumberOfSelectedClusters != want || grouped != want {
		h.t.Errorf("the status counts %d clusters, and %d in groups; published are %v", status.NumberOfSelectedClusters, grouped, published)
	}
}

// cause is what the next attempt for Placement n/p is for.
func (h *setUpHub) cause() string {
	return h.reconciler.Inventory.Snapshot(placementKey, h.now, nil).Cause
}

const allScheduled = "True AllDecisionsScheduled: All cluster decisions scheduled"

// published are the events of the first decision.
func firstEvents(scores string) []string {
	return []string{
		"Normal DecisionCreate DecisionCreated: Decision p-decision-1 is created with placement p in namespace n",
		"Normal DecisionUpdate DecisionUpdated: Decision p-decision-1 is updated with placement p in namespace n",
		"Normal ScoreUpdate ScoreUpdated: " + scores,
	}
}

func TestReconcilePublishes(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a", "b")
	h.place(fixture.Placement("n", "p").Obj())
	if got := h.cause(); got != "start" {
		t.Errorf("the attempt is for %q", got)
	}
	var result ctrl.Result
	got := changed(t, func() { result = h.succeed() }, stageSeconds, attemptsTotal, decisionWrites, placementsNow, decideFailures, publishFailures, statusFailures)
	want := stages("prepare", "wait", "snapshot", "publish", "status")
	maps.Copy(want, map[string]float64{
		"attempts_total Published": 1, "decision_writes_total create": 1, "placements AllDecisionsScheduled True satisfied": 1,
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if result != (ctrl.Result{}) {
		t.Errorf("the result is %v", result)
	}
	h.checkPublished("a", "b")
	h.checkSent(firstEvents("a:100 b:100 ")...)
	h.checkWritten("create PlacementDecision p-decision-1", "update status of PlacementDecision p-decision-1",
		"update PlacementDecision p-decision-1", "patch status of Placement p")
	if got := h.condition(misconfigured); got != "False Succeedconfigured: Placement configurations check pass" {
		t.Errorf("condition %s: %q", misconfigured, got)
	}
	status := h.placement().Status
	if status.NumberOfSelectedClusters != 2 || status.LastScoreUpdateTime != nil || status.Conditions[0].ObservedGeneration != 1 {
		t.Errorf("the status is %+v", status)
	}
	groups := []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 2}}
	if diff := cmp.Diff(groups, status.DecisionGroups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	// The inventory knows the status ahead of its echo, and the next attempt is for another cause.
	if known := h.reconciler.Inventory.Placement(placementKey); !cmp.Equal(known.Status, status) || known.ManagedFields != nil {
		t.Errorf("the inventory has %+v", known)
	}
	if got := h.cause(); got != "" {
		t.Errorf("the next attempt is for %q", got)
	}
	if owed := h.reconciler.Records.owed[placementKey]; owed == nil || len(owed.changes) != 1 || owed.changes[0].revision != 1 {
		t.Errorf("no record of revision 1 is to be written, but %+v", owed)
	}

	h.reconciler.Records.Forget(placementKey)
	got = changed(t, func() { result = h.succeed() }, attemptsTotal, decisionWrites, placementsNow)
	if diff := cmp.Diff(map[string]float64{"attempts_total Unchanged": 1}, got); diff != "" {
		t.Errorf("metrics of an attempt that changes nothing (-want +got):\n%s", diff)
	}
	h.checkSent()
	h.checkWritten()
}

// TestReconcileYields: events and records wait while a Placement is decided, and not longer.
func TestReconcileYields(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	asked := 0
	h.probe.filter = func(string) *framework.Status {
		if asked++; h.background.events.wait() == 0 || h.reconciler.Records.wait() == 0 {
			t.Error("the background does not wait")
		}
		return nil
	}
	h.succeed()
	if asked != 1 {
		t.Errorf("the filter was asked %d times", asked)
	}
	if h.background.events.wait() > 0 || h.reconciler.Records.wait() > recordQuiet {
		t.Error("the background waits on")
	}
}

// keptState stores all state that the controller keeps for Placement n/p besides its decisions, and
// returns a function that lists the state that is still stored.
func (h *setUpHub) keptState() func() []string {
	r := h.reconciler
	r.reported.changed(h.placement(), topicWarnings, "warning")
	r.Inventory.Claim(placementKey, []string{"reserved"})
	h.probe.forgotten = nil
	return func() []string {
		var all []string
		if r.reported.placements[placementKey] != nil {
			all = append(all, "reported")
		}
		if r.Records.owed[placementKey] != nil {
			all = append(all, "record")
		}
		if _, ok := r.satisfiedGauge.last[placementKey]; ok {
			all = append(all, "satisfiedGauge")
		}
		if len(h.probe.forgotten) == 0 {
			all = append(all, "plugin")
		}
		names := int32(0)
		for _, n := range r.Inventory.Snapshot(types.NamespacedName{Namespace: "n", Name: "other"}, h.now, nil).Counts.Histogram {
			names += n
		}
		if names > 1 {
			all = append(all, "reservation")
		}
		return all
	}
}

func TestReconcileForgets(t *testing.T) {
	tests := map[string]struct {
		does       func(h *setUpHub)
		want       []string
		wantStages []string
	}{
		"a Placement that is gone": {
			does: func(h *setUpHub) {
				h.reconciler.Inventory.Delete(h.placement())
				// By an attempt that began before the deletion.
				h.reconciler.Inventory.Claim(placementKey, []string{"reserved"})
			},
			wantStages: []string{"prepare", "wait", "snapshot"},
		},
		"a Placement that is being deleted": {
			does: func(h *setUpHub) {
				pl := h.placement()
				now := fixture.At(0)
				pl.DeletionTimestamp = &now
				h.reconciler.Inventory.Update(pl)
			},
			want:       []string{"reported", "record", "plugin"},
			wantStages: []string{"prepare", "wait", "snapshot"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a")
			h.place(fixture.Placement("n", "p").Obj())
			h.reconciler.Inventory.Update(fixture.Placement("n", "other").Obj())
			h.succeed()
			left := h.keptState()
			if got := left(); len(got) != 5 {
				t.Fatalf("only %v is remembered", got)
			}
			h.written()
			h.sent()
			tc.does(h)
			got := changed(t, func() {
				if result := h.succeed(); result != (ctrl.Result{}) {
					t.Errorf("the result is %v", result)
				}
			}, stageSeconds, attemptsTotal, placementsNow)
			want := stages(tc.wantStages...)
			want["placements AllDecisionsScheduled True satisfied"] = -1
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, left()); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
			h.checkWritten()
			h.checkSent()
		})
	}
}

func TestReconcileWaitsUntilPrepared(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	prepared := 0
	h.probe.prepare = func() bool { prepared++; return false }
	got := changed(t, func() {
		if result := h.succeed(); result != (ctrl.Result{RequeueAfter: 20 * time.Millisecond}) {
			t.Errorf("the result is %v", result)
		}
	}, stageSeconds, attemptsTotal, attemptsDeferred)
	if len(got) > 0 || prepared != 1 {
		t.Errorf("metrics changed: %v; prepared %d times", got, prepared)
	}
	h.checkWritten()
	// What is left alone, or gone, is not prepared.
	pl := h.placement()
	pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	h.reconciler.Inventory.Update(pl)
	if result := h.succeed(); result != (ctrl.Result{}) || prepared != 1 {
		t.Errorf("disabled: the result is %v, prepared %d times", result, prepared)
	}
	h.reconciler.Inventory.Delete(pl)
	if result := h.succeed(); result != (ctrl.Result{}) || prepared != 1 {
		t.Errorf("gone: the result is %v, prepared %d times", result, prepared)
	}
	h.reconciler.Inventory.Update(h.placement())
	h.probe.prepare = func() bool { return true }
	h.succeed()
	h.checkPublished("a")
}

// TestReconcileTimesOut: the first timeout is not reported in a condition, the next one is.
func TestReconcileTimesOut(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	clock := clocktesting.NewFakeClock(h.now)
	s := h.reconciler.Scheduler
	s.Clock, s.CycleTimeout = clock, time.Second
	h.probe.filter = func(string) *framework.Status {
		clock.Step(time.Second)
		return nil
	}
	const stopped = "the cycle was stopped in Filter after 1s; cycleTimeout is 1s"
	all := []string{"scheduling_duration_seconds", "attempts_deferred_total", "cycle_timeouts_total", "attempts_total", "decide_failures_total"}
	attempt := func(wantRequeue time.Duration, want map[string]float64) {
		t.Helper()
		got := changed(t, func() {
			if result := h.succeed(); result != (ctrl.Result{RequeueAfter: wantRequeue}) {
				t.Errorf("the result is %v, want %s", result, wantRequeue)
			}
		}, stageSeconds, attemptsDeferred, cycleTimeouts, attemptsTotal, decideFailures)
		maps.DeleteFunc(got, func(name string, _ float64) bool { return !slices.Contains(all, strings.Split(name, " ")[0]) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	}
	with := func(metrics map[string]float64, stage ...string) map[string]float64 {
		maps.Copy(metrics, stages(stage...))
		return metrics
	}
	failed := func() map[string]float64 {
		return map[string]float64{"cycle_timeouts_total Filter Probe": 1, "attempts_total Undecided": 1, "decide_failures_total Error Probe": 1}
	}
	attempt(10*time.Second, with(failed(), "prepare", "wait", "snapshot", "publish"))
	h.checkWritten()
	if got := h.condition(satisfied); got != "" {
		t.Errorf("condition %s after the first: %q", satisfied, got)
	}
	clock.Step(9 * time.Second)
	attempt(time.Second, map[string]float64{"attempts_deferred_total": 1})
	clock.Step(time.Second)
	attempt(20*time.Second, with(failed(), "prepare", "wait", "snapshot", "publish", "status"))
	if got := h.condition(satisfied); !strings.Contains(got, stopped) {
		t.Errorf("condition %s after the second: %q", satisfied, got)
	}
	// What is published stays, for the same cause.
	if got := h.cause(); got != "start" {
		t.Errorf("the next attempt is for %q", got)
	}
	// The end of the wait leaves nothing of it.
	clock.Step(20 * time.Second)
	h.probe.filter = nil
	if result := h.succeed(); result != (ctrl.Result{}) {
		t.Errorf("the result is %v", result)
	}
	h.checkPublished("a")
}

func TestReconcileUndecided(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.probe.filter = func(string) *framework.Status { return framework.AsStatus(errors.New("no answer")) }
	got := changed(t, func() {
		if result, err := h.reconcile(); err == nil || !strings.Contains(err.Error(), "no answer") || result != (ctrl.Result{}) {
			t.Errorf("got %v, %v", result, err)
		}
	}, attemptsTotal, decideFailures, publishFailures, cycleTimeouts)
	want := map[string]float64{"attempts_total Undecided": 1, "decide_failures_total Error Probe": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if got := h.condition(satisfied); got != "False NotAllDecisionsScheduled: Probe: no answer" {
		t.Errorf("condition %s: %q", satisfied, got)
	}
	if got := h.cause(); got != "start" {
		t.Errorf("the next attempt is for %q", got)
	}
}

// TestRepeatAfterAFailedReport: with backoff, or earlier if a decision is due; but not at once for
// the record whose end could not be written.
func TestRepeatAfterAFailedReport(t *testing.T) {
	failure := errors.New("boom")
	for name, tc := range map[string]struct {
		err       error
		due       time.Duration
		published bool
		want      time.Duration
	}{
		"nothing is due":                     {err: failure},
		"a decision is due":                  {err: failure, due: 2 * time.Millisecond, want: 2 * time.Millisecond},
		"a decision is due late":             {err: failure, due: time.Hour},
		"the status, and due at once":        {err: failure, due: -1, want: time.Millisecond},
		"a record, and due at once":          {err: recordsError{failure}, due: -1},
		"a record, the status, and at once":  {err: errors.Join(recordsError{failure}, failure), due: -1},
		"a record, and a decision is due":    {err: recordsError{failure}, due: 2 * time.Millisecond, want: 2 * time.Millisecond},
		"a record, and the next step is due": {err: recordsError{failure}, due: -1, published: true, want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := &framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Placement: fixture.Placement("n", "p").Obj()}}
			state := framework.NewCycleState(snapshot)
			if tc.due != 0 {
				state.RequeueAt(fixture.Now.Add(tc.due))
			}
			attempt := &scheduler.Attempt{Plan: &plan.Plan{Decision: &decide.Decision{Snapshot: snapshot, State: state}}}
			if tc.published {
				attempt.Step = &framework.Proposal{}
			}
			result, err := (&PlacementReconciler{}).repeat(t.Context(), attempt, 0, tc.err)
			if result.RequeueAfter != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("got %s and error %v, want %s", result.RequeueAfter, err, tc.want)
			}
		})
	}
}

// TestRequeue: an attempt that is due already is repeated soon, one that is not due at its time.
func TestRequeue(t *testing.T) {
	tests := map[string]struct {
		wake    time.Duration
		wait    time.Duration
		failure *framework.Status
		want    time.Duration
		wantErr string
	}{
		"nothing":                    {},
		"later":                      {wake: time.Minute, want: time.Minute},
		"now":                        {wake: time.Nanosecond, want: time.Millisecond},
		"past":                       {wake: -time.Minute, want: time.Millisecond},
		"at the end of the wait":     {wait: time.Second, want: time.Second},
		"after the wait":             {wake: time.Minute, wait: time.Second, want: time.Second},
		"before the end of the wait": {wake: time.Second, wait: time.Minute, want: time.Second},
		"an error":                   {wake: time.Minute, wait: time.Second, failure: framework.AsStatus(errors.New("boom")), wantErr: "boom"},
		"a failure that is no error": {wake: time.Minute, failure: framework.NewStatus(framework.Unschedulable, "parked"), want: time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := &framework.Snapshot{Now: fixture.Now}
			state := framework.NewCycleState(snapshot)
			if tc.wake != 0 {
				state.RequeueAt(fixture.Now.Add(tc.wake))
			}
			result, err := requeue(t.Context(), &scheduler.Attempt{Plan: &plan.Plan{Decision: &decide.Decision{Snapshot: snapshot, State: state, Failure: tc.failure}}}, tc.wait)
			if fmt.Sprint(err) != fmt.Sprint(tc.failure.Err()) && tc.wantErr != "" || (err != nil) != (tc.wantErr != "") {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if result != (ctrl.Result{RequeueAfter: tc.want}) {
				t.Errorf("got %v, want %s", result, tc.want)
			}
		})
	}
}
