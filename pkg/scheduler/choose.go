package scheduler

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// choose takes the best clusters, as many as are wanted and allowed.
func (r *Result) choose(spreadWeight int64) {
	k := len(r.Feasible)
	if n := r.Snapshot.Subject.Placement.Spec.NumberOfClusters; n != nil {
		k = min(k, int(*n))
	}
	if r.Snapshot.Limit >= 0 {
		k = min(k, r.Snapshot.Limit)
	}
	var chosen []int
	if constraints := r.Snapshot.Subject.Placement.Spec.SpreadPolicy.SpreadConstraints; len(constraints) > 0 {
		chosen, r.Short, r.Failure = r.spread(constraints, spreadWeight, k)
	} else {
		chosen = r.best(k)
	}
	r.Selected = make([]framework.Selection, len(chosen))
	for i, j := range chosen {
		r.Selected[i] = framework.Selection{Cluster: r.Feasible[j], Score: r.Totals[j]}
	}
}

// before says whether feasible cluster a ranks before b.
func (r *Result) before(a, b int) bool { return r.compare(a, b) < 0 }

// compare puts feasible clusters in order: those nobody demoted first, then by the higher total, then by name.
func (r *Result) compare(a, b int) int {
	if demoted := r.State.Demoted(); demoted != nil {
		x, y := demoted.Has(r.Feasible[a].Index), demoted.Has(r.Feasible[b].Index)
		switch {
		case x && !y:
			return 1
		case y && !x:
			return -1
		}
	}
	if r.Totals[a] != r.Totals[b] {
		return cmp.Compare(r.Totals[b], r.Totals[a])
	}
	return r.byName(a, b)
}

// byName compares the names of feasible clusters.
func (r *Result) byName(a, b int) int { return r.Snapshot.ByName(r.Feasible[a], r.Feasible[b]) }

// Ranking are the positions in Feasible, best first.
func (r *Result) Ranking() []int {
	if r.ranking == nil {
		r.ranking = make([]int, len(r.Feasible))
		for i := range r.ranking {
			r.ranking[i] = i
		}
		slices.SortFunc(r.ranking, r.compare)
	}
	return r.ranking
}

// best returns the k first of the ranking without ranking the others: a heap of the k best seen, the worst on top.
func (r *Result) best(k int) []int {
	if k == 0 {
		return nil
	}
	if r.ranking != nil || k*4 > len(r.Feasible) {
		return r.Ranking()[:k]
	}
	top := make([]int, 0, k)
	for i := range r.Feasible {
		switch {
		case len(top) < k:
			top = append(top, i)
			if len(top) == k {
				for j := k/2 - 1; j >= 0; j-- {
					r.sift(top, j)
				}
			}
		case r.before(i, top[0]):
			top[0] = i
			r.sift(top, 0)
		}
	}
	slices.SortFunc(top, r.compare)
	return top
}

// sift restores the heap below i: every parent ranks after its children.
func (r *Result) sift(heap []int, i int) {
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(heap); c++ {
			if r.before(heap[worst], heap[c]) {
				worst = c
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}
