package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// +kubebuilder:rbac:groups=berth.dev,resources=placementevictions,verbs=list;watch;delete
// +kubebuilder:rbac:groups=berth.dev,resources=placementevictions/status,verbs=patch

// maxEvictionWrites bounds the requests for one Placement before other Placements are served.
const maxEvictionWrites = 20

// waitingDelay is how long after its acceptance an eviction reports another reason to wait: most
// are executed earlier.
const waitingDelay = 5 * time.Second

// evictionWorkers is how many Placements' evictions are written at once. Fewer would delay the
// evictions of many Placements, because an eviction has no effect before it is accepted.
const evictionWorkers = 8

// evictionIndex is an index of the cache: evictions by the Placement that they name.
const evictionIndex = "spec.placement"

// settleDelay is the time until the next look at a cluster that is on no page, while Berth is
// publishing that or restores the page that another writer edited.
const settleDelay = 200 * time.Millisecond

// refusedRetry is the time until the next try to write an eviction that the API server refused.
const refusedRetry = time.Minute

// EvictionReconciler maintains the status of PlacementEvictions, and deletes those that ended
// EvictionRetention ago. A request is for a Placement, which need not exist.
type EvictionReconciler struct {
	Client client.Client
	// Inventory has the clusters that Berth published last.
	Inventory *inventory.Inventory
	// Synced is closed when the inventory has all initial lists. The loop begins then.
	Synced <-chan struct{}
	Now    func() time.Time
	// looked has what the last look at the evictions of a Placement read: the published clusters.
	looked sync.Map
	// refused has, for each Placement, when to try again the evictions whose write was refused.
	refused sync.Map
}

// SetUp adds the reconciler to a manager. The hub must serve PlacementEvictions.
func (r *EvictionReconciler) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &berthv1alpha1.PlacementEviction{}, evictionIndex, evictedPlacement); err != nil {
		return fmt.Errorf("indexing evictions by Placement: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementeviction").
		Watches(&berthv1alpha1.PlacementEviction{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{placementRequest(o.GetNamespace(), evictedPlacement(o)[0])}
		})).
		Watches(&v1alpha1.Placement{}, r.ifEvicted(func(o client.Object) []string { return []string{o.GetName()} })).
		Watches(&v1alpha1.PlacementDecision{}, r.ifEvicted(placementOfPage)).
		WatchesRawSource(afterFleet(r.Synced)).
		WatchesRawSource(namedSource{r.watchClock, "clock"}).
		WatchesRawSource(namedSource{r.watchPublished, "published decisions"}).
		WithOptions(controller.Options{MaxConcurrentReconciles: evictionWorkers}).
		Complete(r)
}

func evictedPlacement(o client.Object) []string {
	return []string{o.(*berthv1alpha1.PlacementEviction).Spec.Placement}
}

func placementOfPage(o client.Object) []string {
	return []string{o.GetLabels()[v1alpha1.PlacementLabel]}
}

func placementRequest(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// ifEvicted queues the Placement of an object if it has evictions.
func (r *EvictionReconciler) ifEvicted(placementOf func(client.Object) []string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		request := placementRequest(o.GetNamespace(), placementOf(o)[0])
		if !r.isEvicted(ctx, request.NamespacedName) {
			return nil
		}
		return []reconcile.Request{request}
	})
}

// watchPublished queues the evicted Placements whose published clusters are others than at the last
// look. The watch events of their pages come earlier.
func (r *EvictionReconciler) watchPublished(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.Inventory.OnPublished(func(key inventory.Key) {
		if r.isEvicted(ctx, key) && !r.hasLooked(key) {
			queue.Add(reconcile.Request{NamespacedName: key})
		}
	})
	return nil
}

// hasLooked reports whether the last look read the clusters that are published now.
func (r *EvictionReconciler) hasLooked(key inventory.Key) bool {
	subject := r.Inventory.Subject(key)
	looked, is := r.looked.Load(key)
	return is && subject != nil && slices.Equal(looked.([]string), subject.LastNames())
}

// isEvicted reports whether a Placement has evictions, also if that is unknown.
func (r *EvictionReconciler) isEvicted(ctx context.Context, key types.NamespacedName) bool {
	var found berthv1alpha1.PlacementEvictionList
	err := r.Client.List(ctx, &found, client.InNamespace(key.Namespace), client.MatchingFields{evictionIndex: key.Name}, client.Limit(1), client.UnsafeDisableDeepCopy)
	return err != nil || len(found.Items) > 0
}

