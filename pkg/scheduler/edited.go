package scheduler

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// editState is what is known of the edits of a Placement since its last publication.
type editState struct {
	// edited is true if the published clusters were decided for another generation.
	edited bool
	// forced has the clusters whose removal was forced in a record since a change was last
	// completed, and when that record was written.
	forced map[string]time.Time
	// begins is the first time since then at which the present generation and profile were decided,
	// as records say; zero if none does.
	begins time.Time
}

// causedByEdit reports whether an edit of the Placement, and not a change of the cluster, made it a
// reason to remove the cluster: what removes it existed before the first decision for the edited
// generation, and the last published generation kept the cluster. since is zero if it is unknown
// when it began to exist. What cannot be known counts as an edit: nothing leaves early then.
func (a *Attempt) causedByEdit(name string, since time.Time) bool {
	if a.edits == nil {
		a.edits = a.findEdits()
	}
	e := a.edits
	if !e.edited {
		return false
	}
	if at, was := e.forced[name]; was && !since.After(at) {
		return false
	}
	begins := a.timers.DecidedSince
	if !e.begins.IsZero() && (begins.IsZero() || e.begins.Before(begins)) {
		begins = e.begins
	}
	return begins.IsZero() || !since.After(begins)
}

func (a *Attempt) findEdits() *editState {
	subject := a.Snapshot.Subject
	published, profile := publishedGeneration(subject), publishedProfile(subject)
	e := &editState{edited: published != 0 && published != subject.Placement.Generation || profile != "" && profile != ProfileName(subject.Placement)}
	if !e.edited {
		return e
	}
	pl := subject.Placement
	e.forced = map[string]time.Time{}
	for _, record := range subject.Records {
		at := cmp.Or(record.Status.StartTime, record.Status.PermittedTime, record.Status.CompletionTime)
		switch {
		case record.Status.Phase == berthv1alpha1.PhasePublished:
			clear(e.forced)
			e.begins = time.Time{}
			continue
		case at == nil:
			continue
		case e.begins.IsZero() && record.Spec.PlacementGeneration == pl.Generation && record.Spec.Profile == ProfileName(pl):
			e.begins = at.Time
		}
		for _, name := range record.Spec.Forced {
			e.forced[name] = at.Add(time.Second)
		}
	}
	return e
}

// publishedGeneration returns the generation of the Placement for which the published clusters were
// decided; 0 if unknown. After a start the records and the status say so.
func publishedGeneration(subject *framework.Subject) int64 {
	last, history := subject.Last, changes.History(subject.Records)
	if last == nil || last.Generation != 0 {
		return generationOf(last)
	}
	if open := history.Open(); open != nil && open.Spec.PublishedGeneration != 0 {
		return open.Spec.PublishedGeneration
	}
	conditions := subject.Placement.Status.Conditions
	satisfied := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionSatisfied)
	if satisfied != nil && satisfied.ObservedGeneration != 0 && meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending) == nil &&
		meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionDecisionProgressing) == nil &&
		!meta.IsStatusConditionTrue(conditions, v1alpha1.PlacementConditionMisconfigured) {
		return satisfied.ObservedGeneration
	}
	if len(history) == 0 {
		return 0
	}
	newest := history[len(history)-1]
	if newest.Status.Phase != berthv1alpha1.PhasePublished {
		return newest.Spec.PublishedGeneration
	}
	return newest.Spec.PlacementGeneration
}

// publishedProfile returns the profile for which the published clusters were decided; empty if
// unknown. After a start the records say so.
func publishedProfile(subject *framework.Subject) string {
	if last := subject.Last; last != nil && last.Profile != "" {
		return last.Profile
	}
	if newest := changes.History(subject.Records).Newest(berthv1alpha1.PhasePublished); newest != nil {
		return newest.Spec.Profile
	}
	return ""
}

func generationOf(last *framework.Published) int64 {
	if last == nil {
		return 0
	}
	return last.Generation
}

// updateGeneration stores since when attempts have decided for the Placement's generation and
// profile.
func (a *Attempt) updateGeneration() {
	pl := a.Snapshot.Subject.Placement
	if profile := ProfileName(pl); a.timers.DecidedGeneration != pl.Generation || a.timers.DecidedProfile != profile {
		a.timers.DecidedGeneration, a.timers.DecidedProfile, a.timers.DecidedSince = pl.Generation, profile, a.Snapshot.Now
	}
}
