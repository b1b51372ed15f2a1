package controllers

import (
	"context"
	"time"
)

// How often the clock is compared with the time that passed, and from which difference on it counts
// as set. What runs out is dated in whole seconds.
const (
	clockInterval = time.Second
	clockStep     = time.Second
)

// watchClock wakes every Placement when the clock was set, or the machine slept, until ctx ends:
// what runs out does so at a time of day, but the queue's timers count only the time that passes.
// Without it a toleration would end as much too late as the clock was set forward.
func watchClock(ctx context.Context, clock func() time.Time, wake func()) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	began, day := time.Now(), clock().Round(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed := time.Since(began)
		began = began.Add(passed)
		now := clock().Round(0)
		if set := now.Sub(day) - passed; set.Abs() >= clockStep {
			wake()
		}
		day = now
	}
}
