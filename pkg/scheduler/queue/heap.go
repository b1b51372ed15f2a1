package queue

import (
	"cmp"
	"container/heap"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Heap is a workqueue.Queue that yields the least request first. Requests without a Placement come
// before all others, by key: a deleted Placement needs almost no work. Placements that less does
// not tell apart are yielded in the order they came.
//
// Requests of a namespace that is at its limit wait until one of its requests is done: until then
// Len leaves them out.
//
// A request is placed by its Placement as it was at the last Push or Touch, so that the order holds
// still in between. Push, Touch and Pop cost O(log n). Only Done is safe for concurrent use;
// workqueue calls the others under its lock.
type Heap struct {
	lookup Lookup
	before func(a, b *item) bool

	mu     sync.Mutex
	pushed uint64
	byKey  map[reconcile.Request]*item
	// limit is how many requests of a namespace may be in progress at once; 0 is any number.
	limit      int
	namespaces map[string]*namespace
	// ready are the namespaces with waiting requests that are below the limit, the one with the
	// least request first; waiting counts their requests.
	ready   ready
	waiting int
}

// NewHeap is an empty heap in the order of less. At most limit requests of a namespace are in
// progress at once, from Pop to Done; 0 is no limit.
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
	h.ready.before = h.before
	return h
}

// Push adds a request, or does what Touch does if it is there.
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
		n = &namespace{items: items{before: h.before}, index: -1}
		h.namespaces[request.Namespace] = n
	}
	heap.Push(&n.items, added)
	h.place(n)
}

// Touch moves a waiting request to the position that its Placement has now. It does nothing if the
// request does not wait.
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
	touched.placement = h.lookup(request.NamespacedName)
	n := h.namespaces[request.Namespace]
	heap.Fix(&n.items, touched.index)
	if n.index >= 0 {
		heap.Fix(&h.ready, n.index)
	}
}

// Len counts the waiting requests that Pop may return.
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
	h.place(n)
	return least.request
}

// Done ends what Pop began.
func (h *Heap) Done(request reconcile.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.namespaces[request.Namespace]
	if n == nil || n.running == 0 {
		return
	}
	n.running--
	h.place(n)
	if n.running == 0 && n.items.Len() == 0 {
		delete(h.namespaces, request.Namespace)
	}
}

// place puts a namespace where it belongs, after its requests or what is in progress of it changed.
func (h *Heap) place(n *namespace) {
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

// namespace has the waiting requests of one namespace.
type namespace struct {
	items items
	// running counts the requests in progress, counted those that Len counts.
	running, counted int
	// index is the position among the ready namespaces; -1 where it is none.
	index int
}

// ready implement heap.Interface.
type ready struct {
	list   []*namespace
	before func(a, b *item) bool
}

func (r *ready) Len() int { return len(r.list) }
func (r *ready) Less(i, j int) bool {
	return r.before(r.list[i].items.list[0], r.list[j].items.list[0])
}

func (r *ready) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	r.list[i].index, r.list[j].index = i, j
}

func (r *ready) Push(x any) {
	added := x.(*namespace)
	added.index = len(r.list)
	r.list = append(r.list, added)
}

func (r *ready) Pop() any {
	last := len(r.list) - 1
	taken := r.list[last]
	r.list[last], taken.index = nil, -1
	r.list = r.list[:last]
	return taken
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
