package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWatchClock: a clock that is set wakes once, at the next tick.
func TestWatchClock(t *testing.T) {
	tests := map[string]struct {
		// sets are by how much the clock is set before each tick.
		sets []time.Duration
		// want lists the ticks after which all Placements are queued.
		want []int
	}{
		"never":                     {sets: make([]time.Duration, 5)},
		"forward":                   {sets: []time.Duration{0, time.Hour, 0, 0}, want: []int{1}},
		"back":                      {sets: []time.Duration{0, 0, -time.Hour, 0}, want: []int{2}},
		"twice":                     {sets: []time.Duration{time.Minute, 0, -time.Minute, 0}, want: []int{0, 2}},
		"by a second":               {sets: []time.Duration{clockStep, 0}, want: []int{0}},
		"by almost a second":        {sets: []time.Duration{clockStep - 1, 1 - clockStep, 0}},
		"slowly, as clocks do":      {sets: []time.Duration{clockStep / 2, clockStep / 2, clockStep / 2, clockStep / 2}},
		"back by exactly a second":  {sets: []time.Duration{-clockStep, 0}, want: []int{0}},
		"by a second at each tick":  {sets: []time.Duration{clockStep, clockStep}, want: []int{0, 1}},
		"forward, and back at once": {sets: []time.Duration{time.Hour, -time.Hour, 0}, want: []int{0, 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var set time.Duration
				affected, ended := 0, false
				go func() {
					watchClock(ctx, func() time.Time { return time.Now().Add(set) }, func() { affected++ })
					ended = true
				}()
				// Between two ticks.
				time.Sleep(clockInterval / 2)
				synctest.Wait()
				var got []int
				for i, by := range tc.sets {
					set += by
					before := affected
					time.Sleep(clockInterval)
					synctest.Wait()
					for range affected - before {
						got = append(got, i)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("affected after ticks (-want +got):\n%s", diff)
				}
				cancel()
				synctest.Wait()
				if !ended {
					t.Error("it does not end")
				}
			})
		})
	}
}
