package plan

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// Records are the writes of an attempt to the records of changes.
type Records struct {
	// Before are written before step 9, in order. A record without a resource version is created;
	// of the others only the status is written.
	Before []*berthv1alpha1.PlacementChange
	// after are changes of statuses after step 9 succeeded; of a record in Before, from what was
	// written then. Records of other changes end before step 9 if one is created or nothing is
	// decided, else after it.
	after []statusUpdate
}

// statusUpdate is a change of the status of a record.
type statusUpdate struct {
	record *berthv1alpha1.PlacementChange
	update func(*berthv1alpha1.PlacementChangeStatus)
}

// After returns the records whose status is written after step 9 succeeded.
func (r *Records) After() (writes []*berthv1alpha1.PlacementChange) {
	for _, c := range r.after {
		if next := withStatus(c.record, c.update); next != nil {
			writes = append(writes, next)
		}
	}
	return writes
}

// Record returns the record that the attempt's change had before the attempt: the open one, or the
// one with the same revision that was rejected or expired. It returns nil if the change had none.
func (p *Plan) Record() *berthv1alpha1.PlacementChange {
	switch {
	case p.Change == nil:
		return nil
	case p.Change.Open != nil:
		return p.Change.Open
	case p.Change.ended != nil && p.Change.ended.Spec.Revision == p.Change.Revision:
		return p.Change.ended
	}
	return nil
}

// RecordBefore returns the record of the attempt's change among those written before step 9; nil if
// none is.
func (p *Plan) RecordBefore() *berthv1alpha1.PlacementChange {
	if p.Change != nil {
		for _, record := range p.Records.Before {
			if record.Spec.Revision == p.Change.Revision {
				return record
			}
		}
	}
	return nil
}

// planRecords sets Records of a Plan that is otherwise complete.
func (a *planner) planRecords() {
	now := metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}
	switch a.Outcome {
	case Held:
		a.recordHold(now)
	case Rejected, Expired:
		a.recordEnd(now)
	case Published:
		a.recordPermit(now, berthv1alpha1.PhaseHeld, func(status *berthv1alpha1.PlacementChangeStatus) { complete(status, now) })
	case Progressing:
		a.recordPermit(now, berthv1alpha1.PhaseProgressing, func(status *berthv1alpha1.PlacementChangeStatus) { a.recordProgress(status, now) })
	default:
		a.expireLater()
		if !a.Effects().Keep {
			a.writeAfter(a.endings(now)...)
		} else {
			for _, r := range a.endings(now) {
				a.writeBefore(r.record, r.update)
			}
		}
	}
	a.decideAgain()
}

// decideAgain repeats an attempt that ends an open record and publishes nothing: the clusters of
// the ended change are not preferred any more, and another selection may follow. A denied change
// would be denied again; a held one is selected again, except where it supersedes one that was
// permitted.
func (a *planner) decideAgain() {
	for _, record := range a.Snapshot.Subject.Records {
		if !changes.IsOpen(record) {
			continue
		}
		again := a.Ends(record)
		switch a.Outcome {
		case Unchanged, Published, Progressing:
			return
		case Held:
			again = again && changes.IsPermitted(record)
		case Denied:
			again = again && !a.isOwn(record)
		case Rejected, Expired:
			again = again || a.isOwn(record)
		}
		switch {
		case again && a.isOwed(record):
			// Until that record is written, the next attempt would end this one again.
			a.State.RequeueAt(a.Snapshot.Now.Add(effects[Waiting].RetryAfter))
		case again:
			a.State.RequeueAt(a.Snapshot.Now)
		}
	}
}

// isOwed reports whether a record without status has the revision that this process published: it
// gets its status, or is replaced, with the record of that, which is not written yet.
func (a *planner) isOwed(record *berthv1alpha1.PlacementChange) bool {
	last := a.Snapshot.Subject.Last
	return record.Status.Phase == "" && last != nil && last.RecordDue && record.Spec.Revision == last.Revision
}

func (a *planner) writeAfter(changes ...statusUpdate) {
	a.Records.after = append(a.Records.after, changes...)
}

// writeBefore adds the changed status of an existing record to before, unless it stays the same. It
// returns the record as it is then.
func (a *planner) writeBefore(record *berthv1alpha1.PlacementChange, change func(*berthv1alpha1.PlacementChangeStatus)) *berthv1alpha1.PlacementChange {
	next := withStatus(record, change)
	if next == nil {
		return record
	}
	a.Records.Before = append(a.Records.Before, next)
	return next
}

