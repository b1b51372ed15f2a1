package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Lookup returns the current Placement of a key, which must never be modified; nil if there is
// none. It is called with the queue locked, so it must not use the queue, or take a lock that is
// held while the queue is used.
type Lookup func(types.NamespacedName) *v1alpha1.Placement

// New returns a function for a controller's Options.NewQueue. It is controller-runtime's queue
// without priorities, including metrics, but ordered by the plugin. One namespace never occupies
// all workers: with several workers, a quarter of them, at least one, is reserved for other
// namespaces.
func New(sort framework.QueueSortPlugin, lookup Lookup, workers int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		// Each layer registers its own metrics under the name, with the default provider.
		less := func(a, b *v1alpha1.Placement) bool { return framework.Less(sort, a, b) }
		requests := NewHeap(less, lookup, workers-min(workers-1, max(1, workers/4)))
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

// fair reports finished requests to the heap.
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

// MinBackoff and MaxBackoff are the limits of the delay before a failed attempt is repeated. It
// doubles with each failure of the Placement.
const (
	MinBackoff = 5 * time.Millisecond
	MaxBackoff = 5 * time.Minute
)

// RateLimiter is for the same controller's Options.RateLimiter.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](MinBackoff, MaxBackoff)
}
