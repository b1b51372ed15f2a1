package queue

import (
	"cmp"
	"container/heap"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Heap is a workqueue.Queue that yields the least request first. Requests without a Placement come before all others, by
// key: what is left to do for a Placement that is gone is nearly nothing. Placements that less does not tell apart are yielded
// in the order they came.
//
// A request is placed by its Placement as it was at the last Push or Touch, so that the order holds still in between. Push,
// Touch and Pop cost O(log n). The methods are not safe for concurrent use; workqueue calls them under its lock.
type Heap struct {
	lookup  Lookup
	pushed  uint64
	byKey   map[reconcile.Request]*item
	waiting items
}

// NewHeap is an empty heap in the order of less.
func NewHeap(less func(a, b *v1alpha1.Placement) bool, lookup Lookup) *Heap {
	h := &Heap{lookup: lookup, byKey: map[reconcile.Request]*item{}}
	h.waiting.before = func(a, b *item) bool {
		switch {
		case a.placement == nil && b.placement == nil:
			return cmp.Or(cmp.Compare(a.request.Namespace, b.request.Namespace), cmp.Compare(a.request.Name, b.request.Name)) < 0
		case a.placement == nil || b.placement == nil:
			return a.placement == nil
		case less(a.placement, b.placement):
			return true
		case less(b.placement, a.placement):
			return false
		}
		return a.pushed < b.pushed
	}
	return h
}

// Push adds a request, or does what Touch does if it is there.
func (h *Heap) Push(request reconcile.Request) {
	if _, there := h.byKey[request]; there {
		h.Touch(request)
		return
	}
	h.pushed++
	added := &item{request: request, placement: h.lookup(request.NamespacedName), pushed: h.pushed}
	h.byKey[request] = added
	heap.Push(&h.waiting, added)
}

// Touch places a waiting request anew, by its Placement as it is now; nothing happens if it does not wait.
func (h *Heap) Touch(request reconcile.Request) {
	touched, there := h.byKey[request]
	if !there {
		return
	}
	touched.placement = h.lookup(request.NamespacedName)
	heap.Fix(&h.waiting, touched.index)
}

// Len counts the waiting requests.
func (h *Heap) Len() int { return h.waiting.Len() }

// Pop removes the least request and returns it. It must not be called when there is none.
func (h *Heap) Pop() reconcile.Request {
	least := heap.Pop(&h.waiting).(*item)
	delete(h.byKey, least.request)
	return least.request
}

// item is a waiting request with what places it.
type item struct {
	request   reconcile.Request
	placement *v1alpha1.Placement
	// pushed numbers the requests in the order they came.
	pushed uint64
	// index is the position in the heap.
	index int
}

// items implement heap.Interface.
type items struct {
	list   []*item
	before func(a, b *item) bool
}

func (q *items) Len() int           { return len(q.list) }
func (q *items) Less(i, j int) bool { return q.before(q.list[i], q.list[j]) }

func (q *items) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].index, q.list[j].index = i, j
}

func (q *items) Push(x any) {
	added := x.(*item)
	added.index = len(q.list)
	q.list = append(q.list, added)
}

func (q *items) Pop() any {
	last := len(q.list) - 1
	taken := q.list[last]
	q.list[last] = nil
	q.list = q.list[:last]
	return taken
}
