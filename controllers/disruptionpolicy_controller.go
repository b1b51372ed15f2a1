package controllers

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
)

// +kubebuilder:rbac:groups=berth.dev,resources=disruptionpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=berth.dev,resources=disruptionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=berth.dev,resources=placementchanges,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=berth.dev,resources=placementchanges/status,verbs=update

// recountDelay is how long events of Placements are collected before the policies that select them
// are counted again.
const recountDelay = time.Second

// DisruptionPolicyReconciler maintains the status of DisruptionPolicies: the number of Placements
// that each selects, and the condition Ready.
type DisruptionPolicyReconciler struct {
	Client client.Client
	// Inventory knows which policies apply, and whether readiness sources can be read.
	Inventory *inventory.Inventory
	// Synced is closed when the inventory has all initial lists. The loop begins then.
	Synced <-chan struct{}
	Log    logr.Logger

	// sources receives the names of readiness sources that can be read, or not any more.
	sources chan event.TypedGenericEvent[string]
}

// SetUp adds the reconciler to a manager. The hub must serve DisruptionPolicies.
func (r *DisruptionPolicyReconciler) SetUp(_ context.Context, mgr ctrl.Manager) error {
	r.sources = make(chan event.TypedGenericEvent[string], 1)
	return ctrl.NewControllerManagedBy(mgr).
		Named("disruptionpolicy").
		For(&berthv1alpha1.DisruptionPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Placement{}, r.policiesOfPlacement()).
		Watches(&berthv1alpha1.DisruptionPolicy{}, r.youngerPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(afterFleet(r.Synced)).
		WatchesRawSource(source.TypedChannel(r.sources, r.policiesOfSource())).
		Complete(r)
}

// sourceChanged makes the policies report whether a readiness source can be read.
func (r *DisruptionPolicyReconciler) sourceChanged(ctx context.Context, name string) {
	select {
	case r.sources <- event.TypedGenericEvent[string]{Object: name}:
	case <-ctx.Done():
	}
}

// policiesOfSource queues the policies that use a readiness source.
func (r *DisruptionPolicyReconciler) policiesOfSource() handler.TypedEventHandler[string, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, name string) []reconcile.Request {
		var policies berthv1alpha1.DisruptionPolicyList
		if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
			r.Log.Error(err, "Listing the DisruptionPolicies of a readiness source", "source", name)
		}
		var requests []reconcile.Request
		for i := range policies.Items {
			if readiness := policies.Items[i].Spec.Readiness; readiness != nil && readiness.Source == name {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
			}
		}
		return requests
	})
}

// policiesOfPlacement queues the policies whose count a Placement's event changes. It ignores the
// initial list, because every policy is counted when it is first seen.
func (r *DisruptionPolicyReconciler) policiesOfPlacement() handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) {
			if !e.IsInInitialList {
				r.queueChanged(ctx, nil, e.Object, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) {
			r.queueChanged(ctx, e.ObjectOld, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
			r.queueChanged(ctx, nil, e.Object, queue)
		},
	}
}

// queueChanged queues the namespace's policies that select one of two states of a Placement and not
// the other. before is nil for a Placement that is created or deleted.
func (r *DisruptionPolicyReconciler) queueChanged(
	ctx context.Context, before, after client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	if before != nil && maps.Equal(before.GetLabels(), after.GetLabels()) {
		return
	}
	var policies berthv1alpha1.DisruptionPolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(after.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the DisruptionPolicies of a Placement", "namespace", after.GetNamespace())
		return
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if selects, _ := changes.Selects(policy); selected(selects, before) != selected(selects, after) {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}, recountDelay)
		}
	}
}

// youngerPolicies queues the policies after another one of a namespace with more policies than may
// select one Placement: it decides which of them apply. It ignores the initial list, because every
// policy is queued when it is first seen.
func (r *DisruptionPolicyReconciler) youngerPolicies() handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) {
			if !e.IsInInitialList {
				r.queueYounger(ctx, e.Object, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) {
			r.queueYounger(ctx, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) { r.queueYounger(ctx, e.Object, queue) },
	}
}

func (r *DisruptionPolicyReconciler) queueYounger(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	changed, ok := object.(*berthv1alpha1.DisruptionPolicy)
	if !ok {
		return
	}
	var policies berthv1alpha1.DisruptionPolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(changed.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the DisruptionPolicies of a namespace", "namespace", changed.Namespace)
		return
	}
	if len(policies.Items) < berthv1alpha1.MaxPoliciesPerPlacement {
		return
	}
	for i := range policies.Items {
		if policy := &policies.Items[i]; changes.ComparePolicies(policy, changed) >= 0 {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}, recountDelay)
		}
	}
}

