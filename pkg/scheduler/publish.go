package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Held is a Proposal that Permit did not let pass yet.
type Held struct {
	// Deadlines are by plugin.
	Deadlines map[string]time.Time
}

// Publish takes a Proposal from Reserve to PostBind. It may run for several Placements at once. On a failure the published
// decision is what the writes in the Proposal made of it, and the attempt is to be repeated.
func (s *Scheduler) Publish(ctx context.Context, r *Result, p *framework.Proposal) (*Held, *framework.Status) {
	pl := r.Snapshot.Subject.Placement
	// A Proposal that changes no cluster reserves nothing and needs no leave; its pages may want repair all the same.
	if len(p.Added) > 0 || len(p.Removed) > 0 {
		held, failure := s.reserveAndPermit(ctx, r, p)
		if held != nil || failure != nil {
			s.unreserve(ctx, r, p)
			return held, failure
		}
	}
	for _, plugin := range s.profile.PreBind {
		if status := plugin.PreBind(ctx, r.State, pl, p); !status.IsSuccess() {
			s.unreserve(ctx, r, p)
			return nil, status.WithPlugin(plugin.Name())
		}
	}
	if failure := s.bind(ctx, r, p); failure != nil {
		s.unreserve(ctx, r, p)
		return nil, failure
	}
	for _, plugin := range s.profile.PostBind {
		plugin.PostBind(ctx, r.State, pl, p)
	}
	return nil, nil
}

func (s *Scheduler) reserveAndPermit(ctx context.Context, r *Result, p *framework.Proposal) (*Held, *framework.Status) {
	pl := r.Snapshot.Subject.Placement
	for _, plugin := range s.profile.Reserve {
		if status := plugin.Reserve(ctx, r.State, pl, p); !status.IsSuccess() {
			return nil, status.WithPlugin(plugin.Name())
		}
	}
	var held *Held
	for _, plugin := range s.profile.Permit {
		status, timeout := plugin.Permit(ctx, r.State, pl, p)
		switch status.Code() {
		case framework.Success:
		case framework.Wait:
			if held == nil {
				held = &Held{Deadlines: map[string]time.Time{}}
			}
			held.Deadlines[plugin.Name()] = r.Snapshot.Now.Add(timeout)
		default:
			return nil, status.WithPlugin(plugin.Name())
		}
	}
	return held, nil
}

// unreserve undoes every Reserve in reverse, those that never ran included.
func (s *Scheduler) unreserve(ctx context.Context, r *Result, p *framework.Proposal) {
	for _, plugin := range slices.Backward(s.profile.Reserve) {
		plugin.Unreserve(ctx, r.State, r.Snapshot.Subject.Placement, p)
	}
}

func (s *Scheduler) bind(ctx context.Context, r *Result, p *framework.Proposal) *framework.Status {
	for _, plugin := range s.profile.Bind {
		status := plugin.Bind(ctx, r.State, r.Snapshot.Subject.Placement, p)
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
