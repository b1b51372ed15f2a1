package limits

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Deadline limits the time for which one attempt holds the cycle lock. Cycles of simulations and
// explanations have none (nil). A cycle that it stops decides nothing.
type Deadline struct {
	clock   clock.WithDelayedExecution
	began   time.Time
	timeout time.Duration
	timer   clock.Timer
	cancel  context.CancelCauseFunc
	// passed is set by the timer, so that checking it does not read the clock.
	passed atomic.Bool
}

// Start starts the deadline of a cycle and returns a context that ends with it. Without a
// CycleTimeout it only measures.
func (l *Limits) Start(ctx context.Context) (context.Context, *Deadline) {
	d := &Deadline{clock: l.Clock, began: l.Clock.Now(), timeout: l.CycleTimeout}
	if d.timeout <= 0 {
		return ctx, d
	}
	ctx, d.cancel = context.WithCancelCause(ctx)
	d.timer = l.Clock.AfterFunc(d.timeout, func() {
		d.passed.Store(true)
		d.cancel(fmt.Errorf("cycleTimeout of %s: %w", d.timeout, context.DeadlineExceeded))
	})
	return ctx, d
}

// Stop ends the cycle and returns how long it took.
func (d *Deadline) Stop() time.Duration {
	if d.timer != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
	return d.clock.Since(d.began)
}

// Limit makes plugins yield after half of the time, and pause after the part of it for work that
// later cycles continue.
func (d *Deadline) Limit(state *framework.CycleState) {
	if d != nil && d.timeout > 0 {
		state.YieldWhen(func() bool { return d.clock.Since(d.began) >= d.timeout/2 })
		state.PauseWhen(func() bool { return d.clock.Since(d.began) >= d.timeout/8 })
	}
}

// Passed reports whether the deadline has passed.
func (d *Deadline) Passed() bool { return d != nil && d.passed.Load() }

// Timeout returns an Error if the deadline has passed, otherwise nil. point and plugin are what
// ran. For the engine's own steps, point is Snapshot or Select and plugin is empty.
func (d *Deadline) Timeout(point, plugin string) *framework.Status {
	if !d.Passed() {
		return nil
	}
	return framework.AsStatus(&TimeoutError{Point: point, timeout: d.timeout, elapsed: d.clock.Since(d.began).Round(time.Millisecond)}).WithPlugin(plugin)
}

// TimeoutOf returns the TimeoutError in a Status; nil if there is none.
func TimeoutOf(status *framework.Status) *TimeoutError {
	if status.Code() != framework.Error {
		return nil
	}
	var e *TimeoutError
	errors.As(status.Err(), &e)
	return e
}

// TimeoutError is the error of a cycle that the deadline stopped.
type TimeoutError struct {
	// Point is the extension point that ran.
	Point            string
	timeout, elapsed time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the cycle was stopped in %s after %s; cycleTimeout is %s", e.Point, e.elapsed, e.timeout)
}

// Unwrap returns context.DeadlineExceeded.
func (*TimeoutError) Unwrap() error { return context.DeadlineExceeded }