// selected is false for a nil object.
func selected(selects func(*v1alpha1.Placement) bool, object client.Object) bool {
	pl, ok := object.(*v1alpha1.Placement)
	return ok && selects(pl)
}

// Reconcile implements reconcile.Reconciler.
func (r *DisruptionPolicyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var policy berthv1alpha1.DisruptionPolicy
	if err := r.Client.Get(ctx, request.NamespacedName, &policy); err != nil || !policy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	base := policy.DeepCopy()
	count, condition, err := r.status(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	changed := v1alpha1.SetCondition(&policy.Status.Conditions, condition)
	if !changed && policy.Status.Placements == count {
		return ctrl.Result{}, nil
	}
	policy.Status.Placements = count
	return housekeeping.RequeueOnConflict(r.Client.Status().Patch(ctx, &policy, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// unusable returns why the readiness or a window of a policy cannot be used; empty if they can.
func (r *DisruptionPolicyReconciler) unusable(policy *berthv1alpha1.DisruptionPolicy) (reason, why string) {
	readiness, err := changes.ReadinessOf(policy)
	wrong := changes.CheckWindows(policy)
	switch {
	case wrong != nil:
		return "InvalidWindow", fmt.Sprintf("DisruptionPolicy %s/%s: %s. Its windows count as closed", policy.Namespace, policy.Name, wrong)
	case err != nil:
		return "InvalidSelector", err.Error()
	case readiness == nil:
	case r.Inventory.ReadinessFailure(readiness.Source, policy.Namespace) != "":
		return "ReadinessSourceNotReady", fmt.Sprintf("spec.readiness.source: %s: %s. Its clusters count as not ready", readiness.Source, r.Inventory.ReadinessFailure(readiness.Source, policy.Namespace))
	}
	return "", ""
}

// excess returns why a policy does not apply to a Placement that it selects; empty if it does.
func (r *DisruptionPolicyReconciler) excess(policy *berthv1alpha1.DisruptionPolicy) (reason, why string) {
	placement, selecting := r.Inventory.ExcessPolicy(client.ObjectKeyFromObject(policy))
	if placement == "" {
		return "", ""
	}
	return "TooManyPolicies", fmt.Sprintf("%d DisruptionPolicies select Placement %s; the oldest %d apply, and this one does not. "+
		"Only forced removals of the Placement are published until fewer select it", selecting, placement, berthv1alpha1.MaxPoliciesPerPlacement)
}

// status counts the Placements that the policy selects, and returns the condition Ready.
func (r *DisruptionPolicyReconciler) status(ctx context.Context, policy *berthv1alpha1.DisruptionPolicy) (int32, metav1.Condition, error) {
	ready := metav1.Condition{
		Type: berthv1alpha1.PolicyReady, Status: metav1.ConditionTrue, ObservedGeneration: policy.Generation,
		Reason: "PlacementsSelected", Message: "The policy applies to the Placements that it selects",
	}
	var placements v1alpha1.PlacementList
	if err := r.Client.List(ctx, &placements, client.InNamespace(policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, ready, fmt.Errorf("listing the Placements of namespace %s: %w", policy.Namespace, err)
	}
	selects, err := changes.Selects(policy)
	if err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "InvalidSelector", err.Error()
		return 0, ready, nil //nolint:nilerr // the condition says it
	}
	count, missing := 0, changes.Sorted(policy.Spec.Placements)
	for i := range placements.Items {
		if pl := &placements.Items[i]; selects(pl) {
			count++
			missing = changes.Minus(missing, []string{pl.Name})
		}
	}
	reason, why := r.excess(policy)
	if why == "" {
		reason, why = r.unusable(policy)
	}
	if why == "" {
		reason, why = selectsTooFew(policy, count, missing)
	}
	if why != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, why
	}
	return int32(min(count, math.MaxInt32)), ready, nil
}

// maxMissingNamed is how many missing Placements the condition names.
const maxMissingNamed = 10

// selectsTooFew returns why a policy does not select what it is for; empty if it does. missing are
// the names of spec.placements without a Placement.
func selectsTooFew(policy *berthv1alpha1.DisruptionPolicy, count int, missing []string) (reason, why string) {
	switch {
	case len(missing) > 0:
		why = "spec.placements: the namespace has no Placement " + strings.Join(missing[:min(len(missing), maxMissingNamed)], ", ")
		if more := len(missing) - maxMissingNamed; more > 0 {
			why += fmt.Sprintf(" and %d more", more)
		}
		return "PlacementMissing", fmt.Sprintf("%s; the policy applies to %d of %d", why, count, len(policy.Spec.Placements))
	case count == 0:
		return "NoPlacementsSelected", "spec.placementSelector: it selects no Placement of the namespace"
	}
	return "", ""
}
