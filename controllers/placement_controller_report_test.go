package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// TestReconcileFails: what the status and the result say when a page cannot be written.
func TestReconcileFails(t *testing.T) {
	pages, placements := schema.GroupResource{Resource: "placementdecisions"}, schema.GroupResource{Resource: "placements"}
	const page, status = "create PlacementDecision p-decision-1", "patch status of Placement p"
	tests := map[string]struct {
		refuse      map[string]error
		wantErr     []string
		wantStatus  string
		wantMetrics map[string]float64
		wantWritten []string
	}{
		"the namespace goes": {
			refuse:      map[string]error{page: terminating(pages)},
			wantMetrics: map[string]float64{"publish_failures_total DecisionPublisher Forbidden": 1},
		},
		"a conflict": {
			refuse:      map[string]error{page: apierrors.NewConflict(pages, "p-decision-1", errors.New("it changed"))},
			wantErr:     []string{"Create of PlacementDecision n/p-decision-1", "it changed"},
			wantMetrics: map[string]float64{"publish_failures_total DecisionPublisher Conflict": 1},
		},
		"a page is there already": {
			refuse:      map[string]error{page: apierrors.NewAlreadyExists(pages, "p-decision-1")},
			wantErr:     []string{"already exists"},
			wantMetrics: map[string]float64{"publish_failures_total DecisionPublisher AlreadyExists": 1},
		},
		"it is forbidden": {
			refuse:      map[string]error{page: apierrors.NewForbidden(pages, "p-decision-1", errors.New("no right"))},
			wantErr:     []string{"Create of PlacementDecision n/p-decision-1", "no right"},
			wantStatus:  "False NotAllDecisionsScheduled: ",
			wantWritten: []string{status},
			wantMetrics: map[string]float64{"publish_failures_total DecisionPublisher Forbidden": 1, "placements NotAllDecisionsScheduled False short": 1},
		},
		"it is forbidden, and the status is not written": {
			refuse: map[string]error{
				page:   apierrors.NewForbidden(pages, "p-decision-1", errors.New("no right")),
				status: apierrors.NewConflict(placements, "p", errors.New("edited")),
			},
			wantErr: []string{"no right", "; writing the status: ", "edited"}, wantWritten: []string{status},
			wantMetrics: map[string]float64{
				"publish_failures_total DecisionPublisher Forbidden": 1, "placements NotAllDecisionsScheduled False short": 1, "status_failures_total Conflict": 1,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a")
			h.place(fixture.Placement("n", "p").Generation(3).Obj())
			h.refuse = func(request string) error { return tc.refuse[request] }
			got := changed(t, func() {
				result, err := h.reconcile()
				if (err != nil) != (len(tc.wantErr) > 0) || result != (ctrl.Result{}) {
					t.Errorf("got %v, %v", result, err)
				}
				for _, text := range tc.wantErr {
					if !strings.Contains(fmt.Sprint(err), text) {
						t.Errorf("the error does not contain %q: %v", text, err)
					}
				}
			}, attemptsTotal, publishFailures, statusFailures, placementsNow, decisionWrites)
			tc.wantMetrics["attempts_total Failed"] = 1
			if diff := cmp.Diff(tc.wantMetrics, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			h.checkWritten(append([]string{page}, tc.wantWritten...)...)
			if got := h.condition(satisfied); !strings.HasPrefix(got, tc.wantStatus) || (got == "") != (tc.wantStatus == "") {
				t.Errorf("condition %s: %q, want %q", satisfied, got, tc.wantStatus)
			}
			if tc.wantStatus != "" {
				c := h.placement().Status.Conditions[0]
				if !strings.Contains(c.Message, "no right") || c.ObservedGeneration != 3 {
					t.Errorf("the condition is %+v", c)
				}
			}
			if got := h.cause(); got != "start" {
				t.Errorf("the next attempt is for %q", got)
			}
			h.checkSent()
			// The cluster is not counted as published.
			if len(h.reconciler.Records.owed) > 0 {
				t.Error("a record is to be written")
			}
		})
	}
}

// TestReconcileReportsPartialWrites: events report the writes before one that fails.
func TestReconcileReportsPartialWrites(t *testing.T) {
	var names []string
	for i := range 101 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	h := startSetUpHub(t, hubOptions{}, names...)
	h.place(fixture.Placement("n", "p").Obj())
	h.refuse = func(request string) error {
		if request == "create PlacementDecision p-decision-2" {
			return errors.New("hub is down")
		}
		return nil
	}
	got := changed(t, func() {
		if _, err := h.reconcile(); err == nil || !strings.Contains(err.Error(), "hub is down") {
			t.Errorf("got %v", err)
		}
	}, decisionWrites, publishFailures)
	want := map[string]float64{"decision_writes_total create": 1, "publish_failures_total DecisionPublisher Other": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if sent := h.sent(); len(sent) != 3 || sent[0] != firstEvents("")[0] {
		t.Errorf("events: %q", sent)
	}
	h.refuse = nil
	got = changed(t, func() { h.succeed() }, decisionWrites)
	if diff := cmp.Diff(map[string]float64{"decision_writes_total create": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	// One cluster less is a deletion, ten more an update.
	for _, name := range names[90:] {
		h.reconciler.Inventory.Delete(fixture.Cluster(name).Set("s1").Obj())
	}
	got = changed(t, func() { h.succeed() }, decisionWrites)
	if diff := cmp.Diff(map[string]float64{"decision_writes_total delete": 1, "decision_writes_total update": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestReconcileReportsOnce: an event reports missing clusters once, and again when that changes.
func TestReconcileReportsOnce(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Number(3).Obj())
	missing := func(sent []string) []string {
		return slices.DeleteFunc(sent, func(e string) bool { return !strings.Contains(e, "ClustersMissing") })
	}
	h.succeed()
	first := missing(h.sent())
	if len(first) != 1 || !strings.HasPrefix(first[0], "Warning ClustersMissing Shortfall: ") {
		t.Fatalf("events: %q", first)
	}
	h.succeed()
	h.checkSent()
	h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
	h.succeed()
	second := missing(h.sent())
	if len(second) != 1 || second[0] == first[0] {
		t.Errorf("events: %q", second)
	}
	// A new Placement of the same name gets its own event.
	h.reconciler.reported.placements[placementKey].uid = "earlier"
	h.succeed()
	if third := missing(h.sent()); !slices.Equal(third, second) {
		t.Errorf("events: %q", third)
	}
	// No cluster is missing now, so the next time gets an event again.
	h.reconciler.Inventory.Update(fixture.Cluster("c").Set("s1").Obj())
	h.succeed()
	if sent := missing(h.sent()); len(sent) > 0 || lastWarnings(h) != "" {
		t.Errorf("events: %q; warnings: %q", sent, lastWarnings(h))
	}
	h.reconciler.Inventory.Delete(fixture.Cluster("c").Set("s1").Obj())
	h.succeed()
	if fourth := missing(h.sent()); !slices.Equal(fourth, second) {
		t.Errorf("events: %q", fourth)
	}
	// An attempt that decides nothing says nothing of it.
	before := lastWarnings(h)
	h.reconciler.Scheduler.Forget(placementKey)
	h.reconciler.sendWarnings(t.Context(), h.placement(), &scheduler.Attempt{Plan: &plan.Plan{Decision: &decide.Decision{Intents: []framework.Intent{{Reason: "New"}}}}})
	h.checkSent()
	if lastWarnings(h) != before {
		t.Errorf("warnings: %q", lastWarnings(h))
	}
}

// lastWarnings returns the last warnings that were sent for Placement n/p.
func lastWarnings(h *setUpHub) string {
	if p := h.reconciler.reported.placements[placementKey]; p != nil {
		return p.texts[topicWarnings]
	}
	return ""
}

func TestReconcileReportsForeignPages(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	other := fixture.Page("n", "x").Of("p").OwnedBy("other").Obj()
	h.reconciler.Inventory.Update(other)
	h.succeed()
	const note = "Warning ForeignDecision DecisionIgnored: PlacementDecisions x have the label cluster.open-cluster-management.io/placement=p, but another controller owns them: Berth does not change them"
	h.checkSent(append(firstEvents("a:100 "), note)...)
	if got, want := lastWarnings(h), "ForeignDecision PlacementDecisions x have the label cluster.open-cluster-management.io/placement=p, but another controller owns them: Berth does not change them\n"; got != want {
		t.Errorf("warnings: %q, want %q", got, want)
	}
	h.succeed()
	h.checkSent()
	h.reconciler.Inventory.Update(fixture.Page("n", "y").Of("p").OwnedBy("other").Obj())
	h.succeed()
	h.checkSent(strings.Replace(note, "Decisions x", "Decisions x, y", 1))
	h.reconciler.Inventory.Delete(other)
	h.reconciler.Inventory.Delete(fixture.Page("n", "y").Of("p").OwnedBy("other").Obj())
	h.succeed()
	h.checkSent()
	if got := lastWarnings(h); got != "" {
		t.Errorf("warnings: %q", got)
	}
}

// TestReconcileHolds: a held change has a record, a condition, and one event.
func TestReconcileHolds(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	h.reconciler.Inventory.Update(fixture.ApprovalPolicy("n", "careful"))
	h.sent()
	h.written()
	h.reconciler.Inventory.Started()
	h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
	if got := h.cause(); got == "" {
		t.Fatal("the event is no cause")
	}
	h.succeed()
	if sent := h.sent(); len(sent) != 1 || !strings.HasPrefix(sent[0], "Warning DecisionHeld DecisionPending: Change ") {
		t.Errorf("events: %q", sent)
	}
	if got := h.condition(pending); !strings.HasPrefix(got, "True Held: Change ") {
		t.Errorf("condition %s: %q", pending, got)
	}
	if got := measured(t, heldNow)["held_changes"]; got != 1 {
		t.Errorf("%v held changes are counted", got)
	}
	if got := h.cause(); got != "" {
		t.Errorf("the next attempt is for %q", got)
	}
	h.succeed()
	h.checkSent()
}

// TestReconcileMeasuresTheWholeTime: the time from an event to the pages is measured once.
func TestReconcileMeasuresTheWholeTime(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	before := histogramOf(t, changeToPageSeconds).GetSampleCount()
	for range 2 {
		h.succeed()
	}
	if n := histogramOf(t, changeToPageSeconds).GetSampleCount() - before; n != 0 {
		t.Errorf("%d times measured without an event", n)
	}
	h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
	h.reconciler.Times.affected([]types.NamespacedName{placementKey}, time.Now().Add(-time.Minute))
	for range 2 {
		h.succeed()
	}
	after := histogramOf(t, changeToPageSeconds)
	if n := after.GetSampleCount() - before; n != 1 {
		t.Errorf("%d times measured", n)
	}
}

// TestReconcileKeepsTheCauseWhileItWaits: an attempt that waits continues later, for the same
// cause.
func TestReconcileKeepsTheCauseWhileItWaits(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.probe.permit = func() (*framework.Status, time.Duration) {
		return framework.NewStatus(framework.Pending, "the answer"), 0
	}
	if result := h.succeed(); result.RequeueAfter != 10*time.Second {
		t.Errorf("the result is %v", result)
	}
	if got := h.cause(); got != "start" {
		t.Errorf("the next attempt is for %q", got)
	}
	if got := h.condition(pending); !strings.HasPrefix(got, "True Waiting: ") {
		t.Errorf("condition %s: %q", pending, got)
	}
	h.checkSent()
	h.probe.permit = nil
	h.succeed()
	h.checkPublished("a")
	if got := h.cause(); got != "" {
		t.Errorf("the next attempt is for %q", got)
	}
}

// TestReconcileWritesRecordsFirst: without its record a change is not reported as held, and a
// record that cannot be completed keeps the status back.
func TestReconcileWritesRecordsFirst(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	if err := h.reconciler.Records.flush(t.Context(), placementKey); err != nil {
		t.Fatal(err)
	}
	h.reconciler.Inventory.Update(fixture.ApprovalPolicy("n", "careful"))
	h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
	down := ""
	h.refuse = func(request string) error {
		if down != "" && strings.HasPrefix(request, down) {
			return errors.New("hub is down")
		}
		return nil
	}
	down = "create PlacementChange"
	if _, err := h.reconcile(); err == nil || !strings.Contains(err.Error(), "creating PlacementChange n/p-2") {
		t.Errorf("got %v", err)
	}
	down = ""
	h.succeed()
	// The held change is superseded by an empty one; its record is written once that is decided.
	h.reconciler.Inventory.Delete(fixture.Cluster("b").Set("s1").Obj())
	down = "update status of PlacementChange"
	if _, err := h.reconcile(); err == nil || !strings.Contains(err.Error(), "writing the status of PlacementChange n/p-2") {
		t.Errorf("got %v", err)
	}
	// The condition is removed all the same.
	if got := h.condition(pending); got != "" {
		t.Errorf("condition %s: %q", pending, got)
	}
	down = ""
	h.succeed()
	if got := h.condition(pending); got != "" {
		t.Errorf("condition %s: %q", pending, got)
	}
	down = "patch status of Placement"
	h.reconciler.Inventory.Update(fixture.Cluster("c").Set("s1").Obj())
	h.sent()
	if _, err := h.reconcile(); err == nil || err.Error() != "writing the status: hub is down" {
		t.Errorf("got %v", err)
	}
	// The event does not depend on the condition, and is sent once.
	if sent := h.sent(); len(sent) != 1 || !strings.HasPrefix(sent[0], "Warning DecisionHeld DecisionPending: Change ") {
		t.Errorf("events: %q", sent)
	}
	down = ""
	h.succeed()
	h.checkSent()
}

// TestStatusHasTheTimeOfScores: a time that the API server did not store is written again.
func TestStatusHasTheTimeOfScores(t *testing.T) {
	at := func(seconds int) *metav1.Time { t := fixture.At(seconds); return &t }
	tests := map[string]struct {
		scored          bool
		remembered      time.Time
		stored, want    *metav1.Time
		wantSelected    int32
		withoutDecision bool
	}{
		"never":                       {wantSelected: 1},
		"in this attempt":             {scored: true, stored: at(-90), want: at(1), wantSelected: 1},
		"before":                      {remembered: fixture.Now.Add(-time.Minute), stored: at(-60), want: at(-60), wantSelected: 1},
		"before, and not stored":      {remembered: fixture.Now.Add(-time.Minute), want: at(-60), wantSelected: 1},
		"before, and an older stored": {remembered: fixture.Now.Add(-time.Minute), stored: at(-90), want: at(-60), wantSelected: 1},
		"before, and a newer stored":  {remembered: fixture.Now.Add(-time.Minute), stored: at(-30), want: at(-30), wantSelected: 1},
		"nothing is decided":          {stored: at(-90), want: at(-90), withoutDecision: true, wantSelected: 7},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("n", "p").Obj()
			pl.Status.LastScoreUpdateTime, pl.Status.NumberOfSelectedClusters = tc.stored, 7
			snapshot := &framework.Snapshot{Now: fixture.Now.Add(time.Millisecond), Subject: &framework.Subject{Placement: pl}}
			a := &scheduler.Attempt{Plan: &plan.Plan{Outcome: plan.Undecided, Decision: &decide.Decision{
				Snapshot: snapshot, State: framework.NewCycleState(snapshot), Failure: framework.NewStatus(framework.Unschedulable, "parked"),
			}}}
			if !tc.withoutDecision {
				a.Step = &framework.Proposal{Selected: make([]framework.SelectedCluster, 1), LastScores: tc.remembered}
				a.Step.Result.Groups = []v1alpha1.DecisionGroupStatus{{ClusterCount: 1}}
			}
			if tc.scored {
				a.Step.Writes, a.Step.Result.ScoresWritten = make([]framework.PageWrite, 1), true
			}
			status := (&PlacementReconciler{}).statusOf(a)
			if !status.LastScoreUpdateTime.Equal(tc.want) {
				t.Errorf("got %v, want %v", status.LastScoreUpdateTime, tc.want)
			}
			if status.NumberOfSelectedClusters != tc.wantSelected || (len(status.DecisionGroups) == 1) == tc.withoutDecision || len(status.Conditions) != 2 {
				t.Errorf("the status is %+v", status)
			}
			if pl.Status.NumberOfSelectedClusters != 7 {
				t.Error("the Placement of the snapshot has changed")
			}
		})
	}
}

func TestRoundUp(t *testing.T) {
	for from, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second - 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second,
	} {
		if got := roundUp(fixture.Now.Add(from)); !got.Time.Equal(fixture.Now.Add(want)) {
			t.Errorf("%s: got %s, want %s", from, got.Time, fixture.Now.Add(want))
		}
	}
}

// TestWriteStatus: what is the same is not written; what fails is counted unless the Placement is
// deleted.
func TestWriteStatus(t *testing.T) {
	placements := schema.GroupResource{Resource: "placements"}
	tests := map[string]struct {
		answer      error
		same        bool
		wantErr     bool
		wantMetrics map[string]float64
		wantWritten []string
	}{
		"written":     {wantMetrics: map[string]float64{}, wantWritten: []string{"patch status of Placement p"}},
		"the same":    {same: true, wantMetrics: map[string]float64{}},
		"it is gone":  {answer: apierrors.NewNotFound(placements, "p"), wantErr: true, wantMetrics: map[string]float64{"status_failures_total NotFound": 1}, wantWritten: []string{"patch status of Placement p"}},
		"it is there": {answer: apierrors.NewConflict(placements, "p", nil), wantErr: true, wantMetrics: map[string]float64{"status_failures_total Conflict": 1}, wantWritten: []string{"patch status of Placement p"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{})
			h.place(fixture.Placement("n", "p").Obj())
			h.refuse = func(string) error { return tc.answer }
			pl := h.placement()
			status := pl.Status.DeepCopy()
			if !tc.same {
				status.NumberOfSelectedClusters = 5
			}
			got := changed(t, func() {
				if err := h.reconciler.writeStatus(t.Context(), pl, status); (err != nil) != tc.wantErr {
					t.Errorf("got %v", err)
				}
			}, statusFailures)
			if diff := cmp.Diff(tc.wantMetrics, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			h.checkWritten(tc.wantWritten...)
			h.checkSent()
			if written := h.placement().Status.NumberOfSelectedClusters == 5; written != (len(tc.wantWritten) > 0 && tc.answer == nil) {
				t.Errorf("written: %t", written)
			}
			if pl.Status.NumberOfSelectedClusters != 0 {
				t.Error("the Placement that was given has changed")
			}
		})
	}
}

// TestStatusIsWrittenToTheStateThatWasDecided: a Placement that was edited meanwhile is decided
// again.
func TestStatusIsWrittenToTheStateThatWasDecided(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	edited := h.placement()
	edited.Labels = map[string]string{"edited": ""}
	if err := h.hub.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if _, err := h.reconcile(); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if got := h.condition(satisfied); got != "" {
		t.Errorf("condition %s: %q", satisfied, got)
	}
}

func TestQueuesLimitPlacements(t *testing.T) {
	h := startSetUpHub(t, hubOptions{Options: Options{QueueConfig: types.NamespacedName{Namespace: "berth-system", Name: "queues"}}}, "a", "b")
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	if got := h.condition(v1alpha1.PlacementConditionQueueAdmitted); !strings.HasPrefix(got, "False ") {
		t.Errorf("without a configuration: %q", got)
	}
	queues := h.reconciler.Queues
	if _, err := queues.Configure(&corev1.ConfigMap{Data: map[string]string{"queues.yaml": fixture.Partition(`
placementrules:
- name: fixed
  value: root.a
queues:
- name: root
  queues:
  - name: a
`)}}); err != nil {
		t.Fatal(err)
	}
	queues.Update(h.placement())
	h.succeed()
	if got := h.condition(v1alpha1.PlacementConditionQueueAdmitted); !strings.HasPrefix(got, "True ") {
		t.Errorf("with a configuration: %q", got)
	}
	h.checkPublished("a", "b")
	// A Placement that is gone has no queue to ask.
	h.reconciler.Inventory.Delete(h.placement())
	h.succeed()
}

// TestOwnStatusOfAppliedPlacement: the cache drops an annotation of kubectl apply, which the
// response to a write of the status has. Its watch event starts no attempt.
func TestOwnStatusOfAppliedPlacement(t *testing.T) {
	h := startSetUpHub(t, hubOptions{})
	inv := h.reconciler.Inventory
	inv.Update(fixture.Cluster("q1").Set("s1").Obj())
	trim := caches.Trim(caches.Controller, "Placement")
	cached := func() *v1alpha1.Placement {
		pl := h.placement()
		trim(pl)
		return pl
	}
	if err := h.hub.Create(t.Context(), fixture.Placement("n", "p").Annotation(corev1.LastAppliedConfigAnnotation, "{}").Obj()); err != nil {
		t.Fatal(err)
	}
	inv.Update(cached())
	h.succeed()
	if affected := inv.Update(cached()); len(affected) > 0 {
		t.Errorf("the watch event affects %v", affected)
	}
}
