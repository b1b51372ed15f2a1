package scheduler

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// records are the writes of an attempt to the records of changes.
type records struct {
	// before are written before step 9, in order. A record without a resource version is created;
	// of the others only the status is written.
	before []*berthv1alpha1.PlacementChange
	// after are changes of statuses after step 9 succeeded; of a record in before, from what was
	// written then.
	after []recordChange
	err   error
}

// recordChange is a change of the status of a record.
type recordChange struct {
	record *berthv1alpha1.PlacementChange
	change func(*berthv1alpha1.PlacementChangeStatus)
}

// Record returns the record that the attempt's change had before the attempt: the open one, or the
// one with the same revision that was rejected or expired. It returns nil if the change had none.
func (a *Attempt) Record() *berthv1alpha1.PlacementChange {
	switch {
	case a.Change == nil:
		return nil
	case a.Change.open != nil:
		return a.Change.open
	case a.Change.ended != nil && a.Change.ended.Spec.Revision == a.Change.Revision:
		return a.Change.ended
	}
	return nil
}

// recordBefore returns the record of the attempt's change among those written before step 9; nil if
// none is.
func (a *Attempt) recordBefore() *berthv1alpha1.PlacementChange {
	if a.records != nil && a.Change != nil {
		for _, record := range a.records.before {
			if record.Spec.Revision == a.Change.Revision {
				return record
			}
		}
	}
	return nil
}

// RecordsBefore returns the records to write before step 9, in order. A record without a resource
// version is created; of the others only the status is written. Every call returns the same
// records.
func (a *Attempt) RecordsBefore() ([]*berthv1alpha1.PlacementChange, error) {
	a.planRecords()
	return a.records.before, a.records.err
}

// planRecords sets records once.
func (a *Attempt) planRecords() {
	if a.records != nil {
		return
	}
	a.records = &records{}
	now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
	switch a.Outcome {
	case Held:
		a.recordHold(now)
	case Rejected, Expired:
		if record := a.Record(); record != nil && changes.IsOpen(record) {
			a.writeBefore(record, func(status *berthv1alpha1.PlacementChangeStatus) {
				status.Phase, status.Message, status.CompletionTime = a.Effects().Phase, a.recordMessage(), &now
				if a.Outcome == Expired {
					status.Holds = a.Holds
				}
			})
		}
		a.records.after = append(a.records.after, a.superseded(now)...)
	case Published:
		a.recordPermit(now, berthv1alpha1.PhaseHeld, func(status *berthv1alpha1.PlacementChangeStatus) { complete(status, now) })
	case Progressing:
		a.recordPermit(now, berthv1alpha1.PhaseProgressing, func(status *berthv1alpha1.PlacementChangeStatus) { a.recordProgress(status, now) })
	default:
		a.records.after = append(a.records.after, a.superseded(now)...)
	}
}

// writeBefore adds the changed status of an existing record to before, unless it stays the same. It
// returns the record as it is then.
func (a *Attempt) writeBefore(record *berthv1alpha1.PlacementChange, change func(*berthv1alpha1.PlacementChangeStatus)) *berthv1alpha1.PlacementChange {
	next := changed(record, change)
	if next == nil {
		return record
	}
	a.records.before = append(a.records.before, next)
	return next
}

// createBefore adds a new record of the change to before, after the ends of those that it
// supersedes. It returns nil if the change is too large for a record.
func (a *Attempt) createBefore(status berthv1alpha1.PlacementChangeStatus, now metav1.Time) *berthv1alpha1.PlacementChange {
	created, err := changes.NewRecord(a.Snapshot.Subject.Placement, 0, a.Change.Revision, a.changeOf(a.Change.Proposal))
	if err != nil {
		a.records.err = err
		return nil
	}
	created.Status = status
	created.Spec.Forced = a.Change.forced
	for _, r := range a.superseded(now) {
		a.writeBefore(r.record, r.change)
	}
	a.records.before = append(a.records.before, created)
	return created
}

// recordHold writes before step 9 that the change is held.
func (a *Attempt) recordHold(now metav1.Time) {
	record := a.Record()
	if record == nil {
		a.createBefore(berthv1alpha1.PlacementChangeStatus{
			Phase: berthv1alpha1.PhaseHeld, Holds: a.Holds, StartTime: &now, Message: a.recordMessage(), Remaining: remaining(a.Change.Proposal),
			Approval: a.earlierApproval(),
		}, now)
		return
	}
	a.writeBefore(record, func(status *berthv1alpha1.PlacementChangeStatus) {
		status.Phase, status.Holds, status.Message, status.CompletionTime = berthv1alpha1.PhaseHeld, a.Holds, a.recordMessage(), nil
		if status.StartTime == nil {
			// The first write of the status failed.
			status.StartTime, status.Remaining = &now, remaining(a.Change.Proposal)
		}
	})
	a.records.after = append(a.records.after, a.superseded(now)...)
}

