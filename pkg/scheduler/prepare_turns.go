package scheduler

import (
	"sync"
	"time"
)

// prepareTurns lets one Placement be prepared at a time. A namespace whose turn was the last one
// leaves the next to another that asked in vain. The zero value is ready for use.
type prepareTurns struct {
	mu      sync.Mutex
	running bool
	last    string
	// asked is when a namespace last asked in vain.
	asked map[string]time.Time
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

func (t *prepareTurns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
}
