package plan

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRememberTimers: a measurement of removals goes on while the change waits.
func TestRememberTimers(t *testing.T) {
	since := fixture.Now.Add(-time.Hour)
	for outcome, want := range map[Outcome]time.Time{Waiting: since, Failed: since, Held: {}, Published: {}, Progressing: {}} {
		t.Run(string(outcome), func(t *testing.T) {
			a := planOf(decisionOn(nil))
			a.Outcome, a.Target = outcome, &framework.Proposal{Digest: "d", Removed: []string{"a"}}
			a.Change = &Move{Proposal: a.Target}
			a.Timers.Change = framework.Stability{Digest: "d", Since: since, RemovingSince: since}
			a.Timers.Revoked.RemovingSince = since
			a.remember()
			if got := a.Timers.Change; !got.RemovingSince.Equal(want) || !got.Since.Equal(since) || !a.Timers.Revoked.RemovingSince.Equal(want) {
				t.Errorf("got %+v", a.Timers)
			}
			if a.Reserved != (outcome == Progressing || outcome == Held || outcome == Waiting) {
				t.Errorf("reserved: %t", a.Reserved)
			}
		})
	}
}

// TestUndecidedKeepsTheMeasurement of the last change.
func TestUndecidedKeepsTheMeasurement(t *testing.T) {
	d := decisionOn(nil)
	before := framework.Stability{Digest: "d", Since: fixture.Now.Add(-time.Hour)}
	d.Failure, d.Snapshot.Timers.Change = framework.NewStatus(framework.Pending, ""), before
	p := madeOf(t, d)
	if p.Outcome != Undecided || p.Target == nil {
		t.Errorf("%s, target %v", p.Outcome, p.Target)
	}
	if diff := cmp.Diff(before, p.Timers.Change); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnrecordedClustersAreForgotten: each attempt is told which clusters have no record yet.
func TestUnrecordedClustersAreForgotten(t *testing.T) {
	d := decisionOn(lastOf("a"))
	d.Snapshot.Timers.Unrecorded, d.Snapshot.Timers.UnrecordedAt = []string{"a"}, fixture.Now
	if p := madeOf(t, d); len(p.Timers.Unrecorded) > 0 || !p.Timers.UnrecordedAt.IsZero() {
		t.Errorf("%v at %s", p.Timers.Unrecorded, p.Timers.UnrecordedAt)
	}
}

// TestHeld: what is remembered of a held change after each outcome.
func TestHeld(t *testing.T) {
	until := metav1.NewTime(fixture.Now.Add(time.Hour))
	holds := []berthv1alpha1.ChangeHold{{Plugin: "x", Until: &until}}
	before, none := HeldChange{Keep: true}, HeldChange{}
	held := HeldChange{
		Change: &framework.HeldChange{
			Key: types.NamespacedName{Namespace: "ns", Name: "p"}, UID: "u", Revision: 2,
			Added: []string{"a"}, Removed: []string{"b"}, Plugins: map[string]time.Time{"x": until.Time}, Since: fixture.Now,
		},
		ID: framework.Answers{Revision: 2, From: "f", Digest: "d", Generation: 2},
	}
	for name, tc := range map[string]struct {
		outcome Outcome
		ended   bool
		holds   []berthv1alpha1.ChangeHold
		want    HeldChange
	}{
		"failed":                {outcome: Failed, want: before},
		"undecided":             {outcome: Undecided, want: before},
		"waiting, held as well": {outcome: Waiting, holds: holds, want: before},
		"waiting":               {outcome: Waiting, want: none},
		"held":                  {outcome: Held, holds: holds, want: held},
		"rejected":              {outcome: Rejected, holds: holds, want: held},
		"rejected by a person":  {outcome: Rejected, ended: true, want: none},
		"published":             {outcome: Published, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(nil))
			a.Snapshot.Subject.Placement = a.Snapshot.Subject.Placement.DeepCopy()
			a.Snapshot.Subject.Placement.UID = "u"
			a.Outcome, a.Verdict = tc.outcome, Verdict{endedBefore: tc.ended, Holds: tc.holds}
			a.Change = &Move{Proposal: &framework.Proposal{Revision: 2, Added: []string{"a"}, Removed: []string{"b"}, From: "f", Digest: "d"}, generation: 2}
			for _, hold := range tc.holds {
				a.Change.HeldBy = map[string]time.Time{hold.Plugin: hold.Until.Time}
			}
			a.remember()
			if diff := cmp.Diff(tc.want, a.Held); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreserveWhenNothingChanges: what a change in steps reserved is returned when it ends.
func TestUnreserveWhenNothingChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change, reserved, dry bool
		want                  int
	}{
		"the change has ended": {reserved: true, want: 1},
		"in a dry run":         {reserved: true, dry: true},
		"nothing was reserved": {},
		"the change goes on":   {reserved: true, change: true},
	} {
		t.Run(name, func(t *testing.T) {
			reserves, d := &reserver{name: "x"}, decisionOn(lastOf())
			if tc.change {
				d = selecting(lastOf())
			}
			d.Profile = &plugins.Profile{Reserve: []framework.ReservePlugin{reserves}}
			p := Make(t.Context(), d, Input{Reserved: tc.reserved, Dry: tc.dry, Limits: &limits.Limits{}})
			if reserves.unreserved != tc.want || IsChange(p.Target) != tc.change {
				t.Errorf("%d times, a change: %t", reserves.unreserved, IsChange(p.Target))
			}
		})
	}
}

// TestFirstTimeout: after the first timeout, nothing is published that the attempt chose.
func TestFirstTimeout(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	limited := &limits.Limits{Clock: clock, CycleTimeout: time.Second}
	_, deadline := limited.Start(t.Context())
	clock.Step(time.Second)
	for before, want := range map[int]Publication{0: Nothing, 1: Whole} {
		d := decisionOn(nil)
		d.Failure, d.Deadline = deadline.Timeout("Filter", "x"), deadline
		p := Make(t.Context(), d, Input{Timeouts: before, Limits: limited})
		if p.Publication() != want || (p.Publish == nil) != (want == Nothing) || p.Timeouts != before+1 || p.FirstTimeout() != (want == Nothing) {
			t.Errorf("timeout %d: it publishes %s %v", p.Timeouts, p.Publication(), p.Publish)
		}
		if at, wait := p.State.Requeue(), limited.TimeoutDelay(p.Timeouts); !at.Equal(fixture.Now.Add(wait)) {
			t.Errorf("timeout %d: the next attempt is at %v", p.Timeouts, at)
		}
	}
}

// expirer is a filter with which the toleration of each cluster expires, and that asks for an
// attempt.
type expirer struct{ expires, requeue time.Time }

func (*expirer) Name() string { return "x" }

func (e *expirer) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	state.RequeueAt(e.requeue)
	if !e.expires.IsZero() {
		state.SetFilterExpiry(0, e.expires)
	}
	return nil, nil
}

