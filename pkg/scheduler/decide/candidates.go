package decide

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/turns"
)

// defaultChunk is ChunkSize if none is set. Fewer than two chunks run in one goroutine, because
// starting another takes longer than it saves.
const defaultChunk = 16384

// inChunks calls do for consecutive ranges from 0 to n, on all processors. It returns the failure
// of the lowest range that failed.
func inChunks(n, size int, do func(low, high int) *framework.Status) *framework.Status {
	if n < 2*size {
		return do(0, n)
	}
	s := &chunkRunner{n: n, size: size, do: do}
	for range min((n+size-1)/size, runtime.GOMAXPROCS(0)) {
		s.workers.Add(1)
		go s.run()
	}
	s.workers.Wait()
	return s.failure
}

// chunkRunner distributes ranges to goroutines until one fails.
type chunkRunner struct {
	n, size int
	do      func(low, high int) *framework.Status
	taken   atomic.Int64
	workers sync.WaitGroup

	mu sync.Mutex
	// failure is that of the range that begins at failed.
	failure *framework.Status
	failed  int
}

// run is the body of a goroutine. WaitGroup.Go would allocate more.
func (s *chunkRunner) run() {
	low := 0
	defer func() {
		if low < s.n {
			s.fail(framework.AsStatus(turns.ErrEndedGoroutine), low)
		}
		s.workers.Done()
	}()
	for {
		low = int(s.taken.Add(1)-1) * s.size
		if low >= s.n {
			return
		}
		if failure := s.do(low, min(s.n, low+s.size)); failure != nil {
			s.fail(failure, low)
		}
	}
}

// fail keeps the failure of the lowest range and stops all goroutines.
func (s *chunkRunner) fail(failure *framework.Status, low int) {
	s.taken.Store(int64(s.n))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil || low < s.failed {
		s.failure, s.failed = failure, low
	}
}

// filterResult is the result of the filters for a chunk of the candidates, in the order of
// clusters.
type filterResult struct {
	feasible []*framework.Cluster
	excluded []exclusion
}

// runFilterPlugins runs the filters on all candidates. The first plugin that excludes a cluster is
// the last one to see it.
func (r *Decision) runFilterPlugins(ctx context.Context, candidates framework.Bitset, filters []framework.FilterPlugin) *framework.Status {
	all := r.scratch.clusters(candidates.Len())
	words := max(1, len(candidates))
	if len(all) >= 2*r.chunkSize {
		words = r.chunkSize / 64
	}
	chunks := make([]filterResult, len(candidates)/words+1)
	failure := inChunks(len(candidates), words, func(low, high int) (failure *framework.Status) {
		// The part of the buffer for a chunk begins after all candidates of the chunks before it.
		before := candidates[:low].Len()
		chunks[low/words], failure = r.runFiltersOnChunk(ctx, candidates[low:high], low*64, filters, all[before:before])
		return failure
	})
	r.Feasible = all[:0]
	for _, c := range chunks {
		r.Feasible = append(r.Feasible, c.feasible...)
		r.excluded = append(r.excluded, c.excluded...)
	}
	return failure
}

// runFiltersOnChunk runs the filters on one chunk, whose indexes count from base. It appends the
// feasible clusters to feasible.
func (r *Decision) runFiltersOnChunk(
	ctx context.Context, candidates framework.Bitset, base int, filters []framework.FilterPlugin, feasible []*framework.Cluster,
) (to filterResult, failure *framework.Status) {
	running := 0
	defer framework.Recover(ctx, "Filter", func() string { return filters[running].Name() }, &failure)
	to.feasible = feasible
	pl := r.Snapshot.Subject.Placement
next:
	for i := range candidates.All {
		cluster := r.Snapshot.Clusters.Get(base + i)
		for k, p := range filters {
			running = k
			status := p.Filter(ctx, r.State, pl, cluster)
			if r.Deadline.Passed() {
				return to, r.Deadline.Timeout("Filter", p.Name())
			}
			if status == nil {
				continue
			}
			switch status.Code() {
			case framework.Success:
				continue
			case framework.Unschedulable, framework.UnschedulableAndUnresolvable:
				to.excluded = append(to.excluded, exclusion{cluster, status.WithPlugin(p.Name())})
				continue next
			case framework.Error:
				return to, status.WithPlugin(p.Name())
			default:
				return to, plugins.Unexpected(p, "Filter", status)
			}
		}
		to.feasible = append(to.feasible, cluster)
	}
	return to, nil
}
