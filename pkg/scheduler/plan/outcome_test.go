package plan

import (
	"cmp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEffects says for each outcome what it means for the condition, the event, the record and the
// next attempt.
func TestEffects(t *testing.T) {
	want := map[Outcome]Effects{
		"Unchanged":   {EndsOthers: true, EndsOwn: true},
		"Undecided":   {Keep: true},
		"Published":   {Phase: "Published", EndsOthers: true},
		"Progressing": {Phase: "Progressing", EndsOthers: true},
		"Held":        {DecisionPending: "True", Event: "DecisionHeld", Phase: "Held", EndsOthers: true},
		"Waiting":     {DecisionPending: "True", RetryAfter: 10 * time.Second, EndsOthers: true},
		"Denied":      {DecisionPending: "False", Event: "DecisionDenied", EndsOthers: true, EndsOwn: true},
		"Rejected":    {DecisionPending: "False", Event: "DecisionRejected", Phase: "Rejected", EndsOthers: true},
		"Expired":     {DecisionPending: "False", Event: "DecisionExpired", Phase: "Expired", EndsOthers: true},
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
	edited := &berthv1alpha1.PlacementChange{
		ObjectMeta: metav1.ObjectMeta{Name: "p-3"}, Spec: berthv1alpha1.PlacementChangeSpec{Revision: 3, Before: `{"numberOfClusters":1}`},
	}
	approved := *change
	approved.Approved = true
	tests := map[string]struct {
		plan Plan
		want string
	}{
		"unchanged": {plan: Plan{Verdict: Verdict{Answer: Unchanged}}},
		"published": {plan: Plan{Verdict: Verdict{Answer: Published}}},
		"held": {
			plan: Plan{Verdict: Verdict{Answer: Held, Holds: holds}},
			want: named + "is held by x: why (expires 2026-08-01T12:00:00Z if not approved); y: too. To approve it: kubectl placement approve placementchange/p-3 -n ns",
		},
		"held, an approval is not enough": {
			plan: Plan{Verdict: Verdict{Answer: Held, Holds: holds, stillHeldBy: []string{"x"}}},
			want: named + "is held by x: why (expires 2026-08-01T12:00:00Z); y: too" + onlyX +
				". To approve it: kubectl placement approve placementchange/p-3 -n ns",
		},
		"held, an approval does not help": {
			plan: Plan{Verdict: Verdict{Answer: Held, Holds: holds, stillHeldBy: []string{"x", "y"}}},
			want: named + "is held by x: why (expires 2026-08-01T12:00:00Z); y: too" + all,
		},
		"held and approved": {
			plan: Plan{Verdict: Verdict{Answer: Held, Holds: holds}, Change: &Move{Proposal: &approved}},
			want: named + "is held by x: why (expires 2026-08-01T12:00:00Z); y: too. It is approved",
		},
		"waiting":  {plan: Plan{Verdict: Verdict{Answer: Waiting, Reason: "a fact"}}, want: named + "waits for a fact"},
		"denied":   {plan: Plan{Verdict: Verdict{Answer: Denied, Reason: "x"}}, want: named + "is denied by x"},
		"rejected": {plan: Plan{Verdict: Verdict{Answer: Rejected, Reason: "ann"}}, want: named + "was rejected by ann" + approve},
		"expired":  {plan: Plan{Verdict: Verdict{Answer: Expired}}, want: named + "was not approved in time" + approve},
		"rejected, after an edit": {
			plan: Plan{Verdict: Verdict{Answer: Rejected, Reason: "ann"}, Change: &Move{Proposal: change, Open: edited}},
			want: named + "was rejected by ann" + approve + ". To give it up, undo the edit: kubectl placement undo p -n ns",
		},
		"expired, after an edit": {
			plan: Plan{Verdict: Verdict{Answer: Expired}, Change: &Move{Proposal: change, ended: edited}},
			want: named + "was not approved in time" + approve + ". To give it up, undo the edit: kubectl placement undo p -n ns",
		},
		"rejected, an approval is not enough": {
			plan: Plan{Verdict: Verdict{Answer: Rejected, Reason: "ann", stillHeldBy: []string{"x"}}},
			want: named + "was rejected by ann" + strings.Replace(approve, " stays", " stays"+onlyX, 1),
		},
		"expired, an approval is not enough": {
			plan: Plan{Verdict: Verdict{Answer: Expired, Holds: holds, stillHeldBy: []string{"x"}}},
			want: named + "was not approved in time" + strings.Replace(approve, " stays", " stays"+onlyX, 1),
		},
		"expired without one that an approval ends": {
			plan: Plan{Verdict: Verdict{Answer: Expired, Holds: holds, stillHeldBy: []string{"x", "y"}}},
			want: named + "was not permitted in time" + strings.Replace(approve, " stays", " stays"+all, 1),
		},
		"ended": {plan: Plan{Verdict: Verdict{Answer: Expired, message: "as the record says"}}, want: "as the record says"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.plan.Outcome, tc.plan.Decision, tc.plan.Change = tc.plan.Answer, decisionOn(nil), cmp.Or(tc.plan.Change, &Move{Proposal: change})
			if got := tc.plan.Message(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestDeferredChange: the message of a change in progress says what comes next, and what that waits
// for. It cannot be approved yet.
func TestDeferredChange(t *testing.T) {
	until := metav1.NewTime(fixture.Now.Add(time.Hour))
	for name, tc := range map[string]struct {
		deferred Deferred
		want     string
	}{
		"a change": {Deferred{Move: &Move{Proposal: &framework.Proposal{Added: []string{"a"}, Revision: 3}}}, "change 3 follows"},
		"none":     {Deferred{Move: &Move{Proposal: &framework.Proposal{Revision: 3}}}, "the selected clusters are published, and end the change"},
		"a held change": {
			Deferred{&Move{Proposal: &framework.Proposal{Removed: []string{"a"}, Revision: 3}}, Verdict{Holds: []berthv1alpha1.ChangeHold{{Plugin: "x", Reason: "r", Until: &until}}}},
			"change 3 follows: it waits for x: r (expires 2026-08-01T13:00:00Z)",
		},
		"a waiting change": {
			Deferred{&Move{Proposal: &framework.Proposal{Removed: []string{"a"}, Revision: 3}}, Verdict{Reason: "x: busy"}}, "change 3 follows: it waits for x: busy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.deferred.describe(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestForcedRemovalsOfAHeldChange are made only while plugins that permit them hold it.
func TestForcedRemovalsOfAHeldChange(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome Outcome
		heldBy  []string
	}{
		"held by a plugin that does not permit them": {Held, []string{"x"}},
		"expired because another one failed":         {Expired, nil},
		"waiting":                                    {Waiting, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(nil))
			a.Outcome, a.heldBy = tc.outcome, tc.heldBy
			if a.holdsPermitForced() {
				t.Error("permitted")
			}
		})
	}
}
