package controllers

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// +kubebuilder:rbac:groups=berth.dev,resources=selectionpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=selectionpolicies/status,verbs=patch

// writeSelectionStatuses writes the status of the SelectionPolicies of a Placement.
func (r *PlacementReconciler) writeSelectionStatuses(ctx context.Context, attempt *scheduler.Attempt) error {
	for _, policy := range attempt.Snapshot.Subject.SelectionPolicies {
		if err := r.writeSelectionStatus(ctx, policy, attempt.SelectionStatus(policy)); err != nil {
			return err
		}
	}
	return nil
}

// reportNoPlacement reports in the status of SelectionPolicies that their Placement does not exist.
// The rest of the status was about an earlier Placement, so it is removed.
func (r *PlacementReconciler) reportNoPlacement(ctx context.Context, key types.NamespacedName) error {
	for _, policy := range r.Inventory.SelectionPolicies(key) {
		status := &berthv1alpha1.SelectionPolicyStatus{Conditions: slices.Clone(policy.Status.Conditions)}
		meta.RemoveStatusCondition(&status.Conditions, berthv1alpha1.SelectionTierSufficient)
		v1alpha1.SetCondition(&status.Conditions, metav1.Condition{
			Type: berthv1alpha1.SelectionReady, Status: metav1.ConditionFalse, Reason: berthv1alpha1.ReasonPlacementMissing,
			Message: "Placement " + key.Name + " does not exist", ObservedGeneration: policy.Generation,
		})
		if err := r.writeSelectionStatus(ctx, policy, status); err != nil {
			return err
		}
	}
	return nil
}

// writeSelectionStatus writes a status that changed.
func (r *PlacementReconciler) writeSelectionStatus(ctx context.Context, policy *berthv1alpha1.SelectionPolicy, status *berthv1alpha1.SelectionPolicyStatus) error {
	if equality.Semantic.DeepEqual(&policy.Status, status) {
		return nil
	}
	written := policy.DeepCopy()
	written.Status = *status
	if err := r.Client.Status().Patch(ctx, written, client.MergeFrom(policy)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("writing the status of SelectionPolicy %s: %w", policy.Name, err)
	}
	// The next attempt starts from this status, also before its watch event arrives.
	written.ManagedFields = nil
	r.Inventory.AssumeSelectionPolicy(written)
	return nil
}
