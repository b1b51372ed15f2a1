package controllers

import "sync"

// gate lets a background writer yield to attempts, because both send requests to the API server.
type gate struct {
	mu sync.Mutex
	// deciding counts the attempts in progress.
	deciding int
	// changed holds an element when the writer must check for work again.
	changed chan struct{}
}

func newGate() gate { return gate{changed: make(chan struct{}, 1)} }

// Yield makes the writer wait until done is called, or its patience has ended.
func (g *gate) Yield() (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deciding++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.deciding--; g.deciding == 0 {
			g.signal()
		}
	}
}

// busy is true while attempts are in progress.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deciding > 0
}

func (g *gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}
