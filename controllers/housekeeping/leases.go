package housekeeping

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// A lease expires after leasePeriods periods without a renewal. For gracePeriods after a restart,
// or a failed request to the hub, no lease expires, because agents need that time to renew.
const (
	leasePeriods = 5
	gracePeriods = 2
	// hubRetry is the pause after a failed request to the hub.
	hubRetry = 5 * time.Second
)

// ClusterLeaseReconciler turns the Available condition of a ManagedCluster to Unknown when a lease
// that exists is no longer renewed, as Open Cluster Management's lease controller does. A cluster
// without a lease is ignored. A timer ends each lease; a renewal only moves its end.
type ClusterLeaseReconciler struct {
	Client client.Client
	// Hub reads past the cache: nothing is written because of an event that is late.
	Hub client.Reader

	mu sync.Mutex
	// leases are those that exist, by cluster. failed is when the hub last did not answer.
	leases map[string]renewals
	failed time.Time
}

// renewals is what was seen of a lease. Agents' clocks may be wrong, so it has the times at which
// this process saw changes.
type renewals struct {
	// renewed is the lease's renewTime, by the agent's clock.
	renewed time.Time
	// first is when the lease was seen first, changed when renewTime last changed; zero if it has
	// not.
	first, changed time.Time
}

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch,roleName=berth-housekeeping
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=get;list;watch,roleName=berth-housekeeping

// SetUp adds the reconciler to a manager.
func (r *ClusterLeaseReconciler) SetUp(_ context.Context, mgr ctrl.Manager) error {
	r.leases = map[string]renewals{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("cluster-lease").
		For(&v1alpha1.ManagedCluster{}, builder.WithPredicates(leaseInputsChanged)).
		Watches(&coordinationv1.Lease{}, r.leaseEvents()).
		Complete(r)
}

// leaseInputsChanged accepts the events of a cluster that can start or move its timer.
var leaseInputsChanged = predicate.Funcs{
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*v1alpha1.ManagedCluster)
		now, is := e.ObjectNew.(*v1alpha1.ManagedCluster)
		return was && is && (availability(before) != availability(now) || before.LeaseDuration() != now.LeaseDuration())
	},
}

// availability is the status of the Available condition, "" if the cluster has none.
func availability(c *v1alpha1.ManagedCluster) metav1.ConditionStatus {
	if condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable); condition != nil {
		return condition.Status
	}
	return ""
}

// leaseEvents remembers renewals. Only a new lease is queued.
func (r *ClusterLeaseReconciler) leaseEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if r.observe(e.Object) {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: e.Object.GetNamespace()}})
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.observe(e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.leases, e.Object.GetNamespace())
		},
	}
}

// observe remembers the lease's renewTime. It is true if the object is the lease of a cluster.
func (r *ClusterLeaseReconciler) observe(o client.Object) bool {
	l, ok := o.(*coordinationv1.Lease)
	if !ok || l.Name != v1alpha1.ManagedClusterLeaseName {
		return false
	}
	now := time.Now()
	renewed := time.Time{}
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.Time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, known := r.leases[l.Namespace]
	switch {
	case !known:
		r.leases[l.Namespace] = renewals{renewed: renewed, first: now}
	case !seen.renewed.Equal(renewed):
		seen.renewed, seen.changed = renewed, now
		r.leases[l.Namespace] = seen
	}
	return true
}

// expires returns when a lease ends, if it is not renewed before.
func (s renewals) expires(period time.Duration) time.Time {
	if !s.changed.IsZero() {
		return s.changed.Add(leasePeriods * period)
	}
	end := s.renewed
	if end.After(s.first) {
		end = s.first
	}
	ends, least := end.Add(leasePeriods*period), s.first.Add(gracePeriods*period)
	if ends.Before(least) {
		return least
	}
	return ends
}

// untilExpiry returns how long the cluster's lease still runs, and its renewTime. ok is false if
// the cluster has no lease.
func (r *ClusterLeaseReconciler) untilExpiry(c *v1alpha1.ManagedCluster) (left time.Duration, renewed time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.leases[c.Name]
	return time.Until(seen.expires(c.LeaseDuration())), seen.renewed, ok
}

// readLease reads the lease past the cache. While the hub does not answer, agents cannot renew:
// wait is then how long no lease of this period may expire.
func (r *ClusterLeaseReconciler) readLease(ctx context.Context, c *v1alpha1.ManagedCluster) (wait time.Duration, err error) {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if rest := time.Until(failed.Add(hubRetry)); rest > 0 {
		return rest, nil
	}
	var l coordinationv1.Lease
	err = r.Hub.Get(ctx, client.ObjectKey{Namespace: c.Name, Name: v1alpha1.ManagedClusterLeaseName}, &l)
	switch {
	case apierrors.IsNotFound(err):
		return 0, err
	case err != nil:
		r.mu.Lock()
		r.failed = time.Now()
		r.mu.Unlock()
		log.FromContext(ctx).Error(err, "The lease of a cluster cannot be read", "cluster", c.Name)
		return hubRetry, nil
	}
	r.observe(&l)
	return time.Until(failed.Add(gracePeriods * c.LeaseDuration())), nil
}

// Reconcile implements reconcile.Reconciler. While the lease runs it comes back at its end.
func (r *ClusterLeaseReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var c v1alpha1.ManagedCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	left, _, ok := r.untilExpiry(&c)
	if _, made := markOf(&c); made {
		// Its ClusterProfile has the condition, and a lease is from a time before.
		return ctrl.Result{}, nil
	}
	if !ok || !c.DeletionTimestamp.IsZero() || availability(&c) == metav1.ConditionUnknown {
		return ctrl.Result{}, nil
	}
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	wait, err := r.readLease(ctx, &c)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	left, renewed, _ := r.untilExpiry(&c)
	if max(left, wait) > 0 {
		return ctrl.Result{RequeueAfter: max(left, wait)}, nil
	}
	base := c.DeepCopy()
	v1alpha1.SetCondition(&c.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, ObservedGeneration: c.Generation,
		Reason: v1alpha1.ReasonLeaseUpdateStopped, Message: "Registration agent stopped updating its lease.",
	})
	err = r.Client.Status().Patch(ctx, &c, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		log.FromContext(ctx).Info("The lease of a cluster is not renewed: Available is Unknown", "cluster", c.Name, "renewTime", renewed)
	}
	return RequeueOnConflict(err)
}
