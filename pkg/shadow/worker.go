package shadow

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxParts is into how many cycles plugins may divide one decision.
const maxParts = 1000

// worker decides the Placements that workerOf gives it, one at a time, on one processor.
type worker struct {
	// engines are by the name of the shadow.
	engines map[string]engine
	// wake receives a value when there may be work.
	wake chan struct{}
	// queue has the comparisons with a decision that waits. dropped are comparisons that were begun
	// and whose Placement is gone. Shadows.mu protects both.
	queue   list.List
	dropped []*comparison
}

// engine decides with one shadow of the profile of.
type engine struct {
	*scheduler.Scheduler
	of string
}

func newWorker(profiles map[string]*scheduler.Profile) *worker {
	w := &worker{engines: map[string]engine{}, wake: make(chan struct{}, 1)}
	for name, profile := range profiles {
		if profile.ShadowOf != "" {
			w.engines[name] = engine{scheduler.NewShadow(profile), profile.ShadowOf}
		}
	}
	return w
}

func (w *worker) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// work decides what is queued until the context ends.
func (s *Shadows) work(ctx context.Context, w *worker) {
	for ctx.Err() == nil {
		c, d, dropped := s.next(w)
		for _, old := range dropped {
			w.engines[old.totals.shadow].Forget(old.key)
		}
		if c == nil {
			select {
			case <-ctx.Done():
			case <-w.wake:
			}
			continue
		}
		t, err := w.decide(ctx, c, d)
		if ctx.Err() == nil {
			s.store(c, d, t, err)
		}
	}
}

// next returns the decision that has waited longest, and the comparisons to forget before it. There
// is none while an attempt of the controller waits.
func (s *Shadows) next(w *worker) (*comparison, *decided, []*comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := w.dropped
	w.dropped = nil
	first := w.queue.Front()
	if first == nil || s.waiting.Load() > 0 {
		return nil, nil, dropped
	}
	c := w.queue.Remove(first).(*comparison)
	d := c.waiting
	c.waiting, c.queued, c.begun = nil, nil, true
	return c, d, dropped
}

// target is what a shadow decided: the clusters, sorted, and the state for the next decision.
type target struct {
	clusters []string
	timers   framework.Timers
}

// decide decides one Placement with a shadow. Only this worker changes the clusters and timers of
// the comparison.
func (w *worker) decide(ctx context.Context, c *comparison, d *decided) (t target, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	pl := d.snapshot.Subject.Placement
	if revision, _ := changes.PinnedRevision(pl); revision > 0 {
		// A pin names clusters of the real history, and comes before scores.
		return target{d.target, c.timers}, nil
	}
	engine := w.engines[c.totals.shadow]
	snapshot := d.snapshot.WithPublished(c.clusters, c.timers)
	for range maxParts {
		if !engine.Prepare(pl, snapshot.Subject.SelectionPolicies...) {
			continue
		}
		a := engine.DecideTarget(ctx, snapshot)
		engine.Release(a.Result)
		if a.Failure.IsUnfinished() && ctx.Err() == nil {
			continue
		}
		if a.Failure != nil {
			return target{}, a.Failure.Err()
		}
		return target{a.Target.Clusters, a.TierTimers()}, nil
	}
	return target{}, errors.New("the plugins do not finish the decision")
}

// panicError is the panic of a plugin.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("a plugin panicked: %v", e.value) }
