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

// cycleDeadline bounds how long one attempt holds the cycle lock. nil has no deadline: simulations
// and explanations take as long as they need. It never changes an answer: a cycle that it stops
// decides nothing.
type cycleDeadline struct {
	clock   clock.WithDelayedExecution
	began   time.Time
	timeout time.Duration
	timer   clock.Timer
	cancel  context.CancelCauseFunc
	// passed is set by the timer, so that asking costs no look at the clock.
	passed atomic.Bool
}

type deadlineKey struct{}

// startDeadline returns a context that ends at the deadline of the cycle that begins, and the
// deadline.
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

// stop ends the cycle and returns how long it took.
func (d *cycleDeadline) stop() time.Duration {
	if d.timer != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
	return d.clock.Since(d.began)
}

// halfOver says whether half of the cycle's time is over.
func (d *cycleDeadline) halfOver() bool { return d.clock.Since(d.began) >= d.timeout/2 }

func deadlineOf(ctx context.Context) *cycleDeadline {
	d, _ := ctx.Value(deadlineKey{}).(*cycleDeadline)
	return d
}

// expired says whether the deadline of the cycle has passed.
func (r *Result) expired() bool { return r.deadline != nil && r.deadline.passed.Load() }

// timeout returns the failure of a cycle whose deadline passed while a plugin ran at an extension
// point, nil while it has not passed. plugin is empty, and point Snapshot or Select, where the
// engine itself was at work.
func (r *Result) timeout(point, plugin string) *framework.Status {
	if !r.expired() {
		return nil
	}
	d := r.deadline
	return framework.AsStatus(&timeoutError{point: point, timeout: d.timeout, took: d.clock.Since(d.began).Round(time.Millisecond)}).WithPlugin(plugin)
}

// TimedOut says at which extension point and in which plugin the cycle's deadline passed; ok is
// false when it did not. plugin is empty, and point Snapshot or Select, where the engine itself was
// at work.
func (r *Result) TimedOut() (point, plugin string, ok bool) {
	if e := timeoutIn(r.Failure); e != nil {
		return e.point, r.Failure.Plugin(), true
	}
	return "", "", false
}

// FirstTimeout says whether the cycle timed out and the one before it for this Placement, as it is
// specified now, did not; false where there is something to publish all the same.
func (a *Attempt) FirstTimeout() bool {
	return a.timeouts == 1 && (a.Step == nil || a.Step == a.Target)
}

// timeoutIn returns why a cycle was stopped; nil where a Status says something else.
func timeoutIn(status *framework.Status) *timeoutError {
	if status.Code() != framework.Error {
		return nil
	}
	var e *timeoutError
	errors.As(status.Err(), &e)
	return e
}

// timeoutError is why a cycle was stopped.
type timeoutError struct {
	point         string
	timeout, took time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s ran when the cycle was stopped after %s: a cycle may take %s (cycleTimeout)", e.point, e.took, e.timeout)
}

func (*timeoutError) Unwrap() error { return context.DeadlineExceeded }
