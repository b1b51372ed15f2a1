package scheduler

import (
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// changedInSteps returns the clusters of all additions and removals since a change was last
// completed, sorted.
func (a *Attempt) changedInSteps() (added, removed []string) {
	for _, record := range a.recordsInSteps() {
		joined, left, err := changes.Lists(record)
		if err != nil {
			continue
		}
		added = append(added, joined...)
		if a.progresses(record) || changes.RemovedInPart(record) > 0 {
			removed = append(removed, left...)
		}
	}
	return changes.Sorted(added), changes.Sorted(removed)
}

// recordsInSteps returns the records of the changes that were permitted since a change was last
// completed, newest first.
func (a *Attempt) recordsInSteps() (records []*berthv1alpha1.PlacementChange) {
	for _, record := range slices.Backward(changes.History(a.Snapshot.Subject.Records)) {
		if record.Status.Phase == berthv1alpha1.PhasePublished {
			break
		}
		if a.progresses(record) || record.Status.PermittedTime != nil {
			records = append(records, record)
		}
	}
	return records
}

// progresses reports whether a record is that of a change in progress, or of this change.
func (a *Attempt) progresses(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseProgressing || a.Change != nil && record == a.Change.open
}

// original returns the clusters that were published when the change began, or the first of the
// changes that it superseded in part; nil if a record does not list its clusters.
func (a *Attempt) original() []string {
	names := append([]string{}, a.Snapshot.Subject.LastNames()...)
	for _, record := range a.recordsInSteps() {
		added, removed, err := changes.Lists(record)
		if err != nil {
			return nil
		}
		names = changes.Sorted(slices.Concat(changes.Minus(names, added), removed))
	}
	return names
}
