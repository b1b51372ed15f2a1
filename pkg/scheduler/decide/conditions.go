package decide

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Conditions returns the conditions that this cycle sets, without times.
func (r *Decision) Conditions() []metav1.Condition {
	generation := r.Snapshot.Subject.Placement.Generation
	conditions := []metav1.Condition{r.MisconfiguredCondition(), r.satisfiedCondition()}
	if queue := r.Snapshot.Queue; queue != nil {
		admitted := metav1.Condition{Type: v1alpha1.PlacementConditionQueueAdmitted, Status: metav1.ConditionFalse, Reason: queue.Reason, Message: queue.Message}
		if queue.Admitted {
			admitted.Status = metav1.ConditionTrue
		}
		conditions = append(conditions, admitted)
	}
	conditions = append(conditions, r.reported...)
	for i := range conditions {
		conditions[i].ObservedGeneration = generation
		conditions[i].Message = v1alpha1.CutMessage(conditions[i].Message)
	}
	return conditions
}

// UndecidedWaiting reports whether nothing was decided because a plugin waits for an outside fact.
func (r *Decision) UndecidedWaiting() bool {
	return r.Failure.Code() == framework.Pending && !r.Failure.IsUnfinished()
}

// storedTrueCondition returns a stored condition that is True for this generation if the failure is
// Pending, because a later attempt continues the evaluation; otherwise nil.
func (r *Decision) storedTrueCondition(conditionType string) *metav1.Condition {
	pl := r.Snapshot.Subject.Placement
	c := meta.FindStatusCondition(pl.Status.Conditions, conditionType)
	if r.Failure.Code() != framework.Pending || c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != pl.Generation {
		return nil
	}
	return c
}

// publishedIsCurrent reports whether all clusters in the status are still published and candidates.
func (r *Decision) publishedIsCurrent() bool {
	subject := r.Snapshot.Subject
	return subject.LastClusters.Len() == int(subject.Placement.Status.NumberOfSelectedClusters) && r.candidates.Covers(subject.LastClusters)
}

func (r *Decision) MisconfiguredCondition() metav1.Condition {
	if c := r.storedTrueCondition(v1alpha1.PlacementConditionMisconfigured); c != nil && r.Failure.IsUnfinished() {
		return metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	if r.Misconfigured() {
		return metav1.Condition{
			Type:    v1alpha1.PlacementConditionMisconfigured,
			Status:  metav1.ConditionTrue,
			Reason:  v1alpha1.ReasonMisconfigured,
			Message: strings.TrimPrefix(r.Failure.Plugin()+":"+r.Failure.Reason(), ":"),
		}
	}
	return metav1.Condition{
		Type:    v1alpha1.PlacementConditionMisconfigured,
		Status:  metav1.ConditionFalse,
		Reason:  v1alpha1.ReasonSucceedConfigured,
		Message: "Placement configurations check pass",
	}
}
