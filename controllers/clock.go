package controllers

import (
	"context"
	"time"
)

// How often the clock is compared with the time that passed, and from which difference on it counts as set. What runs out is
// dated in whole seconds.
const (
	clockInterval = time.Second
	clockStep     = time.Second
)

// clockWatch looks at every Placement anew when the clock was set, or the machine slept: what runs out does so at a time of day,
// but the queue's timers count only the time that passes. Without it a toleration would end as much too late as the clock was
// set forward.
type clockWatch struct {
	now  func() time.Time
	wake func()
}

// Start implements manager.Runnable.
func (c *clockWatch) Start(ctx context.Context) error {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	began, day := time.Now(), c.now().Round(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		passed := time.Since(began)
		began = began.Add(passed)
		now := c.now().Round(0)
		if set := now.Sub(day) - passed; set.Abs() >= clockStep {
			c.wake()
		}
		day = now
	}
}
