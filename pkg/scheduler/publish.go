package scheduler

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Attempt is one Placement's way from a snapshot to its pages.
type Attempt struct {
	*Result
	// Proposal is nil where nothing was decided: the published decision stays.
	Proposal *framework.Proposal
	// Pending says that the Proposal may not be published, or not yet.
	Pending *Pending

	// last is what was published before, if anything was.
	last *decision
	// interim is published while the Proposal is pending, or nil: forced removals, or repairs; nil
	// if the pages stay as they are.
	interim *framework.Proposal
	refused *framework.Status
	// timeouts counts the attempts in a row that timed out, this one included.
	timeouts int
}

// Attempt takes a snapshot, decides on it, reserves what it takes and asks Permit, all before the
// next cycle begins: what one attempt reserved, the next one's snapshot has. It is nil when there
// is no snapshot to take. Publish is to follow.
func (s *Scheduler) Attempt(ctx context.Context, take func() *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	ctx, deadline := s.startDeadline(ctx)
	var a *Attempt
	if snapshot := take(); snapshot != nil {
		a = s.attempt(ctx, snapshot)
	}
	s.endCycle(a, deadline.stop())
	return a
}

func (s *Scheduler) attempt(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.recognize(snapshot.Subject)
	last, known := s.published.of(snapshot.Subject)
	a := &Attempt{Result: s.run(ctx, &Result{Snapshot: snapshot, totalsOnly: true}, nil)}
	if known {
		a.last = &last
	}
	if a.Proposal = a.proposal(last.names); a.Failure != nil && known {
		// An error is no answer: the last decision stays, also where somebody else deleted its
		// pages.
		a.Proposal = nil
	}
	if a.Proposal == nil {
		s.permitForced(ctx, a)
		if known && a.interim == nil {
			a.interim = a.repair()
		}
		return a
	}
	a.Proposal.LastScores = last.scoresAt
	// A Proposal that changes no cluster reserves nothing and does not ask Permit. The same holds
	// for the repair of pages.
	if len(a.Proposal.Added) > 0 || len(a.Proposal.Removed) > 0 {
		pl := snapshot.Subject.Placement
		a.Proposal.Edited = last.generation != 0 && (last.generation != pl.Generation || last.profile != profileName(pl))
		if late := s.permitChange(ctx, a); late != nil {
			a.Failure, a.Selected, a.Proposal, a.refused = late, nil, nil, nil
			return a
		}
	}
	s.note(a)
	clusters := len(a.Proposal.Selected)
	if snapshot.Queue != nil {
		clusters = max(clusters, snapshot.Queue.Listed)
	}
	a.took(clusters)
	return a
}

// permitChange asks Permit about the change. While it is pending, forced removals go ahead, and
// damaged pages are repaired. It returns the failure of an attempt that timed out meanwhile.
func (s *Scheduler) permitChange(ctx context.Context, a *Attempt) (late *framework.Status) {
	s.reserveAndPermit(ctx, a)
	if a.Pending != nil {
		s.permitForced(ctx, a)
	}
	if a.Pending != nil && a.interim == nil {
		a.interim = a.repair()
	}
	if timeoutIn(a.refused) != nil {
		return a.refused
	}
	return nil
}

// reserveAndPermit reserves what the Proposal takes and asks Permit; unless it may be published,
// nothing stays reserved.
func (s *Scheduler) reserveAndPermit(ctx context.Context, a *Attempt) {
	a.identify(s.waiting)
	if a.refused = s.reserve(ctx, a); a.refused == nil {
		a.refused = s.permit(ctx, a)
	}
	if a.refused != nil || a.Pending != nil {
		s.unreserve(ctx, a, a.Proposal)
	}
}

