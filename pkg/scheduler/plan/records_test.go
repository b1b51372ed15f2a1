package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRecordsAfter: the status of a change's record after a step.
func TestRecordsAfter(t *testing.T) {
	now, before := metav1.NewTime(fixture.Now), metav1.NewTime(fixture.Now.Add(-time.Hour))
	holds := []berthv1alpha1.ChangeHold{{Plugin: "x"}}
	progressing := &Progress{Added: 3, LeftAdded: 1, Removed: 2, LeftRemoved: 2}
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
			outcome: Progressing, step: &framework.Proposal{Kind: framework.Republication}, before: status{Phase: berthv1alpha1.PhaseProgressing, PermittedTime: &before},
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
			a := planOf(decisionOn(lastOf()))
			record := recordOf(3, tc.before.Phase, "a")
			tc.before.StartTime, tc.want.StartTime = &before, &before
			record.Status = tc.before
			a.Outcome, a.Publish, a.Progress, a.Change = tc.outcome, tc.step, progressing, &Move{Proposal: &framework.Proposal{}, Open: record}
			a.planRecords()
			writes := a.Records.After()
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
			a := planOf(decisionOn(lastOf("a", "x")))
			a.Snapshot.Subject.Records, a.Outcome, a.Reason, a.Change = []*berthv1alpha1.PlacementChange{tc.record}, tc.outcome, "x", &Move{Proposal: &framework.Proposal{Revision: 2}}
			if !tc.others {
				a.Change.Open = tc.record
			}
			a.planRecords()
			writes := a.Records.After()
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

// TestSuperseded: an open record of another change is Superseded. If its target is published, and
// it was permitted or has no status, it is Published: only its last write was lost.
func TestSuperseded(t *testing.T) {
	now := metav1.NewTime(fixture.Now)
	record := func(to string, phase berthv1alpha1.ChangePhase, permitted *metav1.Time) *berthv1alpha1.PlacementChange {
		return &berthv1alpha1.PlacementChange{
			Spec:   berthv1alpha1.PlacementChangeSpec{Revision: 2, To: to},
			Status: berthv1alpha1.PlacementChangeStatus{Phase: phase, PermittedTime: permitted},
		}
	}
	const held, superseded, published = berthv1alpha1.PhaseHeld, berthv1alpha1.PhaseSuperseded, berthv1alpha1.PhasePublished
	for name, tc := range map[string]struct {
		record *berthv1alpha1.PlacementChange
		last   *framework.Published
		want   []berthv1alpha1.ChangePhase
	}{
		"held, and not published":              {record: record("t", held, nil), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{superseded}},
		"held, and published by another one":   {record: record("t", held, nil), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{superseded}},
		"permitted and published":              {record: record("t", held, &now), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{published}},
		"permitted, and not published":         {record: record("t", held, &now), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{superseded}},
		"without status, and published":        {record: record("t", "", nil), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{published}},
		"without status, and not published":    {record: record("t", "", nil), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{superseded}},
		"without status, nothing is published": {record: record("t", "", nil), want: []berthv1alpha1.ChangePhase{superseded}},
		"not open":                             {record: record("t", berthv1alpha1.PhaseRejected, nil), last: &framework.Published{Digest: "t"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(tc.last))
			a.Outcome, a.Snapshot.Subject.Records = Unchanged, []*berthv1alpha1.PlacementChange{tc.record}
			a.planRecords()
			var got []berthv1alpha1.ChangePhase
			for _, write := range a.Records.After() {
				got = append(got, write.Status.Phase)
				if write.Status.CompletionTime == nil {
					t.Error("there is no completion time")
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordsBefore: what is written before step 9, and that it is not repeated after it.
func TestRecordsBefore(t *testing.T) {
	now, before := metav1.NewTime(fixture.Now), metav1.NewTime(fixture.Now.Add(-time.Hour))
	held := func(start *metav1.Time) *berthv1alpha1.PlacementChange {
		r := recordOf(2, berthv1alpha1.PhaseHeld, "a")
		r.CreationTimestamp, r.Status.StartTime = before, start
		return r
	}
	// Its first status could not be written.
	other := recordOf(1, "", "b")
	other.CreationTimestamp, other.Status.StartTime = before, nil
	for name, tc := range map[string]struct {
		outcome   Outcome
		open      *berthv1alpha1.PlacementChange
		want      []string
		wantAfter []string
	}{
		"held, the first time":        {outcome: Held, want: []string{"1 Superseded 11:00", "2 Held 12:00"}},
		"held, without a start":       {outcome: Held, open: held(nil), want: []string{"2 Held 11:00"}, wantAfter: []string{"1 Superseded 11:00"}},
		"held, as before":             {outcome: Held, open: held(&before), want: []string{"2 Held 11:00"}, wantAfter: []string{"1 Superseded 11:00"}},
		"published at once":           {outcome: Published, wantAfter: []string{"1 Superseded 11:00"}},
		"published in steps":          {outcome: Progressing, want: []string{"1 Superseded 11:00", "2 Progressing 12:00"}, wantAfter: []string{"2 Progressing 12:00"}},
		"permitted after it was held": {outcome: Published, open: held(&before), want: []string{"2 Held 11:00"}, wantAfter: []string{"2 Published 11:00", "1 Superseded 11:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(lastOf()))
			a.Outcome, a.Change, a.Progress = tc.outcome, &Move{Proposal: &framework.Proposal{Revision: 2, Digest: "d", Added: []string{"a"}}, Open: tc.open}, &Progress{Added: 1, LeftAdded: 1}
			a.Publish, a.Holds = a.Change.Proposal, []berthv1alpha1.ChangeHold{{Plugin: "x"}}
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
			a.planRecords()
			if diff := cmp.Diff(tc.want, text(a.Records.Before)); diff != "" {
				t.Errorf("before, at %v (-want +got):\n%s", now, diff)
			}
			if diff := cmp.Diff(tc.wantAfter, text(a.Records.After())); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideAgain: an attempt that ends an open record is repeated at once, but later for one that
// ends with the record of what was published: until that is written, all attempts would.
func TestDecideAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		phase    berthv1alpha1.ChangePhase
		revision int64
		due      bool
		want     bool
	}{
		"an open change":                    {phase: berthv1alpha1.PhaseHeld, revision: 2, due: true, want: true},
		"one without status":                {revision: 2, due: true, want: true},
		"that has a published revision":     {revision: 3, due: true},
		"one that is published in steps":    {phase: berthv1alpha1.PhaseProgressing, revision: 3, due: true, want: true},
		"before a restart it was published": {revision: 3, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf("a")
			last.Revision, last.RecordDue = tc.revision, tc.due
			a := planOf(decisionOn(last))
			a.Snapshot.Subject.Records = []*berthv1alpha1.PlacementChange{recordOf(3, tc.phase, "b")}
			a.Outcome = Waiting
			a.decideAgain()
			if after := a.State.NextAttempt().Sub(a.Snapshot.Now); after < 0 || after > time.Minute || (after == 0) != tc.want {
				t.Errorf("the next attempt is after %s", after)
			}
		})
	}
}
