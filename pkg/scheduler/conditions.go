package scheduler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Why a Placement is not decided.
const (
	// Disabled: by its annotation.
	Disabled = "disabled"
	// Terminating: it is being deleted.
	Terminating = "terminating"
)

// Skipped returns why a Placement is not decided; empty if it is decided.
func Skipped(pl *v1alpha1.Placement) string {
	switch {
	case !pl.DeletionTimestamp.IsZero():
		return Terminating
	case pl.IsDisabled():
		return Disabled
	}
	return ""
}

// DisabledCondition is the only condition that Berth writes to a Placement that its annotation
// disables.
func DisabledCondition(pl *v1alpha1.Placement) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.PlacementConditionSchedulingDisabled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDisabledByAnnotation,
		Message:            fmt.Sprintf("The annotation %s is \"true\": the published decision stays as it is", v1alpha1.PlacementDisableAnnotation),
		ObservedGeneration: pl.Generation,
	}
}

// Conditions returns the conditions that this cycle sets, without times.
func (r *Result) Conditions() []metav1.Condition {
	generation := r.Snapshot.Subject.Placement.Generation
	conditions := []metav1.Condition{r.misconfiguredCondition(), r.satisfiedCondition()}
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

// waits reports whether nothing was decided because a plugin waits for an outside fact.
func (r *Result) waits() bool {
	return r.Failure.Code() == framework.Pending && !r.Failure.IsUnfinished()
}

// storedTrueCondition returns a stored condition that is True for this generation if the failure is
// Pending, because a later attempt continues the evaluation; otherwise nil.
func (r *Result) storedTrueCondition(conditionType string) *metav1.Condition {
	pl := r.Snapshot.Subject.Placement
	c := meta.FindStatusCondition(pl.Status.Conditions, conditionType)
	if r.Failure.Code() != framework.Pending || c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != pl.Generation {
		return nil
	}
	return c
}

// publishedIsCurrent reports whether all clusters in the status are still published and candidates.
func (r *Result) publishedIsCurrent() bool {
	subject := r.Snapshot.Subject
	return subject.Published.Len() == int(subject.Placement.Status.NumberOfSelectedClusters) && r.candidates.Covers(subject.Published)
}

func (r *Result) misconfiguredCondition() metav1.Condition {
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

// Satisfied reports whether the selection has as many clusters as the Placement wants and violates
// no constraint. why is the message of the condition PlacementSatisfied.
func (r *Result) Satisfied() (satisfied bool, why string) {
	c := r.satisfiedCondition()
	return c.Status == metav1.ConditionTrue, c.Message
}

func (r *Result) satisfiedCondition() metav1.Condition {
	status, reason, message := r.satisfied()
	if status == metav1.ConditionFalse && r.Failure == nil {
		if summary := r.Summary(); summary != "" {
			message += ": " + summary
		}
	}
	return metav1.Condition{Type: v1alpha1.PlacementConditionSatisfied, Status: status, Reason: reason, Message: message}
}

// satisfied returns the first matching row of the table in the user guide.
func (r *Result) satisfied() (status metav1.ConditionStatus, reason, message string) {
	if c := r.misconfiguredCondition(); c.Status == metav1.ConditionTrue {
		return metav1.ConditionFalse, v1alpha1.ReasonMisconfigured, c.Message
	}
	if reason, message = r.withoutCandidates(); reason != "" {
		return metav1.ConditionFalse, reason, message
	}
	missing := r.Shortfall.Missing
	switch {
	case r.policyMissing != "":
		return metav1.ConditionFalse, v1alpha1.ReasonSelectionPolicyMissing, r.policyMissing
	case r.storedTrueCondition(v1alpha1.PlacementConditionSatisfied) != nil && r.publishedIsCurrent():
		c := r.storedTrueCondition(v1alpha1.PlacementConditionSatisfied)
		return c.Status, c.Reason, c.Message
	case r.Failure != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNotAllDecisionsScheduled, r.Failure.Err().Error()
	case len(r.Selected) == 0 && r.Demand.Limit != 0:
		return metav1.ConditionFalse, v1alpha1.ReasonNoManagedClusterMatched,
			"No ManagedCluster matches any of the cluster predicate"
	case len(r.Shortfall.Unmet) > 0:
		return metav1.ConditionFalse, v1alpha1.ReasonGroupUnsatisfiable, r.unmetGroups()
	case r.Shortfall.BlockedBy != "":
		return metav1.ConditionFalse, v1alpha1.ReasonSpreadUnsatisfiable,
			fmt.Sprintf("%d cluster decisions unscheduled by %s", missing, r.Shortfall.BlockedBy)
	case missing == 0:
		return metav1.ConditionTrue, v1alpha1.ReasonAllDecisionsScheduled, "All cluster decisions scheduled"
	}
	message = fmt.Sprintf("%d cluster decisions unscheduled", missing)
	if r.Demand.LimitBy != "" && r.Demand.Capped(len(r.Selected), missing) {
		message += " by quota: " + r.Demand.LimitBy
	}
	if r.pin != nil {
		message += fmt.Sprintf("; pinned to revision %d", r.pin.revision)
	}
	return metav1.ConditionFalse, v1alpha1.ReasonNotAllDecisionsScheduled, message
}

// withoutCandidates returns why the Placement has no candidates; empty if it has some.
func (r *Result) withoutCandidates() (reason, message string) {
	snapshot, queue := r.Snapshot, r.Snapshot.Queue
	switch {
	case queue != nil && !queue.Admitted && queue.Rejected:
		return v1alpha1.ReasonQueueRejected, "No queue accepts the Placement: " + queue.Message
	case queue != nil && !queue.Admitted:
		return v1alpha1.ReasonNotAllDecisionsScheduled, queue.Message
	case len(snapshot.BoundSets) == 0:
		return v1alpha1.ReasonNoManagedClusterSetBindings, "No valid ManagedClusterSetBindings found in placement namespace"
	case len(snapshot.Sets) == 0 && queue != nil && queue.Restricted:
		return v1alpha1.ReasonNoIntersection,
			"The queue owns none of the ManagedClusterSets that the Placement can use: " + queue.Message
	case len(snapshot.Sets) == 0:
		return v1alpha1.ReasonNoIntersection, fmt.Sprintf("None of ManagedClusterSets [%s] is bound to placement namespace",
			strings.Join(snapshot.Subject.Placement.Spec.ClusterSets, ","))
	case r.Candidates() == 0:
		return v1alpha1.ReasonAllManagedClusterSetsEmpty,
			fmt.Sprintf("All ManagedClusterSets [%s] have no member ManagedCluster", strings.Join(r.setNames(), ","))
	}
	return "", ""
}

func (r *Result) setNames() []string {
	names := make([]string, len(r.Snapshot.Sets))
	for i, set := range r.Snapshot.Sets {
		names[i] = set.Name
	}
	return names
}
