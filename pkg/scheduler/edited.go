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
	// firstRemoval is the first record since the last publication that removes a cluster, by name.
	firstRemoval map[string]*berthv1alpha1.PlacementChange
	// begins has the first time at which a generation was decided, as records say.
	begins map[int64]time.Time
}

// causedByEdit reports whether an edit of the Placement, and not a change of the cluster, made it a
// reason to remove the cluster: what removes it existed before the first decision for the edited
// generation, and the last published generation kept the cluster, at least for some time. What
// cannot be known counts as an edit: nothing leaves early then.
func (a *Attempt) causedByEdit(name string, forcing framework.Forcing) bool {
	if a.edits == nil {
		a.edits = a.findEdits()
	}
	e := a.edits
	if !e.edited && !forcing.Ended {
		return false
	}
	generation := a.Snapshot.Subject.Placement.Generation
	begins := a.timers.DecidedSince
	if record := e.firstRemoval[name]; record != nil {
		if record.Spec.PublishedGeneration == record.Spec.PlacementGeneration && !forcing.Ended {
			return false
		}
		if generation != record.Spec.PlacementGeneration {
			generation, begins = record.Spec.PlacementGeneration, time.Time{}
		}
	}
	if recorded := e.begins[generation]; !recorded.IsZero() && (begins.IsZero() || recorded.Before(begins)) {
		begins = recorded
	}
	// The first generation is no edit.
	return generation > 1 && (begins.IsZero() || !forcing.Since.After(begins))
}

func (a *Attempt) findEdits() *editState {
	subject := a.Snapshot.Subject
	published := publishedGeneration(subject)
	e := &editState{
		edited:       published != 0 && published != subject.Placement.Generation,
		firstRemoval: map[string]*berthv1alpha1.PlacementChange{}, begins: map[int64]time.Time{},
	}
	for _, record := range subject.Records {
		generation := record.Spec.PlacementGeneration
		if at := cmp.Or(record.Status.StartTime, record.Status.PermittedTime, record.Status.CompletionTime); at != nil && e.begins[generation].IsZero() {
			e.begins[generation] = at.Time
		}
		if record.Status.Phase == berthv1alpha1.PhasePublished {
			clear(e.firstRemoval)
			continue
		}
		if !e.edited || record.Spec.PublishedGeneration != published {
			continue
		}
		_, removed, err := changes.Lists(record)
		if err != nil {
			continue
		}
		for _, name := range removed {
			if e.firstRemoval[name] == nil {
				e.firstRemoval[name] = record
			}
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

func generationOf(last *framework.Published) int64 {
	if last == nil {
		return 0
	}
	return last.Generation
}

// updateGeneration stores since when attempts have decided for the Placement's generation.
func (a *Attempt) updateGeneration() {
	pl := a.Snapshot.Subject.Placement
	if a.timers.DecidedGeneration != pl.Generation {
		a.timers.DecidedGeneration, a.timers.DecidedSince = pl.Generation, a.Snapshot.Now
	}
}
