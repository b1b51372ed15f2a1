package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// lastPoints is a plugin at the points that reserve, permit and publish. It stores what it is
// called with.
type lastPoints struct {
	plain
	bindFails  bool
	bound      []framework.Proposal
	unreserved []*framework.Proposal
	forgotten  *[]string
	reserved   int
	whenBound  func()
}

func (p *lastPoints) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	p.reserved++
	return nil
}

func (p *lastPoints) Unreserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) {
	p.unreserved = append(p.unreserved, proposal)
}

func (p *lastPoints) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	return nil, 0
}

func (p *lastPoints) Bind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	p.bound = append(p.bound, *proposal)
	if p.whenBound != nil {
		p.whenBound()
	}
	if p.bindFails {
		return framework.NewStatus(framework.Error, "down")
	}
	return nil
}

func (p *lastPoints) Forget(types.NamespacedName) { *p.forgotten = append(*p.forgotten, p.name) }

// TestUpdateTimers: a measurement of removals goes on while the change waits.
func TestUpdateTimers(t *testing.T) {
	since := fixture.Now.Add(-time.Hour)
	for outcome, want := range map[Outcome]time.Time{Waiting: since, Failed: since, Held: {}, Published: {}, Progressing: {}} {
		t.Run(string(outcome), func(t *testing.T) {
			a := attemptOn(nil)
			a.Outcome, a.Target = outcome, &framework.Proposal{Digest: "d", Removed: []string{"a"}}
			a.timers.Change = framework.Stability{Digest: "d", Since: since, RemovingSince: since}
			a.timers.Revoked.RemovingSince = since
			a.updateTimers()
			if got := a.timers.Change; !got.RemovingSince.Equal(want) || !got.Since.Equal(since) || !a.timers.Revoked.RemovingSince.Equal(want) {
				t.Errorf("got %+v", a.timers)
			}
			if a.staysReserved() != (outcome == Progressing || outcome == Held || outcome == Waiting) {
				t.Errorf("reserved: %t", a.staysReserved())
			}
		})
	}
}

// TestStabilityOf: the same target goes on, another one begins.
func TestStabilityOf(t *testing.T) {
	before := framework.Stability{Digest: "d", Since: fixture.Now.Add(-time.Hour), RemovingSince: fixture.Now.Add(-time.Minute)}
	for name, tc := range map[string]struct {
		before framework.Stability
		p      *framework.Proposal
		want   framework.Stability
	}{
		"no change":                {before: before, p: &framework.Proposal{Digest: "d"}},
		"the same":                 {before: before, p: &framework.Proposal{Digest: "d", Removed: []string{"a"}}, want: before},
		"another one that removes": {before: before, p: &framework.Proposal{Digest: "e", Removed: []string{"a"}}, want: framework.Stability{Digest: "e", Since: fixture.Now, RemovingSince: before.RemovingSince}},
		"another one that adds":    {before: before, p: &framework.Proposal{Digest: "e", Added: []string{"a"}}, want: framework.Stability{Digest: "e", Since: fixture.Now}},
		"the first one":            {p: &framework.Proposal{Digest: "d", Removed: []string{"a"}}, want: framework.Stability{Digest: "d", Since: fixture.Now, RemovingSince: fixture.Now}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, stabilityOf(tc.before, tc.p, fixture.Now)); diff != "" {
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
			plugin := &lastPoints{plain: plain{name: "x"}}
			a := attemptOn(lastOf())
			a.profile, a.Outcome, a.reserved = &Profile{Reserve: []framework.ReservePlugin{plugin}}, Unchanged, tc.reserved
			if tc.change {
				a.Target = &framework.Proposal{Added: []string{"a"}}
			}
			New(nil, nil).transition(t.Context(), a, tc.dry)
			if len(plugin.unreserved) != tc.want {
				t.Errorf("%d times", len(plugin.unreserved))
			}
		})
	}
}