// watchClock queues the Placements of all PlacementEvictions when the clock was set.
func (r *EvictionReconciler) watchClock(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go watchClock(ctx, r.Now, func() {
		var all berthv1alpha1.PlacementEvictionList
		if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing the PlacementEvictions after the clock was set")
		}
		for i := range all.Items {
			queue.Add(placementRequest(all.Items[i].Namespace, all.Items[i].Spec.Placement))
		}
	})
	return nil
}

// Reconcile implements reconcile.Reconciler, for a Placement.
func (r *EvictionReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.looked.Delete(request.NamespacedName)
	var evictions berthv1alpha1.PlacementEvictionList
	err := r.Client.List(ctx, &evictions, client.InNamespace(request.Namespace), client.MatchingFields{evictionIndex: request.Name}, client.UnsafeDisableDeepCopy)
	if err != nil || len(evictions.Items) == 0 {
		r.refused.Delete(request.NamespacedName)
		return ctrl.Result{}, err
	}
	from, known, err := r.source(ctx, request.NamespacedName)
	if err != nil || !known {
		return ctrl.Result{RequeueAfter: settleDelay}, err
	}
	slices.SortFunc(evictions.Items, func(x, y berthv1alpha1.PlacementEviction) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	again, writes, refused := ctrl.Result{}, 0, r.refusedOf(request.NamespacedName, evictions.Items)
	for i := range evictions.Items {
		e := &evictions.Items[i]
		if !e.DeletionTimestamp.IsZero() {
			continue
		}
		if writes == maxEvictionWrites {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		wrote, after, err := false, refused[e.UID].Sub(r.Now()), error(nil)
		if after <= 0 {
			wrote, after, err = r.one(ctx, e, from)
		}
		switch {
		case isRefusal(err): // The other evictions do not wait for it.
			ctrl.LoggerFrom(ctx).Error(err, "Writing a PlacementEviction", "name", e.Name)
			after = refusedRetry
			refused[e.UID] = r.Now().Add(after)
		case err != nil:
			return housekeeping.RequeueOnConflict(err)
		}
		if wrote {
			writes++
		}
		if after > 0 && (again.RequeueAfter == 0 || after < again.RequeueAfter) {
			again.RequeueAfter = after
		}
	}
	return again, nil
}

// refusedOf returns when to try again the evictions of a Placement whose write was refused, without
// those that are gone.
func (r *EvictionReconciler) refusedOf(key types.NamespacedName, evictions []berthv1alpha1.PlacementEviction) map[types.UID]time.Time {
	stored, _ := r.refused.LoadOrStore(key, map[types.UID]time.Time{})
	refused := stored.(map[types.UID]time.Time)
	maps.DeleteFunc(refused, func(uid types.UID, _ time.Time) bool {
		return !slices.ContainsFunc(evictions, func(e berthv1alpha1.PlacementEviction) bool { return e.UID == uid })
	})
	return refused
}

// evictedFrom is a Placement, nil if there is none, with the clusters that Berth published last and
// those on its pages, sorted. Another writer may have edited the pages.
type evictedFrom struct {
	placement       *v1alpha1.Placement
	published, list []string
}

// source returns the Placement; known is false while the inventory is behind the cache.
func (r *EvictionReconciler) source(ctx context.Context, key types.NamespacedName) (from evictedFrom, known bool, err error) {
	pl := &v1alpha1.Placement{}
	if err := r.Client.Get(ctx, key, pl); err != nil || !pl.DeletionTimestamp.IsZero() {
		return evictedFrom{}, true, client.IgnoreNotFound(err)
	}
	subject := r.Inventory.Subject(key)
	if subject == nil || subject.Placement.UID != pl.UID {
		return evictedFrom{}, false, nil
	}
	if pl.IsDisabled() || pl.SaysDisabled() {
		// Other writers own the pages. Their events may come to the inventory later than here.
		listed, err := r.listed(ctx, pl)
		return evictedFrom{pl, listed, listed}, err == nil, err
	}
	listed, _ := framework.Listed(subject.OwnPages())
	r.looked.Store(key, subject.LastNames())
	return evictedFrom{pl, subject.LastNames(), listed}, true, nil
}

// listed returns the clusters on the pages of a Placement in the cache, sorted.
func (r *EvictionReconciler) listed(ctx context.Context, pl *v1alpha1.Placement) ([]string, error) {
	var list v1alpha1.PlacementDecisionList
	if err := r.Client.List(ctx, &list, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	pages := make([]*v1alpha1.PlacementDecision, len(list.Items))
	for i := range list.Items {
		pages[i] = &list.Items[i]
	}
	names, _ := framework.Listed(pl.PublishedPages(pages))
	return names, nil
}

// settles reports whether a published cluster is on no page.
func (f *evictedFrom) settles(cluster string) bool {
	_, published := slices.BinarySearch(f.published, cluster)
	_, listed := slices.BinarySearch(f.list, cluster)
	return published && !listed
}

// ageOf returns the time since the creation of an object, which the API server's clock says. If the
// own clock is behind, it is the difference: a wait for the own clock could take as long as that.
func ageOf(o client.Object, now time.Time) time.Duration {
	return now.Sub(o.GetCreationTimestamp().Time).Abs()
}

// one writes the status of an eviction, or deletes it. after is when to look again; 0 for never.
func (r *EvictionReconciler) one(ctx context.Context, e *berthv1alpha1.PlacementEviction, from evictedFrom) (wrote bool, after time.Duration, err error) {
	now := r.Now()
	if end, _ := changes.EvictionEnd(e); !end.IsZero() {
		if left := end.Add(berthv1alpha1.EvictionRetention).Sub(now); left > 0 {
			return false, left, nil
		}
		return true, 0, client.IgnoreNotFound(r.Client.Delete(ctx, e, client.Preconditions{UID: &e.UID}))
	}
	valid := changes.CheckEviction(e, from.placement, from.published)
	if unknown := unknownTime - ageOf(e, now); valid.Status == metav1.ConditionFalse && unknown > 0 {
		// The watch event of the Placement or of the page may come later.
		return false, unknown, nil
	}
	written := e.DeepCopy()
	setAt(&written.Status.Conditions, valid, now)
	if valid.Status == metav1.ConditionTrue {
		if from.settles(e.Spec.Cluster) {
			after = settleDelay
		}
		is := executed(e, from)
		if left := keepsWaiting(e, is, now); left > 0 {
			return false, cmp.Or(after, left), nil
		}
		setAt(&written.Status.Conditions, is, now)
	}
	if equality.Semantic.DeepEqual(&e.Status, &written.Status) {
		return false, after, nil
	}
	err = r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(e, client.MergeFromWithOptimisticLock{}))
	return true, after, client.IgnoreNotFound(err)
}

// keepsWaiting returns how long a waiting eviction keeps its message although it waits for another
// reason; 0 if the condition is to be written.
func keepsWaiting(e *berthv1alpha1.PlacementEviction, is metav1.Condition, now time.Time) time.Duration {
	was := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionExecuted)
	if was == nil || is.Status == metav1.ConditionTrue || was.Message == is.Message {
		return 0
	}
	return waitingDelay - now.Sub(was.LastTransitionTime.Time)
}

// setAt sets a condition whose transition, if it is one, is now.
func setAt(conditions *[]metav1.Condition, c metav1.Condition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	v1alpha1.SetCondition(conditions, c)
}

// executed returns the condition Executed of a valid eviction.
func executed(e *berthv1alpha1.PlacementEviction, from evictedFrom) metav1.Condition {
	c := metav1.Condition{
		Type: berthv1alpha1.EvictionExecuted, Status: metav1.ConditionTrue, ObservedGeneration: e.Generation,
		Reason: berthv1alpha1.ReasonClusterRemoved, Message: "The cluster is in no PlacementDecision of the Placement",
	}
	if _, published := slices.BinarySearch(from.published, e.Spec.Cluster); published {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, berthv1alpha1.ReasonEvictionWaiting, waitsFor(from.placement)
	}
	return c
}

// waitsFor names the condition of a Placement that describes why a cluster is still published. Its
// message is left out: it changes at each step, and a Placement may have many evictions.
func waitsFor(pl *v1alpha1.Placement) string {
	for _, kind := range []string{
		v1alpha1.PlacementConditionSchedulingDisabled, v1alpha1.PlacementConditionMisconfigured,
		v1alpha1.PlacementConditionDecisionPending, v1alpha1.PlacementConditionDecisionProgressing,
	} {
		c := meta.FindStatusCondition(pl.Status.Conditions, kind)
		if c == nil || kind == v1alpha1.PlacementConditionMisconfigured && c.Status == metav1.ConditionFalse {
			continue
		}
		return fmt.Sprintf("The cluster is still published: %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return "The cluster is still published"
}
