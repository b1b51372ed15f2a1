package scheduler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// prepareTurns lets one Placement be prepared at a time. A namespace whose turn was the last one
// leaves the next to another that asked in vain. The zero value is ready for use.
type prepareTurns struct {
	mu      sync.Mutex
	running bool
	last    string
	// asked is when a namespace last asked in vain.
	asked map[string]time.Time
	// failures are the panics in the preparation for the next attempt of Placements.
	failures map[types.NamespacedName]*framework.Status
}

// askedFor is how long a namespace that asked in vain is waited for. It asks each PrepareInterval.
const askedFor = 5 * PrepareInterval

// begin reports whether a Placement of the namespace may be prepared now. Call end afterwards.
func (t *prepareTurns) begin(namespace string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running || namespace == t.last && t.othersAsk(namespace, now) {
		if t.asked == nil {
			t.asked = map[string]time.Time{}
		}
		t.asked[namespace] = now
		return false
	}
	delete(t.asked, namespace)
	t.running, t.last = true, namespace
	return true
}

// othersAsk reports whether another namespace has asked in vain a short time ago.
func (t *prepareTurns) othersAsk(namespace string, now time.Time) bool {
	asks := false
	for other, at := range t.asked {
		if now.Sub(at) > askedFor {
			delete(t.asked, other)
		} else {
			asks = asks || other != namespace
		}
	}
	return asks
}

// fail stores the failure of a preparation for the next attempt.
func (t *prepareTurns) fail(key types.NamespacedName, failure *framework.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == nil {
		t.failures = map[types.NamespacedName]*framework.Status{}
	}
	t.failures[key] = failure
}

// takeFailure removes and returns the failure of the last preparation; nil if it did not fail.
func (t *prepareTurns) takeFailure(key types.NamespacedName) *framework.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	failure := t.failures[key]
	delete(t.failures, key)
	return failure
}

func (t *prepareTurns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
}
