package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// ReserveOpenChanges reserves again for the open changes of Placements, as the attempts before a
// restart did, so that no other Placement gets what they wait for. Call it once, before the first
// attempt. It takes the cycle lock.
func (s *Scheduler) ReserveOpenChanges(ctx context.Context, placements []types.NamespacedName, takeSnapshot func(types.NamespacedName) *framework.Snapshot) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, key := range placements {
		if snapshot := takeSnapshot(key); snapshot != nil && framework.WhyNotDecided(snapshot.Subject.Placement) == "" {
			s.reserveOpenChange(ctx, snapshot, true)
		}
	}
}

// giveBack ends what was reserved for a Placement that is not decided any more.
func (s *Scheduler) giveBack(ctx context.Context, snapshot *framework.Snapshot) {
	subject := snapshot.Subject
	s.memory.measureAgain(subject.Key())
	before := s.memory.of(subject.Key())
	counted := before.reserved && before.uid == subject.Placement.UID
	if before.uid == "" && changes.History(subject.Records).Open() != nil {
		// Recount counted what is left of the change.
		before.profile, _ = s.ProfileOf(subject.Placement)
		s.memory.reserve(subject, before.profile)
		counted = true
	}
	if counted {
		_ = plan.Unreserve(ctx, before.profile, framework.NewCycleState(snapshot), &framework.Proposal{}, false)
		s.memory.setReserved(subject, false)
	}
	s.storeClaim(subject, plan.KeepClaim.Released(snapshot.Queue), plan.KeepClaim)
}

// reserveAgain reserves for the open change of a Placement for which nothing is reserved, because
// it was not decided for a while or what was reserved ended with a failed step.
func (s *Scheduler) reserveAgain(ctx context.Context, snapshot *framework.Snapshot) {
	before := s.memory.of(snapshot.Subject.Key())
	if !before.reserved && (before.uid == "" || before.uid == snapshot.Subject.Placement.UID) {
		s.reserveOpenChange(ctx, snapshot, before.uid == "")
	}
}

func (s *Scheduler) reserveOpenChange(ctx context.Context, snapshot *framework.Snapshot, recounted bool) {
	profile, _ := s.ProfileOf(snapshot.Subject.Placement)
	claim, _ := plan.ReserveOpen(ctx, profile, framework.NewCycleState(snapshot), recounted)
	if claim.Clusters == nil {
		return
	}
	s.storeClaim(snapshot.Subject, claim, plan.KeepClaim)
	s.memory.reserve(snapshot.Subject, profile)
}
