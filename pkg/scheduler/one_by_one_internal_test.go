package scheduler

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOneByOne: functions run one at a time, each once, and those that wait in their order.
func TestOneByOne(t *testing.T) {
	var s oneByOne
	var group sync.WaitGroup
	const n = 100
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { s.do("ns", func() { close(started); <-proceed }) })
	<-started
	var order []int
	for i := range n {
		group.Go(func() { s.do("ns", func() { order = append(order, i) }) })
		waitFor(t, &s, i+1)
	}
	close(proceed)
	group.Wait()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Without order, and with functions that come while others run.
	inside, total := 0, 0
	for range n {
		group.Go(func() {
			for range n {
				s.do("ns", func() {
					if inside++; inside != 1 {
						t.Error("two run at once")
					}
					total++
					inside--
				})
			}
		})
	}
	group.Wait()
	if total != n*n {
		t.Errorf("%d ran, want %d", total, n*n)
	}
	waitUntilIdle(&s)
}

// TestOneByOneInTurn: namespaces take turns, so that one with few functions does not wait for all
// of another.
func TestOneByOneInTurn(t *testing.T) {
	var s oneByOne
	var group sync.WaitGroup
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { s.do("a", func() { close(started); <-proceed }) })
	<-started
	var order []string
	for i, call := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
		group.Go(func() { s.do(call[:1], func() { order = append(order, call) }) })
		waitFor(t, &s, i+1)
	}
	close(proceed)
	group.Wait()
	if diff := cmp.Diff([]string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	waitUntilIdle(&s)
}

// waitFor waits until a number of functions wait.
func waitFor(t *testing.T, s *oneByOne, n int) {
	t.Helper()
	for {
		s.mu.Lock()
		waiting := 0
		for _, w := range s.waiting {
			waiting += len(w.calls)
		}
		s.mu.Unlock()
		if waiting >= n {
			return
		}
	}
}

// waitUntilIdle waits until nothing runs or waits.
func waitUntilIdle(s *oneByOne) {
	for {
		s.mu.Lock()
		idle := !s.running && len(s.waiting) == 0
		s.mu.Unlock()
		if idle {
			return
		}
	}
}

// TestOneByOnePanics: a panic is one of the goroutine whose function it was, and others still run.
func TestOneByOnePanics(t *testing.T) {
	var s oneByOne
	var group sync.WaitGroup
	var mu sync.Mutex
	var panics []string
	protected := func(run func()) {
		defer func() {
			text := fmt.Sprint(recover())
			mu.Lock()
			defer mu.Unlock()
			panics = append(panics, text)
		}()
		s.do("ns", run)
	}
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { protected(func() { close(started); <-proceed; panic("the first") }) })
	<-started
	group.Go(func() { protected(func() { panic("one that waits") }) })
	waitFor(t, &s, 1)
	group.Go(func() { protected(func() {}) })
	waitFor(t, &s, 2)
	close(proceed)
	group.Wait()
	slices.Sort(panics)
	if len(panics) != 3 || panics[0] != "<nil>" || !strings.HasPrefix(panics[1], "one that waits\n") || !strings.Contains(panics[1], "TestOneByOnePanics") || panics[2] != "the first" {
		t.Errorf("got %q", panics)
	}
	waitUntilIdle(&s)
}

// TestOneByOneEndedGoroutine: a function that ends its goroutine panics for its caller, and others
// still run.
func TestOneByOneEndedGoroutine(t *testing.T) {
	var s oneByOne
	var group sync.WaitGroup
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { s.do("ns", func() { close(started); <-proceed; runtime.Goexit() }) })
	<-started
	var panicked any
	group.Go(func() {
		defer func() { panicked = recover() }()
		s.do("ns", runtime.Goexit)
	})
	waitFor(t, &s, 1)
	ran := false
	group.Go(func() { s.do("ns", func() { ran = true }) })
	waitFor(t, &s, 2)
	close(proceed)
	group.Wait()
	if panicked != any(errEndedGoroutine) || !ran {
		t.Errorf("the caller got %v, and the next one ran: %v", panicked, ran)
	}
	waitUntilIdle(&s)
}
