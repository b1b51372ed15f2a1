package scheduler

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
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
	if subject := snapshot.Subject; len(subject.DisruptionPolicies) > 0 && snapshot.Timers.ReadySince == nil && !u.areRecorded(subject) {
		snapshot.Timers.Unrecorded, snapshot.Timers.UnrecordedAt = u.clusters, u.at
	}
}

// after returns the additions without a record after an attempt.
func (u additions) after(p *plan.Plan) additions {
	if u.areRecorded(p.Snapshot.Subject) {
		u = additions{}
	}
	if p.Publish == nil || len(p.Publish.Added) == 0 {
		return u
	}
	u.revision, u.at = p.Publish.Revision, p.Snapshot.Now
	if u.clusters = changes.Sorted(slices.Concat(u.clusters, p.Publish.Added)); len(p.Publish.Added) == len(p.Publish.Clusters) {
		u.clusters = p.Publish.Clusters // The published decision has the same list.
	}
	return u
}
