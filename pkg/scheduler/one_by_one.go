package scheduler

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// oneByOne runs functions one at a time, in their order. A goroutine that finds another one running
// does not run its function itself: one goroutine runs all that wait. With a mutex, each function
// would begin only when its own goroutine gets a processor, and on a busy machine that takes longer
// than the function. The zero value is ready for use.
type oneByOne struct {
	mu      sync.Mutex
	running bool
	waiting []*waitingCall
}

// waitingCall is a function that waits. done is closed after it has run.
type waitingCall struct {
	run  func()
	done chan struct{}
	// panicked is what it panicked with, and where.
	panicked error
}

// do returns when the function has run. It panics if the function does.
func (s *oneByOne) do(run func()) {
	s.mu.Lock()
	if !s.running {
		s.running = true
		s.mu.Unlock()
		defer s.continueWaiting()
		run()
		return
	}
	call := &waitingCall{run: run, done: make(chan struct{})}
	s.waiting = append(s.waiting, call)
	s.mu.Unlock()
	<-call.done
	if call.panicked != nil {
		panic(call.panicked)
	}
}

// continueWaiting leaves the functions that wait to a goroutine, so that the caller goes on.
func (s *oneByOne) continueWaiting() {
	if calls := s.next(); len(calls) > 0 {
		go s.runAll(calls)
	}
}

// next returns the functions that wait. If there are none, nothing runs from now on.
func (s *oneByOne) next() []*waitingCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.waiting
	s.waiting, s.running = nil, len(calls) > 0
	return calls
}

func (s *oneByOne) runAll(calls []*waitingCall) {
	for len(calls) > 0 {
		for _, call := range calls {
			call.runOnce()
		}
		calls = s.next()
	}
}

func (c *waitingCall) runOnce() {
	defer close(c.done)
	defer func() {
		if r := recover(); r != nil {
			c.panicked = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	c.run()
}