// permitForced lets clusters leave that no set bound to the namespace has any more, while the rest
// of the change is pending, or while nothing could be decided. Permit is asked about that removal
// alone, as a change of its own; if a plugin holds that, too, the clusters stay.
func (s *Scheduler) permitForced(ctx context.Context, a *Attempt) {
	if a.last == nil {
		return
	}
	without := a.last.forcedOut(a.Snapshot)
	if len(without) == 0 {
		return
	}
	result := *a.Result
	result.State = a.State.Clone()
	if a.expired() {
		// An author must not keep clusters by a Placement that times out: their removal has a
		// deadline of its own.
		var own *cycleDeadline
		ctx, own = s.startDeadline(context.WithoutCancel(ctx))
		defer own.stop()
		result.deadline = own
	}
	forced := &Attempt{Result: &result, Proposal: a.last.proposal(a, without), last: a.last}
	s.reserveAndPermit(ctx, forced)
	if forced.refused != nil {
		a.refused, a.Pending = forced.refused, nil
		return
	}
	if forced.Pending != nil {
		if at := result.State.Requeue(); at.After(a.Snapshot.Now) {
			a.State.RequeueAt(at)
		}
		return
	}
	if a.Proposal != nil && slices.Equal(forced.Proposal.Clusters, a.Proposal.Clusters) {
		// There is no rest.
		forced.Proposal.Selected = a.Proposal.Selected
		a.Proposal, a.Pending = forced.Proposal, nil
		return
	}
	a.interim = forced.Proposal
	a.State.RequeueAt(a.Snapshot.Now)
}

// repair publishes the last decision again if its pages were changed by somebody else, or are not
// there. Where nothing was published yet, it is one empty page, which marks the Placement as seen.
func (a *Attempt) repair() *framework.Proposal {
	subject := a.Snapshot.Subject
	switch {
	case a.last == nil && hadClusters(subject.Placement):
		return nil
	case a.last == nil:
		return (&decision{}).proposal(a, nil)
	case !a.last.damaged(subject):
		return nil
	}
	return a.last.proposal(a, nil)
}

// took tells the queue how many clusters the Placement has, or is about to have.
func (a *Attempt) took(clusters int) {
	if queue := a.Snapshot.Queue; queue != nil && queue.Took != nil {
		if a.Pending != nil || a.refused != nil {
			clusters = queue.Listed
		}
		queue.Took(clusters)
	}
}

// Publish takes an attempt from PreBind to PostBind, or stores what is held. It may run for several Placements at once. It
// returns what was published, nil if nothing was meant to be. On a failure the published decision is what the writes in the
// Proposal made of it, and the attempt is to be repeated.
func (s *Scheduler) Publish(ctx context.Context, a *Attempt) (*framework.Proposal, *framework.Status) {
	switch {
	case a.refused != nil:
		return nil, a.refused
	case a.Proposal == nil || a.Pending != nil:
		return s.keep(ctx, a)
	}
	p := a.Proposal
	if failure := s.publish(ctx, a, p); failure != nil {
		return p, failure
	}
	a.took(len(p.Selected))
	if a.Failure != nil {
		// It marks the Placement as seen, and is no answer.
		return p, nil
	}
	s.published.set(a, p)
	return p, s.store(ctx, a, nil)
}

// publish takes a Proposal from PreBind to PostBind.
func (s *Scheduler) publish(ctx context.Context, a *Attempt, p *framework.Proposal) *framework.Status {
	failure := s.preBind(ctx, a, p)
	if failure == nil {
		failure = s.bind(ctx, a, p)
	}
	if failure != nil {
		if a.ScoresWritten(p) {
			s.published.scored(a.Snapshot.Subject, a.Snapshot.Now)
		}
		s.unreserve(ctx, a, p)
		return failure
	}
	s.postBind(ctx, a, p)
	return nil
}

// ScoresWritten says whether writes of the Proposal brought scores to pages.
func (a *Attempt) ScoresWritten(p *framework.Proposal) bool {
	// New pages carry scores, too: the next ones are due after the rate limit.
	byScore := a.Snapshot.Subject.Placement.Spec.SortBy == v1alpha1.SortByScore
	return len(p.Writes) > 0 && (p.Outcome.ScoresWritten || byScore)
}

