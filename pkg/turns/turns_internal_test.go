package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOneAtATime: functions run one at a time, each once, and those that wait in their order.
func TestOneAtATime(t *testing.T) {
	var s Turns
	var group sync.WaitGroup
	const n = 100
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { do(&s, "ns", func() { close(started); <-proceed }) })
	<-started
	var order []int
	for i := range n {
		group.Go(func() { do(&s, "ns", func() { order = append(order, i) }) })
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
				do(&s, "ns", func() {
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

// TestInTurn: namespaces take turns, so that one with few functions does not wait for all
// of another.
func TestInTurn(t *testing.T) {
	var s Turns
	var group sync.WaitGroup
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { do(&s, "a", func() { close(started); <-proceed }) })
	<-started
	var order []string
	for i, call := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
		group.Go(func() { do(&s, call[:1], func() { order = append(order, call) }) })
		waitFor(t, &s, i+1)
	}
	close(proceed)
	group.Wait()
	if diff := cmp.Diff([]string{"b1", "c1", "a1", "b2", "a2", "a3", "a4"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	waitUntilIdle(&s)
}

// waitFor waits until a number of functions wait.
func waitFor(t *testing.T, s *Turns, n int) {
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
func waitUntilIdle(s *Turns) {
	for {
		s.mu.Lock()
		idle := len(s.running) == 0 && len(s.waiting) == 0
		s.mu.Unlock()
		if idle {
			return
		}
	}
}

// TestPanics: a panic is one of the goroutine whose function it was, and others still run.
func TestPanics(t *testing.T) {
	var s Turns
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
		do(&s, "ns", run)
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
	if len(panics) != 3 || panics[0] != "<nil>" || !strings.HasPrefix(panics[1], "one that waits\n") || !strings.Contains(panics[1], "TestPanics") || panics[2] != "the first" {
		t.Errorf("got %q", panics)
	}
	waitUntilIdle(&s)
}

// TestEndedGoroutine: a function that ends its goroutine panics for its caller, and others
// still run.
func TestEndedGoroutine(t *testing.T) {
	var s Turns
	var group sync.WaitGroup
	started, proceed := make(chan struct{}), make(chan struct{})
	group.Go(func() { do(&s, "ns", func() { close(started); <-proceed; runtime.Goexit() }) })
	<-started
	var panicked any
	group.Go(func() {
		defer func() { panicked = recover() }()
		do(&s, "ns", runtime.Goexit)
	})
	waitFor(t, &s, 1)
	ran := false
	group.Go(func() { do(&s, "ns", func() { ran = true }) })
	waitFor(t, &s, 2)
	close(proceed)
	group.Wait()
	if panicked != any(ErrEndedGoroutine) || !ran {
		t.Errorf("the caller got %v, and the next one ran: %v", panicked, ran)
	}
	waitUntilIdle(&s)
}

// do runs a function that must run.
func do(s *Turns, namespace string, run func()) {
	if err := s.Do(context.Background(), namespace, run); err != nil {
		panic(err)
	}
}

// TestWorkers: functions of different namespaces run at the same time, up to the number of workers,
// and never two of one namespace.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Turns{Workers: 2}
		ends, began := map[string]chan struct{}{}, []string{}
		var mu sync.Mutex
		for _, call := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			end := make(chan struct{})
			ends[call] = end
			go do(&s, call[:1], func() {
				mu.Lock()
				began = append(began, call)
				mu.Unlock()
				<-end
			})
			synctest.Wait()
		}
		for _, step := range []struct{ end, want string }{
			{"", "a1 b1"}, {"b1", "a1 b1 c1"}, {"a1", "a1 b1 c1 b2"}, {"c1", "a1 b1 c1 b2 a2"}, {"b2", "a1 b1 c1 b2 a2"}, {"a2", "a1 b1 c1 b2 a2 a3"}, {"a3", "a1 b1 c1 b2 a2 a3"},
		} {
			if step.end != "" {
				close(ends[step.end])
			}
			synctest.Wait()
			if got := strings.Join(began, " "); got != step.want {
				t.Errorf("after the end of %q: %s, want %s", step.end, got, step.want)
			}
		}
		if len(s.running)+len(s.waiting) > 0 {
			t.Errorf("%v run, %d wait", s.running, len(s.waiting))
		}
	})
}

// TestWaitingEnds: a function whose turn does not come in time does not run, and the error tells
// whether its own namespace is the reason.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Turns{MaxWaiting: 2}
		end := make(chan struct{})
		go do(&s, "a", func() { <-end })
		synctest.Wait()
		wait := func(namespace string, most time.Duration) chan error {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			got := make(chan error, 1)
			go func() {
				defer cancel()
				got <- s.Do(ctx, namespace, func() { t.Errorf("a function of %s ran", namespace) })
			}()
			synctest.Wait()
			return got
		}
		for _, call := range []struct {
			namespace string
			got       chan error
			want      error
		}{
			{"a", wait("a", 1), ErrBusy}, {"a", wait("a", 1), ErrBusy}, {"a, too many", wait("a", 1), ErrBusy},
			{"b", wait("b", 3), context.DeadlineExceeded}, {"b, the second", wait("b", 2), ErrBusy},
		} {
			if err := <-call.got; !errors.Is(err, call.want) {
				t.Errorf("%s: %v, want %v", call.namespace, err, call.want)
			}
		}
		close(end)
		synctest.Wait()
		if len(s.running)+len(s.waiting) > 0 {
			t.Errorf("%v run, %d wait", s.running, len(s.waiting))
		}
	})
}
