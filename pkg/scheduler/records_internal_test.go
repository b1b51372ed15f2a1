package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRecordsAfter: the status of a change's record after a step.
func TestRecordsAfter(t *testing.T) {
	now, before := metav1.NewTime(fixture.Now), metav1.NewTime(fixture.Now.Add(-time.Hour))
	holds := []berthv1alpha1.ChangeHold{{Plugin: "x"}}
	progressing := &progress{added: 3, leftAdded: 1, removed: 2, leftRemoved: 2}
	left := &berthv1alpha1.RemainingClusters{Added: 1, Removed: 2}
	step := &framework.Proposal{Added: []string{"a"}}
	type status = berthv1alpha1.PlacementChangeStatus
	for name, tc := range map[string]struct {
		outcome Outcome
		step    *framework.Proposal
		before  status
		want    status
	}{
		"the first step of a held change": {
			outcome: Progressing, step: step, before: status{Phase: berthv1alpha1.PhaseHeld, Holds: holds, PermittedTime: &before},
			want: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before, LastProgressTime: &now, Remaining: left, Message: "2 of 3 added, 0 of 2 removed"},
		},
		"no step": {
			outcome: Progressing, before: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before, LastProgressTime: &before},
			want: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before, LastProgressTime: &before, Remaining: left, Message: "2 of 3 added, 0 of 2 removed"},
		},
		"pages are restored": {
			outcome: Progressing, step: &framework.Proposal{Restores: true}, before: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before},
			want: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before, Remaining: left, Message: "2 of 3 added, 0 of 2 removed"},
		},
		"published": {
			outcome: Published, step: step, before: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before, Message: "2 of 3", Remaining: left, Holds: holds},
			want: status{Phase: berthv1alpha1.PhasePublished, PermittedTime: &before, LastProgressTime: &now, CompletionTime: &now},
		},
		"published without a recorded permission": {
			outcome: Published, step: step, before: status{Phase: berthv1alpha1.PhaseHeld},
			want: status{Phase: berthv1alpha1.PhasePublished, PermittedTime: &now, LastProgressTime: &now, CompletionTime: &now},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(lastOf())
			record := recordOf(3, tc.before.Phase, "a")
			tc.before.StartTime, tc.want.StartTime = &before, &before
			record.Status = tc.before
			a.Outcome, a.Step, a.progress, a.Change = tc.outcome, tc.step, progressing, &Move{Proposal: &framework.Proposal{}, open: record}
			writes := a.RecordsAfter()
			if len(writes) != 1 {
				t.Fatalf("%d writes", len(writes))
			}
			if diff := cmp.Diff(tc.want, writes[0].Status); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSupersededMessages: why an open record ends, and how many clusters its steps left.
func TestSupersededMessages(t *testing.T) {
	permitted := &metav1.Time{Time: fixture.Now}
	record := func(permitted *metav1.Time, truncated bool) *berthv1alpha1.PlacementChange {
		r := recordOf(2, berthv1alpha1.PhaseHeld, "x", "y")
		r.Spec.Added, r.Spec.AddedCount, r.Spec.Removed, r.Spec.RemovedCount = []string{"x", "y"}, 2, []string{"a", "b", "c"}, 3
		r.Spec.Truncated, r.Status.PermittedTime = truncated, permitted
		return r
	}
	const held = "superseded while the phase was Held: start"
	for name, tc := range map[string]struct {
		outcome       Outcome
		record        *berthv1alpha1.PlacementChange
		others        bool // the record is of another change
		want          string
		wantRemaining *berthv1alpha1.RemainingClusters
	}{
		"the change is denied":        {outcome: Denied, record: record(nil, false), want: "Change 2 (0 added, 0 removed) is denied by x"},
		"another change is denied":    {outcome: Denied, record: record(nil, false), others: true, want: held},
		"nothing changes any more":    {outcome: Unchanged, record: record(nil, false), others: true, want: held},
		"after a step":                {outcome: Unchanged, record: record(permitted, false), others: true, want: held, wantRemaining: &berthv1alpha1.RemainingClusters{Added: 1, Removed: 1}},
		"after a step, not all known": {outcome: Unchanged, record: record(permitted, true), others: true, want: held},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(lastOf("a", "x"))
			a.Snapshot.Subject.Records, a.Outcome, a.why, a.Change = []*berthv1alpha1.PlacementChange{tc.record}, tc.outcome, "x", &Move{Proposal: &framework.Proposal{Revision: 2}}
			if !tc.others {
				a.Change.open = tc.record
			}
			writes := supersededBy(a, metav1.NewTime(fixture.Now))
			if len(writes) != 1 {
				t.Fatalf("%d writes", len(writes))
			}
			status := writes[0].Status
			if diff := cmp.Diff(tc.want, status.Message); diff != "" || status.Phase != berthv1alpha1.PhaseSuperseded {
				t.Errorf("%s (-want +got):\n%s", status.Phase, diff)
			}
			if diff := cmp.Diff(tc.wantRemaining, status.Remaining); diff != "" {
				t.Errorf("remaining (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIsNewOutcome: an outcome with a record is new when the record is written, another one when
// the condition has another reason.
func TestIsNewOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome          Outcome
		record, recorded bool
		condition        string
		want             bool
	}{
		"held, and recorded":                        {outcome: Held, record: true, recorded: true, condition: "Held", want: true},
		"held, as recorded before":                  {outcome: Held, record: true},
		"held, without a record":                    {outcome: Held, want: true},
		"held without a record, as reported before": {outcome: Held, condition: "Held"},
		"denied":                             {outcome: Denied, record: true, want: true},
		"denied, another record was written": {outcome: Denied, record: true, recorded: true, condition: "Denied"},
		"denied, and held before":            {outcome: Denied, condition: "Held", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Outcome, a.recorded, a.Change = tc.outcome, tc.recorded, &Move{Proposal: &framework.Proposal{Revision: 2}}
			if tc.record {
				a.Change.open = recordOf(2, berthv1alpha1.PhaseHeld)
			}
			if tc.condition != "" {
				pl := a.Snapshot.Subject.Placement.DeepCopy()
				pl.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionDecisionPending, Reason: tc.condition}}
				a.Snapshot.Subject.Placement = pl
			}
			if got := a.IsNewOutcome(); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestHistory: a published change without a record gets one.
func TestHistory(t *testing.T) {
	change := &framework.Proposal{Revision: 4, Added: []string{"a"}}
	for name, tc := range map[string]struct {
		outcome Outcome
		err     *framework.Status
		step    *framework.Proposal
		record  bool
		want    bool
	}{
		"published":        {outcome: Published, step: change, want: true},
		"held":             {outcome: Held, step: change},
		"failed":           {outcome: Published, step: change, err: framework.NewStatus(framework.Error, "down")},
		"no cluster":       {outcome: Published, step: &framework.Proposal{Revision: 4}},
		"recorded already": {outcome: Published, step: change, record: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Outcome, a.Err, a.Step, a.Change = tc.outcome, tc.err, tc.step, &Move{Proposal: tc.step}
			if tc.record {
				a.Change.open = recordOf(4, berthv1alpha1.PhaseHeld)
			}
			revision, _, ok := a.History()
			if ok != tc.want || ok && revision != 4 {
				t.Errorf("got %t, revision %d", ok, revision)
			}
		})
	}
}

// TestResolvePermit combines the answers of plugins and of users.
func TestResolvePermit(t *testing.T) {
	until := fixture.Now.Add(time.Hour)
	waits := map[string]*framework.Status{"x": framework.NewStatus(framework.Wait, "why")}
	ended := func(phase berthv1alpha1.ChangePhase) *Move {
		return &Move{ended: recordOf(2, phase, "a")}
	}
	for name, tc := range map[string]struct {
		state    *Move
		approved bool
		waits    map[string]*framework.Status
		until    time.Time
		want     Outcome
	}{
		"nothing holds it":                          {state: &Move{}, want: Published},
		"a plugin holds it":                         {state: &Move{}, waits: waits, until: until, want: Held},
		"its time is over":                          {state: &Move{}, waits: waits, until: fixture.Now, want: Expired},
		"it was rejected":                           {state: ended(berthv1alpha1.PhaseRejected), want: Rejected},
		"it has expired, and a plugin holds it":     {state: ended(berthv1alpha1.PhaseExpired), waits: waits, until: until, want: Expired},
		"it has expired, and no plugin holds it":    {state: ended(berthv1alpha1.PhaseExpired), want: Published},
		"it was rejected, then approved":            {state: ended(berthv1alpha1.PhaseRejected), approved: true, want: Published},
		"it is approved, and a plugin holds it":     {state: ended(berthv1alpha1.PhaseRejected), approved: true, waits: waits, until: until, want: Held},
		"a plugin rejected it":                      {state: &Move{answers: framework.Answers{Rejected: "x: no"}}, waits: waits, until: until, want: Rejected},
		"a plugin rejected it, but a user approved": {state: &Move{answers: framework.Answers{Rejected: "x: no"}}, approved: true, want: Published},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			tc.state.Proposal = &framework.Proposal{Approved: tc.approved}
			got := a.resolvePermit(tc.waits, map[string]time.Time{"x": tc.until}, tc.state)
			if got.Outcome != tc.want {
				t.Errorf("got %s", got.Outcome)
			}
		})
	}
}

func TestDeniedOrWaiting(t *testing.T) {
	pending, denied := framework.NewStatus(framework.Pending, "why").WithPlugin("x"), framework.NewStatus(framework.Unschedulable, "no").WithPlugin("x")
	rejected := &Move{ended: recordOf(2, berthv1alpha1.PhaseRejected, "a")}
	for name, tc := range map[string]struct {
		status   *framework.Status
		state    *Move
		approved bool
		want     Outcome
	}{
		"pending":                             {status: pending, state: &Move{}, want: Waiting},
		"denied":                              {status: denied, state: &Move{}, want: Denied},
		"pending, but it was rejected before": {status: pending, state: rejected, want: Rejected},
		"pending, rejected, then approved":    {status: pending, state: rejected, approved: true, want: Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			tc.state.Proposal = &framework.Proposal{Approved: tc.approved}
			if got := deniedOrWaiting(tc.status, tc.state); got.Outcome != tc.want {
				t.Errorf("got %s", got.Outcome)
			}
		})
	}
}

