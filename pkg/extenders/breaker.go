package extenders

import (
	"sync"
	"time"
)

const (
	// failuresToOpen is after how many failures in a row the breaker opens.
	failuresToOpen = 5
	// minPause and maxPause bound the time until the next request after a failure. It doubles with
	// each failure while the breaker is open.
	minPause = 10 * time.Second
	maxPause = 5 * time.Minute
)

// breaker pauses requests to an extender that fails repeatedly. After a pause, one request at a
// time tries whether it answers again.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	// last is the last failure.
	last  error
	pause time.Duration
	// until is the end of the pause; trying is true while a request tries.
	until  time.Time
	trying bool
}

// begin returns the last failure if no request may be sent, and when the next one may.
func (b *breaker) begin() (retryAt time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failuresToOpen {
		return time.Time{}, nil
	}
	now := b.now()
	switch {
	case now.Before(b.until):
		return b.until, b.last
	case b.trying:
		return now.Add(minPause), b.last
	}
	b.trying = true
	return time.Time{}, nil
}

// end counts a request. It returns when the next one may be sent, and whether the extender stopped
// or began to answer.
func (b *breaker) end(failure error) (retryAt time.Time, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if failure == nil {
		changed = b.failures > 0
		b.failures, b.pause = 0, 0
		return time.Time{}, changed
	}
	b.failures, b.last = b.failures+1, failure
	b.pause = max(minPause, b.pause)
	if b.failures > failuresToOpen {
		b.pause = min(maxPause, 2*b.pause)
	}
	b.until = b.now().Add(b.pause)
	return b.until, b.failures == 1
}

// paused reports whether the breaker is open.
func (b *breaker) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= failuresToOpen
}