// TestPublishStores: what is remembered as published after step 9.
func TestPublishStores(t *testing.T) {
	target := &framework.Proposal{Clusters: []string{"a"}, Digest: framework.DigestOf([]string{"a"}), Added: []string{"a"}}
	scored := &framework.Proposal{Clusters: []string{"a"}, Writes: []framework.PageWrite{{Page: fixture.Page("ns", "p-decision-1").Obj()}}, Outcome: framework.Outcome{ScoresWritten: true}}
	for name, tc := range map[string]struct {
		step, target *framework.Proposal
		failure      *framework.Status
		last         *framework.Published
		timeouts     int
		bindFails    bool
		wantBound    int
		want         []string
	}{
		"the target":                         {step: target, target: target, wantBound: 1, want: []string{"a"}},
		"an empty page, nothing was decided": {step: target, target: target, failure: framework.NewStatus(framework.Pending, ""), wantBound: 1},
		"restored pages":                     {step: target, failure: framework.NewStatus(framework.Pending, ""), wantBound: 1, want: []string{"a"}},
		"a failed step":                      {step: target, target: target, last: lastOf("b"), bindFails: true, wantBound: 1},
		"a failed first step":                {step: scored, target: scored, bindFails: true, wantBound: 1},
		"scores before the failure":          {step: scored, target: scored, last: lastOf("b"), bindFails: true, wantBound: 1, want: []string{"b"}},
		"after the first timeout":            {step: target, target: target, timeouts: 1},
		"after the second timeout":           {step: target, target: target, timeouts: 2, wantBound: 1, want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &lastPoints{plain: plain{name: "x"}, bindFails: tc.bindFails}
			a := attemptOn(tc.last)
			a.profile = &Profile{Bind: []framework.BindPlugin{plugin}}
			a.Step, a.Target, a.Failure, a.timeouts, a.Outcome = tc.step, tc.target, tc.failure, tc.timeouts, Published
			var got []string
			s := New(nil, nil)
			s.StorePublished = func(_ *framework.Subject, last *framework.Published) {
				if got = last.Names; tc.bindFails && !last.ScoresAt.Equal(fixture.Now) {
					t.Errorf("the scores are of %v", last.ScoresAt)
				}
			}
			s.publish(t.Context(), a)
			if diff := cmp.Diff(tc.want, got); diff != "" || len(plugin.bound) != tc.wantBound {
				t.Errorf("%d steps, stored (-want +got):\n%s", len(plugin.bound), diff)
			}
			if (a.Step == nil) != (tc.timeouts == 1) {
				t.Errorf("the step is %v", a.Step)
			}
		})
	}
}

// TestPublishUnrecorded: if no record can be written, forced removals of a change in steps are
// published, and pages are restored.
func TestPublishUnrecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome  Outcome
		restores bool
		names    []string // published before; cluster b does not exist
		want     []framework.Proposal
		stored   []string
		reserved bool // what was reserved stays
	}{
		"a forced removal":   {outcome: Progressing, names: []string{"a", "b"}, want: []framework.Proposal{{Clusters: []string{"a"}, Revision: 7, Partial: true, Forced: true}}, stored: []string{"a"}, reserved: true},
		"no forced removal":  {outcome: Progressing, names: []string{"a"}},
		"a change at once":   {outcome: Published, names: []string{"a", "b"}},
		"pages are restored": {outcome: Held, names: []string{"a"}, restores: true, want: []framework.Proposal{{Clusters: []string{"a"}, Revision: 5}}, stored: []string{"a"}, reserved: true},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &lastPoints{plain: plain{name: "x"}}
			last := lastOf(tc.names...)
			last.Restored = true
			a := attemptOn(last, fixture.Cluster("a").Set("s"))
			a.profile = &Profile{Bind: []framework.BindPlugin{plugin}, Reserve: []framework.ReservePlugin{plugin}}
			a.Outcome, a.Change = tc.outcome, &Move{Proposal: &framework.Proposal{Revision: 7}}
			a.Step = &framework.Proposal{Clusters: []string{"a"}, Revision: 5, Restores: tc.restores}
			s, stored := New(nil, nil), []string(nil)
			s.StorePublished = func(_ *framework.Subject, last *framework.Published) { stored = last.Names }
			s.WriteRecordsBefore = func(context.Context, *Attempt) error { return errors.New("down") }
			s.publish(t.Context(), a)
			var got []framework.Proposal
			for _, p := range plugin.bound {
				got = append(got, framework.Proposal{Clusters: p.Clusters, Revision: p.Revision, Partial: p.Partial, Forced: p.Forced})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.stored, stored); diff != "" || a.Err.IsSuccess() {
				t.Errorf("stored with error %v (-want +got):\n%s", a.Err.Err(), diff)
			}
			if (len(plugin.unreserved) == 0) != tc.reserved {
				t.Errorf("%d times unreserved", len(plugin.unreserved))
			}
		})
	}
}

