package scheduler

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

var errEndedGoroutine = errors.New("a plugin ended its goroutine (runtime.Goexit)")

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
	// failed says with what it panicked, and where, or that it ended its goroutine.
	failed error
}

// do returns when the function has run. It panics if the function panics or ends its goroutine.
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
	if call.failed != nil {
		panic(call.failed)
	}
}

// continueWaiting leaves the functions that wait to a goroutine, so that the caller goes on.
func (s *oneByOne) continueWaiting() {
	if first := s.next(); first != nil {
		go s.runFrom(first)
	}
}

// next returns the function that has waited longest. If there is none, nothing runs from now on.
func (s *oneByOne) next() *waitingCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting, s.running = nil, false
		return nil
	}
	call := s.waiting[0]
	s.waiting = s.waiting[1:]
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
