package scheduler

import (
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestEffects says for each outcome what it means for the condition, the event, the record and the
// next attempt.
func TestEffects(t *testing.T) {
	want := map[Outcome]Effects{
		"Unchanged":   {Supersedes: true, Ends: true},
		"Undecided":   {Keep: true},
		"Published":   {Phase: "Published", Supersedes: true},
		"Progressing": {Phase: "Progressing", Supersedes: true},
		"Held":        {Pending: "True", Event: "DecisionHeld", Phase: "Held", Supersedes: true},
		"Waiting":     {Pending: "True", RetryAfter: 10 * time.Second, Supersedes: true},
		"Denied":      {Pending: "False", Event: "DecisionDenied", Supersedes: true, Ends: true},
		"Rejected":    {Pending: "False", Event: "DecisionRejected", Phase: "Rejected", Supersedes: true},
		"Expired":     {Pending: "False", Event: "DecisionExpired", Phase: "Expired", Supersedes: true},
		"Failed":      {Keep: true},
	}
	if diff := gocmp.Diff(want, effects); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// TestMessages has the message of each outcome that describes a change.
func TestMessages(t *testing.T) {
	until := metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	change := &framework.Proposal{Revision: 3, Added: []string{"a"}, Removed: []string{"b", "c"}}
	const named = "Change 3 (1 added: a, 2 removed: b c) "
	const approve = ". The published decision stays. To publish the change, approve it: kubectl placement approve placementchange/p-3 -n ns"
	const onlyX, all = ". An approval does not end the hold by x", ". An approval does not end the hold by x and y"
	holds := []berthv1alpha1.ChangeHold{{Plugin: "x", Reason: "why", Until: &until}, {Plugin: "y", Reason: "too"}}
	approved := *change
	approved.Approved = true
	tests := map[string]struct {
		attempt Attempt
		want    string
	}{
		"unchanged": {attempt: Attempt{Verdict: Verdict{Outcome: Unchanged}}},
		"published": {attempt: Attempt{Verdict: Verdict{Outcome: Published}}},
		"held": {
			attempt: Attempt{Verdict: Verdict{Outcome: Held, Holds: holds}},
			want:    named + "is held by x until 2026-08-01T12:00:00Z: why; y: too. To approve it: kubectl placement approve placementchange/p-3 -n ns",
		},
		"held, an approval is not enough": {
			attempt: Attempt{Verdict: Verdict{Outcome: Held, Holds: holds, stillHeldBy: []string{"x"}}},
			want: named + "is held by x until 2026-08-01T12:00:00Z: why; y: too" + onlyX +
				". To approve it: kubectl placement approve placementchange/p-3 -n ns",
		},
		"held, an approval does not help": {
			attempt: Attempt{Verdict: Verdict{Outcome: Held, Holds: holds, stillHeldBy: []string{"x", "y"}}},
			want:    named + "is held by x until 2026-08-01T12:00:00Z: why; y: too" + all,
		},
		"held and approved": {
			attempt: Attempt{Verdict: Verdict{Outcome: Held, Holds: holds}, Change: &Move{Proposal: &approved}},
			want:    named + "is held by x until 2026-08-01T12:00:00Z: why; y: too. It is approved",
		},
		"waiting":  {attempt: Attempt{Verdict: Verdict{Outcome: Waiting, why: "a fact"}}, want: named + "waits for a fact"},
		"denied":   {attempt: Attempt{Verdict: Verdict{Outcome: Denied, why: "x"}}, want: named + "is denied by x"},
		"rejected": {attempt: Attempt{Verdict: Verdict{Outcome: Rejected, why: "ann"}}, want: named + "was rejected by ann" + approve},
		"expired":  {attempt: Attempt{Verdict: Verdict{Outcome: Expired}}, want: named + "was not approved in time" + approve},
		"rejected, an approval is not enough": {
			attempt: Attempt{Verdict: Verdict{Outcome: Rejected, why: "ann", stillHeldBy: []string{"x"}}},
			want:    named + "was rejected by ann" + strings.Replace(approve, " stays", " stays"+onlyX, 1),
		},
		"expired, an approval is not enough": {
			attempt: Attempt{Verdict: Verdict{Outcome: Expired, Holds: holds, stillHeldBy: []string{"x"}}},
			want:    named + "was not approved in time" + strings.Replace(approve, " stays", " stays"+onlyX, 1),
		},
		"expired without one that an approval ends": {
			attempt: Attempt{Verdict: Verdict{Outcome: Expired, Holds: holds, stillHeldBy: []string{"x", "y"}}},
			want:    named + "was not permitted in time" + strings.Replace(approve, " stays", " stays"+all, 1),
		},
		"ended": {attempt: Attempt{Verdict: Verdict{Outcome: Expired, message: "as the record says"}}, want: "as the record says"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.attempt.Result, tc.attempt.Change = resultFor(), cmp.Or(tc.attempt.Change, &Move{Proposal: change})
			if got := tc.attempt.Message(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestCause: an event comes before the time that an earlier attempt asked for.
func TestCause(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		cause  string
		timers framework.Timers
		want   string
	}{
		"an event":              {cause: "Placement: spec", timers: framework.Timers{NextAttempt: now, NextAttemptCause: "timer"}, want: "Placement: spec"},
		"the time has come":     {timers: framework.Timers{NextAttempt: now, NextAttemptCause: "toleration expired"}, want: "toleration expired"},
		"the time is past":      {timers: framework.Timers{NextAttempt: now.Add(-time.Second), NextAttemptCause: "timer"}, want: "timer"},
		"before the time":       {timers: framework.Timers{NextAttempt: now.Add(time.Second), NextAttemptCause: "timer"}, want: "retry"},
		"nothing was asked for": {want: "retry"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := Attempt{Result: resultFor()}
			a.Snapshot.Now, a.Snapshot.Cause, a.Snapshot.Timers = now, tc.cause, tc.timers
			if got := a.cause(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// resultFor is the Result of a Placement ns/p about which nothing else is known.
func resultFor() *Result {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	return &Result{Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: pl}}}
}
