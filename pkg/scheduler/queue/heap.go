package queue

import (
	"cmp"
	"container/heap"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Heap is a workqueue.Queue that returns the least request first. Requests without a Placement come
// before all others, by key, because a deleted Placement needs almost no work. Placements that are
// equal for less are returned in the order of Push.
//
// A namespace has a limit of requests in progress. While it is reached, Len and Pop ignore the
// namespace's other requests.
//
// The position of a request depends on its Placement at the last Push or Touch. Push, Touch and Pop
// cost O(log n). Only Done is safe for concurrent use; workqueue calls the other methods under its
// lock.
type Heap struct {
	lookup Lookup
	before func(a, b *item) bool

	mu     sync.Mutex
	pushed uint64
	byKey  map[reconcile.Request]*item
	// limit is the maximum number of requests of a namespace in progress; 0 means no limit.
	limit      int
	namespaces map[string]*namespace
	// ready are the namespaces below the limit with queued requests, the one with the least request
	// first. waiting is the number of their queued requests.
	ready   ordered[*namespace]
	waiting int
}

// NewHeap returns an empty heap in the order of less. limit is the maximum number of requests of a
// namespace in progress, from Pop to Done; 0 means no limit.
func NewHeap(less func(a, b *v1alpha1.Placement) bool, lookup Lookup, limit int) *Heap {
	h := &Heap{lookup: lookup, limit: limit, byKey: map[reconcile.Request]*item{}, namespaces: map[string]*namespace{}}
	h.before = func(a, b *item) bool {
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
	h.ready.before = func(a, b *namespace) bool { return h.before(a.items.list[0], b.items.list[0]) }
	return h
}

// Push adds a request, or calls Touch if it is queued.
func (h *Heap) Push(request reconcile.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.byKey[request]; there {
		h.touch(request)
		return
	}
	h.pushed++
	added := &item{request: request, placement: h.lookup(request.NamespacedName), pushed: h.pushed}
	h.byKey[request] = added
	n := h.namespaces[request.Namespace]
	if n == nil {
		n = &namespace{items: ordered[*item]{before: h.before}, position: position{index: -1}}
		h.namespaces[request.Namespace] = n
	}
	heap.Push(&n.items, added)
	h.updatePosition(n)
}

// Touch updates the position of a queued request. It does nothing if the request is not queued, or
// if its Placement is the same object: most touches are because a cluster changed.
func (h *Heap) Touch(request reconcile.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touch(request)
}

func (h *Heap) touch(request reconcile.Request) {
	touched, there := h.byKey[request]
	if !there {
		return
	}
	placement := h.lookup(request.NamespacedName)
	if placement == touched.placement {
		return
	}
	touched.placement = placement
	n := h.namespaces[request.Namespace]
	heap.Fix(&n.items, touched.index)
	if n.index >= 0 {
		heap.Fix(&h.ready, n.index)
	}
}

// Len returns the number of requests that Pop can return.
func (h *Heap) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// Pop removes the least request and returns it. It must not be called if Len is 0.
func (h *Heap) Pop() reconcile.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.ready.list[0]
	least := heap.Pop(&n.items).(*item)
	delete(h.byKey, least.request)
	n.running++
	h.updatePosition(n)
	return least.request
}

// Done marks a request from Pop as processed.
func (h *Heap) Done(request reconcile.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.namespaces[request.Namespace]
	if n == nil || n.running == 0 {
		return
	}
	n.running--
	h.updatePosition(n)
	if n.running == 0 && n.items.Len() == 0 {
		delete(h.namespaces, request.Namespace)
	}
}

// updatePosition updates the position of a namespace after a change of its requests.
func (h *Heap) updatePosition(n *namespace) {
	isReady := n.items.Len() > 0 && (h.limit == 0 || n.running < h.limit)
	h.waiting -= n.counted
	n.counted = 0
	if isReady {
		n.counted = n.items.Len()
		h.waiting += n.counted
	}
	switch {
	case isReady && n.index >= 0:
		heap.Fix(&h.ready, n.index)
	case isReady:
		heap.Push(&h.ready, n)
	case n.index >= 0:
		heap.Remove(&h.ready, n.index)
	}
}

// namespace holds the queued requests of one namespace.
type namespace struct {
	position // among the ready namespaces
	items    ordered[*item]
	// running is the number of requests in progress, counted the number that Len includes.
	running, counted int
}

// item is a queued request with what determines its position.
type item struct {
	position
	request   reconcile.Request
	placement *v1alpha1.Placement
	// pushed numbers the requests in the order they came.
	pushed uint64
}

// position is where an element is in its heap.
type position struct {
	// index is -1 for an element that was removed.
	index int
}

func (p *position) moveTo(index int) { p.index = index }

// ordered implements heap.Interface.
type ordered[T interface{ moveTo(index int) }] struct {
	list   []T
	before func(a, b T) bool
}

func (o *ordered[T]) Len() int           { return len(o.list) }
func (o *ordered[T]) Less(i, j int) bool { return o.before(o.list[i], o.list[j]) }

func (o *ordered[T]) Swap(i, j int) {
	o.list[i], o.list[j] = o.list[j], o.list[i]
	o.list[i].moveTo(i)
	o.list[j].moveTo(j)
}

func (o *ordered[T]) Push(x any) {
	added := x.(T)
	added.moveTo(len(o.list))
	o.list = append(o.list, added)
}

func (o *ordered[T]) Pop() any {
	last := len(o.list) - 1
	taken := o.list[last]
	taken.moveTo(-1)
	clear(o.list[last:])
	o.list = o.list[:last]
	return taken
}
