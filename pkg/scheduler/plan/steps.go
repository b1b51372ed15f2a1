package plan

import (
	"slices"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// changedInSteps returns the clusters of all additions and removals since a change was last
// completed, sorted.
func (a *planner) changedInSteps() (added, removed []string) {
	for _, record := range a.recordsInSteps() {
		joined, left, err := changes.Lists(record)
		if err != nil {
			continue
		}
		added = append(added, joined...)
		if a.progresses(record) || record.Status.Phase == berthv1alpha1.PhasePublished || changes.RemovedInPart(record) > 0 {
			removed = append(removed, left...)
		}
	}
	return changes.Sorted(added), changes.Sorted(removed)
}

// recordsInSteps returns the records of the changes that were permitted since a change was last
// completed or, as far as is known, no longer needed, newest first.
func (a *planner) recordsInSteps() (records []*berthv1alpha1.PlacementChange) {
	var beside []*berthv1alpha1.PlacementChange
	for _, record := range slices.Backward(changes.History(a.Snapshot.Subject.Records)) {
		completed, permitted := record.Status.Phase == berthv1alpha1.PhasePublished, record.Status.PermittedTime
		switch {
		case permitted != nil && permitted.Time.Before(a.Timers.Unchanged.Truncate(time.Second)):
			// The target came back to what was published, also if the end was not written.
			return records
		case completed && changes.OnlyForced(record):
			// It counts if a change was in progress beside it.
			beside = append(beside, record)
		case completed || changes.IsOpen(record) && a.completes(record):
			return records
		case a.progresses(record) || changes.IsPermitted(record):
			records = append(append(records, beside...), record)
			beside = nil
		}
	}
	return records
}

// completes reports whether the target of an open record is published: only its last write was
// lost.
func (a *planner) completes(record *berthv1alpha1.PlacementChange) bool {
	last := a.Snapshot.Subject.Last
	return last != nil && record.Spec.To == last.Digest && (record.Status.Phase == "" || changes.IsPermitted(record))
}

// progresses reports whether a record is that of a change in progress, or of this change.
func (a *planner) progresses(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseProgressing || a.Change != nil && isSame(record, a.Change.Open)
}

// original returns the clusters that were published when the change began, or the first of the
// changes that it superseded in part; nil if a record does not list its clusters.
func (a *planner) original() []string {
	names := a.Snapshot.Subject.LastNames()
	for _, record := range a.recordsInSteps() {
		added, removed, err := changes.Lists(record)
		if err != nil {
			return nil
		}
		names = changes.Sorted(slices.Concat(changes.Minus(names, added), removed))
	}
	return append([]string{}, names...)
}

// OpenChange returns what is left of the change of the open record; nil without one. The selected
// clusters have no scores.
func OpenChange(snapshot *framework.Snapshot) *framework.Proposal {
	record := changes.History(snapshot.Subject.Records).Open()
	if record == nil {
		return nil
	}
	added, removed, err := changes.Lists(record)
	if err != nil {
		return nil
	}
	last := snapshot.Subject.LastNames()
	p := &framework.Proposal{
		Clusters: changes.Sorted(slices.Concat(changes.Minus(last, removed), added)),
		Digest:   record.Spec.To, From: record.Spec.From, Revision: record.Spec.Revision, Cause: record.Spec.Cause, Edited: record.Spec.Edited,
	}
	p.Added, p.Removed = changes.Between(last, p.Clusters)
	for _, name := range p.Clusters {
		p.Selected = append(p.Selected, framework.SelectedCluster{Cluster: clusterOf(snapshot, name)})
	}
	return p
}
