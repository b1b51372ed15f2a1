package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Satisfied reports whether the selection has as many clusters as the Placement wants and violates
// no constraint. why is the message of the condition PlacementSatisfied.
func (r *Decision) Satisfied() (satisfied bool, why string) {
	c := r.satisfiedCondition()
	return c.Status == metav1.ConditionTrue, c.Message
}

func (r *Decision) satisfiedCondition() metav1.Condition {
	status, reason, message := r.satisfied()
	if status == metav1.ConditionFalse && r.Failure == nil {
		if summary := r.Summary(); summary != "" {
			message += ": " + summary
		}
	}
	return metav1.Condition{Type: v1alpha1.PlacementConditionSatisfied, Status: status, Reason: reason, Message: message}
}

// satisfied returns the first matching row of the table in the user guide.
func (r *Decision) satisfied() (status metav1.ConditionStatus, reason, message string) {
	if c := r.MisconfiguredCondition(); c.Status == metav1.ConditionTrue {
		return metav1.ConditionFalse, v1alpha1.ReasonMisconfigured, c.Message
	}
	if reason, message = r.withoutCandidates(); reason != "" {
		return metav1.ConditionFalse, reason, message
	}
	switch {
	case r.policyMissing != "":
		return metav1.ConditionFalse, v1alpha1.ReasonSelectionPolicyMissing, r.policyMissing
	case r.storedTrueCondition(v1alpha1.PlacementConditionSatisfied) != nil && r.publishedIsCurrent():
		c := r.storedTrueCondition(v1alpha1.PlacementConditionSatisfied)
		return c.Status, c.Reason, c.Message
	case r.Failure != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNotAllDecisionsScheduled, r.Failure.Err().Error()
	case r.Demand.Number == 0:
		return metav1.ConditionTrue, v1alpha1.ReasonAllDecisionsScheduled, allScheduled
	}
	for _, cause := range causes {
		if reason, message = cause(r); reason != "" {
			return metav1.ConditionFalse, reason, message
		}
	}
	return metav1.ConditionTrue, v1alpha1.ReasonAllDecisionsScheduled, allScheduled
}

const allScheduled = "All cluster decisions scheduled"

// causes are why a selection may not be what the Placement asks for, in order. Each returns no
// reason if it does not apply.
var causes = [...]func(r *Decision) (reason, message string){
	(*Decision).pinCause, (*Decision).spreadCause, (*Decision).groupCause, (*Decision).filterCause, (*Decision).numberCause,
}

func (r *Decision) pinCause() (reason, message string) {
	if r.pin == nil || slices.ContainsFunc(r.Feasible, func(c *framework.Cluster) bool { return r.pin.has(c.Name) }) {
		return "", ""
	}
	message = fmt.Sprintf("Revision %d, to which the Placement is pinned, has no clusters", r.pin.revision)
	if n := len(r.pin.names); n > 0 {
		message += fmt.Sprintf(" left: of %d none qualifies", n)
	}
	return v1alpha1.ReasonPinUnsatisfiable, message
}

func (r *Decision) spreadCause() (reason, message string) {
	if r.Shortfall.BlockedBy == "" {
		return "", ""
	}
	message = r.unscheduled() + " by " + r.Shortfall.BlockedBy
	for _, more := range []string{r.Shortfall.Lacking, r.groupsText()} {
		if more != "" {
			message += "; " + more
		}
	}
	return v1alpha1.ReasonSpreadUnsatisfiable, message
}

func (r *Decision) groupCause() (reason, message string) {
	message = r.groupsText()
	if message == "" {
		return "", ""
	}
	if quota := r.byQuota(); len(r.Shortfall.Full) > 0 && r.Shortfall.Missing > 0 || quota != "" {
		message += "; " + r.unscheduled() + quota
	}
	return v1alpha1.ReasonGroupUnsatisfiable, message
}

func (r *Decision) filterCause() (reason, message string) {
	if len(r.Feasible) > 0 {
		return "", ""
	}
	return v1alpha1.ReasonNoManagedClusterMatched, "No ManagedCluster matches any of the cluster predicate"
}

func (r *Decision) numberCause() (reason, message string) {
	if r.Shortfall.Missing == 0 {
		return "", ""
	}
	message = r.unscheduled() + r.byQuota()
	if r.pin != nil {
		message += fmt.Sprintf("; pinned to revision %d", r.pin.revision)
	}
	return v1alpha1.ReasonNotAllDecisionsScheduled, message
}

