package scheduler

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

var errEndedGoroutine = errors.New("a plugin ended its goroutine (runtime.Goexit)")

// oneByOne runs functions one at a time: those of one namespace in their order, and namespaces in
// turn, so that a function waits for at most one of each other namespace. A goroutine that finds
// another one running does not run its function itself: one goroutine runs all that wait. With a
// mutex, each function would begin only when its own goroutine gets a processor, and on a busy
// machine that takes longer than the function. The zero value is ready for use.
type oneByOne struct {
	mu      sync.Mutex
	running bool
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
	run  func()
	done chan struct{}
	// failed says with what it panicked, and where, or that it ended its goroutine.
	failed error
}

// do returns when the function of a namespace has run. It panics if the function panics or ends its
// goroutine.
func (s *oneByOne) do(namespace string, run func()) {
	s.mu.Lock()
	if !s.running {
		s.running = true
		s.mu.Unlock()
		defer s.continueWaiting()
		run()
		return
	}
	call := &waitingCall{run: run, done: make(chan struct{})}
	s.add(namespace, call)
	s.mu.Unlock()
	<-call.done
	if call.failed != nil {
		panic(call.failed)
	}
}

// add adds a function that waits. The caller holds mu.
func (s *oneByOne) add(namespace string, call *waitingCall) {
	for _, w := range s.waiting {
		if w.namespace == namespace {
			w.calls = append(w.calls, call)
			return
		}
	}
	s.waiting = append(s.waiting, &waitingCalls{namespace, []*waitingCall{call}})
}

// continueWaiting leaves the functions that wait to a goroutine, so that the caller goes on.
func (s *oneByOne) continueWaiting() {
	if first := s.next(); first != nil {
		go s.runFrom(first)
	}
}

// next returns the first function of the namespace whose turn it is. If there is none, nothing runs
// from now on.
func (s *oneByOne) next() *waitingCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting, s.running = nil, false
		return nil
	}
	first := s.waiting[0]
	s.waiting = s.waiting[1:]
	call := first.calls[0]
	if first.calls = first.calls[1:]; len(first.calls) > 0 {
		s.waiting = append(s.waiting, first)
	}
	return call
}

// runFrom runs call, then all that wait, also if one of them ends the goroutine.
func (s *oneByOne) runFrom(call *waitingCall) {
	all := false
	defer func() {
		if !all {
			s.continueWaiting()
		}
	}()
	for ; call != nil; call = s.next() {
		call.runOnce()
	}
	all = true
}

func (c *waitingCall) runOnce() {
	c.failed = errEndedGoroutine
	defer close(c.done)
	defer func() {
		if r := recover(); r != nil {
			c.failed = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	c.run()
	c.failed = nil
}
