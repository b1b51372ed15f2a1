package selection

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Candidates are the clusters to choose from. A candidate is a position in Totals, so that nothing
// is copied for each of them.
type Candidates struct {
	// Totals are the scores.
	Totals []int64
	// ByName compares the names of two candidates, which are never equal.
	ByName func(a, b int) int
	// Demoted reports whether a candidate ranks after all that are not demoted; nil if none is
	// demoted.
	Demoted func(i int) bool
	// Topology returns a candidate's value of a spread constraint's key. It is only called if there
	// are constraints.
	Topology func(i int, term v1alpha1.SpreadConstraintsTerm) (value string, ok bool)
	// Tier and Group return the position of a candidate's tier and group in the demand, -1 for
	// none. They are only called if the demand has tiers or groups.
	Tier, Group func(i int) int
	// Delayed reports whether a candidate is chosen only after all that are not delayed; nil if
	// none is. It is only called with Overflow.
	Delayed func(i int) bool
}

// Select returns the candidates that satisfy the demand, in the order of selection: before each
// one it prefers the first tier, then the first group whose minimum is not met, then the rank. A
// candidate that would exceed the maximum of its group or violate a DoNotSchedule constraint is not
// eligible. An error names the field of the Placement that demands too much. Select checks stop
// before each cluster selected under spread constraints and returns what it has if stop returns
// true.
func Select(c *Candidates, d *Demand, stop func() bool) (chosen []int, short Shortfall, err error) {
	available := len(c.Totals)
	p := divide(c, d)
	if p != nil && d.Number < 0 {
		available = p.available(c)
	}
	k := d.count(available)
	switch {
	case len(d.Spread) > 0:
		chosen, short.BlockedBy, short.Lacking, err = spread(c, d, p, k, stop)
	case p == nil:
		chosen = c.best(k)
	default:
		chosen = p.fill(c, k)
	}
	short.Missing = d.Wanted(available) - len(chosen)
	if p != nil {
		p.describe(c, &short, available == 0 || len(chosen) < d.count(len(c.Totals)))
	}
	return chosen, short, err
}

// Rank returns all candidates, best first.
func Rank(c *Candidates) []int {
	ranking := make([]int, len(c.Totals))
	for i := range ranking {
		ranking[i] = i
	}
	slices.SortFunc(ranking, c.compare)
	return ranking
}

// compare orders candidates: not demoted ones first, then by total, highest first, then by name.
func (c *Candidates) compare(a, b int) int {
	if x, y := c.demoted(a), c.demoted(b); x != y {
		if x {
			return 1
		}
		return -1
	}
	if c.Totals[a] != c.Totals[b] {
		return cmp.Compare(c.Totals[b], c.Totals[a])
	}
	return c.ByName(a, b)
}

// before reports whether candidate a ranks before b.
func (c *Candidates) before(a, b int) bool { return c.compare(a, b) < 0 }

func (c *Candidates) demoted(i int) bool { return c.Demoted != nil && c.Demoted(i) }

// best returns the first k of the ranking without ranking the others.
func (c *Candidates) best(k int) []int {
	if k == 0 {
		return nil
	}
	if k*4 > len(c.Totals) {
		return Rank(c)[:k]
	}
	top := bestHeap{size: k, all: make([]int, 0, k)}
	cut := c.cut(&top)
	for i, total := range c.Totals {
		if total >= cut {
			c.offer(&top, i)
			cut = c.cut(&top)
		}
	}
	slices.SortFunc(top.all, c.compare)
	return top.all
}

// bestHeap holds the best candidates so far, at most size. It is a heap, the worst on top, once it
// is full.
type bestHeap struct {
	size int
	// bounded is true if no other candidates of the group may be chosen.
	bounded bool
	all     []int
}

// offer adds a candidate to a heap. It returns the candidate that is not in the heap because of
// it; -1 for none.
func (c *Candidates) offer(to *bestHeap, i int) (rest int) {
	if len(to.all) < to.size {
		to.all = append(to.all, i)
		if len(to.all) == to.size {
			for j := to.size/2 - 1; j >= 0; j-- {
				c.siftDown(to.all, j)
			}
		}
		return -1
	}
	if to.size == 0 || !c.before(i, to.all[0]) {
		return i
	}
	rest, to.all[0] = to.all[0], i
	c.siftDown(to.all, 0)
	return rest
}

// cut returns a total below which no candidate gets into a heap.
func (c *Candidates) cut(of *bestHeap) int64 {
	switch {
	case of.size == 0:
		return math.MaxInt64
	case len(of.all) < of.size || c.demoted(of.all[0]):
		return math.MinInt64
	}
	return c.Totals[of.all[0]]
}

// siftDown restores the heap below position i: every parent ranks after its children.
func (c *Candidates) siftDown(heap []int, i int) {
	for {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if c.before(heap[worst], heap[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}
