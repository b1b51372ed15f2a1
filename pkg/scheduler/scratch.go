package scheduler

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// scratch holds the buffers that a cycle needs for each of its candidates: megabytes for a hundred
// thousand of them, which the next cycle neither allocates nor clears.
type scratch struct {
	feasible []*framework.Cluster
	numbers  []int64
}

// clusters is a buffer of n clusters.
func (m *scratch) clusters(n int) []*framework.Cluster {
	m.feasible = slices.Grow(m.feasible[:0], n)
	return m.feasible[:n]
}

// values is a buffer of n numbers, which are not zeroed.
func (m *scratch) values(n int) []int64 {
	m.numbers = slices.Grow(m.numbers[:0], n)
	return m.numbers[:n]
}

// scratchPool recycles the per-candidate buffers of finished cycles.
type scratchPool struct{ pool sync.Pool }

func (f *scratchPool) get() *scratch {
	if m, ok := f.pool.Get().(*scratch); ok {
		return m
	}
	return &scratch{}
}

// Release recycles the buffers of a Result. Nothing but Selected may be read of it after that.
// Callers that keep Results need not call it.
func (s *Scheduler) Release(r *Result) {
	if r.scratch != nil {
		s.scratch.pool.Put(r.scratch)
	}
	r.scratch, r.Feasible, r.Totals, r.Scores, r.excluded = nil, nil, nil, nil, nil
}
