package limits

import (
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PrepareInterval is the delay before a Placement with work left is prepared again.
const PrepareInterval = 20 * time.Millisecond

// askedFor is how long a namespace that asked in vain is waited for. It asks each PrepareInterval.
const askedFor = 5 * PrepareInterval

// turn lets one Placement be prepared at a time. A namespace whose turn was the last one leaves the
// next to another that asked in vain.
type turn struct {
	taken bool
	last  string
	// asked is when a namespace last asked in vain.
	asked map[string]time.Time
}

// BeginPreparation reports whether a Placement of the namespace may be prepared now. Call
// EndPreparation afterwards.
func (l *Limits) BeginPreparation(namespace string) bool {
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turn
	if t.taken || namespace == t.last && t.othersAsk(namespace, now) {
		if t.asked == nil {
			t.asked = map[string]time.Time{}
		}
		t.asked[namespace] = now
		return false
	}
	delete(t.asked, namespace)
	t.taken, t.last = true, namespace
	return true
}

// othersAsk reports whether another namespace has asked in vain a short time ago.
func (t *turn) othersAsk(namespace string, now time.Time) bool {
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

// EndPreparation ends the turn of BeginPreparation.
func (l *Limits) EndPreparation() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn.taken = false
}

// FailPreparation stores the failure of a preparation for the next attempt.
func (l *Limits) FailPreparation(pl *v1alpha1.Placement, failure *framework.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.placements[keyOf(pl)]
	p.panicked = failure
	l.set(pl, p)
}

// TakePreparationFailure removes and returns the failure of the last preparation; nil if it did not
// fail.
func (l *Limits) TakePreparationFailure(pl *v1alpha1.Placement) *framework.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.placements[keyOf(pl)]
	if failure := p.panicked; failure != nil {
		p.panicked = nil
		l.set(pl, p)
		return failure
	}
	return nil
}
