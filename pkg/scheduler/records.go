package scheduler

import (
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

// Record returns the record of the attempt's change: the open one, or the one with the same
// revision that was rejected or expired. It returns nil if the change has none.
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

// RecordsBefore returns the records to write before step 9, in order. A record without a resource
// version is created; of the others only the status is written. Every call returns the same
// records.
func (a *Attempt) RecordsBefore() ([]*berthv1alpha1.PlacementChange, error) {
	if a.before != nil {
		return a.before, nil
	}
	var err error
	a.before, err = a.recordsBefore()
	return a.before, err
}

func (a *Attempt) recordsBefore() ([]*berthv1alpha1.PlacementChange, error) {
	now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
	record := a.Record()
	switch a.Outcome {
	case Held:
		if record != nil {
			return a.withStatus(record, func(status *berthv1alpha1.PlacementChangeStatus) {
				status.Phase, status.Holds, status.Message, status.CompletionTime = berthv1alpha1.PhaseHeld, a.Holds, a.recordMessage(), nil
				if status.StartTime == nil {
					// The first write of the status failed.
					status.StartTime, status.Remaining = &now, remaining(a.Change.Proposal)
				}
			}), nil
		}
		created, err := changes.NewRecord(a.Snapshot.Subject.Placement, 0, a.Change.Revision, a.changeOf(a.Change.Proposal))
		if err != nil {
			return nil, err
		}
		created.Status = berthv1alpha1.PlacementChangeStatus{
			Phase: berthv1alpha1.PhaseHeld, Holds: a.Holds, StartTime: &now, Message: a.recordMessage(), Remaining: remaining(a.Change.Proposal),
			Approval: a.earlierApproval(),
		}
		return append(a.superseded(now), created), nil
	case Rejected, Expired:
		if record == nil || !changes.IsOpen(record) {
			return nil, nil
		}
		return a.withStatus(record, func(status *berthv1alpha1.PlacementChangeStatus) {
			status.Phase, status.Message, status.CompletionTime = a.Effects().Phase, a.recordMessage(), &now
			if a.Outcome == Expired {
				status.Holds = a.Holds
			}
		}), nil
	case Published:
		return a.recordPermit(now, berthv1alpha1.PhaseHeld)
	case Progressing:
		return a.recordPermit(now, berthv1alpha1.PhaseProgressing)
	}
	return nil, nil
}

// recordPermit returns the records that store the permission, so that the next leader, too,
// completes the change. A change without a record gets one before step 9 only if it is published in
// several steps, or if an earlier record's approval permits it. That record becomes Superseded, so
// that the approval is used once.
func (a *Attempt) recordPermit(now metav1.Time, phase berthv1alpha1.ChangePhase) ([]*berthv1alpha1.PlacementChange, error) {
	var writes []*berthv1alpha1.PlacementChange
	record, used := a.Record(), a.usedApproval()
	switch {
	case record != nil:
		writes = a.withStatus(record, func(status *berthv1alpha1.PlacementChangeStatus) {
			if status.PermittedTime == nil {
				status.Phase, status.PermittedTime, status.CompletionTime, status.Message = phase, &now, nil, ""
				status.Approval = a.earlierApproval()
			}
			if status.StartTime == nil {
				// The first write of the status failed.
				status.StartTime, status.Remaining = &now, remaining(a.Change.Proposal)
			}
		})
		if len(writes) > 0 {
			// RecordsAfter continues from what is written now.
			a.Change.open = writes[0]
		}
	case used != nil || phase == berthv1alpha1.PhaseProgressing:
		created, err := changes.NewRecord(a.Snapshot.Subject.Placement, 0, a.Change.Revision, a.changeOf(a.Change.Proposal))
		if err != nil {
			return nil, err
		}
		created.Status = berthv1alpha1.PlacementChangeStatus{
			Phase: phase, StartTime: &now, PermittedTime: &now, Remaining: remaining(a.Change.Proposal), Approval: a.earlierApproval(),
		}
		writes = append(a.superseded(now), created)
		a.Change.open, a.supersededFirst = created, true
	}
	if used != nil {
		writes = append(writes, a.withStatus(used, func(status *berthv1alpha1.PlacementChangeStatus) {
			status.Phase, status.Message = berthv1alpha1.PhaseSuperseded, fmt.Sprintf("approved, and published as revision %d", a.Change.Revision)
		})...)
	}
	return writes, nil
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

// withStatus returns a copy of the record with the changed status; nil if the status stays the
// same.
func (a *Attempt) withStatus(record *berthv1alpha1.PlacementChange, change func(*berthv1alpha1.PlacementChangeStatus)) []*berthv1alpha1.PlacementChange {
	next := record.DeepCopy()
	change(&next.Status)
	if equality.Semantic.DeepEqual(record.Status, next.Status) {
		return nil
	}
	return []*berthv1alpha1.PlacementChange{next}
}

// RecordsAfter returns the records whose status is written after step 9 succeeded; nil if it
// failed.
func (a *Attempt) RecordsAfter() []*berthv1alpha1.PlacementChange {
	if a.Err != nil || a.unrecorded != nil {
		return nil
	}
	now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
	var writes []*berthv1alpha1.PlacementChange
	if record := a.Record(); record != nil && a.Outcome == Published {
		writes = a.withStatus(record, func(status *berthv1alpha1.PlacementChangeStatus) { complete(status, now) })
	} else if record != nil && a.Outcome == Progressing {
		writes = a.withStatus(record, func(status *berthv1alpha1.PlacementChangeStatus) { a.recordProgress(status, now) })
	}
	if a.supersededFirst || a.Outcome == Held && a.Record() == nil {
		// RecordsBefore already included them.
		return writes
	}
	return append(writes, a.superseded(now)...)
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

// superseded returns the open records of other changes, with phase Superseded. A record whose
// target is already published becomes Published: only its last write was lost.
func (a *Attempt) superseded(now metav1.Time) []*berthv1alpha1.PlacementChange {
	subject := a.Snapshot.Subject
	var writes []*berthv1alpha1.PlacementChange
	for _, record := range subject.Records {
		if !changes.IsOpen(record) || !a.supersedes(record) {
			continue
		}
		next := record.DeepCopy()
		last := subject.Last
		switch {
		case last != nil && record.Spec.To == last.Digest && (record.Status.Phase == "" || record.Status.PermittedTime != nil):
			complete(&next.Status, now)
		case a.Outcome == Denied && a.isOwn(record):
			next.Status.Phase, next.Status.CompletionTime, next.Status.Message = berthv1alpha1.PhaseSuperseded, &now, a.recordMessage()
		default:
			next.Status.Phase, next.Status.CompletionTime = berthv1alpha1.PhaseSuperseded, &now
			next.Status.Message = fmt.Sprintf("superseded while the phase was %s: %s", record.Status.Phase, a.cause())
			// A crash may have lost the count after the last step.
			if added, removed, err := changes.Lists(record); err == nil && record.Status.PermittedTime != nil {
				names := subject.LastNames()
				gone := changes.Minus(removed, names)
				next.Status.Remaining = &berthv1alpha1.RemainingClusters{
					Added: int32(len(changes.Minus(added, names))), Removed: int32(len(removed) - len(gone)),
				}
			}
		}
		writes = append(writes, next)
	}
	return writes
}

// History returns the published change, from which the controller writes a record. ok is false if
// nothing was published, no cluster changed, or the change already has a record.
func (a *Attempt) History() (revision int64, change changes.Change, ok bool) {
	if p := a.unrecorded; p != nil {
		return p.Revision, a.changeOf(p), true
	}
	if a.Outcome != Published || a.Err != nil || !isChange(a.Step) || a.Record() != nil {
		return 0, changes.Change{}, false
	}
	change = a.changeOf(a.Step)
	if n := len(change.Removed); n > 0 {
		now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
		change.Removals = []berthv1alpha1.MergedRemoval{{Time: now, Clusters: int32(n), Edited: change.Edited}}
	}
	return a.Step.Revision, change, true
}
