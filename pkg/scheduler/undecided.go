package scheduler

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// staysUndecided reports whether nothing is decided until an input changes: the Placement is
// misconfigured or not admitted, or its SelectionPolicy is missing.
func (a *Attempt) staysUndecided() bool {
	return a.Outcome == Undecided && !a.failsForNow() && !a.waits()
}

// openRecord returns the open record of the Placement after this attempt; nil if there is none.
func (a *Attempt) openRecord() *berthv1alpha1.PlacementChange {
	if a.recorded && a.Change != nil {
		if record := cmp.Or(a.recordBefore(), a.Change.open); record != nil {
			return record
		}
	}
	if open := changes.History(a.Snapshot.Subject.Records).Open(); open != nil && !a.supersedes(open) {
		return open
	}
	return nil
}

// SetFailedConditions updates the conditions of a Placement whose decision could not be published.
// a is nil if the failure came before an attempt.
func (a *Attempt) SetFailedConditions(conditions *[]metav1.Condition, generation int64, failure error) {
	published := generation
	if c := meta.FindStatusCondition(*conditions, v1alpha1.PlacementConditionSatisfied); c != nil {
		// After a restart it tells whether the pages are those of the spec (Subject.Edited).
		published = c.ObservedGeneration
	}
	v1alpha1.SetCondition(conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionSatisfied, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotAllDecisionsScheduled,
		Message: failure.Error(), ObservedGeneration: published,
	})
	if a != nil {
		a.keepPending(conditions)
		a.keepProgressing(conditions)
	}
}

// keepPending keeps the condition DecisionPending after an attempt without a decision, or that
// failed, if the change still is as it says.
func (a *Attempt) keepPending(conditions *[]metav1.Condition) {
	c := meta.FindStatusCondition(*conditions, v1alpha1.PlacementConditionDecisionPending)
	if c != nil && !a.isStill(c.Reason) {
		meta.RemoveStatusCondition(conditions, c.Type)
	}
}

// isStill reports whether the change is in the state of a reason of DecisionPending.
func (a *Attempt) isStill(reason string) bool {
	subject, open := a.Snapshot.Subject, a.openRecord()
	generation := subject.Placement.Generation
	switch {
	case open != nil && open.Status.PermittedTime != nil:
		return false
	case reason == v1alpha1.ReasonHeld && open == nil:
		// Without records, only memory has the change.
		return a.Snapshot.Answers.Revision > 0 && a.Snapshot.Answers.Generation == generation
	case reason == v1alpha1.ReasonHeld:
		return open.Spec.PlacementGeneration == generation
	case reason == v1alpha1.ReasonRejected || reason == v1alpha1.ReasonExpired:
		return changes.History(subject.Records).Applies(berthv1alpha1.Digest(subject.LastNames()), generation)
	}
	return !a.staysUndecided()
}

// keepProgressing keeps the condition DecisionProgressing after an attempt without a decision, or
// that failed, if a change is in progress. It says so if the change does not go on.
func (a *Attempt) keepProgressing(conditions *[]metav1.Condition) {
	open := a.openRecord()
	if open == nil || open.Status.Phase != berthv1alpha1.PhaseProgressing {
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionProgressing)
		return
	}
	if !a.staysUndecided() {
		return
	}
	p := progress{added: int(open.Spec.AddedCount), removed: int(open.Spec.RemovedCount)}
	if left := open.Status.Remaining; left != nil {
		p.leftAdded, p.leftRemoved = int(left.Added), int(left.Removed)
	}
	_, _, why := a.satisfied()
	p.why = fmt.Sprintf("it does not go on: %s", why)
	v1alpha1.SetCondition(conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionDecisionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUndecided,
		Message: p.String(), ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
	})
}
