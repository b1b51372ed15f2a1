package scheduler

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// room is the memory that a cycle needs for each of its candidates. With a hundred thousand of them it is megabytes, which a cycle
// that can take an earlier one's neither clears nor leaves to the garbage collector.
type room struct {
	feasible []*framework.Cluster
	numbers  []int64
}

// clusters is room for n clusters.
func (m *room) clusters(n int) []*framework.Cluster {
	m.feasible = slices.Grow(m.feasible[:0], n)
	return m.feasible[:n]
}

// values is room for n numbers, which are not zero.
func (m *room) values(n int) []int64 {
	m.numbers = slices.Grow(m.numbers[:0], n)
	return m.numbers[:n]
}

// rooms are free.
type rooms struct{ pool sync.Pool }

func (f *rooms) take() *room {
	if m, ok := f.pool.Get().(*room); ok {
		return m
	}
	return &room{}
}

// Release gives back what the Result has for each candidate. Nothing but Selected may be read of it after that. Who keeps Results need
// not call it.
func (s *Scheduler) Release(r *Result) {
	if r.room != nil {
		s.rooms.pool.Put(r.room)
	}
	r.room, r.Feasible, r.Totals, r.Scores, r.excluded = nil, nil, nil, nil, nil
}