// TestRecordsBefore: what is written before step 9, and that RecordsAfter does not repeat it.
func TestRecordsBefore(t *testing.T) {
	now, before := metav1.NewTime(fixture.Now), metav1.NewTime(fixture.Now.Add(-time.Hour))
	held := func(start *metav1.Time) *berthv1alpha1.PlacementChange {
		r := recordOf(2, berthv1alpha1.PhaseHeld, "a")
		r.Status.StartTime = start
		return r
	}
	other := recordOf(1, berthv1alpha1.PhaseHeld, "b")
	for name, tc := range map[string]struct {
		outcome   Outcome
		open      *berthv1alpha1.PlacementChange
		want      []string
		wantAfter []string
	}{
		"held, the first time":        {outcome: Held, want: []string{"1 Superseded", "2 Held 12:00"}},
		"held, without a start":       {outcome: Held, open: held(nil), want: []string{"2 Held 12:00"}, wantAfter: []string{"1 Superseded"}},
		"held, as before":             {outcome: Held, open: held(&before), want: []string{"2 Held 11:00"}, wantAfter: []string{"1 Superseded"}},
		"published at once":           {outcome: Published, wantAfter: []string{"1 Superseded"}},
		"published in steps":          {outcome: Progressing, want: []string{"1 Superseded", "2 Progressing 12:00"}, wantAfter: []string{"2 Progressing 12:00"}},
		"permitted after it was held": {outcome: Published, open: held(&before), want: []string{"2 Held 11:00"}, wantAfter: []string{"2 Published 11:00", "1 Superseded"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(lastOf())
			a.Outcome, a.Change, a.progress = tc.outcome, &Move{Proposal: &framework.Proposal{Revision: 2, Digest: "d", Added: []string{"a"}}, open: tc.open}, &progress{added: 1}
			a.Step, a.Holds = a.Change.Proposal, []berthv1alpha1.ChangeHold{{Plugin: "x"}}
			a.Snapshot.Subject.Records = []*berthv1alpha1.PlacementChange{other}
			if tc.open != nil {
				a.Snapshot.Subject.Records = append(a.Snapshot.Subject.Records, tc.open)
			}
			text := func(records []*berthv1alpha1.PlacementChange) []string {
				var all []string
				for _, r := range records {
					one := fmt.Sprintf("%d %s", r.Spec.Revision, r.Status.Phase)
					if r.Status.StartTime != nil {
						one += r.Status.StartTime.UTC().Format(" 15:04")
					}
					all = append(all, one)
				}
				return all
			}
			records, err := a.RecordsBefore()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, text(records)); diff != "" {
				t.Errorf("before, at %v (-want +got):\n%s", now, diff)
			}
			if diff := cmp.Diff(tc.wantAfter, text(a.RecordsAfter())); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}
