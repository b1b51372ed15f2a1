// Package turns lets work of many keys, such as namespaces or users, wait for its turn, so that the
// work of one key does not keep that of others out.
//
// It imports nothing of Berth.
package turns

import (
	"context"
	"errors"
	"sync"
)

// ErrCrowded means that the work did not get its turn because of other work of the same key.
var ErrCrowded = errors.New("too much at once")

// Turns are the turns of work. The keys that wait take turns; work of one key keeps its order.
type Turns struct {
	// atOnce is how much work runs at once, ofOne how much of it is of one key, and waiting how
	// much of one key may wait.
	atOnce, ofOne, waiting int

	mu      sync.Mutex
	running map[string]int
	total   int
	// line has the keys with work that waits, in the order of their turns.
	line []*queue
}

// queue is the work of one key that waits, in its order; there is at least one.
type queue struct {
	key   string
	turns []chan struct{}
}

// New returns Turns for work of which at most atOnce runs at once, and at most ofOne of one key. Of
// one key, at most waiting may wait.
func New(atOnce, ofOne, waiting int) *Turns {
	return &Turns{atOnce: atOnce, ofOne: ofOne, waiting: waiting, running: map[string]int{}}
}

// Wait waits until work of the key may run. Call done when it ends. At the end of ctx it returns
// ErrCrowded if other work of the key runs or waits before it, else the error of ctx.
func (t *Turns) Wait(ctx context.Context, key string) (done func(), err error) {
	t.mu.Lock()
	q := t.queueOf(key)
	if q == nil && t.total < t.atOnce && t.running[key] < t.ofOne {
		t.start(key)
		t.mu.Unlock()
		return t.doneOf(key), nil
	}
	if q != nil && len(q.turns) >= t.waiting {
		t.mu.Unlock()
		return nil, ErrCrowded
	}
	turn := make(chan struct{})
	if q == nil {
		q = &queue{key: key}
		t.line = append(t.line, q)
	}
	q.turns = append(q.turns, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return t.doneOf(key), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn:
		// Its turn came at the same time: it goes to the next.
		t.end(key)
	default:
		if first := t.removeWaiting(key, turn); !first || t.running[key] > 0 {
			return nil, ErrCrowded
		}
	}
	return nil, ctx.Err()
}

// queueOf returns the work of a key that waits; nil if there is none.
func (t *Turns) queueOf(key string) *queue {
	for _, q := range t.line {
		if q.key == key {
			return q
		}
	}
	return nil
}

// removeWaiting removes work that does not wait any more. It reports whether it was the first of
// its key.
func (t *Turns) removeWaiting(key string, turn chan struct{}) (first bool) {
	q := t.queueOf(key)
	for i, other := range q.turns {
		if other == turn {
			first = i == 0
			q.turns = append(q.turns[:i], q.turns[i+1:]...)
			break
		}
	}
	if len(q.turns) == 0 {
		t.drop(q)
	}
	return first
}

func (t *Turns) drop(q *queue) {
	for i, other := range t.line {
		if other == q {
			t.line = append(t.line[:i], t.line[i+1:]...)
			return
		}
	}
}

func (t *Turns) start(key string) {
	t.running[key]++
	t.total++
}

func (t *Turns) doneOf(key string) func() {
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(key)
	})
}

// end ends work of a key, and starts what may run now.
func (t *Turns) end(key string) {
	if t.running[key]--; t.running[key] == 0 {
		delete(t.running, key)
	}
	t.total--
	for i := 0; i < len(t.line) && t.total < t.atOnce; {
		q := t.line[i]
		if t.running[q.key] >= t.ofOne {
			i++
			continue
		}
		t.start(q.key)
		close(q.turns[0])
		t.drop(q)
		if q.turns = q.turns[1:]; len(q.turns) > 0 {
			// The next work of this key waits for one of each other key.
			t.line = append(t.line, q)
		}
	}
}
