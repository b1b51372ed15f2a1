package scheduler

import (
	"context"
	"fmt"
	"sort"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Verdicts say of every candidate why it was, or was not, selected, by name. Empty when nothing was decided.
func (r *Result) Verdicts(ctx context.Context) []framework.Verdict {
	verdicts := make([]framework.Verdict, 0, r.Candidates())
	if r.Failure != nil {
		return verdicts
	}
	for _, e := range r.allExcluded() {
		why := r.Why(ctx, e.index)
		verdicts = append(verdicts, framework.Verdict{
			Cluster: r.Snapshot.Clusters.Get(e.index).Name,
			Plugin:  e.plugin,
			Reason:  why.Reason(),
		})
	}
	selected := map[int]bool{}
	for _, s := range r.Selected {
		selected[s.Cluster.Index] = true
	}
	cut, next := r.cut(selected)
	for rank, i := range r.Ranking() {
		cluster, total := r.Feasible[i], r.Totals[i]
		v := framework.Verdict{Cluster: cluster.Name, Selected: selected[cluster.Index], Rank: rank + 1, Score: &total, Scores: map[string]int64{}}
		for _, p := range r.Scores {
			if p.Values[i] != framework.NoScore {
				v.Scores[p.Plugin] = p.Values[i]
			}
		}
		reference := cut
		if v.Selected {
			reference = next
		}
		if reference != nil {
			distance := total - *reference
			v.Distance = &distance
		}
		v.Reason = r.rankReason(&v)
		verdicts = append(verdicts, v)
	}
	sort.Slice(verdicts, func(i, j int) bool { return verdicts[i].Cluster < verdicts[j].Cluster })
	return verdicts
}

// cut returns the lowest total that was selected, and the highest that was not.
func (r *Result) cut(selected map[int]bool) (lowest, highest *int64) {
	for i, c := range r.Feasible {
		total := r.Totals[i]
		switch {
		case selected[c.Index] && (lowest == nil || total < *lowest):
			lowest = &total
		case !selected[c.Index] && (highest == nil || total > *highest):
			highest = &total
		}
	}
	return lowest, highest
}

func (r *Result) rankReason(v *framework.Verdict) string {
	place := fmt.Sprintf("rank %d of %d", v.Rank, len(r.Feasible))
	switch {
	case v.Selected:
		return place
	case r.Short != "":
		return place + ", left out by " + r.Short
	}
	return fmt.Sprintf("%s, %d selected", place, len(r.Selected))
}
