package controllers

import "testing"

func TestGate(t *testing.T) {
	g := newGate()
	signalled := func() bool {
		select {
		case <-g.changed:
			return true
		default:
			return false
		}
	}
	expect := func(when string, wantBusy, wantSignal bool) {
		t.Helper()
		if busy, signal := g.busy(), signalled(); busy != wantBusy || signal != wantSignal {
			t.Errorf("%s: busy is %t, want %t; signalled is %t, want %t", when, busy, wantBusy, signal, wantSignal)
		}
	}
	expect("at first", false, false)
	first := g.Yield()
	expect("with one attempt", true, false)
	second := g.Yield()
	first()
	expect("when one of two has ended", true, false)
	second()
	expect("when both have ended", false, true)
	expect("later", false, false)
	// Signals that nobody took are one.
	g.signal()
	g.signal()
	expect("after two signals", false, true)
	expect("after the one", false, false)
}