// createBefore adds a new record of the change to before, after the ends of those that it
// supersedes.
func (a *planner) createBefore(status berthv1alpha1.PlacementChangeStatus, now metav1.Time) *berthv1alpha1.PlacementChange {
	c, predecessor := a.ChangeOf(a.Change.Proposal), a.Change.predecessor
	if predecessor != nil {
		s := &predecessor.Spec
		c.Cause, c.Before, c.By, c.Comment = s.Cause, s.Before, s.By, s.Comment
		c.Generation, c.Profile, c.PublishedGeneration = s.PlacementGeneration, s.Profile, s.PublishedGeneration
		// With those that do not qualify now: its lists lead to its clusters.
		c.Added = changes.Minus(a.Change.Clusters, a.Snapshot.Subject.LastNames())
	}
	c.Forced = a.forcedOf(a.Change.Removed)
	created := changes.NewRecord(a.Snapshot.Subject.Placement, 0, a.Change.Revision, c)
	created.Status = status
	begin(created, now)
	last := []*berthv1alpha1.PlacementChange{created}
	for _, r := range a.endings(now) {
		if isSame(r.record, predecessor) {
			// Its permission would be lost if it ended before the new record is written.
			last = append(last, withStatus(r.record, r.update))
		} else {
			a.writeBefore(r.record, r.update)
		}
	}
	a.Records.Before = append(a.Records.Before, last...)
	return created
}

// recordHold writes before step 9 that the change is held.
func (a *planner) recordHold(now metav1.Time) {
	record := a.Record()
	if record == nil {
		a.createBefore(berthv1alpha1.PlacementChangeStatus{
			Phase: berthv1alpha1.PhaseHeld, Holds: a.Holds, Message: a.recordMessage(),
			Approval: a.earlierApproval(),
		}, now)
		a.endUsed()
		return
	}
	a.writeBefore(record, func(status *berthv1alpha1.PlacementChangeStatus) {
		status.Phase, status.Holds, status.Message, status.CompletionTime = berthv1alpha1.PhaseHeld, a.Holds, a.recordMessage(), nil
		status.Approval = cmp.Or(a.earlierApproval(), status.Approval)
	})
	a.endUsed()
	a.writeAfter(a.endings(now)...)
}

// recordEnd writes before step 9 that the change was rejected or has expired. A record that could
// not be written while the change was held is created now: a person may still approve it.
func (a *planner) recordEnd(now metav1.Time) {
	end := func(status *berthv1alpha1.PlacementChangeStatus) {
		status.Phase, status.Message, status.CompletionTime = a.Effects().Phase, a.recordMessage(), &now
		if a.Outcome == Expired {
			status.Holds = a.Holds
		}
	}
	record := a.Record()
	if record == nil && a.Change.ended == nil {
		var status berthv1alpha1.PlacementChangeStatus
		end(&status)
		a.createBefore(status, now)
		return
	}
	if record != nil && (changes.IsOpen(record) || record.Status.Phase != a.Effects().Phase) {
		a.writeBefore(record, end)
	}
	a.writeAfter(a.endings(now)...)
}

// recordPermit writes the permission before step 9, so that the next leader, too, completes the
// change, and what was published after it. A change without a record gets one before step 9 only if
// it is published in several steps, or if an earlier record's approval permits it. That record
// becomes Superseded, so that the approval is used once. Until the pages of a change without steps
// are written, phase is Held.
func (a *planner) recordPermit(now metav1.Time, phase berthv1alpha1.ChangePhase, after func(*berthv1alpha1.PlacementChangeStatus)) {
	record, used := a.Record(), a.usedApproval()
	endsOthersAfter := record != nil || used == nil && phase != berthv1alpha1.PhaseProgressing
	switch {
	case record != nil:
		record = a.writeBefore(record, func(status *berthv1alpha1.PlacementChangeStatus) {
			if status.PermittedTime == nil {
				status.Phase, status.PermittedTime, status.CompletionTime, status.Message = phase, &now, nil, ""
				status.Approval = cmp.Or(a.earlierApproval(), status.Approval)
			}
		})
	case !endsOthersAfter:
		record = a.createBefore(berthv1alpha1.PlacementChangeStatus{
			Phase: phase, PermittedTime: &now, Approval: a.earlierApproval(),
		}, now)
	}
	a.endUsed()
	if record != nil {
		a.writeAfter(statusUpdate{record, after})
	}
	if endsOthersAfter {
		a.writeAfter(a.endings(now)...)
	}
}