func (r *Decision) unscheduled() string {
	return fmt.Sprintf("%d cluster decisions unscheduled", r.Shortfall.Missing)
}

// byQuota names the quota that ended the selection.
func (r *Decision) byQuota() string {
	queue := r.Snapshot.Queue
	if queue == nil || queue.LimitBy == "" || !r.Demand.Capped(len(r.Selected), r.Shortfall.Missing) {
		return ""
	}
	return " by quota: " + queue.LimitBy
}

// withoutCandidates returns why the Placement has no candidates; empty if it has some.
func (r *Decision) withoutCandidates() (reason, message string) {
	snapshot, queue := r.Snapshot, r.Snapshot.Queue
	switch {
	case r.Refusal() != nil:
		return v1alpha1.ReasonNotAllDecisionsScheduled, r.Refusal().Err().Error()
	case queue != nil && !queue.Admitted && queue.Rejected:
		return v1alpha1.ReasonQueueRejected, "No queue accepts the Placement: " + queue.Message
	case queue != nil && !queue.Admitted:
		return v1alpha1.ReasonNotAllDecisionsScheduled, queue.Message
	case len(snapshot.BoundSets) == 0:
		return v1alpha1.ReasonNoManagedClusterSetBindings, "No valid ManagedClusterSetBindings found in placement namespace"
	case len(snapshot.Sets) == 0 && queue != nil && queue.Restricted && len(r.setsWithoutQueue()) > 0:
		return v1alpha1.ReasonNoIntersection, fmt.Sprintf(
			"The queue owns none of the ManagedClusterSets that the Placement can use: it owns %s; the Placement can use %s; %s",
			cmp.Or(listNames(queue.Sets), "none"), listNames(r.setsWithoutQueue()), queue.Message)
	case len(snapshot.Sets) == 0:
		return v1alpha1.ReasonNoIntersection, fmt.Sprintf("None of ManagedClusterSets [%s] is bound to placement namespace",
			strings.Join(snapshot.Subject.Placement.Spec.ClusterSets, ","))
	case r.Candidates() == 0:
		return v1alpha1.ReasonAllManagedClusterSetsEmpty,
			fmt.Sprintf("All ManagedClusterSets [%s] have no member ManagedCluster", strings.Join(r.setNames(), ","))
	}
	return "", ""
}

// Refusal is the Status with which a PreEnqueue plugin refused the Placement; nil if none did, or
// if it is that of the queue, which the condition QueueAdmitted shows.
func (r *Decision) Refusal() *framework.Status {
	if r.refused == nil {
		return nil
	}
	if queue := r.Snapshot.Queue; queue != nil && !queue.Admitted && r.refused.Reason() == queue.Message {
		return nil
	}
	return r.refused
}

// NoCandidateUnknown is why a cluster is no candidate for a user who may not list the fleet.
const NoCandidateUnknown = "it does not exist, is being deleted, or is in none of the cluster sets that the Placement may use"

// WhyNoCandidate returns why a cluster is no candidate; empty if it is one. It tells whether the
// cluster exists, so it is for readers of the whole fleet.
func (r *Decision) WhyNoCandidate(name string) string {
	cluster, queue := r.Snapshot.Cluster(name), r.Snapshot.Queue
	switch {
	case cluster == nil:
		return "it does not exist"
	case !cluster.DeletionTimestamp.IsZero():
		return "it is being deleted"
	case r.candidates.Has(cluster.Index):
		return ""
	case r.Snapshot.Candidates().Has(cluster.Index) && queue != nil && !queue.Admitted:
		return "the Placement is not admitted: " + queue.Message
	case r.Snapshot.Candidates().Has(cluster.Index):
		return "the Placement is not admitted: " + r.Failure.Reason()
	case r.Snapshot.IsUsable(cluster):
		return "its cluster sets are bound to the namespace, but spec.clusterSets of the Placement, or its queue, does not allow them"
	}
	return "it is in none of the cluster sets that the Placement may use"
}

// setsWithoutQueue are the bound sets that spec.clusterSets allows, also those of other queues.
func (r *Decision) setsWithoutQueue() []string {
	names := r.Snapshot.Subject.Placement.Spec.ClusterSets
	return slices.DeleteFunc(slices.Clone(r.Snapshot.BoundSets), func(set string) bool {
		return len(names) > 0 && !slices.Contains(names, set)
	})
}

func (r *Decision) setNames() []string {
	names := make([]string, len(r.Snapshot.Sets))
	for i, set := range r.Snapshot.Sets {
		names[i] = set.Name
	}
	return names
}
