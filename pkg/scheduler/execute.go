package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// execute writes the records of a Plan that must come first and then runs step 9.
func (s *Scheduler) execute(ctx context.Context, p *plan.Plan) *Attempt {
	a := &Attempt{Plan: p, Done: Done{Err: p.PlanErr, claim: p.Claim}}
	if p.Publish != nil {
		// The Bind plugin stores its writes in it.
		step := *p.Publish
		a.Step = &step
	}
	switch {
	case a.Outcome == plan.Failed && a.Publication() == plan.Nothing && len(a.Records.Before) == 0:
		// Nothing is written. A failure is counted.
	case a.FirstTimeout():
		return a
	default:
		s.publish(ctx, a)
		a.Err = cmp.Or(p.PlanErr, a.Err)
		s.storeClaim(a.Snapshot.Subject, a.claim, p.Claim)
	}
	a.unverified = s.memory.of(p.Snapshot.Subject.Key()).unverified != nil
	if a.Err != nil {
		s.memory.keepTimer(a.Snapshot)
	}
	s.CountFailure(a.Snapshot.Subject.Placement, a.Err != nil)
	return a
}

func (s *Scheduler) publish(ctx context.Context, a *Attempt) {
	if a.Err = s.verifyEarlier(ctx, a); a.Err != nil {
		if s.unreserveStep(ctx, a, a.Step); a.Earlier != nil {
			// Its pages are published.
			a.claim = a.Earlier.claim
		}
		return
	}
	if s.WriteRecordsBefore != nil {
		err := s.WriteRecordsBefore(ctx, a)
		if s.memory.setRefused(a.Snapshot, err != nil); err != nil {
			s.publishWithoutRecords(ctx, a)
			a.Err = framework.AsStatus(err)
			return
		}
	}
	if a.Step == nil {
		return
	}
	if a.Err = s.bindStep(ctx, a); a.Err != nil {
		if s.publishPart(ctx, a) {
			return
		}
		if s.keepUnverified(a); !a.bound {
			s.restore(ctx, a)
		}
		s.unreserveStep(ctx, a, a.Step)
		if last := a.Snapshot.Subject.Last; last != nil && a.ScoresWritten() {
			scored := *last
			scored.ScoresAt = a.Snapshot.Now
			s.setPublished(a, &scored)
		}
		return
	}
	if a.Failure == nil || a.Publication() != plan.Whole {
		s.setPublished(a, a.published())
	}
}

// publishWithoutRecords publishes what must not wait for a record that cannot be written.
func (s *Scheduler) publishWithoutRecords(ctx context.Context, a *Attempt) {
	if restored := s.restore(ctx, a); restored != nil && a.Publication() == plan.Republished {
		a.Step = restored
		return
	} else if restored != nil || a.WithoutRecords == nil {
		s.unreserveStep(ctx, a, a.Step)
		return
	}
	planned, alone, forced := a.Step, *a, *a.WithoutRecords
	alone.Step, alone.withoutRecords = &forced, true
	bound := s.bindStep(ctx, &alone).IsSuccess()
	a.Step, a.panics, a.withoutRecords = alone.Step, alone.panics, bound
	if bound {
		s.setPublished(a, a.published())
		return
	}
	if s.publishPart(ctx, &alone) {
		a.Earlier, a.claim = alone.Earlier, alone.claim
		return
	}
	s.keepUnverified(&alone)
	planned.Writes, planned.Result = forced.Writes, forced.Result
	s.unreserveStep(ctx, a, planned)
}

// restore publishes the pages again that were edited or deleted, while the step is not published.
// It returns what it tried to publish; nil for nothing.
func (s *Scheduler) restore(ctx context.Context, a *Attempt) *framework.Proposal {
	if a.WithoutRecords == nil || a.WithoutRecords.Kind != framework.Republication {
		return nil
	}
	restored, p, step := *a, *a.Plan, *a.WithoutRecords
	p.Publish, restored.Plan, restored.Step = &step, &p, &step
	if s.bindStep(ctx, &restored).IsSuccess() {
		s.setPublished(a, restored.published())
	}
	a.panics = restored.panics
	return &step
}

// keepUnverified keeps an attempt whose writes may have succeeded although they failed.
func (s *Scheduler) keepUnverified(a *Attempt) {
	a.scores = a.ScoreNote()
	s.memory.putUnverified(a)
}

// endIsUnwritten reports whether a record is still open because records that would end it could not
// be written.
func (a *Attempt) endIsUnwritten() bool {
	return !a.recorded && len(a.Records.Before) > 0 && changes.History(a.Snapshot.Subject.Records).Open() != nil
}

