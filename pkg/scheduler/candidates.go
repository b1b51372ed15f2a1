package scheduler

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// chunkSize is how many candidates are looked at before the next plugin is asked. Fewer than two
// chunks are not shared out: below that, waking another processor takes as long as it saves.
var chunkSize = 16384

// inChunks calls do for the ranges that make up 0 to n, on all processors. The failure of the first
// range that has one is returned, whichever came first.
func inChunks(n, size int, do func(low, high int) *framework.Status) *framework.Status {
	if n < 2*size {
		return do(0, n)
	}
	s := &sharing{n: n, size: size, do: do}
	for range min((n+size-1)/size, runtime.GOMAXPROCS(0)) - 1 {
		s.others.Add(1)
		go s.help()
	}
	s.work()
	s.others.Wait()
	return s.failure
}

// sharing is work on ranges that several goroutines take one after the other, until one fails.
type sharing struct {
	n, size int
	do      func(low, high int) *framework.Status
	taken   atomic.Int64
	others  sync.WaitGroup

	mu sync.Mutex
	// failure is that of the range that begins at failed.
	failure *framework.Status
	failed  int
}

// help works in a goroutine of its own. Go of the WaitGroup would allocate more.
func (s *sharing) help() {
	defer s.others.Done()
	s.work()
}

func (s *sharing) work() {
	for {
		low := int(s.taken.Add(1)-1) * s.size
		if low >= s.n {
			return
		}
		if failure := s.do(low, min(s.n, low+s.size)); failure != nil {
			s.fail(failure, low)
		}
	}
}

// fail keeps the failure of the first range, and leaves no range for anyone to take.
func (s *sharing) fail(failure *framework.Status, low int) {
	s.taken.Store(int64(s.n))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil || low < s.failed {
		s.failure, s.failed = failure, low
	}
}

// verdicts are what the filters say of some candidates, in the order of the clusters.
type verdicts struct {
	feasible []*framework.Cluster
	excluded []exclusion
}

// runFilterPlugins asks the filters about each candidate; the first rejection ends a cluster.
func (r *Result) runFilterPlugins(ctx context.Context, candidates framework.Bitset, filters []framework.FilterPlugin) *framework.Status {
	all := r.scratch.clusters(candidates.Len())
	words := max(1, len(candidates))
	if len(all) >= 2*chunkSize {
		words = chunkSize / 64
	}
	// Every chunk has room for its candidates where they end up if none before it is excluded.
	chunks, free := make([]verdicts, len(candidates)/words+1), all
	for i := range chunks {
		n := candidates[min(len(candidates), i*words):min(len(candidates), (i+1)*words)].Len()
		chunks[i].feasible, free = free[:0:n], free[n:]
	}
	failure := inChunks(len(candidates), words, func(low, high int) *framework.Status {
		return r.filterChunk(ctx, candidates[low:high], low*64, filters, &chunks[low/words])
	})
	r.Feasible = all[:0]
	for _, c := range chunks {
		r.Feasible = append(r.Feasible, c.feasible...)
		r.excluded = append(r.excluded, c.excluded...)
	}
	return failure
}

// filterChunk asks the filters about the candidates whose indexes count from base.
func (r *Result) filterChunk(ctx context.Context, candidates framework.Bitset, base int, filters []framework.FilterPlugin, to *verdicts) *framework.Status {
	pl := r.Snapshot.Subject.Placement
next:
	for i := range candidates.All {
		cluster := r.Snapshot.Clusters.Get(base + i)
		for _, p := range filters {
			status := p.Filter(ctx, r.State, pl, cluster)
			if r.expired() {
				return r.timeout("Filter", p.Name())
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
				return status.WithPlugin(p.Name())
			default:
				return unexpected(p, "Filter", status)
			}
		}
		to.feasible = append(to.feasible, cluster)
	}
	return nil
}
