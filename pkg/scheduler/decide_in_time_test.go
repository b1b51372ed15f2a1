package scheduler_test

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// watcher is a plugin that uses the cycle's time in PreFilter, and sets an expiry for each cluster
// in Filter.
type watcher struct {
	bare
	clock        *clocktesting.FakeClock
	takes        time.Duration
	yields       bool
	expiry, rank time.Time
}

func (w *watcher) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if w.clock != nil {
		w.clock.Step(w.takes)
	}
	w.yields = state.ShouldYield()
	return nil, nil
}

func (w *watcher) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if !w.expiry.IsZero() {
		state.SetFilterExpiry(cluster.Index, w.expiry)
	}
	if !w.rank.IsZero() {
		state.SetRankExpiry(cluster.Index, w.rank)
	}
	return nil
}

func watching(w *watcher) *scheduler.Scheduler {
	return scheduler.New(map[string]*plugins.Profile{"default": {PreFilter: []framework.PreFilterPlugin{w}, Filter: []framework.FilterPlugin{w}}}, nil)
}

// TestPluginsYieldInTime: after half of CycleTimeout, but not without a limit.
func TestPluginsYieldInTime(t *testing.T) {
	inv := fleet(ask(), fixture.Cluster("a"))
	for name, tc := range map[string]struct {
		takes time.Duration
		want  bool
	}{
		"less than half": {takes: 49 * time.Millisecond},
		"half":           {takes: 50 * time.Millisecond, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(fixture.Now)
			w := &watcher{bare: bare{"w"}, clock: clock, takes: tc.takes}
			s := watching(w)
			s.Clock, s.CycleTimeout = clock, 100*time.Millisecond
			s.DecideInTime(t.Context(), inv.Snapshot(key, fixture.Now, nil))
			if w.yields != tc.want {
				t.Errorf("got %t", w.yields)
			}
			if s.Decide(t.Context(), inv.Snapshot(key, fixture.Now, nil)); w.yields {
				t.Error("it yields without a limit")
			}
		})
	}
}

// TestSlowDecisionsAreCharged to the namespace, and those of attempts as well. A namespace waits
// once it has used ten times CycleTimeout.
func TestSlowDecisionsAreCharged(t *testing.T) {
	inv := fleet(ask())
	decides := map[string]func(s *scheduler.Scheduler){
		"DecideInTime": func(s *scheduler.Scheduler) { s.DecideInTime(t.Context(), inv.Snapshot(key, fixture.Now, nil)) },
		"Attempt": func(s *scheduler.Scheduler) {
			s.Attempt(t.Context(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		},
	}
	for name, decide := range decides {
		for more, want := range map[time.Duration]bool{940 * time.Millisecond: true, 940*time.Millisecond - 1: false} {
			t.Run(name, func(t *testing.T) {
				clock := clocktesting.NewFakeClock(fixture.Now)
				s := watching(&watcher{bare: bare{"w"}, clock: clock, takes: 60 * time.Millisecond})
				s.Clock, s.CycleTimeout = clock, 100*time.Millisecond
				decide(s)
				s.ChargePreparation(fixture.Placement(key.Namespace, "second").Obj(), more)
				if got := s.AttemptDelay(fixture.Placement(key.Namespace, "third").Obj()); (got > 0) != want {
					t.Errorf("with %s more, another Placement of the namespace waits for %s", more, got)
				}
			})
		}
	}
}

// TestExpiryStartsAnAttempt: of a cluster that is selected for a time only, or whose score expires.
func TestExpiryStartsAnAttempt(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	for cause, w := range map[string]*watcher{"toleration expired": {expiry: at}, "AddOnPlacementScore expired": {rank: at}} {
		w.bare = bare{"w"}
		a := watching(w).Decide(t.Context(), fleet(ask(), fixture.Cluster("a")).Snapshot(key, fixture.Now, nil))
		if got := a.Timers; !got.NextAttempt.Equal(at) || got.NextAttemptCause != cause {
			t.Errorf("the next attempt is at %v: %s, want %s", got.NextAttempt, got.NextAttemptCause, cause)
		}
	}
}

// TestRemoveRevokedKeepsThePanic: the attempt after it reports the panic of the preparation.
func TestRemoveRevokedKeepsThePanic(t *testing.T) {
	h := newPanicHub(t, 2)
	h.in = "Prepare"
	h.scheduler.Prepare(h.inv.Placement(key))
	h.in = ""
	h.scheduler.RemoveRevoked(t.Context(), key.Namespace, h.snapshot)
	a := h.scheduler.Attempt(t.Context(), key.Namespace, h.snapshot)
	if got := a.Failure.Err(); got == nil || got.Error() != "Panicker: panic in Prepare: boom" {
		t.Errorf("the attempt fails with %v", got)
	}
}
