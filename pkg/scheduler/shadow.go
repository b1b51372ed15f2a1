package scheduler

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// NewShadow returns a scheduler that decides with a shadow for the Placements of its profile
// (Profile.ShadowOf). Use only Prepare, DecideTarget, Release and Forget. It runs on one processor.
func NewShadow(shadow *Profile) *Scheduler {
	return &Scheduler{Clock: clock.RealClock{}, profiles: map[string]*Profile{shadow.ShadowOf: shadow}, serial: true}
}

// DecideTarget runs steps 2 to 5, without Permit and Transition: Target is what the profile asks
// for. It takes the cycle lock and has no time limit.
func (s *Scheduler) DecideTarget(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.decide(ctx, &Result{Snapshot: snapshot, totalsOnly: true, serial: s.serial})
}

// TierTimers returns the Timers with the states of the tiers after this attempt, for the next
// Snapshot of DecideTarget.
func (a *Attempt) TierTimers() framework.Timers {
	timers := framework.Timers{Tiers: a.Snapshot.Timers.Tiers, TiersOf: a.Snapshot.Timers.TiersOf}
	if tiers := a.tierStatuses(); tiers != nil && a.pin == nil {
		timers.Tiers, timers.TiersOf = tiers, a.policy.policy.UID
	}
	return timers
}