// TestForgetReachesPlugins: the engine and the plugins of all points forget a deleted Placement.
func TestForgetReachesPlugins(t *testing.T) {
	var forgotten []string
	plugins := instances{}
	for _, name := range []string{"publishes", "reports", "reserves", "scores"} {
		plugins[name] = instance{Plugin: &lastPoints{plain: plain{name: name}, forgotten: &forgotten}}
	}
	s := New(map[string]*Profile{"default": {plugins: plugins}}, nil)
	pl := fixture.Placement("ns", "p").Obj()
	key := types.NamespacedName{Namespace: "ns", Name: "p"}
	s.timers[key] = timers{}
	s.shares.recordAttempt(pl, time.Second, time.Second, CycleTimedOut, fixture.Now)
	s.Forget(key)
	if diff := cmp.Diff([]string{"publishes", "reports", "reserves", "scores"}, forgotten); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(s.timers)+len(s.shares.placements) > 0 {
		t.Errorf("%d timers and %d shares are left", len(s.timers), len(s.shares.placements))
	}
}

// TestOnlyAttemptsReserve: Decide and DecideInTime change nothing. Step 9 does not hold the lock.
func TestOnlyAttemptsReserve(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*Scheduler, *framework.Snapshot)
		want int
	}{
		"Decide":       {do: func(s *Scheduler, snapshot *framework.Snapshot) { s.Decide(t.Context(), snapshot) }},
		"DecideInTime": {do: func(s *Scheduler, snapshot *framework.Snapshot) { s.DecideInTime(t.Context(), snapshot) }},
		"Attempt": {do: func(s *Scheduler, snapshot *framework.Snapshot) {
			s.Attempt(t.Context(), "ns", func() *framework.Snapshot { return snapshot })
		}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, free := &lastPoints{plain: plain{name: "x"}}, false
			s := New(map[string]*Profile{"default": {
				Filter: []framework.FilterPlugin{&plugin.plain}, Reserve: []framework.ReservePlugin{plugin}, Bind: []framework.BindPlugin{plugin},
			}}, nil)
			plugin.whenBound = func() {
				if free = s.cycle.TryLock(); free {
					s.cycle.Unlock()
				}
			}
			tc.do(s, attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
			if plugin.reserved != tc.want || len(plugin.bound) != tc.want || free != (tc.want > 0) {
				t.Errorf("%d reserved, %d published, unlocked: %t", plugin.reserved, len(plugin.bound), free)
			}
		})
	}
}

