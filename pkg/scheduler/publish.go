package scheduler

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Attempt is one Placement's way from a snapshot to its pages.
type Attempt struct {
	*Result
	// Proposal is nil where nothing was decided: the published decision stays.
	Proposal *framework.Proposal
	// Pending says that the Proposal may not be published, or not yet.
	Pending *Pending

	refused *framework.Status
}

// Attempt takes a snapshot, decides on it, reserves what it takes and asks for leave, all before the next cycle begins: what
// one attempt reserved, the next one's snapshot has. It is nil when there is no snapshot to take. Publish is to follow.
func (s *Scheduler) Attempt(ctx context.Context, take func() *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	snapshot := take()
	if snapshot == nil {
		return nil
	}
	a := &Attempt{Result: s.schedule(ctx, snapshot, nil)}
	if a.Proposal = a.Result.Proposal(); a.Proposal == nil {
		return a
	}
	// A Proposal that changes no cluster reserves nothing and needs no leave, and neither does one that puts right what somebody
	// else did to the pages.
	current, known := s.inForce.of(snapshot.Subject)
	changes := len(a.Proposal.Added) > 0 || len(a.Proposal.Removed) > 0
	if changes && (!known || current.digest != a.Proposal.Digest) {
		a.identify()
		if a.refused = s.reserve(ctx, a); a.refused == nil {
			a.refused = s.permit(ctx, a)
		}
		if a.refused != nil || a.Pending != nil {
			s.unreserve(ctx, a)
		}
	}
	s.note(a)
	a.took(max(len(a.Proposal.Selected), snapshot.Subject.Published.Len()))
	return a
}

// took tells the queue how many clusters the Placement has, or is about to have.
func (a *Attempt) took(clusters int) {
	if queue := a.Snapshot.Queue; queue != nil && queue.Took != nil {
		if a.Pending != nil || a.refused != nil {
			clusters = a.Snapshot.Subject.Published.Len()
		}
		queue.Took(clusters)
	}
}

// Publish takes an attempt from PreBind to PostBind, or stores what is held. It may run for several Placements at once. It
// returns what was published, nil if nothing was meant to be. On a failure the published decision is what the writes in the
// Proposal made of it, and the attempt is to be repeated.
func (s *Scheduler) Publish(ctx context.Context, a *Attempt) (*framework.Proposal, *framework.Status) {
	switch {
	case a.Proposal == nil:
		return nil, nil
	case a.refused != nil:
		return nil, a.refused
	case a.Pending != nil:
		return s.keep(ctx, a)
	}
	p := a.Proposal
	failure := s.preBind(ctx, a)
	if failure == nil {
		failure = s.bind(ctx, a, p)
	}
	if failure != nil {
		s.unreserve(ctx, a)
		return p, failure
	}
	s.postBind(ctx, a)
	a.took(len(p.Selected))
	if a.Failure != nil {
		// It marks the Placement as seen, and is no answer.
		return p, nil
	}
	s.inForce.set(a.Snapshot.Subject, p)
	return p, s.store(ctx, a, nil)
}

// keep stores a hold that begins or goes on, and clears one that ended, and sees to it that what is in force is published.
func (s *Scheduler) keep(ctx context.Context, a *Attempt) (*framework.Proposal, *framework.Status) {
	if !a.Pending.fresh {
		if failure := s.store(ctx, a, a.Pending.Hold); !failure.IsSuccess() {
			return nil, failure
		}
	}
	restored := s.restoration(a)
	if restored == nil {
		return nil, nil
	}
	return restored, s.bind(ctx, a, restored)
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
func (s *Scheduler) unreserve(ctx context.Context, a *Attempt) {
	for _, plugin := range slices.Backward(a.profile.Reserve) {
		plugin.Unreserve(ctx, a.State, a.Snapshot.Subject.Placement, a.Proposal)
	}
}

func (s *Scheduler) preBind(ctx context.Context, a *Attempt) *framework.Status {
	defer s.begin(a.Result, "PreBind")()
	for _, plugin := range a.profile.PreBind {
		if status := plugin.PreBind(ctx, a.State, a.Snapshot.Subject.Placement, a.Proposal); !status.IsSuccess() {
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

func (s *Scheduler) postBind(ctx context.Context, a *Attempt) {
	defer s.begin(a.Result, "PostBind")()
	for _, plugin := range a.profile.PostBind {
		plugin.PostBind(ctx, a.State, a.Snapshot.Subject.Placement, a.Proposal)
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
