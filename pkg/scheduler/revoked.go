package scheduler

import (
	"context"
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// RemoveRevoked is Attempt for a Placement whose attempt must wait, by AttemptDelay or Prepare. It
// selects nothing, so it is fast for every spec. It removes published clusters that are in no set
// bound to the namespace, and restores edited pages. It changes no delay.
func (s *Scheduler) RemoveRevoked(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot) *Attempt {
	return s.attempt(ctx, namespace, takeSnapshot, true)
}

// waitingReason is the Failure of RemoveRevoked.
const waitingReason = "the attempt waits; until then, clusters are only removed that are in no bound set"

// endRemoval is endCycle for RemoveRevoked. A slow one is charged to the share of the namespace.
func (s *Scheduler) endRemoval(a *Attempt, held time.Duration) {
	outcome := a.cycleOutcome()
	if outcome == CycleTimedOut {
		// It does not count as a timeout, so it is not reported.
		a.timeouts = 1
	}
	if s.CycleTimeout > 0 {
		s.shares.mu.Lock()
		s.shares.charge(a.Snapshot.Subject.Placement.Namespace, held, s.CycleTimeout/4, s.Clock.Now())
		s.shares.mu.Unlock()
	}
	if s.LockHeld != nil {
		s.LockHeld(a.profile.Name, outcome, held)
	}
}
