package scheduler

import (
	"cmp"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// SetRecorded marks Records.Before as written. Do not call it if there are none.
func (a *Attempt) SetRecorded() { a.recorded = true }

// Recorded reports whether SetRecorded was called.
func (a *Attempt) Recorded() bool { return a.recorded }

// RecordsAfter returns the records whose status is written after step 9 succeeded; nil if it
// failed.
func (a *Attempt) RecordsAfter() []*berthv1alpha1.PlacementChange {
	if a.Err != nil || a.withoutRecords {
		return nil
	}
	return a.Records.After()
}

// History returns the published change, from which the controller writes a record. ok is false if
// nothing was published, no cluster changed, or the change already has a record.
func (a *Attempt) History() (revision int64, change changes.Change, ok bool) {
	if a.withoutRecords {
		return a.Step.Revision, a.withRemovals(a.ChangeOf(a.Step)), true
	}
	if a.Outcome != plan.Published || a.Err != nil || !plan.IsChange(a.Step) || a.Record() != nil || a.RecordBefore() != nil {
		return 0, changes.Change{}, false
	}
	change = a.withRemovals(a.ChangeOf(a.Step))
	if a.part && a.Step.Partial {
		// Not all is published that was decided for the new generation.
		change.Generation, change.Profile = cmp.Or(change.PublishedGeneration, change.Generation), cmp.Or(plan.PublishedProfile(a.Snapshot.Subject), change.Profile)
	}
	return a.Step.Revision, change, true
}

// withRemovals adds what limits on removals count if the change is merged with others.
func (a *Attempt) withRemovals(change changes.Change) changes.Change {
	if n := len(change.Removed); n > 0 {
		now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
		change.Removals = []berthv1alpha1.MergedRemoval{{Time: now, Clusters: int32(n), Edited: change.Edited}}
	}
	return change
}

// OpenRecord returns the open record of the Placement after this attempt; nil if there is none.
func (a *Attempt) OpenRecord() *berthv1alpha1.PlacementChange {
	if a.recorded && a.Change != nil {
		if record := cmp.Or(a.RecordBefore(), a.Change.Open); record != nil {
			if !changes.IsOpen(record) {
				return nil
			}
			return record
		}
	}
	if open := changes.History(a.Snapshot.Subject.Records).Open(); open != nil && !a.Ends(open) {
		return open
	}
	return nil
}

// Listed are the names of the clusters that are published after this attempt, sorted.
func (a *Attempt) Listed() []string {
	switch last := a.Snapshot.Subject.Last; {
	case a.Step != nil:
		return a.Step.Clusters
	case last != nil:
		return last.Names
	}
	names, _ := framework.Listed(a.Snapshot.Subject.OwnPages())
	return names
}

// ListsLast reports whether the pages are known to be those published last, if the attempt
// publishes nothing: no step failed, and no other client edited them.
func (a *Attempt) ListsLast() bool {
	subject := a.Snapshot.Subject
	return subject.Last != nil && !a.unverified && !subject.Last.Damaged(subject)
}

// Proof returns what is needed to skip later attempts of the Placement that cannot change the
// answer; nil if each must run. Call it after the attempt was published and reported.
func (a *Attempt) Proof() *framework.Settled {
	if a.Err != nil || a.Earlier != nil || a.Step != nil && len(a.Step.Writes) > 0 {
		return nil
	}
	return a.Settled
}

// WronglySkipped reports whether the attempt would have been skipped (Snapshot.Skippable), but its
// answer differs from the published one, or it failed. An attempt that ran out of time is not
// compared. It is always false unless the inventory checks skips.
func (a *Attempt) WronglySkipped() bool {
	if !a.Snapshot.Skippable {
		return false
	}
	if a.Failure != nil {
		_, _, timedOut := a.TimedOut()
		return !timedOut && !a.Failure.IsUnfinished()
	}
	satisfied, _ := a.Satisfied()
	return plan.IsChange(a.Target) || !satisfied
}

// Panicked returns the panics of plugins in the attempt.
func (a *Attempt) Panicked() []*framework.Status {
	statuses := slices.Concat([]*framework.Status{a.Failure, a.Err}, a.Panics, a.panics)
	if a.Earlier != nil {
		statuses = append(statuses, a.Earlier.Panicked()...)
	}
	var all []*framework.Status
	for _, status := range statuses {
		var panicked *framework.PanicError
		if errors.As(status.Err(), &panicked) && !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	return all
}

// KeptScores is the text of the scores of an attempt whose response was lost; empty for others.
func (a *Attempt) KeptScores() string { return a.scores }

// SelectionStatus returns the status of a SelectionPolicy of the Placement after this attempt.
func (a *Attempt) SelectionStatus(policy *berthv1alpha1.SelectionPolicy) *berthv1alpha1.SelectionPolicyStatus {
	return a.Decision.SelectionStatus(policy, a.Listed())
}
