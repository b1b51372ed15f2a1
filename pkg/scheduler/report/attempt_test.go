package report_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// snapshotOf is a Snapshot of Placement ns/p with clusters in its one set s, after last was
// published.
func snapshotOf(last *framework.Published, clusters ...string) *framework.Snapshot {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("ns", "s"))
	inv.Update(fixture.Placement("ns", "p").Generation(2).Obj())
	for _, name := range clusters {
		inv.Update(fixture.Cluster(name).Set("s").Obj())
	}
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	snapshot.Subject.Last = last
	return snapshot
}

// attemptOn is an attempt that has not decided anything.
func attemptOn(last *framework.Published, clusters ...string) *scheduler.Attempt {
	snapshot := snapshotOf(last, clusters...)
	d := &decide.Decision{Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: &plugins.Profile{}}
	return &scheduler.Attempt{Plan: &plan.Plan{Decision: d}}
}

// lastOf is a published decision that lists names.
func lastOf(names ...string) *framework.Published {
	return &framework.Published{Names: names, Digest: framework.DigestOf(names)}
}

// TestOtherConditionsWhilePending: only Satisfied describes the published clusters.
func TestOtherConditionsWhilePending(t *testing.T) {
	a := attemptOn(lastOf("a", "b"), "a", "b", "c", "d")
	a.Feasible, a.Totals = []*framework.Cluster{a.Snapshot.Clusters.Get(2), a.Snapshot.Clusters.Get(3)}, []int64{2, 5}
	a.Selected = []framework.SelectedCluster{{Cluster: a.Feasible[1], Score: 5}, {Cluster: a.Feasible[0], Score: 2}}
	a.Target = &framework.Proposal{Selected: a.Selected, Clusters: []string{"c", "d"}, Added: []string{"c", "d"}, Removed: []string{"a", "b"}, Revision: 7}
	a.Outcome, a.Change = plan.Held, &plan.Move{Proposal: a.Target}
	var conditions []metav1.Condition
	report.SetConditions(a, &conditions)
	reasons := map[string]string{}
	for _, c := range conditions {
		reasons[c.Type] = c.Reason
	}
	want := map[string]string{
		v1alpha1.PlacementConditionMisconfigured: v1alpha1.ReasonSucceedConfigured, v1alpha1.PlacementConditionSatisfied: v1alpha1.ReasonDecisionPending,
		v1alpha1.PlacementConditionDecisionPending: "Held",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlaceholder: the empty page of a Placement that was never decided is not reported.
func TestPlaceholder(t *testing.T) {
	failure := framework.NewStatus(framework.Pending, "")
	empty, full := fixture.Page("ns", "p-decision-1").Obj(), fixture.Page("ns", "p-decision-1").Lists("a").Obj()
	for name, tc := range map[string]struct {
		last     *framework.Published
		failure  *framework.Status
		restores bool
		page     *v1alpha1.PlacementDecision
		want     bool
	}{
		"nothing can be decided":   {failure: failure, page: empty, want: true},
		"the first change is held": {restores: true, page: empty, want: true},
		"no cluster is selected":   {page: empty},
		"clusters are selected":    {page: full, restores: true},
		"a decision was published": {last: lastOf("a"), failure: failure, page: empty},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(tc.last)
			a.Failure = tc.failure
			a.Step = &framework.Proposal{
				Kind: map[bool]framework.Kind{true: framework.Republication}[tc.restores], Result: framework.BindResult{Changed: true}, Writes: []framework.PageWrite{{Page: tc.page, Created: true}},
			}
			events := report.Writes(a)
			if got := len(events) == 0; got != tc.want || !got && events[0].Reason != "DecisionCreate" {
				t.Errorf("events %+v", events)
			}
		})
	}
}

// TestEventsWithoutScores: no cluster is feasible, so there are no scores to report.
func TestEventsWithoutScores(t *testing.T) {
	write := framework.PageWrite{Page: fixture.Page("ns", "p-decision-1").Obj(), Deleted: true, DecisionsChanged: true}
	a := attemptOn(lastOf("a"))
	a.Step = &framework.Proposal{Writes: []framework.PageWrite{write}, Result: framework.BindResult{Changed: true}}
	events := report.Writes(a)
	if len(events) != 1 || events[0].Reason != "DecisionDelete" {
		t.Errorf("got %+v", events)
	}
}

func TestCutNote(t *testing.T) {
	for n, want := range map[int]int{decide.MaxNote: decide.MaxNote, decide.MaxNote + 1: decide.MaxNote} {
		if got := report.CutNote(strings.Repeat("x", n)); len(got) != want || strings.HasSuffix(got, "......") != (n > want) {
			t.Errorf("%d bytes became %d: %q", n, len(got), got[len(got)-8:])
		}
	}
}