// endUsed ends the record of usedApproval, so that its approval is used once.
func (a *planner) endUsed() {
	if used := a.usedApproval(); used != nil {
		a.writeBefore(used, func(status *berthv1alpha1.PlacementChangeStatus) {
			status.Phase, status.Message = berthv1alpha1.PhaseSuperseded, fmt.Sprintf("approved, and continued as revision %d", a.Change.Revision)
		})
	}
}

// heldSince returns when the change was first held, as its record says; now for a new one.
func (a *planner) heldSince() time.Time {
	if record := a.Record(); record != nil {
		return changes.Began(record)
	}
	return a.Snapshot.Now
}

// begin sets what the first status of a record says of its beginning.
func begin(record *berthv1alpha1.PlacementChange, at metav1.Time) {
	if status := &record.Status; status.StartTime == nil {
		status.StartTime = &at
		status.Remaining = &berthv1alpha1.RemainingClusters{Added: record.Spec.AddedCount, Removed: record.Spec.RemovedCount}
	}
}

// usedApproval returns the approved record of the same change that was rejected or expired under an
// earlier revision; nil if there is none.
func (a *planner) usedApproval() *berthv1alpha1.PlacementChange {
	if a.Change == nil || !approved(a.Change.ended) || isSame(a.Change.ended, a.Record()) {
		return nil
	}
	return a.Change.ended
}

// earlierApproval returns the approval of usedApproval or of the change whose rest is made; nil
// without one.
func (a *planner) earlierApproval() *berthv1alpha1.ChangeApproval {
	if a.Change.predecessor != nil {
		return changes.ApprovalOf(a.Change.predecessor)
	}
	if used := a.usedApproval(); used != nil {
		return used.Spec.Approval
	}
	return nil
}

// maxMessage is the maximum length of a record's message, in bytes.
const maxMessage = 4096

// isSame reports whether two records of a Placement are the same one; nil is none.
func isSame(a, b *berthv1alpha1.PlacementChange) bool {
	return a != nil && b != nil && a.Spec.Revision == b.Spec.Revision
}

func (a *planner) recordMessage() string { return v1alpha1.CutText(a.Message(), maxMessage) }

// withStatus returns a copy of the record with the changed status; nil if it stays the same.
func withStatus(record *berthv1alpha1.PlacementChange, change func(*berthv1alpha1.PlacementChangeStatus)) *berthv1alpha1.PlacementChange {
	next := record.DeepCopy()
	// The first write of its status may have failed.
	begin(next, metav1.NewTime(changes.Began(record)))
	change(&next.Status)
	if equality.Semantic.DeepEqual(record.Status, next.Status) {
		return nil
	}
	return next
}