// keep publishes what does not wait for a pending change, or for a decision. Then it stores a hold
// that begins or goes on, or clears one that ended.
func (s *Scheduler) keep(ctx context.Context, a *Attempt) (*framework.Proposal, *framework.Status) {
	if a.interim != nil {
		failure := s.publishInterim(ctx, a)
		if failure != nil {
			return a.interim, failure
		}
		s.published.set(a, a.interim)
		if queue := a.Snapshot.Queue; a.Failure != nil && queue != nil && queue.Took != nil {
			queue.Took(len(a.interim.Clusters))
		}
	}
	if a.Pending == nil || a.Pending.fresh {
		return a.interim, nil
	}
	return a.interim, s.store(ctx, a, a.Pending.Hold)
}

// publishInterim publishes forced removals as any change; a repair is only bound.
func (s *Scheduler) publishInterim(ctx context.Context, a *Attempt) *framework.Status {
	if a.interim.Forced {
		return s.publish(ctx, a, a.interim)
	}
	return s.bind(ctx, a, a.interim)
}

// store has the Bind plugins keep a hold, or clear what is kept.
func (s *Scheduler) store(ctx context.Context, a *Attempt, hold *framework.Hold) *framework.Status {
	if hold == nil && len(a.Snapshot.Subject.HeldPages) == 0 {
		return nil
	}
	for _, plugin := range a.profile.Bind {
		if holder, ok := plugin.(framework.Holder); ok {
			return holder.Hold(ctx, a.State, a.Snapshot.Subject.Placement, hold).WithPlugin(plugin.Name())
		}
	}
	return nil
}

// reserve runs the Reserve plugins; the first failure stops.
func (s *Scheduler) reserve(ctx context.Context, a *Attempt) *framework.Status {
	defer s.begin(a.Result, "Reserve")()
	for _, plugin := range a.profile.Reserve {
		status := plugin.Reserve(ctx, a.State, a.Snapshot.Subject.Placement, a.Proposal)
		if late := a.timeout("Reserve", plugin.Name()); late != nil {
			return late
		}
		switch status.Code() {
		case framework.Success:
			continue
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable:
			a.deny(status.WithPlugin(plugin.Name()))
		case framework.Pending:
			a.await(status.WithPlugin(plugin.Name()))
		default:
			return unexpected(plugin, "Reserve", status)
		}
		return nil
	}
	return nil
}

// unreserve undoes every Reserve in reverse, those that never ran included.
func (s *Scheduler) unreserve(ctx context.Context, a *Attempt, p *framework.Proposal) {
	for _, plugin := range slices.Backward(a.profile.Reserve) {
		plugin.Unreserve(ctx, a.State, a.Snapshot.Subject.Placement, p)
	}
}

func (s *Scheduler) preBind(ctx context.Context, a *Attempt, p *framework.Proposal) *framework.Status {
	defer s.begin(a.Result, "PreBind")()
	for _, plugin := range a.profile.PreBind {
		if status := plugin.PreBind(ctx, a.State, a.Snapshot.Subject.Placement, p); !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
	}
	return nil
}

func (s *Scheduler) bind(ctx context.Context, a *Attempt, p *framework.Proposal) *framework.Status {
	defer s.begin(a.Result, "Bind")()
	for _, plugin := range a.profile.Bind {
		status := plugin.Bind(ctx, a.State, a.Snapshot.Subject.Placement, p)
		if status.IsSkip() {
			continue
		}
		if !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
		return nil
	}
	return framework.AsStatus(errors.New("no Bind plugin publishes this Placement"))
}

func (s *Scheduler) postBind(ctx context.Context, a *Attempt, p *framework.Proposal) {
	defer s.begin(a.Result, "PostBind")()
	for _, plugin := range a.profile.PostBind {
		plugin.PostBind(ctx, a.State, a.Snapshot.Subject.Placement, p)
	}
}

// note tells Waiting what waits now.
func (s *Scheduler) note(a *Attempt) {
	pl := a.Snapshot.Subject.Placement
	switch {
	case a.refused != nil || a.Pending != nil && a.Pending.fresh:
	case a.Pending == nil || a.Pending.Hold == nil:
		s.waiting.release(pl.UID)
	default:
		s.waiting.hold(framework.WaitingPlacement{
			Key: a.Snapshot.Subject.Key(), UID: pl.UID, Token: a.Proposal.Token,
			Added: a.Proposal.Added, Removed: a.Proposal.Removed, Plugins: a.Pending.Hold.Deadlines,
		})
	}
}
