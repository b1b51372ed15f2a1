package housekeeping

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// exclusiveIndex indexes clusters by their cluster set label.
const exclusiveIndex = "metadata.labels." + v1alpha1.ClusterSetLabel

// standardSelector returns the selector of default or global; nil for any other set.
func standardSelector(name string) *v1alpha1.ManagedClusterSelector {
	switch name {
	case v1alpha1.DefaultManagedClusterSetName:
		return &v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.ExclusiveClusterSetLabel}
	case v1alpha1.GlobalManagedClusterSetName:
		return &v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.LabelSelector, LabelSelector: &metav1.LabelSelector{}}
	}
	return nil
}

// ClusterSetReconciler creates the default and global sets, restores their selectors, and maintains
// each set's ClusterSetEmpty condition.
type ClusterSetReconciler struct{ Client client.Client }

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets,verbs=create;patch,roleName=berth-housekeeping
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/status,verbs=patch,roleName=berth-housekeeping

// SetUp adds the reconciler to a manager.
func (r *ClusterSetReconciler) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ManagedCluster{}, exclusiveIndex, setOfCluster); err != nil {
		return fmt.Errorf("indexing clusters by set: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusterset").
		For(&v1alpha1.ManagedClusterSet{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.ManagedCluster{}, r.setsOfCluster(), builder.WithPredicates(membershipChanged)).
		WatchesRawSource(standardSets{}).
		Complete(r)
}

// setOfCluster is the index exclusiveIndex.
func setOfCluster(o client.Object) []string { return []string{o.GetLabels()[v1alpha1.ClusterSetLabel]} }

// membershipChanged accepts the events that can move a cluster into or out of a set.
var membershipChanged = predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
})

// setsOfCluster queues the sets named by the cluster's old and new label, and all sets with a label
// selector.
func (r *ClusterSetReconciler) setsOfCluster() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var sets v1alpha1.ManagedClusterSetList
		if err := r.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range sets.Items {
			s := &sets.Items[i]
			if s.Spec.ClusterSelector.SelectorType == v1alpha1.LabelSelector || o.GetLabels()[v1alpha1.ClusterSetLabel] == s.Name {
				requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: s.Name}})
			}
		}
		return requests
	})
}

// Reconcile implements reconcile.Reconciler.
func (r *ClusterSetReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var set v1alpha1.ManagedClusterSet
	err := r.Client.Get(ctx, request.NamespacedName, &set)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.create(ctx, request.Name)
	}
	if err != nil || !set.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}
	if standard := standardSelector(set.Name); standard != nil && set.Annotations[v1alpha1.AutoUpdateAnnotation] != "false" &&
		!equality.Semantic.DeepEqual(&set.Spec.ClusterSelector, standard) {
		base := set.DeepCopy()
		set.Spec.ClusterSelector = *standard
		return RequeueOnConflict(r.Client.Patch(ctx, &set, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
	}
	base := set.DeepCopy()
	condition, count, err := r.condition(ctx, &set)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !v1alpha1.SetCondition(&set.Status.Conditions, condition) {
		// Open Cluster Management's CRD has no count, so a missing one is no reason to write.
		return ctrl.Result{}, nil
	}
	set.Status.Clusters = &count
	return RequeueOnConflict(r.Client.Status().Patch(ctx, &set, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// create creates default or global; other deleted sets stay deleted.
func (r *ClusterSetReconciler) create(ctx context.Context, name string) error {
	selector := standardSelector(name)
	if selector == nil {
		return nil
	}
	set := &v1alpha1.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ManagedClusterSetSpec{ClusterSelector: *selector}}
	if err := r.Client.Create(ctx, set); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the %s set: %w", name, err)
	}
	return nil
}

// condition returns the ClusterSetEmpty condition, and the number of clusters in the set.
func (r *ClusterSetReconciler) condition(ctx context.Context, set *v1alpha1.ManagedClusterSet) (metav1.Condition, int32, error) {
	c := metav1.Condition{Type: v1alpha1.ManagedClusterSetConditionEmpty, Status: metav1.ConditionTrue, ObservedGeneration: set.Generation}
	var option client.ListOption = client.MatchingFields{exclusiveIndex: set.Name}
	if set.Spec.ClusterSelector.SelectorType == v1alpha1.LabelSelector {
		selector, invalid := set.CompileSelector()
		if invalid != nil {
			// Only the set's author can act on this. The set has no members, and the condition
			// reports why.
			c.Reason, c.Message = "InvalidSelector", invalid.Error()
			return c, 0, nil
		}
		option = client.MatchingLabelsSelector{Selector: selector}
	}
	var members v1alpha1.ManagedClusterList
	if err := r.Client.List(ctx, &members, option, client.UnsafeDisableDeepCopy); err != nil {
		return c, 0, fmt.Errorf("listing the set's clusters: %w", err)
	}
	count := int32(0)
	for i := range members.Items {
		if members.Items[i].DeletionTimestamp.IsZero() {
			count++
		}
	}
	c.Reason, c.Message = "NoClusterMatched", "No ManagedCluster selected"
	if count > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "ClustersSelected", fmt.Sprintf("%d ManagedClusters selected", count)
	}
	return c, count, nil
}

// BindingReconciler maintains each binding's Bound condition.
type BindingReconciler struct{ Client client.Client }

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersetbindings/status,verbs=patch,roleName=berth-housekeeping

// SetUp adds the reconciler to a manager.
func (r *BindingReconciler) SetUp(_ context.Context, mgr ctrl.Manager) error {
	ofSet := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var bindings v1alpha1.ManagedClusterSetBindingList
		if err := r.Client.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range bindings.Items {
			if bindings.Items[i].Name == o.GetName() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&bindings.Items[i])})
			}
		}
		return requests
	})
	createdOrDeleted := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clustersetbinding").
		For(&v1alpha1.ManagedClusterSetBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ManagedClusterSet{}, ofSet, builder.WithPredicates(createdOrDeleted)).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *BindingReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var binding v1alpha1.ManagedClusterSetBinding
	if err := r.Client.Get(ctx, request.NamespacedName, &binding); err != nil || !binding.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	c := metav1.Condition{Type: v1alpha1.ManagedClusterSetBindingConditionBound, Status: metav1.ConditionFalse, ObservedGeneration: binding.Generation}
	var set v1alpha1.ManagedClusterSet
	err := r.Client.Get(ctx, types.NamespacedName{Name: binding.Name}, &set)
	switch {
	case binding.Spec.ClusterSet != binding.Name:
		c.Reason = "NameMismatch"
		c.Message = fmt.Sprintf("spec.clusterSet is %q, but must equal metadata.name %q: the binding is ignored", binding.Spec.ClusterSet, binding.Name)
	case apierrors.IsNotFound(err):
		c.Reason, c.Message = "ClusterSetNotFound", fmt.Sprintf("spec.clusterSet: ManagedClusterSet %q does not exist", binding.Name)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the set: %w", err)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "ClusterSetBound"
	}
	base := binding.DeepCopy()
	if !v1alpha1.SetCondition(&binding.Status.Conditions, c) {
		return ctrl.Result{}, nil
	}
	return RequeueOnConflict(r.Client.Status().Patch(ctx, &binding, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// standardSets queues the default and global sets at the start, so that they are created.
type standardSets struct{}

// Start implements source.Source.
func (standardSets) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, name := range []string{v1alpha1.DefaultManagedClusterSetName, v1alpha1.GlobalManagedClusterSetName} {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return nil
}

// String is the name of the source in the log.
func (standardSets) String() string { return "standard sets" }
