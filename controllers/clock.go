package controllers

import (
	"context"
	"time"
)

// clockInterval is how often the clock is compared with the elapsed time. A difference of at least
// clockStep means that the clock was set: expiries are in whole seconds.
const (
	clockInterval = time.Second
	clockStep     = time.Second
)

// watchClock calls onSet when the clock was set or the machine slept, until ctx ends. Expiries are
// times of day, but the queue's timers count elapsed time. Without it, a toleration would end late
// by as much as the clock was set forward.
func watchClock(ctx context.Context, clock func() time.Time, onSet func()) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	began, before := time.Now(), clock().Round(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed := time.Since(began)
		began = began.Add(passed)
		now := clock().Round(0)
		if set := now.Sub(before) - passed; set.Abs() >= clockStep {
			onSet()
		}
		before = now
	}
}
