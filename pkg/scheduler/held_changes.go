package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// HeldChanges implements framework.HeldChanges for the Handle of the plugins. A nil *HeldChanges
// holds nothing.
type HeldChanges struct {
	mu      sync.Mutex
	held    map[types.UID]*heldEntry
	requeue func(key types.NamespacedName)
}

// heldEntry is one held change with the answers of plugins.
type heldEntry struct {
	framework.HeldChange
	// change identifies the held change.
	change   framework.Answers
	allowed  map[string]struct{}
	rejected string
}

// NewHeldChanges returns an empty HeldChanges. The Handle of the plugins and their Scheduler share
// it.
func NewHeldChanges() *HeldChanges { return &HeldChanges{held: map[types.UID]*heldEntry{}} }

// OnChange sets the function that is called after Allow or Reject. It must schedule a new attempt
// for the Placement.
func (c *HeldChanges) OnChange(requeue func(key types.NamespacedName)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requeue = requeue
}

// List implements framework.HeldChanges.
func (c *HeldChanges) List() []framework.HeldChange {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]framework.HeldChange, 0, len(c.held))
	for _, h := range c.held {
		if h.rejected == "" {
			list = append(list, h.HeldChange)
		}
	}
	slices.SortFunc(list, func(a, b framework.HeldChange) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}

// Allow implements framework.HeldChanges.
func (c *HeldChanges) Allow(uid types.UID, plugin string) bool {
	return c.answer(uid, plugin, func(h *heldEntry) {
		if h.allowed == nil {
			h.allowed = map[string]struct{}{}
		}
		h.allowed[plugin] = struct{}{}
	})
}

// Reject implements framework.HeldChanges.
func (c *HeldChanges) Reject(uid types.UID, plugin, reason string) bool {
	return c.answer(uid, plugin, func(h *heldEntry) { h.rejected = plugin + ": " + reason })
}

func (c *HeldChanges) answer(uid types.UID, plugin string, change func(*heldEntry)) bool {
	c.mu.Lock()
	h, requeue := c.held[uid], c.requeue
	if h != nil {
		if _, holds := h.Plugins[plugin]; !holds || h.rejected != "" {
			h = nil
		}
	}
	if h != nil {
		change(h)
	}
	c.mu.Unlock()
	if h != nil && requeue != nil {
		requeue(h.Key)
	}
	return h != nil
}

// answers returns the answers to the held change of a Placement; empty if none is held.
func (c *HeldChanges) answers(uid types.UID) framework.Answers {
	if c == nil {
		return framework.Answers{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[uid]
	if h == nil {
		return framework.Answers{}
	}
	a := h.change
	a.Plugins, a.Allowed, a.Rejected = h.Plugins, maps.Clone(h.allowed), h.rejected
	return a
}

// hold stores a held change. It keeps the answers if the same change was held before.
func (c *HeldChanges) hold(held framework.HeldChange, change framework.Answers) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &heldEntry{HeldChange: held, change: change}
	if old := c.held[held.UID]; old != nil && old.Revision == held.Revision && old.change.Digest == change.Digest && old.change.Generation == change.Generation {
		next.allowed, next.rejected = old.allowed, old.rejected
		if old.Since.Before(next.Since) {
			next.Since = old.Since // Without a record, only memory has it.
		}
	}
	c.held[held.UID] = next
}

// release drops the held change of a Placement.
func (c *HeldChanges) release(uid types.UID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, uid)
}

func (c *HeldChanges) forget(key types.NamespacedName) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, h := range c.held {
		if h.Key == key {
			delete(c.held, uid)
		}
	}
}
