package housekeeping

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ClusterReconciler maintains one property of every ManagedCluster, by patching the object.
type ClusterReconciler struct {
	Client client.Client
	Name   string
	// NeedsUpdate is true if the cluster does not have the property. It must not modify the
	// cluster.
	NeedsUpdate func(c *v1alpha1.ManagedCluster) bool
	// Update sets the property in place.
	Update func(c *v1alpha1.ManagedCluster)
}

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=patch,roleName=berth-housekeeping
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/join,resourceNames=default,verbs=create,roleName=berth-housekeeping

// newDefaultSetReconciler returns a reconciler that puts clusters without a cluster set label into
// the default set.
func newDefaultSetReconciler(c client.Client) *ClusterReconciler {
	return &ClusterReconciler{
		Client:      c,
		Name:        "cluster-default-set",
		NeedsUpdate: func(c *v1alpha1.ManagedCluster) bool { return c.Labels[v1alpha1.ClusterSetLabel] == "" },
		Update: func(c *v1alpha1.ManagedCluster) {
			metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.ClusterSetLabel, v1alpha1.DefaultManagedClusterSetName)
		},
	}
}

// newTaintTimeReconciler returns a reconciler that sets timeAdded on taints that lack it, because
// tolerationSeconds count from it.
func newTaintTimeReconciler(c client.Client, now func() time.Time) *ClusterReconciler {
	return &ClusterReconciler{
		Client: c,
		Name:   TaintTime,
		NeedsUpdate: func(c *v1alpha1.ManagedCluster) bool {
			return slices.ContainsFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool { return t.TimeAdded.IsZero() })
		},
		Update: func(c *v1alpha1.ManagedCluster) {
			for i := range c.Spec.Taints {
				if c.Spec.Taints[i].TimeAdded.IsZero() {
					c.Spec.Taints[i].TimeAdded = metav1.NewTime(now())
				}
			}
		},
	}
}

// newAvailabilityReconciler returns a reconciler that sets NoSelect taints from the condition
// ManagedClusterConditionAvailable: unavailable for False, unreachable for Unknown, no taint for
// True. Without the condition it changes nothing.
func newAvailabilityReconciler(c client.Client, now func() time.Time) *ClusterReconciler {
	r := &ClusterReconciler{Client: c, Name: "cluster-availability"}
	r.NeedsUpdate = func(c *v1alpha1.ManagedCluster) bool {
		var found []string
		for _, t := range c.Spec.Taints {
			if t.SaysUnavailable() {
				found = append(found, t.Key)
			}
		}
		wanted, known := availabilityTaints(c)
		return known && !slices.Equal(found, wanted)
	}
	r.Update = func(c *v1alpha1.ManagedCluster) {
		wanted, known := availabilityTaints(c)
		if !known {
			return
		}
		c.Spec.Taints = slices.DeleteFunc(c.Spec.Taints, v1alpha1.Taint.SaysUnavailable)
		for _, key := range wanted {
			c.Spec.Taints = append(c.Spec.Taints, v1alpha1.Taint{Key: key, Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())})
		}
	}
	return r
}

// availabilityTaints returns the keys of the taints that the cluster needs: one or none. known is
// false if the cluster has no Available condition.
func availabilityTaints(c *v1alpha1.ManagedCluster) (keys []string, known bool) {
	switch availability(c) {
	case "":
		return nil, false
	case metav1.ConditionFalse:
		return []string{v1alpha1.ManagedClusterTaintUnavailable}, true
	case metav1.ConditionUnknown:
		return []string{v1alpha1.ManagedClusterTaintUnreachable}, true
	}
	return nil, true
}

// SetUp adds the reconciler to a manager. Only clusters that need the update are queued.
func (r *ClusterReconciler) SetUp(_ context.Context, mgr ctrl.Manager) error {
	needsUpdate := predicate.NewPredicateFuncs(func(o client.Object) bool {
		c, ok := o.(*v1alpha1.ManagedCluster)
		return ok && c.DeletionTimestamp.IsZero() && r.NeedsUpdate(c)
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Name).
		For(&v1alpha1.ManagedCluster{}, builder.WithPredicates(needsUpdate, predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }})).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler. After a conflict it runs again on the newer cluster.
func (r *ClusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var c v1alpha1.ManagedCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &c); err != nil || !c.DeletionTimestamp.IsZero() || !r.NeedsUpdate(&c) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	base := c.DeepCopy()
	r.Update(&c)
	return RequeueOnConflict(r.Client.Patch(ctx, &c, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// RequeueOnConflict requeues after a conflict, which is no error: another writer was first. An
// object that no longer exists needs no retry.
func RequeueOnConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
