package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// ErrBusy means that other functions of the same namespace come first.
var ErrBusy = errors.New("too many other requests come first in the namespace")

// ErrEndedGoroutine means that a function ended its goroutine.
var ErrEndedGoroutine = errors.New("a plugin ended its goroutine (runtime.Goexit)")

// Turns runs functions: at most one of each namespace at a time, those of one namespace in their
// order, and namespaces in turn. A goroutine that must wait does not run its function itself: the
// one that ends a function runs the next. With a mutex, each function would begin only when its own
// goroutine gets a processor, and on a busy machine that takes longer than the function. The zero
// value is ready for use and runs one function at a time. Set the fields before the first call.
type Turns struct {
	// Workers is how many functions run at a time; 0 means 1.
	Workers int
	// MaxWaiting is how many functions of one namespace may wait; 0 means no limit.
	MaxWaiting int

	mu sync.Mutex
	// running are the namespaces whose function runs.
	running []string
	// waiting has a list for each namespace with functions that wait, in the order of their turns.
	waiting []*waitingCalls
}

// waitingCalls are the functions of one namespace that wait, in their order; there is at least one.
type waitingCalls struct {
	namespace string
	calls     []*waitingCall
}

// waitingCall is a function that waits. done is closed after it has run.
type waitingCall struct {
	namespace string
	run       func()
	done      chan struct{}
	// failed says with what it panicked, and where, or that it ended its goroutine.
	failed error
}

// Do returns when the function of a namespace has run, or with an error if it has not: ErrBusy if
// others of its namespace come first and are too many, or still wait or run at the end of ctx; else
// the error of ctx. A function that has begun is waited for. Do panics if the function panics or
// ends its goroutine.
func (t *Turns) Do(ctx context.Context, namespace string, run func()) error {
	t.mu.Lock()
	if len(t.running) < max(t.Workers, 1) && !slices.Contains(t.running, namespace) {
		t.running = append(t.running, namespace)
		t.mu.Unlock()
		defer t.continueWaiting(namespace)
		run()
		return nil
	}
	call := &waitingCall{namespace: namespace, run: run, done: make(chan struct{})}
	if !t.add(call) {
		t.mu.Unlock()
		return ErrBusy
	}
	t.mu.Unlock()
	select {
	case <-call.done:
	case <-ctx.Done():
		if isFirst, removed := t.remove(call); removed && isFirst {
			return ctx.Err()
		} else if removed {
			return ErrBusy
		}
		<-call.done
	}
	if call.failed != nil {
		panic(call.failed)
	}
	return nil
}

// add adds a function that waits; false if too many of its namespace do. The caller holds mu.
func (t *Turns) add(call *waitingCall) bool {
	i := t.find(call.namespace)
	if i < 0 {
		t.waiting = append(t.waiting, &waitingCalls{call.namespace, []*waitingCall{call}})
		return true
	}
	w := t.waiting[i]
	if t.MaxWaiting > 0 && len(w.calls) >= t.MaxWaiting {
		return false
	}
	w.calls = append(w.calls, call)
	return true
}

// find returns the position of the functions of a namespace that wait; -1 if there are none.
func (t *Turns) find(namespace string) int {
	return slices.IndexFunc(t.waiting, func(w *waitingCalls) bool { return w.namespace == namespace })
}

// remove removes a function that waits; removed is false if it does not wait any more. isFirst is
// true if no other of its namespace came first.
func (t *Turns) remove(call *waitingCall) (isFirst, removed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.find(call.namespace)
	if i < 0 {
		return false, false
	}
	w := t.waiting[i]
	at := slices.Index(w.calls, call)
	if at < 0 {
		return false, false
	}
	if w.calls = slices.Delete(w.calls, at, at+1); len(w.calls) == 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return at == 0 && !slices.Contains(t.running, call.namespace), true
}

// continueWaiting ends a function of a namespace, and leaves those that wait to a goroutine, so
// that the caller goes on.
func (t *Turns) continueWaiting(namespace string) {
	if first := t.next(namespace); first != nil {
		go t.runFrom(first)
	}
}

// next ends a function of a namespace, whose turn is then the last. It returns the first function
// of the namespace whose turn it is; nil if none can run.
func (t *Turns) next(ended string) *waitingCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.running, ended)
	t.running = slices.Delete(t.running, at, at+1)
	if i := t.find(ended); i >= 0 {
		w := t.waiting[i]
		t.waiting = append(slices.Delete(t.waiting, i, i+1), w)
	}
	i := slices.IndexFunc(t.waiting, func(w *waitingCalls) bool { return !slices.Contains(t.running, w.namespace) })
	if i < 0 {
		return nil
	}
	w := t.waiting[i]
	call := w.calls[0]
	if w.calls = w.calls[1:]; len(w.calls) == 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.running = append(t.running, call.namespace)
	return call
}

// runFrom runs call, then those that wait, also if one of them ends the goroutine.
func (t *Turns) runFrom(call *waitingCall) {
	for call != nil {
		namespace, ended := call.namespace, false
		func() {
			defer func() {
				if !ended {
					t.continueWaiting(namespace)
				}
			}()
			call.runOnce()
			ended = true
		}()
		call = t.next(namespace)
	}
}

func (c *waitingCall) runOnce() {
	c.failed = ErrEndedGoroutine
	defer close(c.done)
	defer func() {
		if r := recover(); r != nil {
			c.failed = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	c.run()
	c.failed = nil
}
