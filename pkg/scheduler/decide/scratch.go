package decide

import (
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// scratch holds the per-candidate buffers of a cycle: megabytes for 100,000 candidates. Their
// memory is reused without clearing it.
type scratch struct {
	feasible []*framework.Cluster
	numbers  []int64
}

// clusters returns a buffer of n clusters.
func (m *scratch) clusters(n int) []*framework.Cluster {
	m.feasible = slices.Grow(m.feasible[:0], n)
	return m.feasible[:n]
}

// values returns a buffer of n numbers, which are not zeroed.
func (m *scratch) values(n int) []int64 {
	m.numbers = slices.Grow(m.numbers[:0], n)
	return m.numbers[:n]
}

// Release recycles the buffers of a Decision. After that, read only Selected of it. Calling it is
// optional.
func (s *Decider) Release(r *Decision) {
	if r.scratch != nil {
		s.scratch.Put(r.scratch)
	}
	r.scratch, r.Feasible, r.Totals, r.Scores, r.excluded = nil, nil, nil, nil, nil
}
