package scheduler

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Waiting are the changes that Permit holds, as plugins see them through their Handle. It implements
// framework.WaitingPlacements, costs no goroutine, and is built up again by the first cycles after a restart.
type Waiting struct {
	mu   sync.Mutex
	held map[types.UID]*heldChange
	wake func(key types.NamespacedName)
}

// heldChange is one hold, and what was said about it.
type heldChange struct {
	framework.WaitingPlacement
	allowed  map[string]bool
	rejected string
}

// NewWaiting begins with nothing held. It is for the Handle of the plugins and for their scheduler.
func NewWaiting() *Waiting { return &Waiting{held: map[types.UID]*heldChange{}} }

// OnChange sets what is called when something was said about a hold: the Placement is to be decided anew.
func (w *Waiting) OnChange(wake func(key types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = wake
}

// List implements framework.WaitingPlacements.
func (w *Waiting) List() []framework.WaitingPlacement {
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
func (w *Waiting) Allow(uid types.UID, plugin string) bool {
	return w.answer(uid, plugin, func(h *heldChange) {
		if h.allowed == nil {
			h.allowed = map[string]bool{}
		}
		h.allowed[plugin] = true
	})
}

// Reject implements framework.WaitingPlacements.
func (w *Waiting) Reject(uid types.UID, plugin, reason string) bool {
	return w.answer(uid, plugin, func(h *heldChange) { h.rejected = plugin + ": " + reason })
}

func (w *Waiting) answer(uid types.UID, plugin string, note func(*heldChange)) bool {
	w.mu.Lock()
	h, wake := w.held[uid], w.wake
	if h != nil {
		if _, holds := h.Plugins[plugin]; !holds || h.rejected != "" {
			h = nil
		}
	}
	if h != nil {
		note(h)
	}
	w.mu.Unlock()
	if h != nil && wake != nil {
		wake(h.Key)
	}
	return h != nil
}

// said returns what was said about the hold with a token.
func (w *Waiting) said(uid types.UID, token string) (allowed map[string]bool, rejected string) {
	if w == nil {
		return nil, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[uid]
	if h == nil || h.Token != token {
		return nil, ""
	}
	return h.allowed, h.rejected
}

// deadlines are those of the hold with a token; nil if there is no such hold.
func (w *Waiting) deadlines(uid types.UID, token string) map[string]time.Time {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.held[uid]; h != nil && h.Token == token {
		return h.Plugins
	}
	return nil
}

// hold notes that a change waits; of a hold that goes on, it keeps what was said.
func (w *Waiting) hold(change framework.WaitingPlacement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := &heldChange{WaitingPlacement: change}
	if old := w.held[change.UID]; old != nil && old.Token == change.Token {
		next.allowed, next.rejected = old.allowed, old.rejected
	}
	w.held[change.UID] = next
}

// release notes that nothing of a Placement waits any more.
func (w *Waiting) release(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, uid)
}

func (w *Waiting) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, h := range w.held {
		if h.Key == key {
			delete(w.held, uid)
		}
	}
}
