package scheduler

import (
	"cmp"
	"context"

	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Attempt is one attempt to decide and publish one Placement. It has ten steps, in three phases:
//
//	          1 Snapshot    all inputs of the decision, immutable
//	Decision  2 Filter      which clusters qualify: PreEnqueue, PreFilter, Filter, PostFilter
//	          3 Score       how they rank: PreScore, Score, NormalizeScore
//	          4 Select      the chosen clusters
//	Plan      5 Diff        the change from the clusters published last to the target, or none
//	          6 Reserve     plugins count the change, so that the next attempt includes it
//	          7 Permit      whether the change may begin now
//	          8 Transition  what is published in this step, and recorded
//	Done      9 Bind        writes that: PreBind, Bind, PostBind
//	         10 Report      status, events and the change's record, in the controller
//
// Steps 1 to 8 hold the cycle lock. Decide runs 2 to 8 without Reserve and without effects.
type Attempt struct {
	*plan.Plan
	Done
}

// Done is what step 9 wrote.
type Done struct {
	// Step is the Proposal that was published, or that Decide would publish; nil if nothing is. Its
	// Writes are the successful ones: none if the pages list it already.
	Step *framework.Proposal
	// Err is why the attempt failed. The writes of Step up to then are published.
	Err *framework.Status
	// Earlier is the attempt before this one if its step failed, but all of it was published (only
	// the response was lost) or a part. Its records are written then.
	Earlier *Attempt

	// recorded is true once the records before step 9 are written. withoutRecords is true if Step
	// was published although they could not be.
	recorded, withoutRecords bool
	// bound is true once Bind plugins were called for Step. unverified is true if it is not known
	// which pages of an earlier step, which failed, are published.
	bound, unverified bool
	// part is true if Step is the published part of a step that failed.
	part  bool
	claim plan.Claim
	// foundFrom is the position in Step.Writes of the first write whose response was lost. scores
	// is the text of the scores then: it outlives Release.
	foundFrom int
	scores    string
	// panics are the panics that step 9 survived.
	panics []*framework.Status
}

// Decide runs steps 2 to 8 without Reserve. It returns what would be published and publishes
// nothing. It takes the cycle lock. Simulations, explanations and benchmarks call it.
func (s *Scheduler) Decide(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.decideDry(ctx, snapshot, nil)
}

// DecideInTime is Decide within the limits of an attempt: it ends at CycleTimeout, and its time is
// charged to the share of the Placement's namespace. Call AttemptDelay and Prepare first, as before
// Attempt. Repeat it at State.NextAttempt while the Failure is unfinished or timed out.
func (s *Scheduler) DecideInTime(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	ctx, deadline := s.Start(ctx)
	a := s.decideDry(ctx, snapshot, deadline)
	s.endCycle(a.Plan, deadline.Stop())
	return a
}

func (s *Scheduler) decideDry(ctx context.Context, snapshot *framework.Snapshot, deadline *limits.Deadline) *Attempt {
	d := s.Decider.Decide(ctx, decide.Request{Snapshot: snapshot, Deadline: deadline, Failure: s.TakePreparationFailure(snapshot.Subject.Placement)})
	p := plan.Make(ctx, d, plan.Input{Dry: true, Timeouts: s.Timeouts(snapshot.Subject.Placement), Limits: &s.Limits, Timer: s.Timer})
	return &Attempt{Plan: p, Done: Done{Step: p.Publish, Err: p.PlanErr, claim: p.Claim}}
}

// Attempt runs steps 1 to 9 for one Placement of a namespace. takeSnapshot runs with the cycle lock
// held; if it returns nil, or the Placement is not decided, Attempt returns nil. Attempts of
// different namespaces take turns.
func (s *Scheduler) Attempt(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot) *Attempt {
	return s.attempt(ctx, namespace, takeSnapshot, false)
}

// RemoveRevoked is Attempt for a Placement whose attempt must wait, by AttemptDelay or Prepare. It
// selects nothing, so it is fast for every spec. It removes published clusters that are in no set
// bound to the namespace, and restores edited pages.
func (s *Scheduler) RemoveRevoked(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot) *Attempt {
	return s.attempt(ctx, namespace, takeSnapshot, true)
}

// waitingReason is the Failure of RemoveRevoked.
const waitingReason = "the attempt waits; until then, clusters are only removed that are in no bound set"

func (s *Scheduler) attempt(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot, revokedOnly bool) *Attempt {
	var p *plan.Plan
	// Without an end of the context, Do always runs the function.
	_ = s.attempts.Do(context.WithoutCancel(ctx), namespace, func() {
		s.cycle.Lock()
		defer s.cycle.Unlock()
		p = s.runCycle(ctx, takeSnapshot, revokedOnly)
	})
	if p == nil {
		return nil
	}
	return s.execute(ctx, p)
}

// runCycle runs steps 1 to 8. The caller holds the cycle lock.
func (s *Scheduler) runCycle(ctx context.Context, takeSnapshot func() *framework.Snapshot, revokedOnly bool) *plan.Plan {
	cycle, deadline := s.Start(ctx)
	// 1. Snapshot.
	snapshot := takeSnapshot()
	if snapshot == nil {
		s.endCycle(nil, deadline.Stop())
		return nil
	}
	subject := snapshot.Subject
	if framework.WhyNotDecided(subject.Placement) != "" {
		s.giveBack(ctx, snapshot)
		s.endCycle(nil, deadline.Stop())
		return nil
	}
	s.reserveAgain(ctx, snapshot)
	failure := s.loadState(ctx, snapshot)
	if revokedOnly {
		// The next attempt reports the failure of the preparation.
		failure = framework.Unfinished(waitingReason)
	} else {
		failure = cmp.Or(failure, s.TakePreparationFailure(subject.Placement))
	}
	// 2 Filter, 3 Score, 4 Select.
	d := s.Decider.Decide(cycle, decide.Request{Snapshot: snapshot, Deadline: deadline, Failure: failure, TotalsOnly: true})
	// 5 Diff, 6 Reserve, 7 Permit, 8 Transition.
	before := s.memory.of(subject.Key())
	p := plan.Make(cycle, d, plan.Input{
		Reserved: before.reserved, Timeouts: s.Timeouts(subject.Placement), RevokedOnly: revokedOnly, Limits: &s.Limits, Timer: s.Timer,
	})
	s.storeClaim(subject, p.Claim, plan.KeepClaim)
	s.memory.save(p, s.WriteRecordsBefore != nil)
	if s.OnDecided != nil {
		s.OnDecided(p)
	}
	if revokedOnly {
		s.endRemoval(p, deadline.Stop())
	} else {
		s.endCycle(p, deadline.Stop())
	}
	return p
}