// recordPermit writes the permission before step 9, so that the next leader, too, completes the
// change, and what was published after it. A change without a record gets one before step 9 only if
// it is published in several steps, or if an earlier record's approval permits it. That record
// becomes Superseded, so that the approval is used once.
func (a *Attempt) recordPermit(now metav1.Time, phase berthv1alpha1.ChangePhase, after func(*berthv1alpha1.PlacementChangeStatus)) {
	record, used := a.Record(), a.usedApproval()
	supersedes := record != nil || used == nil && phase != berthv1alpha1.PhaseProgressing
	switch {
	case record != nil:
		record = a.writeBefore(record, func(status *berthv1alpha1.PlacementChangeStatus) {
			if status.PermittedTime == nil {
				status.Phase, status.PermittedTime, status.CompletionTime, status.Message = phase, &now, nil, ""
				status.Approval = a.earlierApproval()
			}
			if status.StartTime == nil {
				// The first write of the status failed.
				status.StartTime, status.Remaining = &now, remaining(a.Change.Proposal)
			}
		})
	case !supersedes:
		record = a.createBefore(berthv1alpha1.PlacementChangeStatus{
			Phase: phase, StartTime: &now, PermittedTime: &now, Remaining: remaining(a.Change.Proposal), Approval: a.earlierApproval(),
		}, now)
		if record == nil {
			return
		}
	}
	if used != nil {
		a.writeBefore(used, func(status *berthv1alpha1.PlacementChangeStatus) {
			status.Phase, status.Message = berthv1alpha1.PhaseSuperseded, fmt.Sprintf("approved, and published as revision %d", a.Change.Revision)
		})
	}
	if record != nil {
		a.records.after = append(a.records.after, recordChange{record, after})
	}
	if supersedes {
		a.records.after = append(a.records.after, a.superseded(now)...)
	}
}

// heldSince returns when the change was first held, as its record says; now for a new one.
func (a *Attempt) heldSince() time.Time {
	if record := a.Record(); record != nil && record.Status.StartTime != nil {
		return record.Status.StartTime.Time
	}
	return a.Snapshot.Now
}

// usedApproval returns the approved record of the same change that was rejected or expired under an
// earlier revision; nil if there is none.
func (a *Attempt) usedApproval() *berthv1alpha1.PlacementChange {
	if a.Change == nil || !approved(a.Change.ended) || a.Change.ended == a.Record() {
		return nil
	}
	return a.Change.ended
}

// earlierApproval returns the approval of usedApproval; nil without one.
func (a *Attempt) earlierApproval() *berthv1alpha1.ChangeApproval {
	if used := a.usedApproval(); used != nil {
		return used.Spec.Approval
	}
	return nil
}

// IsNewOutcome reports whether the outcome was not reported before: the attempt wrote it to the
// record or, without a record, the condition has another reason.
func (a *Attempt) IsNewOutcome() bool {
	if a.Effects().Phase != "" && a.recorded {
		return true
	}
	if a.Effects().Phase != "" && a.Record() != nil {
		return false
	}
	c := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	return c == nil || c.Reason != string(a.Outcome)
}

// SetRecorded marks RecordsBefore as written. Do not call it if there are none.
func (a *Attempt) SetRecorded() { a.recorded = true }

// Recorded reports whether SetRecorded was called.
func (a *Attempt) Recorded() bool { return a.recorded }

// maxMessage is the maximum length of a record's message, in bytes.
const maxMessage = 4096

func (a *Attempt) recordMessage() string { return v1alpha1.CutText(a.Message(), maxMessage) }

func remaining(p *framework.Proposal) *berthv1alpha1.RemainingClusters {
	return &berthv1alpha1.RemainingClusters{Added: int32(len(p.Added)), Removed: int32(len(p.Removed))}
}

// changed returns a copy of the record with the changed status; nil if the status stays the same.
func changed(record *berthv1alpha1.PlacementChange, change func(*berthv1alpha1.PlacementChangeStatus)) *berthv1alpha1.PlacementChange {
	next := record.DeepCopy()
	change(&next.Status)
	if equality.Semantic.DeepEqual(record.Status, next.Status) {
		return nil
	}
	return next
}

