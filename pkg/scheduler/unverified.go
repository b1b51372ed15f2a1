package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

var errVerified = errors.New("pages were read again after a failed write; the Placement is decided again")

// verifyEarlier reads the pages whose last write failed, before anything is recorded or published
// on the basis of this attempt's Snapshot. If the failed step was published after all, or a part of
// it, Earlier is its attempt. It returns a Status if the Placement must be decided again.
func (s *Scheduler) verifyEarlier(ctx context.Context, a *Attempt) *framework.Status {
	subject := a.Snapshot.Subject
	found := map[string]*v1alpha1.PlacementDecision{}
	for _, plugin := range a.Profile.Bind {
		verify := a.Profile.Traits(plugin.Name()).Verify
		if verify == nil {
			continue
		}
		var pages map[string]*v1alpha1.PlacementDecision
		failure := plugins.Call(ctx, "Verify", plugin, func() *framework.Status {
			var err error
			pages, err = verify(ctx, subject.Placement)
			return framework.AsStatus(err)
		})
		if failure != nil {
			return failure.WithPlugin(plugin.Name())
		}
		maps.Copy(found, pages)
	}
	if earlier := s.memory.takeUnverified(subject); earlier != nil {
		earlier.addFound(found)
		if earlier.isPublished(subject, found) || earlier.bound && earlier.isLatest(subject) && earlier.takePart() {
			a.Earlier = earlier
			s.finish(ctx, earlier, a.Snapshot.Now)
		}
	}
	if a.Earlier != nil || len(found) > 0 {
		return framework.AsStatus(errVerified)
	}
	return nil
}

// isPublished reports whether the pages, with those that were read again, list the clusters of the
// failed step, which were not published before.
func (a *Attempt) isPublished(subject *framework.Subject, found map[string]*v1alpha1.PlacementDecision) bool {
	if last := a.Snapshot.Subject.Last; last == nil && len(a.Step.Clusters) == 0 || last != nil && last.Digest == a.Step.Digest {
		return false
	}
	pages := map[string]*v1alpha1.PlacementDecision{}
	for _, page := range subject.OwnPages() {
		pages[page.Name] = page
	}
	maps.Copy(pages, found)
	maps.DeleteFunc(pages, func(_ string, page *v1alpha1.PlacementDecision) bool {
		return page == nil || !subject.Placement.Publishes(page)
	})
	names, _ := framework.Listed(slices.Collect(maps.Values(pages)))
	// A published decision has at least one page.
	return len(pages) > 0 && framework.DigestOf(names) == a.Step.Digest
}

// mayBePublished reports whether pages that could not be read yet may list the last step, which
// failed.
func (s *Scheduler) mayBePublished(subject *framework.Subject) bool {
	earlier := s.memory.of(subject.Key()).unverified
	return earlier != nil && earlier.Step.Result.Unverified
}

// addFound adds the found pages to the writes of the step. One that is still as the step knew it
// was not written.
func (a *Attempt) addFound(found map[string]*v1alpha1.PlacementDecision) {
	known, _ := a.pagesAfter()
	a.foundFrom = len(a.Step.Writes)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		before := known[name]
		write := framework.PageWrite{Page: found[name], Created: before == nil, DecisionsChanged: true}
		switch {
		case write.Page == nil && before == nil:
			continue
		case write.Page == nil:
			write.Page, write.Deleted = &v1alpha1.PlacementDecision{}, true
			write.Page.Namespace, write.Page.Name = a.Snapshot.Subject.Placement.Namespace, name
		case before != nil && framework.ContentHash(before) == framework.ContentHash(write.Page):
			continue
		}
		a.Step.Writes = append(a.Step.Writes, write)
	}
}

// isLatest reports whether nothing was published since the attempt. What the pages of a first one
// list is taken as published.
func (a *Attempt) isLatest(subject *framework.Subject) bool {
	switch last, before := subject.Last, a.Snapshot.Subject.Last; {
	case last == nil || last == before:
		return last == before
	case before == nil:
		return last.FromPages && last.Revision == a.Step.Revision
	default:
		return last.Revision == before.Revision && last.Digest == before.Digest
	}
}

// takePart makes the published part of a step that failed its step. It returns false if none is.
func (a *Attempt) takePart() bool {
	pages, _ := a.pagesAfter()
	listed, _ := framework.Listed(slices.Collect(maps.Values(pages)))
	part := a.PartOf(a.Step, listed)
	if part == nil {
		return false
	}
	a.Plan, a.Step, a.part = part, part.Publish, true
	return true
}

// finish completes an attempt whose step, or a part of it, was published although it failed. The
// attempts since then may have reserved for other changes, or for none.
func (s *Scheduler) finish(ctx context.Context, a *Attempt, now time.Time) {
	a.Err = nil
	reserved := a.Step
	if a.Step.Partial {
		reserved = a.Change.Proposal
		s.memory.setReserved(a.Snapshot.Subject, true)
	}
	if panicked := plan.Reserve(ctx, a.Profile, a.State, reserved, true); panicked != nil {
		a.panics = append(a.panics, panicked)
	}
	s.postBind(ctx, a, now)
	s.setPublished(a, a.published())
}

// publishPart completes the part of a step that was published before one of its writes failed, as
// Earlier. It returns false if there is none, or pages could not be read.
func (s *Scheduler) publishPart(ctx context.Context, a *Attempt) bool {
	part := *a
	part.foundFrom, part.Err, part.panics = len(a.Step.Writes), nil, nil
	if a.Step.Result.Unverified || !part.takePart() {
		return false
	}
	a.Earlier = &part
	s.memory.setReserved(a.Snapshot.Subject, true)
	s.postBind(ctx, &part, a.Snapshot.Now)
	s.setPublished(a, part.published())
	a.claim = part.claim
	return true
}

// FoundWrites returns the writes of the step whose responses were lost.
func (a *Attempt) FoundWrites() []framework.PageWrite { return a.Step.Writes[a.foundFrom:] }

// WrittenBefore returns the writes of the step before FoundWrites.
func (a *Attempt) WrittenBefore() []framework.PageWrite { return a.Step.Writes[:a.foundFrom] }