// TestUndecidedKeepsTheMeasurement of the last change.
func TestUndecidedKeepsTheMeasurement(t *testing.T) {
	a := attemptOn(nil)
	before := framework.Stability{Digest: "d", Since: fixture.Now.Add(-time.Hour)}
	a.Outcome, a.Failure, a.Target, a.timers.Change = Undecided, framework.NewStatus(framework.Pending, ""), &framework.Proposal{Digest: "e"}, before
	a.updateTimers()
	if diff := cmp.Diff(before, a.timers.Change); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStopEndsTheDeadline: its timer and its context.
func TestStopEndsTheDeadline(t *testing.T) {
	clock, s := clocktesting.NewFakeClock(fixture.Now), New(nil, nil)
	s.Clock, s.CycleTimeout = clock, time.Second
	ctx, d := s.startDeadline(t.Context())
	if !clock.HasWaiters() || ctx.Err() != nil {
		t.Fatal("no deadline was started")
	}
	clock.Step(time.Millisecond)
	if elapsed := d.stop(); elapsed != time.Millisecond || clock.HasWaiters() || ctx.Err() == nil {
		t.Errorf("after %s: timer %t, context %v", elapsed, clock.HasWaiters(), ctx.Err())
	}
}

// TestSinceOfAHeldChange: the time at which it was first held.
func TestSinceOfAHeldChange(t *testing.T) {
	c := NewHeldChanges()
	for revision, want := range map[int64]time.Time{1: fixture.Now, 2: fixture.Now.Add(time.Minute)} {
		c.release("u")
		c.hold(framework.HeldChange{UID: "u", Revision: 1, Since: fixture.Now}, framework.Answers{})
		c.hold(framework.HeldChange{UID: "u", Revision: revision, Since: fixture.Now.Add(time.Minute)}, framework.Answers{})
		if got := c.List()[0].Since; !got.Equal(want) {
			t.Errorf("revision %d is held since %v, want %v", revision, got, want)
		}
	}
}

// TestPartsAreCharged: a cycle that a later one continues counts as slow much earlier, because its
// Placement may have many of them.
func TestPartsAreCharged(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	for _, tc := range []struct {
		outcome string
		held    time.Duration
		want    time.Duration
	}{
		{CycleDecided, 250, 0},
		{CycleDecided, 251, 251},
		{CycleContinues, 62, 0},
		{CycleContinues, 63, 63},
		{CycleTimedOut, 1000, 1000},
	} {
		var s shares
		s.recordAttempt(pl, tc.held*time.Millisecond, time.Second, tc.outcome, fixture.Now)
		if got := s.used["ns"]; got != tc.want*time.Millisecond {
			t.Errorf("%s after %d ms: %s are charged, want %d ms", tc.outcome, tc.held, got, tc.want)
		}
	}
}

// TestSlowPreparationsMakeSlow: a Placement with fast attempts and slow preparations waits when its
// namespace has used up its share, until an attempt needed no slow preparation.
func TestSlowPreparationsMakeSlow(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	var s shares
	s.recordAttempt(pl, time.Millisecond, time.Second, CycleDecided, fixture.Now)
	for range 2 {
		s.chargePreparation(pl, time.Minute, time.Second, fixture.Now)
		for _, done := range []bool{false, true} {
			if done {
				s.recordAttempt(pl, time.Millisecond, time.Second, CycleContinues, fixture.Now)
			}
			if s.delay(pl, fixture.Now, time.Second) == 0 {
				t.Errorf("it does not wait, attempt done: %t", done)
			}
		}
		s.recordAttempt(pl, time.Millisecond, time.Second, CycleDecided, fixture.Now)
		if wait := s.delay(pl, fixture.Now, time.Second); wait != 0 {
			t.Errorf("it still waits for %s", wait)
		}
	}
	other := fixture.Placement("ns", "new").Obj()
	s.chargePreparation(other, time.Second, time.Second, fixture.Now)
	if s.delay(other, fixture.Now, time.Second) == 0 {
		t.Error("a new Placement with a slow preparation does not wait")
	}
}

// TestDelayIsOfOneSpec: a timeout delays neither another Placement of that name nor an edited one.
func TestDelayIsOfOneSpec(t *testing.T) {
	pl := fixture.Placement("ns", "p").Generation(1).Obj()
	edited, recreated := pl.DeepCopy(), pl.DeepCopy()
	edited.Generation, recreated.UID = 2, "other"
	var s shares
	s.recordAttempt(pl, time.Millisecond, time.Second, CycleTimedOut, fixture.Now)
	for of, want := range map[*v1alpha1.Placement]time.Duration{pl: 10 * time.Second, edited: 0, recreated: 0} {
		if got := s.delay(of, fixture.Now, time.Second); got != want {
			t.Errorf("%s of generation %d waits for %s, want %s", of.UID, of.Generation, got, want)
		}
	}
}
