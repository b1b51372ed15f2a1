package decide

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// score runs PreScore, Score and NormalizeScore and computes Totals.
func (s *Decider) score(ctx context.Context, r *Decision, scorers []scorer) *framework.Status {
	off, failure := s.preScore(ctx, r, scorers)
	if failure != nil {
		return failure
	}
	r.scorersOff = len(off) > 0
	defer s.Timer.Start(r.Profile, "Score")()
	active := make([]scoring, 0, len(scorers))
	for _, p := range scorers {
		if !off[p.name] || p.addOn {
			active = append(active, scoring{scorer: p})
		}
	}
	if failure := r.scoreClusters(ctx, r.allocateScores(active)); failure != nil {
		return failure
	}
	if !r.totalsOnly {
		r.Scores = make([]PluginScores, 0, len(active))
	}
	for _, p := range active {
		if p.sharedBuffer {
			if failure := r.scoreClusters(ctx, []scoring{p}); failure != nil {
				return failure
			}
		}
		if failure := r.normalize(ctx, p); failure != nil {
			return failure
		}
		if !r.totalsOnly {
			r.Scores = append(r.Scores, PluginScores{Plugin: p.name, Weight: p.weight, Values: p.scores})
		}
		for j, x := range p.scores {
			if x != framework.NoScore {
				r.Totals[j] += p.weight * x
			}
		}
	}
	return nil
}

// preScore runs the PreScore plugins and returns the names of those whose Score is disabled. It
// does not run PreScore of a Score plugin with weight 0.
func (s *Decider) preScore(ctx context.Context, r *Decision, scorers []scorer) (off map[string]bool, failure *framework.Status) {
	defer s.Timer.Start(r.Profile, "PreScore")()
	for _, p := range r.Profile.PreScore {
		weighed := func(other scorer) bool { return other.name == p.Name() && !other.addOn }
		if r.Profile.ScorePlugin(p.Name()) != nil && !slices.ContainsFunc(scorers, weighed) {
			continue
		}
		status := plugins.Call(ctx, "PreScore", p, func() *framework.Status {
			return p.PreScore(ctx, r.State, r.Snapshot.Subject.Placement, r.Feasible)
		})
		if timedOut := r.Deadline.Timeout("PreScore", p.Name()); timedOut != nil {
			return nil, timedOut
		}
		switch status.Code() {
		case framework.Success:
		case framework.Skip:
			if off == nil {
				off = map[string]bool{}
			}
			off[p.Name()] = true
		case framework.Pending:
			return nil, status.WithPlugin(p.Name())
		default:
			return nil, plugins.Unexpected(p, "PreScore", status)
		}
	}
	return off, nil
}

// scoring is a prioritizer with the buffer for its scores, in the order of Feasible.
type scoring struct {
	scorer
	scores []int64
	// sharedBuffer is true if all AddOn coordinates use the same buffer, one after the other,
	// because a Placement may list many.
	sharedBuffer bool
}

// allocateScores allocates Totals and the buffer of each plugin from scratch memory. It returns the
// plugins that do not use the shared buffer.
func (r *Decision) allocateScores(plugins []scoring) (own []scoring) {
	rows, shared := 1, 0
	for i := range plugins {
		plugins[i].sharedBuffer = r.totalsOnly && plugins[i].addOn
		if !plugins[i].sharedBuffer || shared == 0 {
			rows++
		}
		if plugins[i].sharedBuffer {
			shared++
		}
	}
	n := len(r.Feasible)
	values := r.scratch.values(n * rows)
	r.Totals = values[:n:n]
	clear(r.Totals)
	last := values[(rows-1)*n:]
	own = make([]scoring, 0, len(plugins)-shared)
	for i := range plugins {
		p := &plugins[i]
		if p.scores = last; !p.sharedBuffer {
			values = values[n:]
			p.scores = values[:n:n]
			own = append(own, *p)
		}
	}
	return own
}

// scoreChunkSize is the number of clusters that one plugin scores before the next plugin runs,
// while the clusters are in the processor's cache.
const scoreChunkSize = 256

// scoreClusters runs Score of each plugin on the feasible clusters.
func (r *Decision) scoreClusters(ctx context.Context, plugins []scoring) *framework.Status {
	return inChunks(len(r.Feasible), r.chunkSize, func(low, high int) *framework.Status {
		for ; low < high; low += scoreChunkSize {
			for _, p := range plugins {
				if failure := r.scoreRange(ctx, p, low, min(low+scoreChunkSize, high)); failure != nil {
					return failure
				}
			}
		}
		return nil
	})
}

func (r *Decision) scoreRange(ctx context.Context, p scoring, low, high int) (failure *framework.Status) {
	defer framework.Recover(ctx, "Score", p.Name, &failure)
	pl := r.Snapshot.Subject.Placement
	for j, cluster := range r.Feasible[low:high] {
		x, status := p.Score(ctx, r.State, pl, cluster)
		if r.Deadline.Passed() {
			return r.Deadline.Timeout("Score", p.Name())
		}
		if status != nil {
			switch status.Code() {
			case framework.Success:
			case framework.Skip:
				x = framework.NoScore
			default:
				return plugins.Unexpected(p, "Score", status)
			}
		}
		p.scores[low+j] = x
	}
	return nil
}

// normalize runs NormalizeScore and checks the range of the scores. AddOn scores are not checked.
func (r *Decision) normalize(ctx context.Context, p scoring) *framework.Status {
	if n, ok := p.ScorePlugin.(framework.NormalizeScorer); ok {
		status := plugins.Call(ctx, "NormalizeScore", p, func() *framework.Status {
			return n.NormalizeScore(ctx, r.State, r.Snapshot.Subject.Placement, p.scores)
		})
		if timedOut := r.Deadline.Timeout("NormalizeScore", p.Name()); timedOut != nil {
			return timedOut
		}
		if !status.IsSuccess() {
			return plugins.Unexpected(p, "NormalizeScore", status)
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
