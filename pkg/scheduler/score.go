package scheduler

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// score asks the prioritizers for their scores and sums them up.
func (s *Scheduler) score(ctx context.Context, r *Result, scorers []scorer) *framework.Status {
	off, failure := s.preScore(ctx, r, scorers)
	if failure != nil {
		return failure
	}
	defer s.begin(r, "Score")()
	active := make([]scoring, 0, len(scorers))
	for _, p := range scorers {
		if !off[p.name] || p.addOn {
			active = append(active, scoring{scorer: p})
		}
	}
	if failure := r.rate(ctx, r.allot(active)); failure != nil {
		return failure
	}
	if !r.totalsOnly {
		r.Scores = make([]PluginScores, 0, len(active))
	}
	for _, p := range active {
		if p.shares {
			if failure := r.rate(ctx, []scoring{p}); failure != nil {
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

// preScore runs the PreScore plugins in their order and returns those whose Score is switched off.
// A score plugin that this Placement does not weigh prepares nothing.
func (s *Scheduler) preScore(ctx context.Context, r *Result, scorers []scorer) (off map[string]bool, failure *framework.Status) {
	defer s.begin(r, "PreScore")()
	for _, p := range r.profile.PreScore {
		weighed := func(other scorer) bool { return other.name == p.Name() && !other.addOn }
		if r.profile.score(p.Name()) != nil && !slices.ContainsFunc(scorers, weighed) {
			continue
		}
		status := p.PreScore(ctx, r.State, r.Snapshot.Subject.Placement, r.Feasible)
		if late := r.timeout("PreScore", p.Name()); late != nil {
			return nil, late
		}
		switch status.Code() {
		case framework.Success:
		case framework.Skip:
			if off == nil {
				off = map[string]bool{}
			}
			off[p.Name()] = true
		default:
			return nil, unexpected(p, "PreScore", status)
		}
	}
	return off, nil
}

// scoring is a prioritizer and where its scores go, in the order of the feasible clusters.
type scoring struct {
	scorer
	scores []int64
	// shares says that scores is the buffer of all AddOn coordinates, of which a Placement may list
	// many: they are asked for one coordinate after the other.
	shares bool
}

// allot takes memory for Totals and the scores of each plugin. It returns the plugins that have a
// buffer of their own.
func (r *Result) allot(plugins []scoring) (own []scoring) {
	rows, shared := 1, 0
	for i := range plugins {
		plugins[i].shares = r.totalsOnly && plugins[i].addOn
		if !plugins[i].shares || shared == 0 {
			rows++
		}
		if plugins[i].shares {
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
		if p.scores = last; !p.shares {
			values = values[n:]
			p.scores = values[:n:n]
			own = append(own, *p)
		}
	}
	return own
}

// rateSize is how many clusters one plugin scores before the next does, so that those are still in
// the processor's cache.
const rateSize = 256

// rate asks each plugin for the scores of the feasible clusters.
func (r *Result) rate(ctx context.Context, plugins []scoring) *framework.Status {
	return inChunks(len(r.Feasible), chunkSize, func(low, high int) *framework.Status {
		for ; low < high; low += rateSize {
			for _, p := range plugins {
				if failure := r.rateSome(ctx, p, low, min(low+rateSize, high)); failure != nil {
					return failure
				}
			}
		}
		return nil
	})
}

func (r *Result) rateSome(ctx context.Context, p scoring, low, high int) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	for j, cluster := range r.Feasible[low:high] {
		x, status := p.Score(ctx, r.State, pl, cluster)
		if r.expired() {
			return r.timeout("Score", p.Name())
		}
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
	return nil
}

// normalize lets a plugin bring its scores into range, and demands that they are. What others
// measured is passed through as it is.
func (r *Result) normalize(ctx context.Context, p scoring) *framework.Status {
	if n, ok := p.ScorePlugin.(framework.NormalizeScorer); ok {
		status := n.NormalizeScore(ctx, r.State, r.Snapshot.Subject.Placement, p.scores)
		if late := r.timeout("NormalizeScore", p.Name()); late != nil {
			return late
		}
		if !status.IsSuccess() {
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
