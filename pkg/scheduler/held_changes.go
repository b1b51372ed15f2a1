package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// HeldChanges are the changes that Permit holds, as plugins see them through their Handle. It
// implements framework.WaitingPlacements, costs no goroutine, and is built up again by the first
// cycles after a restart.
type HeldChanges struct {
	mu   sync.Mutex
	held map[types.UID]*heldChange
	wake func(key types.NamespacedName)
}

// heldChange is one held change with the plugins' answers.
type heldChange struct {
	framework.WaitingPlacement
	// change names it.
	change   framework.Answers
	allowed  map[string]bool
	rejected string
}

// NewHeldChanges begins with nothing held. It is for the Handle of the plugins and for their
// scheduler.
func NewHeldChanges() *HeldChanges { return &HeldChanges{held: map[types.UID]*heldChange{}} }

// OnChange sets the function that is called after Allow or Reject. It must schedule a new attempt
// for the Placement.
func (w *HeldChanges) OnChange(wake func(key types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = wake
}

// List implements framework.WaitingPlacements.
func (w *HeldChanges) List() []framework.WaitingPlacement {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]framework.WaitingPlacement, 0, len(w.held))
	for _, h := range w.held {
		if h.rejected == "" {
			list = append(list, h.WaitingPlacement)
		}
	}
	slices.SortFunc(list, func(a, b framework.WaitingPlacement) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}

// Allow implements framework.WaitingPlacements.
func (w *HeldChanges) Allow(uid types.UID, plugin string) bool {
	return w.answer(uid, plugin, func(h *heldChange) {
		if h.allowed == nil {
			h.allowed = map[string]bool{}
		}
		h.allowed[plugin] = true
	})
}

// Reject implements framework.WaitingPlacements.
func (w *HeldChanges) Reject(uid types.UID, plugin, reason string) bool {
	return w.answer(uid, plugin, func(h *heldChange) { h.rejected = plugin + ": " + reason })
}

func (w *HeldChanges) answer(uid types.UID, plugin string, change func(*heldChange)) bool {
	w.mu.Lock()
	h, wake := w.held[uid], w.wake
	if h != nil {
		if _, holds := h.Plugins[plugin]; !holds || h.rejected != "" {
			h = nil
		}
	}
	if h != nil {
		change(h)
	}
	w.mu.Unlock()
	if h != nil && wake != nil {
		wake(h.Key)
	}
	return h != nil
}

// answers are what is remembered of the change of a Placement that is held.
func (w *HeldChanges) answers(uid types.UID) framework.Answers {
	if w == nil {
		return framework.Answers{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[uid]
	if h == nil {
		return framework.Answers{}
	}
	a := h.change
	a.Plugins, a.Allowed, a.Rejected = h.Plugins, maps.Clone(h.allowed), h.rejected
	return a
}

// hold stores a held change. It keeps the answers if the same revision was held before.
func (w *HeldChanges) hold(held framework.WaitingPlacement, change framework.Answers) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := &heldChange{WaitingPlacement: held, change: change}
	if old := w.held[held.UID]; old != nil && old.Revision == held.Revision {
		next.allowed, next.rejected = old.allowed, old.rejected
	}
	w.held[held.UID] = next
}

// release drops the held change of a Placement.
func (w *HeldChanges) release(uid types.UID) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, uid)
}

func (w *HeldChanges) forget(key types.NamespacedName) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, h := range w.held {
		if h.Key == key {
			delete(w.held, uid)
		}
	}
}
