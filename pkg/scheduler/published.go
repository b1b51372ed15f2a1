package scheduler

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// published returns the published decision after the writes of the step; nil if it is the same as
// before.
func (a *Attempt) published() *framework.Published {
	subject, p := a.Snapshot.Subject, a.Step
	before := subject.Last
	if before == nil {
		before = &framework.Published{}
	} else if !before.FromPages && a.keepsPublished(before) {
		return nil
	}
	next := &framework.Published{
		Names: p.Clusters, Digest: p.Digest, Scores: before.Scores,
		Generation: before.Generation, Profile: before.Profile, ScoresAt: before.ScoresAt, Revision: max(before.Revision, p.Revision),
		RecordDue:  before.RecordDue || p.Revision > before.Revision,
		SinceStart: before.SinceStart, Queue: before.Queue,
	}
	if q := a.Snapshot.Queue; q != nil && q.Annotation != "" {
		next.Queue = q.Annotation
	}
	next.Extra = max(0, len(p.Clusters)-a.keeps(before))
	if a.ScoresWritten() {
		next.ScoresAt = a.Snapshot.Now
	}
	if a.Publication() == plan.Whole {
		next.Generation, next.Profile = subject.Placement.Generation, decide.ProfileName(subject.Placement)
	}
	if before.Digest == p.Digest {
		next.Names = before.Names
	}
	pages, written := a.pagesAfter()
	if len(written) > 0 {
		_, next.Scores = framework.Listed(slices.Collect(maps.Values(pages)))
	}
	known := before.Pages
	if p.Kind == framework.Republication {
		known = nil
	}
	next.Pages = hashes(pages, written, known)
	if a.part {
		next.Pages = nil // The next attempt writes them again, and what was to be written after them.
	}
	return next
}

// keeps returns how many of the clusters a lowered quota lets the Placement keep: as many as before
// the change, or as that leads to, whichever are more.
func (a *Attempt) keeps(before *framework.Published) int {
	switch a.Publication() {
	case plan.Whole:
		return len(a.Step.Clusters)
	case plan.Partial:
		// What leaves in the end has not lost its place yet.
		return max(len(a.Change.Clusters), len(before.Names)-before.Extra)
	}
	return max(len(before.Names), len(a.Step.Clusters)) - before.Extra
}

// hashes returns the hashes of pages. Of those that were not written it takes the known ones.
func hashes(pages map[string]*v1alpha1.PlacementDecision, written map[string]bool, known map[string]uint64) map[string]uint64 {
	all := make(map[string]uint64, len(pages))
	for name, page := range pages {
		if hash, ok := known[name]; ok && !written[name] {
			all[name] = hash
		} else {
			all[name] = framework.ContentHash(page)
		}
	}
	return all
}

// keepsPublished reports whether the step wrote nothing and equals the last published decision.
func (a *Attempt) keepsPublished(before *framework.Published) bool {
	pl := a.Snapshot.Subject.Placement
	return len(a.Step.Writes) == 0 && before.Digest == a.Step.Digest && len(before.Pages) == len(a.Snapshot.Subject.OwnPages()) &&
		(a.Publication() != plan.Whole || before.Extra == 0 && before.Generation == pl.Generation && before.Profile == decide.ProfileName(pl))
}

// pagesAfter returns the pages after the step's writes, by name, and the names of written pages.
func (a *Attempt) pagesAfter() (pages map[string]*v1alpha1.PlacementDecision, written map[string]bool) {
	pages, written = map[string]*v1alpha1.PlacementDecision{}, map[string]bool{}
	for _, page := range a.Snapshot.Subject.OwnPages() {
		pages[page.Name] = page
	}
	for _, w := range a.Step.Writes {
		written[w.Page.Name] = true
		if pages[w.Page.Name] = w.Page; w.Deleted {
			delete(pages, w.Page.Name)
		}
	}
	return pages, written
}

// ScoresWritten reports whether the writes of the step published scores.
func (a *Attempt) ScoresWritten() bool {
	// New pages contain scores, too, so scoreRateLimit starts again.
	byScore := a.Snapshot.Subject.Placement.Spec.SortBy == v1alpha1.SortByScore
	return len(a.Step.Writes) > 0 && (a.Step.Result.ScoresWritten || byScore)
}
