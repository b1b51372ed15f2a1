package limits

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestDeadline: plugins yield when exactly half of the time is over, and pause when an eighth is; a
// timeout tells that the deadline was exceeded.
func TestDeadline(t *testing.T) {
	clock, state := clocktesting.NewFakeClock(fixture.Now), framework.NewCycleState(nil)
	d := &Deadline{clock: clock, began: fixture.Now, timeout: 100 * time.Millisecond}
	d.Limit(state)
	for elapsed, want := range map[time.Duration]bool{0: false, 49 * time.Millisecond: false, 50 * time.Millisecond: true, 60 * time.Millisecond: true} {
		clock.SetTime(fixture.Now.Add(elapsed))
		if got := state.ShouldYield(); got != want {
			t.Errorf("after %s: %t", elapsed, got)
		}
	}
	for elapsed, want := range map[time.Duration]bool{0: false, 12 * time.Millisecond: false, 12500 * time.Microsecond: true} {
		clock.SetTime(fixture.Now.Add(elapsed))
		if got := state.ShouldPause(); got != want {
			t.Errorf("after %s: the part is over: %t", elapsed, got)
		}
	}
	if err := error(&TimeoutError{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestStopEndsTheDeadline: its timer and its context.
func TestStopEndsTheDeadline(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	l := Limits{Clock: clock, CycleTimeout: time.Second}
	ctx, d := l.Start(t.Context())
	if !clock.HasWaiters() || ctx.Err() != nil {
		t.Fatal("no deadline was started")
	}
	clock.Step(time.Millisecond)
	if elapsed := d.Stop(); elapsed != time.Millisecond || clock.HasWaiters() || ctx.Err() == nil {
		t.Errorf("after %s: timer %t, context %v", elapsed, clock.HasWaiters(), ctx.Err())
	}
}
