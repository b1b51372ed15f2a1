package controllers

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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

// NewDefaultSetReconciler returns a reconciler that puts clusters without a cluster set label into
// the default set.
func NewDefaultSetReconciler(c client.Client) *ClusterReconciler {
	return &ClusterReconciler{
		Client:      c,
		Name:        "cluster-default-set",
		NeedsUpdate: func(c *v1alpha1.ManagedCluster) bool { return c.Labels[v1alpha1.ClusterSetLabel] == "" },
		Update: func(c *v1alpha1.ManagedCluster) {
			metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.ClusterSetLabel, v1alpha1.DefaultManagedClusterSetName)
		},
	}
}

// NewTaintTimeReconciler returns a reconciler that sets timeAdded on taints that lack it, because
// tolerationSeconds count from it.
func NewTaintTimeReconciler(c client.Client, now func() time.Time) *ClusterReconciler {
	return &ClusterReconciler{
		Client: c,
		Name:   "cluster-taint-time",
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

// NewAvailabilityReconciler returns a reconciler that sets NoSelect taints from the condition
// ManagedClusterConditionAvailable: unavailable for False, unreachable for Unknown, no taint for
// True. Without the condition it changes nothing.
func NewAvailabilityReconciler(c client.Client, now func() time.Time) *ClusterReconciler {
	r := &ClusterReconciler{Client: c, Name: "cluster-availability"}
	r.NeedsUpdate = func(c *v1alpha1.ManagedCluster) bool {
		wanted, known := availabilityTaint(c)
		if !known {
			return false
		}
		found := 0
		for _, t := range c.Spec.Taints {
			if t.SaysUnavailable() {
				found++
				if t.Key != wanted {
					return true
				}
			}
		}
		return wanted != "" && found != 1
	}
	r.Update = func(c *v1alpha1.ManagedCluster) {
		wanted, known := availabilityTaint(c)
		if !known {
			return
		}
		c.Spec.Taints = slices.DeleteFunc(c.Spec.Taints, v1alpha1.Taint.SaysUnavailable)
		if wanted != "" {
			c.Spec.Taints = append(c.Spec.Taints, v1alpha1.Taint{Key: wanted, Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())})
		}
	}
	return r
}

// availabilityTaint returns the key of the taint that the cluster needs, empty for no taint. known
// is false if the cluster has no Available condition.
func availabilityTaint(c *v1alpha1.ManagedCluster) (key string, known bool) {
	condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
	switch {
	case condition == nil:
		return "", false
	case condition.Status == metav1.ConditionFalse:
		return v1alpha1.ManagedClusterTaintUnavailable, true
	case condition.Status == metav1.ConditionUnknown:
		return v1alpha1.ManagedClusterTaintUnreachable, true
	}
	return "", true
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
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
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
	return requeueOnConflict(r.Client.Patch(ctx, &c, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// requeueOnConflict requeues after a conflict, which is no error: another writer was first. An
// object that no longer exists needs no retry.
func requeueOnConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
