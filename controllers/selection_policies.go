package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// +kubebuilder:rbac:groups=berth.dev,resources=selectionpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=selectionpolicies/status,verbs=patch

// maxSelectionWrites bounds the requests for one Placement before other Placements are served.
const maxSelectionWrites = 20

// writeSelectionStatuses writes the status of the SelectionPolicies of a Placement. If there are
// too many for one attempt, it asks for another one.
func (r *PlacementReconciler) writeSelectionStatuses(ctx context.Context, attempt *scheduler.Attempt) error {
	done, err := r.writeSomeStatuses(ctx, attempt.Snapshot.Subject.SelectionPolicies, attempt.SelectionStatus)
	if !done && err == nil {
		attempt.State.RequeueAt(attempt.Snapshot.Now.Add(time.Millisecond))
	}
	return err
}

// writeBefore writes what must be on the hub before pages are published: the tiers of their
// clusters, which berth generator reads, and the records. If the tiers cannot be written, the pages
// are published nevertheless, and the attempt reports it when it writes the status again.
func (r *PlacementReconciler) writeBefore(ctx context.Context, attempt *scheduler.Attempt) error {
	if policy := attempt.Snapshot.Subject.SelectionPolicy(); policy != nil && len(policy.Spec.Tiers) > 0 && attempt.Step != nil {
		_ = r.writeSelectionStatuses(ctx, attempt)
	}
	return r.Records.Before(ctx, attempt)
}

// reportNoPlacement reports in the status of SelectionPolicies that their Placement does not exist.
// The rest of the status was about an earlier Placement, so it is removed.
func (r *PlacementReconciler) reportNoPlacement(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	done, err := r.writeSomeStatuses(ctx, r.Inventory.SelectionPolicies(key), func(policy *berthv1alpha1.SelectionPolicy) *berthv1alpha1.SelectionPolicyStatus {
		status := &berthv1alpha1.SelectionPolicyStatus{Conditions: slices.Clone(policy.Status.Conditions)}
		meta.RemoveStatusCondition(&status.Conditions, berthv1alpha1.SelectionTierSufficient)
		meta.RemoveStatusCondition(&status.Conditions, berthv1alpha1.SelectionRequired)
		v1alpha1.SetCondition(&status.Conditions, metav1.Condition{
			Type: berthv1alpha1.SelectionReady, Status: metav1.ConditionFalse, Reason: berthv1alpha1.ReasonPlacementMissing,
			Message: "Placement " + key.Name + " does not exist", ObservedGeneration: policy.Generation,
		})
		return status
	})
	if !done {
		return ctrl.Result{RequeueAfter: time.Millisecond}, err
	}
	return ctrl.Result{}, err
}

// writeSomeStatuses writes the statuses that changed, at most maxSelectionWrites. It returns false
// if there are more. One that fails does not affect the others.
func (r *PlacementReconciler) writeSomeStatuses(
	ctx context.Context, policies []*berthv1alpha1.SelectionPolicy, statusOf func(*berthv1alpha1.SelectionPolicy) *berthv1alpha1.SelectionPolicyStatus,
) (done bool, err error) {
	if len(policies) == 0 {
		return true, nil
	}
	newest := map[types.UID]*berthv1alpha1.SelectionPolicy{}
	for _, policy := range r.Inventory.SelectionPolicies(types.NamespacedName{Namespace: policies[0].Namespace, Name: policies[0].Spec.Placement}) {
		newest[policy.UID] = policy
	}
	writes := 0
	var failures []error
	for _, policy := range policies {
		if n := newest[policy.UID]; n != nil && n.Generation == policy.Generation {
			// This attempt may have written a status already.
			policy = n
		}
		status := statusOf(policy)
		if equality.Semantic.DeepEqual(&policy.Status, status) {
			continue
		}
		if writes == maxSelectionWrites {
			return false, errors.Join(failures...)
		}
		writes++
		failures = append(failures, r.writeSelectionStatus(ctx, policy, status))
	}
	return true, errors.Join(failures...)
}

// writeSelectionStatus writes a status.
func (r *PlacementReconciler) writeSelectionStatus(ctx context.Context, policy *berthv1alpha1.SelectionPolicy, status *berthv1alpha1.SelectionPolicyStatus) error {
	written := policy.DeepCopy()
	written.Status = *status
	defer r.Inventory.AnnounceStatus(policy)()
	if err := r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(policy, client.MergeFromWithOptimisticLock{})); err != nil {
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