// unreserveStep undoes Reserve for a step that was not published, but not while it may be
// published. If its change, or the one beside it, stays open, only plugins that count permitted
// changes undo it. The open change, which the step may have superseded, is reserved again; so they
// count it if it is permitted, because Permit is not asked about it again.
func (s *Scheduler) unreserveStep(ctx context.Context, a *Attempt, step *framework.Proposal) {
	if step == nil || step.Kind == framework.Republication {
		return
	}
	unread := s.mayBePublished(a.Snapshot.Subject)
	keeps := a.Beside || unread || a.OpenRecord() != nil || a.endIsUnwritten()
	if keeps {
		s.memory.setReserved(a.Snapshot.Subject, true)
	} else {
		a.claim = a.claim.Released(a.Snapshot.Queue)
	}
	if unread {
		return
	}
	// No other attempt may count between the two.
	s.cycle.Lock()
	defer s.cycle.Unlock()
	a.panics = append(a.panics, plan.Unreserve(ctx, a.Profile, a.State, step, keeps)...)
	if a.Earlier != nil {
		return // The open change was published, which the Snapshot does not know.
	}
	if open := a.OpenRecord(); open != nil && a.Change != nil && open.Spec.Revision == a.Change.Revision {
		if changes.IsPermitted(open) {
			_ = plan.Reserve(ctx, a.Profile, a.State, a.Change.Proposal, true)
		}
		return
	}
	if claim, _ := plan.ReserveOpen(ctx, a.Profile, a.State, false); claim.Clusters != nil && !keeps {
		a.claim = claim
		s.memory.setReserved(a.Snapshot.Subject, true)
	}
}

// bindStep publishes the step. PreBind and PostBind do not run if it only restores pages.
func (s *Scheduler) bindStep(ctx context.Context, a *Attempt) *framework.Status {
	if a.Step.Kind == framework.Republication {
		return s.bind(ctx, a)
	}
	if failure := s.preBind(ctx, a); failure != nil {
		return failure
	}
	if failure := s.bind(ctx, a); failure != nil {
		return failure
	}
	s.postBind(ctx, a, a.Snapshot.Now)
	return nil
}

func (s *Scheduler) setPublished(a *Attempt, last *framework.Published) {
	if s.StorePublished != nil {
		s.StorePublished(a.Snapshot.Subject, last)
	}
}

func (s *Scheduler) preBind(ctx context.Context, a *Attempt) *framework.Status {
	defer s.Timer.Start(a.Profile, "PreBind")()
	for _, plugin := range a.Profile.PreBind {
		status := plugins.Call(ctx, "PreBind", plugin, func() *framework.Status {
			return plugin.PreBind(ctx, a.State, a.Snapshot.Subject.Placement, a.Step)
		})
		if !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
	}
	return nil
}

func (s *Scheduler) bind(ctx context.Context, a *Attempt) *framework.Status {
	defer s.Timer.Start(a.Profile, "Bind")()
	a.bound = true
	for _, plugin := range a.Profile.Bind {
		status := plugins.Call(ctx, "Bind", plugin, func() *framework.Status {
			return plugin.Bind(ctx, a.State, a.Snapshot.Subject.Placement, a.Step)
		})
		switch {
		case status.IsSkip():
		case !status.IsSuccess():
			return status.WithPlugin(plugin.Name())
		default:
			return nil
		}
	}
	return framework.AsStatus(errors.New("no Bind plugin publishes this Placement"))
}

func (s *Scheduler) postBind(ctx context.Context, a *Attempt, now time.Time) {
	s.memory.publishStep(a.Snapshot.Subject, a.Step, now)
	defer s.Timer.Start(a.Profile, "PostBind")()
	a.claim = a.claim.Published(a.Snapshot.Queue, a.Step, a.Beside)
	for _, plugin := range a.Profile.PostBind {
		panicked := plugins.Call(ctx, "PostBind", plugin, func() *framework.Status {
			plugin.PostBind(ctx, a.State, a.Snapshot.Subject.Placement, a.Step)
			return nil
		})
		if panicked != nil {
			a.panics = append(a.panics, panicked)
		}
	}
}

// storeClaim stores what differs from the claim that is stored already; KeepClaim if none is known.
func (s *Scheduler) storeClaim(subject *framework.Subject, next, stored plan.Claim) {
	same := slices.Equal(next.Clusters, stored.Clusters) && (next.Clusters == nil) == (stored.Clusters == nil) && next.Unpermitted == stored.Unpermitted
	if next.Clusters != nil && !same && s.StoreClaim != nil {
		s.StoreClaim(subject, next.Clusters, next.Unpermitted)
	}
	if next.Quota >= 0 && next.Quota != stored.Quota && s.StoreQuota != nil {
		s.StoreQuota(subject, next.Quota)
	}
}