// RecordsAfter returns the records whose status is written after step 9 succeeded; nil if it
// failed.
func (a *Attempt) RecordsAfter() []*berthv1alpha1.PlacementChange {
	if a.Err != nil || a.unrecorded != nil {
		return nil
	}
	a.planRecords()
	var writes []*berthv1alpha1.PlacementChange
	for _, r := range a.records.after {
		if next := changed(r.record, r.change); next != nil {
			writes = append(writes, next)
		}
	}
	return writes
}

// recordProgress stores a step of the change.
func (a *Attempt) recordProgress(status *berthv1alpha1.PlacementChangeStatus, now metav1.Time) {
	status.Phase, status.Holds = berthv1alpha1.PhaseProgressing, a.progress.holds
	status.Message = v1alpha1.CutText(a.progress.String(), maxMessage)
	status.Remaining = &berthv1alpha1.RemainingClusters{Added: int32(a.progress.leftAdded), Removed: int32(a.progress.leftRemoved)}
	if a.Step != nil && isChange(a.Step) {
		status.LastProgressTime = &now
	}
}

func complete(status *berthv1alpha1.PlacementChangeStatus, now metav1.Time) {
	status.Phase, status.CompletionTime, status.LastProgressTime = berthv1alpha1.PhasePublished, &now, &now
	status.Holds, status.Remaining, status.Message = nil, nil, ""
	if status.PermittedTime == nil {
		status.PermittedTime = &now
	}
}

// isOwn reports whether a record is that of the attempt's change.
func (a *Attempt) isOwn(record *berthv1alpha1.PlacementChange) bool {
	own := a.Record()
	return own != nil && record.Spec.Revision == own.Spec.Revision
}

// supersedes reports whether the attempt ends an open record. Without a decision, it ends a held
// change of an earlier spec, which an approval does not publish any more.
func (a *Attempt) supersedes(record *berthv1alpha1.PlacementChange) bool {
	switch effects := a.Effects(); {
	case effects.Supersedes:
		return effects.Ends || !a.isOwn(record)
	case a.staysUndecided():
		return record.Status.Phase == berthv1alpha1.PhaseHeld && record.Status.PermittedTime == nil &&
			record.Spec.PlacementGeneration != a.Snapshot.Subject.Placement.Generation
	}
	return false
}

// superseded ends the open records of other changes with phase Superseded. A record whose target is
// already published becomes Published: only its last write was lost.
func (a *Attempt) superseded(now metav1.Time) []recordChange {
	var all []recordChange
	for _, record := range a.Snapshot.Subject.Records {
		if changes.IsOpen(record) && a.supersedes(record) {
			all = append(all, recordChange{record, func(status *berthv1alpha1.PlacementChangeStatus) { a.supersede(record, status, now) }})
		}
	}
	return all
}

func (a *Attempt) supersede(record *berthv1alpha1.PlacementChange, status *berthv1alpha1.PlacementChangeStatus, now metav1.Time) {
	subject := a.Snapshot.Subject
	switch last := subject.Last; {
	case last != nil && record.Spec.To == last.Digest && (record.Status.Phase == "" || record.Status.PermittedTime != nil):
		complete(status, now)
	case a.Outcome == Denied && a.isOwn(record):
		status.Phase, status.CompletionTime, status.Message = berthv1alpha1.PhaseSuperseded, &now, a.recordMessage()
	default:
		status.Phase, status.CompletionTime = berthv1alpha1.PhaseSuperseded, &now
		status.Message = fmt.Sprintf("superseded while the phase was %s: %s", record.Status.Phase, a.cause())
		// A crash may have lost the count after the last step.
		if record.Status.PermittedTime != nil {
			status.Remaining = cmp.Or(changes.RemainingOf(record, subject.LastNames()), status.Remaining)
		}
	}
}

// History returns the published change, from which the controller writes a record. ok is false if
// nothing was published, no cluster changed, or the change already has a record.
func (a *Attempt) History() (revision int64, change changes.Change, ok bool) {
	if p := a.unrecorded; p != nil {
		return p.Revision, a.withRemovals(a.changeOf(p)), true
	}
	if a.Outcome != Published || a.Err != nil || !isChange(a.Step) || a.Record() != nil || a.recordBefore() != nil {
		return 0, changes.Change{}, false
	}
	change = a.withRemovals(a.changeOf(a.Step))
	if a.partial && change.PublishedGeneration != 0 {
		// What stays published was decided for the generation before.
		change.Generation = change.PublishedGeneration
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