// TestMisconfiguredEvent: a Placement that becomes misconfigured, or for another reason.
func TestMisconfiguredEvent(t *testing.T) {
	of := func(status metav1.ConditionStatus, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.PlacementConditionMisconfigured, Status: status, Message: message}
	}
	mistake := framework.NewStatus(framework.UnschedulableAndUnresolvable, "why").WithPlugin("x")
	for name, tc := range map[string]struct {
		before  *metav1.Condition
		failure *framework.Status
		want    bool
	}{
		"valid":                      {},
		"valid again":                {before: of(metav1.ConditionTrue, "x:why")},
		"misconfigured, new":         {failure: mistake, want: true},
		"misconfigured, after valid": {before: of(metav1.ConditionFalse, "x:why"), failure: mistake, want: true},
		"as before":                  {before: of(metav1.ConditionTrue, "x:why"), failure: mistake},
		"for another reason":         {before: of(metav1.ConditionTrue, "other"), failure: mistake, want: true},
		"another failure":            {failure: framework.NewStatus(framework.Error, "down")},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Failure = tc.failure
			if tc.before != nil {
				pl := a.Snapshot.Subject.Placement.DeepCopy()
				pl.Status.Conditions = []metav1.Condition{*tc.before}
				a.Snapshot.Subject.Placement = pl
			}
			if got := report.Misconfigured(a); (got != nil) != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestConditionsThatEnd: a Placement that was disabled, or in a queue, or changed in steps.
func TestConditionsThatEnd(t *testing.T) {
	const disabled, admitted, progressing = v1alpha1.PlacementConditionSchedulingDisabled, v1alpha1.PlacementConditionQueueAdmitted, v1alpha1.PlacementConditionDecisionProgressing
	inSteps := &berthv1alpha1.PlacementChange{Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseProgressing}}
	for name, tc := range map[string]struct {
		outcome plan.Outcome
		queue   *framework.QueueAdmission
		publish *framework.Proposal
		records []*berthv1alpha1.PlacementChange
		want    []string
	}{
		"decided":               {outcome: plan.Unchanged},
		"in a queue":            {outcome: plan.Unchanged, queue: &framework.QueueAdmission{Admitted: true}, want: []string{admitted}},
		"failed":                {outcome: plan.Failed, records: []*berthv1alpha1.PlacementChange{inSteps}, want: []string{progressing}},
		"failed after the end":  {outcome: plan.Failed},
		"forced removals alone": {outcome: plan.Published, publish: &framework.Proposal{Kind: framework.ForcedRemoval}, want: []string{progressing}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(lastOf())
			a.Outcome, a.Publish, a.Snapshot.Queue, a.Snapshot.Subject.Records = tc.outcome, tc.publish, tc.queue, tc.records
			var conditions []metav1.Condition
			for _, kind := range []string{disabled, admitted, progressing} {
				conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
			}
			report.SetConditions(a, &conditions)
			var got []string
			for _, c := range conditions {
				if c.Type == disabled || c.Type == admitted || c.Type == progressing {
					got = append(got, c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// refuser is a PreEnqueue plugin.
type refuser struct{ status *framework.Status }

func (refuser) Name() string { return "q" }

func (r refuser) PreEnqueue(context.Context, *framework.CycleState, *v1alpha1.Placement) *framework.Status {
	return r.status
}

// TestRefusedEvent: an event gives the plugin that does not admit a Placement and its reason,
// unless it is the queue.
func TestRefusedEvent(t *testing.T) {
	queue := &framework.QueueAdmission{Message: "the queue is full"}
	refused := []report.Event{{Type: "Warning", Reason: "PlacementRefused", Action: "q", Note: "q: why"}}
	for name, tc := range map[string]struct {
		code   framework.Code
		queue  *framework.QueueAdmission
		reason string
		want   []report.Event
	}{
		"not now":          {code: framework.Unschedulable, reason: "why", want: refused},
		"never":            {code: framework.UnschedulableAndUnresolvable, reason: "why", want: refused},
		"not by the queue": {code: framework.Unschedulable, queue: queue, reason: queue.Message},
		"before the queue": {code: framework.Unschedulable, queue: queue, reason: "why", want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			profile := &plugins.Profile{PreEnqueue: []framework.PreEnqueuePlugin{refuser{framework.NewStatus(tc.code, tc.reason)}}}
			snapshot := snapshotOf(lastOf("b"), "a")
			snapshot.Queue = tc.queue
			a := scheduler.New(map[string]*plugins.Profile{"default": profile}, nil).Decide(t.Context(), snapshot)
			if diff := cmp.Diff(tc.want, report.Plugins(a)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
