package changes

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// EvictionEnd returns when an eviction ends or ended, zero while that is not known, and whether it
// excludes its cluster until then. An eviction that is not checked yet, not valid, or being deleted
// excludes nothing.
func EvictionEnd(e *berthv1alpha1.PlacementEviction) (end time.Time, excludes bool) {
	valid := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionValid)
	executed := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionExecuted)
	switch {
	case executed != nil && executed.Status == metav1.ConditionTrue:
		end, excludes = executed.LastTransitionTime.Add(time.Duration(e.Spec.ExcludeForSeconds)*time.Second), true
	case valid == nil:
	case valid.Status == metav1.ConditionTrue:
		excludes = true
	default:
		end = valid.LastTransitionTime.Time
	}
	return end, excludes && e.DeletionTimestamp.IsZero()
}

// EvictsFrom reports whether the eviction is for this Placement, not for an earlier one of the same
// name.
func EvictsFrom(e *berthv1alpha1.PlacementEviction, pl *v1alpha1.Placement) bool {
	return e.Namespace == pl.Namespace && e.Spec.Placement == pl.Name &&
		(e.CreationTimestamp.IsZero() || !pl.CreationTimestamp.After(e.CreationTimestamp.Time))
}

// CheckEviction returns the condition Valid of an eviction that is not executed: pl is the
// Placement that it names, nil if there is none, and published are the clusters of its decision,
// sorted.
func CheckEviction(e *berthv1alpha1.PlacementEviction, pl *v1alpha1.Placement, published []string) metav1.Condition {
	c := metav1.Condition{
		Type: berthv1alpha1.EvictionValid, Status: metav1.ConditionFalse, ObservedGeneration: e.Generation,
		Reason: berthv1alpha1.ReasonPlacementNotFound,
	}
	accepted := meta.IsStatusConditionTrue(e.Status.Conditions, berthv1alpha1.EvictionValid)
	switch {
	case pl == nil:
		c.Message = fmt.Sprintf("spec.placement: there is no Placement %q in namespace %s", e.Spec.Placement, e.Namespace)
		return c
	case !EvictsFrom(e, pl):
		c.Message = fmt.Sprintf("spec.placement: Placement %s/%s was created after this eviction", pl.Namespace, pl.Name)
		return c
	}
	if _, has := slices.BinarySearch(published, e.Spec.Cluster); !has && !accepted {
		c.Reason = berthv1alpha1.ReasonClusterNotSelected
		c.Message = fmt.Sprintf("spec.cluster: the published decision of Placement %s/%s does not have cluster %q", pl.Namespace, pl.Name, e.Spec.Cluster)
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, berthv1alpha1.ReasonEvictionAccepted, "The cluster is evicted as the DisruptionPolicies of the Placement allow"
	return c
}
