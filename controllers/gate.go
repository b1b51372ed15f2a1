package controllers

import (
	"math"
	"sync"
	"time"
)

// gate lets a background writer yield to attempts, because both send requests to the API server.
type gate struct {
	mu sync.Mutex
	// deciding counts the attempts in progress.
	deciding int
	// ended is when the last attempt ended. The writer waits until quiet has passed since then.
	ended time.Time
	quiet time.Duration
	// changed holds an element when the writer must check for work again.
	changed chan struct{}
}

func newGate(quiet time.Duration) gate { return gate{changed: make(chan struct{}, 1), quiet: quiet} }

// Yield makes the writer wait until done is called, or its patience has ended.
func (g *gate) Yield() (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deciding++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.deciding--; g.deciding == 0 {
			g.ended = time.Now()
			g.signal()
		}
	}
}

// wait returns how long the writer must yield, if no further attempt starts. It is the largest
// duration while attempts are in progress.
func (g *gate) wait() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deciding > 0 {
		return math.MaxInt64
	}
	return max(0, g.quiet-time.Since(g.ended))
}

func (g *gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}
