package controllers

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second)
		signalled := func() bool {
			select {
			case <-g.changed:
				return true
			default:
				return false
			}
		}
		expect := func(when string, wantWait time.Duration, wantSignal bool) {
			t.Helper()
			if wait, signal := g.wait(), signalled(); wait != wantWait || signal != wantSignal {
				t.Errorf("%s: the writer waits %s, want %s; signalled is %t, want %t", when, wait, wantWait, signal, wantSignal)
			}
		}
		expect("at first", 0, false)
		first := g.Yield()
		expect("with one attempt", math.MaxInt64, false)
		second := g.Yield()
		first()
		expect("when one of two has ended", math.MaxInt64, false)
		second()
		expect("when both have ended", time.Second, true)
		time.Sleep(time.Second - 1)
		expect("shortly before the quiet time has passed", 1, false)
		time.Sleep(time.Second)
		expect("when the quiet time has passed", 0, false)
		// Signals that nobody took are one.
		g.signal()
		g.signal()
		expect("after two signals", 0, true)
		expect("after the one", 0, false)
	})
}