// recordProgress stores a step of the change. The last one completes a change that went on instead
// of another one.
func (a *planner) recordProgress(status *berthv1alpha1.PlacementChangeStatus, now metav1.Time) {
	if a.Progress.LeftAdded+a.Progress.LeftRemoved == 0 {
		complete(status, now)
		return
	}
	status.Phase, status.Holds = berthv1alpha1.PhaseProgressing, a.Progress.holds
	status.Message = v1alpha1.CutText(a.Progress.String(), maxMessage)
	status.Remaining = &berthv1alpha1.RemainingClusters{Added: int32(a.Progress.LeftAdded), Removed: int32(a.Progress.LeftRemoved)}
	if IsChange(a.Publish) {
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
func (p *Plan) isOwn(record *berthv1alpha1.PlacementChange) bool {
	return isSame(record, p.Record())
}

// Ends reports whether the attempt ends an open record. One that fails, or decides nothing,
// ends a held change that was rejected or has expired, or of an earlier spec, which an approval
// does not publish any more.
func (p *Plan) Ends(record *berthv1alpha1.PlacementChange) bool {
	switch effects := p.Effects(); {
	case p.Change != nil && p.Outcome == Waiting && isSame(record, p.Change.predecessor):
		return false
	case effects.EndsOthers:
		return effects.EndsOwn || !p.isOwn(record)
	case effects.Keep:
		return isHeld(record) && (p.UndecidedUntilEdit() && p.isOfEarlierSpec(record) || rejected(record)) || p.hasExpired(record)
	}
	return false
}

// isHeld reports whether an open record is of a change that was not permitted, also if its first
// status was not written.
func isHeld(record *berthv1alpha1.PlacementChange) bool {
	return (record.Status.Phase == berthv1alpha1.PhaseHeld || record.Status.Phase == "") && !changes.IsPermitted(record)
}

func (p *Plan) isOfEarlierSpec(record *berthv1alpha1.PlacementChange) bool {
	return record.Spec.PlacementGeneration != p.Snapshot.Subject.Placement.Generation && !changes.OnlyForced(record)
}

// hasExpired reports whether the time of a held change without an answer has passed.
func (p *Plan) hasExpired(record *berthv1alpha1.PlacementChange) bool {
	at := p.expiryOf(record)
	return !at.IsZero() && !at.After(p.Snapshot.Now)
}

// expiryOf returns when a held change without an answer expires; zero if it does not.
func (p *Plan) expiryOf(record *berthv1alpha1.PlacementChange) (at time.Time) {
	for _, hold := range record.Status.Holds {
		renews := p.Profile.Traits(hold.Plugin).RenewsHolds
		if isHeld(record) && changes.ApprovalOf(record) == nil && hold.Until != nil && !renews && (at.IsZero() || hold.Until.Time.Before(at)) {
			at = hold.Until.Time
		}
	}
	return at
}

// expireLater repeats an attempt that failed, or decided nothing, when the held change expires.
// After an Error the backoff says when.
func (a *planner) expireLater() {
	if !a.Effects().Keep {
		return
	}
	for _, record := range a.Snapshot.Subject.Records {
		if at := a.expiryOf(record); at.After(a.Snapshot.Now) {
			a.State.RequeueAt(at)
		}
	}
}

// UndecidedUntilEdit reports whether nothing is decided until an input changes: the Placement is
// misconfigured or not admitted, or its SelectionPolicy is missing.
func (p *Plan) UndecidedUntilEdit() bool {
	return p.Outcome == Undecided && !p.undecidedForNow()
}

// endings returns how the open records end that the attempt ends.
func (a *planner) endings(now metav1.Time) []statusUpdate {
	var all []statusUpdate
	for _, record := range a.Snapshot.Subject.Records {
		if changes.IsOpen(record) && a.Ends(record) {
			all = append(all, statusUpdate{record, func(status *berthv1alpha1.PlacementChangeStatus) { a.end(record, status, now) }})
		}
	}
	return all
}

// end writes how a record ends: Published if its target is published, and only its last write was
// lost; Expired or Rejected if it was that before; else Superseded.
func (a *planner) end(record *berthv1alpha1.PlacementChange, status *berthv1alpha1.PlacementChangeStatus, now metav1.Time) {
	subject := a.Snapshot.Subject
	switch {
	case a.completes(record):
		complete(status, now)
	case a.Effects().Keep && !a.isOfEarlierSpec(record) && a.hasExpired(record):
		status.Phase, status.CompletionTime = berthv1alpha1.PhaseExpired, &now
		status.Message = fmt.Sprintf("Change %d was not approved in time", record.Spec.Revision)
	case rejected(record) && isHeld(record):
		status.Phase, status.CompletionTime = berthv1alpha1.PhaseRejected, &now
		status.Message = fmt.Sprintf("Change %d was rejected by %s", record.Spec.Revision, record.Spec.Approval.By)
	default:
		status.Phase, status.CompletionTime = berthv1alpha1.PhaseSuperseded, &now
		status.Message = fmt.Sprintf("superseded while the phase was %s: %s", record.Status.Phase, a.cause())
		switch {
		case a.Outcome == Denied && a.isOwn(record):
			status.Message = a.recordMessage()
		case a.Change != nil && isSame(record, a.Change.predecessor):
			status.Message = fmt.Sprintf("continued as revision %d, without clusters that the Placement cannot keep", a.Change.Revision)
		}
		// A crash may have lost the count after the last step.
		if changes.IsPermitted(record) {
			status.Remaining = cmp.Or(changes.RemainingOf(record, subject.LastNames()), status.Remaining)
		}
	}
}
