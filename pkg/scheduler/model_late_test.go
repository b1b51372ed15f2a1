package scheduler_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/test/model"
)

// sleeps checks that no attempt before the next one would do anything: its timer is not too late.
// next is zero if there is no timer.
func (h *history) sleeps(next time.Time) {
	now, until := h.now, next
	if next.IsZero() {
		until = now.Add(30 * 24 * time.Hour)
	}
	defer func() { h.now = now }()
	last := until.Sub(now) - time.Second
	if last <= 0 {
		return
	}
	short := rapid.SampledFrom([]time.Duration{
		time.Second, 9 * time.Second, 19 * time.Second, 29 * time.Second, 39 * time.Second, time.Minute, 2 * time.Minute, 11 * time.Minute,
	}).Draw(h.rt, "asleep")
	for _, after := range []time.Duration{0, last, min(short, last)} {
		h.now = now.Add(after)
		world := h.world()
		all := states(world, model.Attempt(world, h.memory))
		first, done := all[0], all[len(all)-1]
		if phases(first) != phases(done) {
			h.rt.Fatalf("at %v nothing is due until %v, but at %v an attempt would lead from %s\nto %s\nmemory: %+v\nworld: %+v",
				now, next, h.now, phases(first), phases(done), h.memory, world)
		}
	}
}

// phases are what a state says apart from the holds, which the next attempt brings up to date.
func phases(s state) string {
	text := s.Pages.String()
	for _, r := range s.Records {
		text += fmt.Sprintf("\n  %d, %.6s to %.6s: %s %s, permitted %s, progress %s", r.Revision, r.From, r.To, r.Phase, r.Approval, clockTime(r.Permitted), clockTime(r.Progress))
	}
	return text
}
