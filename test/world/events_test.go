package world

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// turnsOfHandlers delivers the events of caches of one replica apart: each handler gets each event
// at another nanosecond, so what an event causes ends before the next one. Otherwise a loop could
// begin between two events of one instant: what hands them to handlers takes steps in any order.
type turnsOfHandlers struct {
	// handlers counts them. Those of a replica have numbers that equal first, modulo replicas.
	handlers, first int64
}

// maxHandlers is how many handlers all replicas have at most.
const maxHandlers = 128

func (t *turnsOfHandlers) informer(of cache.SharedIndexInformer) cache.SharedIndexInformer {
	return apart{of, t}
}

// apart is an informer whose handlers take turns.
type apart struct {
	cache.SharedIndexInformer
	turns *turnsOfHandlers
}

// AddEventHandler implements cache.SharedInformer.
func (i apart) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.turns.handler(h))
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i apart) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, every time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.turns.handler(h), every)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i apart) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.turns.handler(h), o)
}

func (t *turnsOfHandlers) handler(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	if t.handlers++; t.handlers >= maxHandlers/2 {
		panic("more handlers than nanoseconds for them")
	}
	return turnOfHandler{h, (t.first + t.handlers*2) % maxHandlers}
}

// turnOfHandler handles events at nanoseconds that equal at, modulo maxHandlers.
type turnOfHandler struct {
	cache.ResourceEventHandler
	at int64
}

func (h turnOfHandler) wait() {
	time.Sleep(time.Duration(maxHandlers - (time.Now().UnixNano()-h.at)%maxHandlers))
}

// OnAdd implements cache.ResourceEventHandler.
func (h turnOfHandler) OnAdd(object any, initial bool) {
	h.wait()
	h.ResourceEventHandler.OnAdd(object, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h turnOfHandler) OnUpdate(older, object any) {
	h.wait()
	h.ResourceEventHandler.OnUpdate(older, object)
}

// OnDelete implements cache.ResourceEventHandler.
func (h turnOfHandler) OnDelete(object any) {
	h.wait()
	h.ResourceEventHandler.OnDelete(object)
}
