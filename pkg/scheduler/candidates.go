package scheduler

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// chunkSize is how many candidates are looked at before the next plugin is asked: few enough for the processor's cache, enough to be
// worth a goroutine. Fewer than two chunks are not shared out.
var chunkSize = 4096

// inChunks calls do for the ranges that make up 0 to n, on all processors. The failure of the first range that has one is
// returned, whichever came first.
func inChunks(n, size int, do func(low, high int) *framework.Status) *framework.Status {
	if n < 2*size {
		return do(0, n)
	}
	failures := make([]*framework.Status, (n+size-1)/size)
	var taken atomic.Int64
	var failed atomic.Bool
	work := func() {
		for !failed.Load() {
			chunk := int(taken.Add(1)) - 1
			if chunk >= len(failures) {
				return
			}
			if failures[chunk] = do(chunk*size, min(n, (chunk+1)*size)); failures[chunk] != nil {
				failed.Store(true)
			}
		}
	}
	var others sync.WaitGroup
	for range min(len(failures), runtime.GOMAXPROCS(0)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return nil
}

// verdicts are what the filters say of some candidates, in the order of the clusters.
type verdicts struct {
	feasible []*framework.Cluster
	excluded []exclusion
}

// judge asks the filters about each candidate; the first rejection ends a cluster.
func (r *Result) judge(ctx context.Context, candidates framework.Bitset, filters []framework.FilterPlugin) *framework.Status {
	count := candidates.Len()
	r.Feasible = make([]*framework.Cluster, 0, count)
	if count < 2*chunkSize {
		whole := verdicts{feasible: r.Feasible}
		failure := r.judgeSome(ctx, candidates, 0, filters, &whole)
		r.Feasible, r.excluded = whole.feasible, whole.excluded
		return failure
	}
	words := chunkSize / 64
	chunks := make([]verdicts, (len(candidates)+words-1)/words)
	failure := inChunks(len(candidates), words, func(low, high int) *framework.Status {
		some := candidates[low:high]
		mine := &chunks[low/words]
		mine.feasible = make([]*framework.Cluster, 0, some.Len())
		return r.judgeSome(ctx, some, low*64, filters, mine)
	})
	for _, c := range chunks {
		r.Feasible = append(r.Feasible, c.feasible...)
		r.excluded = append(r.excluded, c.excluded...)
	}
	return failure
}

// judgeSome asks the filters about the candidates whose indexes count from base.
func (r *Result) judgeSome(ctx context.Context, candidates framework.Bitset, base int, filters []framework.FilterPlugin, to *verdicts) *framework.Status {
	pl := r.Snapshot.Subject.Placement
next:
	for i := range candidates.All {
		cluster := r.Snapshot.Clusters.Get(base + i)
		for _, p := range filters {
			status := p.Filter(ctx, r.State, pl, cluster)
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

// scoring is a prioritizer and where its scores go, in the order of the feasible clusters.
type scoring struct {
	scorer
	scores []int64
}

// rate asks each plugin for the scores of the feasible clusters.
func (r *Result) rate(ctx context.Context, plugins []scoring) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	return inChunks(len(r.Feasible), chunkSize, func(low, high int) *framework.Status {
		for _, p := range plugins {
			for j, cluster := range r.Feasible[low:high] {
				x, status := p.Score(ctx, r.State, pl, cluster)
				if status != nil {
					switch status.Code() {
					case framework.Success:
					case framework.Skip:
						x = framework.NoScore
					default:
						return unexpected(p, "Score", status)
					}
				}
				p.scores[low+j] = x
			}
		}
		return nil
	})
}

// normalize lets a plugin bring its scores into range, and demands that they are. What others measured is passed through as it is.
func (r *Result) normalize(ctx context.Context, p scoring) *framework.Status {
	if n, ok := p.ScorePlugin.(framework.NormalizeScorer); ok {
		if status := n.NormalizeScore(ctx, r.State, r.Snapshot.Subject.Placement, p.scores); !status.IsSuccess() {
			return unexpected(p, "NormalizeScore", status)
		}
	}
	if p.addOn {
		return nil
	}
	for j, x := range p.scores {
		if (x < framework.MinScore || x > framework.MaxScore) && x != framework.NoScore {
			return framework.AsStatus(fmt.Errorf("the score %d of cluster %s is not between %d and %d",
				x, r.Feasible[j].Name, framework.MinScore, framework.MaxScore)).WithPlugin(p.Name())
		}
	}
	return nil
}
