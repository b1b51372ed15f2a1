package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Lookup returns the Placement of a key as it is now; nil when there is none. What it returned is
// never changed afterwards. It is called with the queue locked: it must not use the queue, and a
// lock that it takes must not be held by who uses the queue.
type Lookup func(types.NamespacedName) *v1alpha1.Placement

// New is for a controller's Options.NewQueue: the same queue as controller-runtime's without
// priorities, metrics included, except that the waiting Placements are taken in the order of the
// plugin instead of in that of arrival, and that one namespace never occupies all workers: a
// quarter of them, at least one, is left to others where there are several.
func New(sort framework.QueueSortPlugin, lookup Lookup, workers int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		// Each layer registers metrics of its own under the name, and with nothing but a name takes
		// the process's provider.
		requests := NewHeap(sort.Less, lookup, workers-min(workers-1, max(1, workers/4)))
		waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
			Name: name, Queue: requests,
		})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: waiting,
		})
		return &fair{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name, DelayingQueue: delaying,
		}), requests}
	}
}

// fair tells the heap which requests are done.
type fair struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests *Heap
}

// Done implements workqueue.TypedInterface. The worker that calls it asks for the next request, so
// no other worker needs a signal.
func (f *fair) Done(request reconcile.Request) {
	f.requests.Done(request)
	f.TypedRateLimitingInterface.Done(request)
}

// The delay before a failed attempt is repeated doubles from MinBackoff to MaxBackoff, for each
// Placement by itself. The longest is short enough for a user who waits for a repaired hub to take
// up its work.
const (
	MinBackoff = 5 * time.Millisecond
	MaxBackoff = 5 * time.Minute
)

// RateLimiter is for the same controller's Options.RateLimiter.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](MinBackoff, MaxBackoff)
}
