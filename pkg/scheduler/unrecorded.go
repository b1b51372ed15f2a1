package scheduler

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// additions are what changes of one Placement added whose records attempts have not seen yet. The
// record of a change that is not held is written later.
type additions struct {
	clusters []string
	// revision and at are those of the last change.
	revision int64
	at       time.Time
}

// areRecorded reports whether a record describes the additions.
func (u additions) areRecorded(subject *framework.Subject) bool {
	return changes.History(subject.Records).Last() >= u.revision
}

// load adds them to the Snapshot of an attempt that begins to measure how long clusters have been
// ready.
func (u additions) load(snapshot *framework.Snapshot) {
	if subject := snapshot.Subject; len(subject.Policies) > 0 && snapshot.Timers.ReadySince == nil && !u.areRecorded(subject) {
		snapshot.Timers.Unrecorded, snapshot.Timers.UnrecordedAt = u.clusters, u.at
	}
}

// unrecordedAfter returns the additions without a record after an attempt; none if changes get no
// records.
func (s *Scheduler) unrecordedAfter(a *Attempt) additions {
	subject := a.Snapshot.Subject
	u := s.timers[subject.Key()].unrecorded
	if u.areRecorded(subject) {
		u = additions{}
	}
	if s.WriteRecordsBefore == nil || a.Step == nil || len(a.Step.Added) == 0 {
		return u
	}
	u.revision, u.at = a.Step.Revision, a.Snapshot.Now
	if u.clusters = changes.Sorted(slices.Concat(u.clusters, a.Step.Added)); len(a.Step.Added) == len(a.Step.Clusters) {
		u.clusters = a.Step.Clusters // The published decision has the same list.
	}
	return u
}
