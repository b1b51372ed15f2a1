package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PlacementReconciler decides one Placement at a time, publishes the answer, and says so in status and events. The work
// queue sees to it that a Placement has one attempt at a time.
type PlacementReconciler struct {
	Client    client.Client
	Inventory *inventory.Inventory
	Scheduler *scheduler.Scheduler
	Events    EventSink
	Now       func() time.Time

	// foreign remembers of which pages it was said that something else controls them, by Placement.
	foreign sync.Map
}

// EventSink takes events to be sent, and never blocks.
type EventSink interface {
	Send(pl *v1alpha1.Placement, events []scheduler.Event)
}

// What the controller may do. Pages are its own; of a Placement it writes the status only. The lease, and the events about who
// holds it, are in its own namespace.
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets;managedclustersetbindings;addonplacementscores;placements,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placementdecisions,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placementdecisions/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=berth-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=berth-system,resources=events,verbs=create;patch

// Reconcile implements reconcile.Reconciler.
func (r *PlacementReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// 1. The fleet as it is now.
	snapshot := r.Inventory.Snapshot(request.NamespacedName, r.Now())
	if snapshot == nil {
		r.Scheduler.Forget(request.NamespacedName)
		r.foreign.Delete(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	pl := snapshot.Subject.Placement
	if scheduler.Skipped(pl) != "" {
		return ctrl.Result{}, nil
	}
	// 2. Decide.
	result := r.Scheduler.Schedule(ctx, snapshot)
	// 3. Publish. Without a Proposal the published decision stays.
	proposal := result.Proposal()
	var failure *framework.Status
	if proposal != nil {
		_, failure = r.Scheduler.Publish(ctx, result, proposal)
		count(proposal.Writes, failure)
		// 4. Tell of the writes that happened, also when a later one failed.
		r.Events.Send(pl, result.Events(proposal))
		r.warnOfForeignPages(pl, proposal.Outcome.Foreign)
	}
	// 5. Status, after the decisions it speaks of.
	if err := failure.Err(); err != nil {
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// The Placement goes with its namespace; its deletion is the next event.
			return ctrl.Result{}, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			if statusErr := r.reportFailure(ctx, pl, err); statusErr != nil {
				err = fmt.Errorf("%w; writing the status: %w", err, statusErr)
			}
		}
		return ctrl.Result{}, err
	}
	if err := r.writeStatus(ctx, pl, r.statusOf(result, proposal)); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	// 6. When to look again.
	if result.Failure.Code() == framework.Error {
		return ctrl.Result{}, result.Failure.Err()
	}
	if at := result.State.Requeue(); !at.IsZero() {
		return ctrl.Result{RequeueAfter: max(at.Sub(snapshot.Now), time.Millisecond)}, nil
	}
	return ctrl.Result{}, nil
}

// warnOfForeignPages says once, and again when it changes, which pages look like the Placement's and are not.
func (r *PlacementReconciler) warnOfForeignPages(pl *v1alpha1.Placement, names []string) {
	key, text := client.ObjectKeyFromObject(pl), strings.Join(names, ", ")
	before, _ := r.foreign.Swap(key, text)
	if text == "" || before == text {
		return
	}
	r.Events.Send(pl, []scheduler.Event{{
		Type: corev1.EventTypeWarning, Reason: "ForeignDecision", Action: "DecisionLeftAlone",
		Note: fmt.Sprintf("Decisions %s carry the label of placement %s in namespace %s, but something else controls them: they are left alone", text, pl.Name, pl.Namespace),
	}})
}

// statusOf describes what is published now.
func (r *PlacementReconciler) statusOf(result *scheduler.Result, proposal *framework.Proposal) *v1alpha1.PlacementStatus {
	status := result.Snapshot.Subject.Placement.Status.DeepCopy()
	if proposal != nil {
		status.NumberOfSelectedClusters = int32(len(proposal.Selected))
		status.DecisionGroups = proposal.Outcome.Groups
		// New pages carry scores, too: the next ones are due after the rate limit.
		byScore := result.Snapshot.Subject.Placement.Spec.SortBy == v1alpha1.SortByScore
		if proposal.Outcome.ScoresWritten || byScore && len(proposal.Writes) > 0 {
			// The API keeps whole seconds: rounded up, or the rate limit would end early.
			status.LastScoreUpdateTime = &metav1.Time{Time: result.Snapshot.Now.Add(time.Second - 1).Truncate(time.Second)}
		}
	}
	for _, c := range result.Conditions() {
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// reportFailure says in the Satisfied condition that the answer could not be published.
func (r *PlacementReconciler) reportFailure(ctx context.Context, pl *v1alpha1.Placement, failure error) error {
	status := pl.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type:               v1alpha1.PlacementConditionSatisfied,
		Status:             metav1.ConditionFalse,
		Reason:             v1alpha1.ReasonNotAllDecisionsScheduled,
		Message:            failure.Error(),
		ObservedGeneration: pl.Generation,
	})
	return r.writeStatus(ctx, pl, status)
}

// writeStatus writes what differs. A conflict means that the Placement changed meanwhile, and is tried again with the new one.
func (r *PlacementReconciler) writeStatus(ctx context.Context, pl *v1alpha1.Placement, status *v1alpha1.PlacementStatus) error {
	if equality.Semantic.DeepEqual(&pl.Status, status) {
		return nil
	}
	base := pl.DeepCopy()
	written := pl.DeepCopy()
	written.Status = *status
	if err := r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	// The next cycle starts from this status, ahead of its echo.
	written.ManagedFields = nil
	r.Inventory.Update(written)
	return nil
}
