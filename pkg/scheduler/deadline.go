package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// cycleDeadline limits the time for which one attempt holds the cycle lock. Decide and Explain have
// none (nil). A cycle that it stops decides nothing.
type cycleDeadline struct {
	clock   clock.WithDelayedExecution
	began   time.Time
	timeout time.Duration
	timer   clock.Timer
	cancel  context.CancelCauseFunc
	// passed is set by the timer, so that checking it does not read the clock.
	passed atomic.Bool
}

type deadlineKey struct{}

// startDeadline starts the deadline of a cycle and returns a context that ends with it.
func (s *Scheduler) startDeadline(ctx context.Context) (context.Context, *cycleDeadline) {
	d := &cycleDeadline{clock: s.Clock, began: s.Clock.Now(), timeout: s.CycleTimeout}
	if d.timeout <= 0 {
		return ctx, d
	}
	ctx, d.cancel = context.WithCancelCause(ctx)
	d.timer = s.Clock.AfterFunc(d.timeout, func() {
		d.passed.Store(true)
		d.cancel(fmt.Errorf("cycleTimeout of %s: %w", d.timeout, context.DeadlineExceeded))
	})
	return context.WithValue(ctx, deadlineKey{}, d), d
}

// stop ends the cycle and returns how long it elapsed.
func (d *cycleDeadline) stop() time.Duration {
	if d.timer != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
	return d.clock.Since(d.began)
}

// halfTimePassed reports whether half of the cycle's time has passed.
func (d *cycleDeadline) halfTimePassed() bool { return d.clock.Since(d.began) >= d.timeout/2 }

// partPassed reports whether the time for a part of work that later cycles continue has passed.
func (d *cycleDeadline) partPassed() bool { return d.clock.Since(d.began) >= d.timeout/8 }

func deadlineOf(ctx context.Context) *cycleDeadline {
	d, _ := ctx.Value(deadlineKey{}).(*cycleDeadline)
	return d
}

// deadlinePassed reports whether the deadline of the cycle has passed.
func (r *Result) deadlinePassed() bool { return r.deadline != nil && r.deadline.passed.Load() }

// timeout returns an Error if the cycle's deadline has passed, otherwise nil. point and plugin are
// what ran. For the engine's own steps, point is Snapshot or Select and plugin is empty.
func (r *Result) timeout(point, plugin string) *framework.Status {
	if !r.deadlinePassed() {
		return nil
	}
	d := r.deadline
	return framework.AsStatus(&timeoutError{point: point, timeout: d.timeout, elapsed: d.clock.Since(d.began).Round(time.Millisecond)}).WithPlugin(plugin)
}

// TimedOut returns the extension point and the plugin that ran when the cycle's deadline passed; ok
// is false if it did not pass. For the engine's own steps, point is Snapshot or Select and plugin
// is empty.
func (r *Result) TimedOut() (point, plugin string, ok bool) {
	if e := timeoutErrorOf(r.Failure); e != nil {
		return e.point, r.Failure.Plugin(), true
	}
	return "", "", false
}

// FirstTimeout reports whether this cycle timed out and the previous one for the same generation of
// the Placement did not. It is false if the attempt has something to publish other than Target.
func (a *Attempt) FirstTimeout() bool {
	return a.timeouts == 1 && (a.Step == nil || a.Step == a.Target)
}

// timeoutErrorOf returns the timeoutError in a Status; nil if there is none.
func timeoutErrorOf(status *framework.Status) *timeoutError {
	if status.Code() != framework.Error {
		return nil
	}
	var e *timeoutError
	errors.As(status.Err(), &e)
	return e
}

// timeoutError is the error of a cycle that the deadline stopped.
type timeoutError struct {
	point            string
	timeout, elapsed time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the cycle was stopped in %s after %s; cycleTimeout is %s", e.point, e.elapsed, e.timeout)
}

func (*timeoutError) Unwrap() error { return context.DeadlineExceeded }