// TestNextAttemptCause: the timer, or what expires.
func TestNextAttemptCause(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	later := &framework.Eviction{Until: at.Add(time.Second)}
	for name, tc := range map[string]struct {
		expires  time.Time
		eviction *framework.Eviction
		want     string
	}{
		"a timer":                  {want: "timer"},
		"a toleration":             {expires: at, want: "toleration expired"},
		"the first of two":         {expires: at, eviction: later, want: "toleration expired"},
		"a timer before an expiry": {eviction: later, want: "timer"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := selecting(nil).Snapshot
			if tc.eviction != nil {
				snapshot.Subject.Evictions = append(snapshot.Subject.Evictions, *tc.eviction)
			}
			decider := decide.Decider{Profiles: map[string]*plugins.Profile{
				"default": {PreFilter: []framework.PreFilterPlugin{&expirer{tc.expires, at}}},
			}}
			p := madeOf(t, decider.Decide(t.Context(), decide.Request{Snapshot: snapshot}))
			if len(p.Selected) != 1 || p.Timers.NextAttemptCause != tc.want || !p.Timers.NextAttempt.Equal(at) {
				t.Errorf("%d selected, %s at %v, want %s", len(p.Selected), p.Timers.NextAttemptCause, p.Timers.NextAttempt, tc.want)
			}
		})
	}
}

// TestMeasuresReadiness: attempts follow while the time is not known since when a cluster is ready
// and, if a policy has a readiness source, while any cluster is measured.
func TestMeasuresReadiness(t *testing.T) {
	known, unknown := map[string]time.Time{"a": fixture.Now}, map[string]time.Time{"a": fixture.Now, "b": {}}
	for name, tc := range map[string]struct {
		since  map[string]time.Time
		source bool
		want   bool
	}{
		"nothing is measured":   {},
		"all are ready":         {since: known},
		"one is not":            {since: unknown, want: true},
		"a source":              {source: true},
		"a source, and all are": {since: known, source: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(lastOf()))
			a.Timers.ReadySince = tc.since
			a.Snapshot.Subject.DisruptionPolicies = []*berthv1alpha1.DisruptionPolicy{{}, {}}
			if tc.source {
				a.Snapshot.Subject.DisruptionPolicies[1].Spec.Readiness = &berthv1alpha1.ReadinessRequirement{}
			}
			if got := a.measuresReadiness(); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
