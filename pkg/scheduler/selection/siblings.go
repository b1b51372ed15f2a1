package selection

import (
	"container/heap"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// siblings are the domains of one constraint that share the values of all earlier constraints.
type siblings struct {
	maxSkew int64
	hard    bool
	// bit is the constraint's bit in a set of violated ScheduleAnyway constraints, in which the
	// first constraint has the highest bit; 0 for DoNotSchedule. later has the bits of all
	// following constraints. blocks is true if a following constraint is DoNotSchedule.
	bit, later uint
	blocks     bool

	members []*domain
	// least is the smallest number of selected clusters in a member. counts is the number of
	// members by their number of selected clusters.
	least  int64
	counts map[int64]int
	// good and bad are the members with a candidate left that satisfy and that violate the
	// constraint. violating lists bad members by their number of selected clusters, and possibly
	// others.
	good, bad domains
	violating map[int64][]*domain
	// missing and its next ones are the clusters without this constraint's key; nil if there are
	// none.
	missing *bucket
}

type domain struct {
	parent *siblings
	chosen int64
	// children are the domains of the next constraint; nil for the last one, whose clusters are in
	// the bucket and its next ones.
	children *siblings
	bucket   *bucket

	best candidate
	// in is the heap of the domain, at its position there.
	in *domains
	at int
}

// bucket holds the clusters that are in the same domains and in the same part.
type bucket struct {
	part *part
	// next is another bucket of the same domains; nil for the last one.
	next *bucket
	// path is the domain of each constraint; nil from the first missing key on.
	path []*domain
	// ranks are the positions of the clusters in the ranking.
	ranks []int
	// bonus is the score of the Spread prioritizer for the next cluster of the bucket.
	bonus float64
}

// best returns the first cluster of this bucket and all next ones.
func (q *bucket) best() candidate {
	var best candidate
	for ; q != nil; q = q.next {
		if len(q.ranks) == 0 || q.part.full {
			continue
		}
		if c := (candidate{q.part.order, q}); best.bucket == nil || c.before(best) {
			best = c
		}
	}
	return best
}

// candidate is the first cluster of a bucket. violated are the ScheduleAnyway constraints that it
// violates, below the order of its part. The bucket is nil if there is none.
type candidate struct {
	violated uint
	bucket   *bucket
}

func (c candidate) before(o candidate) bool {
	if c.violated != o.violated {
		return c.violated < o.violated
	}
	return c.bucket.ranks[0] < o.bucket.ranks[0]
}

func newSiblings(constraints []v1alpha1.SpreadConstraintsTerm, level int) *siblings {
	c := constraints[level]
	f := &siblings{
		maxSkew: int64(max(c.MaxSkew, 1)), hard: c.WhenUnsatisfiable == v1alpha1.DoNotSchedule,
		counts: map[int64]int{}, violating: map[int64][]*domain{},
	}
	for i, later := range constraints[level+1:] {
		if later.WhenUnsatisfiable == v1alpha1.DoNotSchedule {
			f.blocks = true
		} else {
			f.later |= 1 << (len(constraints) - level - 2 - i)
		}
	}
	if !f.hard {
		f.bit = 1 << (len(constraints) - level - 1)
	}
	return f
}

func (f *siblings) add() *domain {
	d := &domain{parent: f}
	f.members = append(f.members, d)
	f.counts[0]++
	return d
}

// fillHeaps puts every domain into its heap.
func (f *siblings) fillHeaps(compared *int) {
	for _, d := range f.members {
		if d.children != nil {
			d.children.fillHeaps(compared)
		}
		f.updatePosition(d, compared)
	}
}

// best returns the best candidate of all siblings.
func (f *siblings) best(compared *int) candidate {
	var best candidate
	if len(f.good.all) > 0 {
		best = f.good.all[0].best
	}
	// A candidate that violates the constraint comes first only if its part does.
	if f.hard || best.bucket != nil && best.violated < f.bit {
		return best
	}
	if len(f.bad.all) > 0 {
		bad := f.bad.all[0].best
		bad.violated |= f.bit
		if best.bucket == nil || bad.before(best) {
			best = bad
		}
	}
	if f.missing == nil || f.blocks {
		return best
	}
	if lacking := f.missing.best(); lacking.bucket != nil {
		lacking.violated |= f.bit | f.later
		*compared++
		if best.bucket == nil || lacking.before(best) {
			best = lacking
		}
	}
	return best
}

func (f *siblings) violates(d *domain) bool { return d.chosen+1-f.least > f.maxSkew }

// updatePosition finds the best candidate of a domain and moves the domain to its heap.
func (f *siblings) updatePosition(d *domain, compared *int) {
	if d.children != nil {
		d.best = d.children.best(compared)
	} else {
		d.best = d.bucket.best()
	}
	var to *domains
	switch {
	case d.best.bucket == nil:
	case f.violates(d):
		to = &f.bad
	default:
		to = &f.good
	}
	if d.in != to && d.in != nil {
		heap.Remove(d.in, d.at)
	}
	switch {
	case to == nil:
	case d.in == to:
		heap.Fix(to, d.at)
	default:
		to.compared = compared
		heap.Push(to, d)
	}
}

// count counts a selected cluster in a domain. It reports whether least rises.
func (f *siblings) count(d *domain) (rises bool) {
	f.counts[d.chosen]--
	d.chosen++
	f.counts[d.chosen]++
	if rises = f.counts[f.least] == 0; rises {
		f.least++
	}
	return rises
}

// pick counts a selected cluster in a domain and updates the heaps. The domains within it are
// already updated.
func (f *siblings) pick(d *domain, compared *int) {
	rises := f.count(d)
	if f.violates(d) {
		f.violating[d.chosen] = append(f.violating[d.chosen], d)
	}
	f.updatePosition(d, compared)
	if !rises {
		return
	}
	// Domains that had one cluster too many no longer violate the constraint.
	at := f.least + f.maxSkew - 1
	for _, other := range f.violating[at] {
		if other.chosen == at {
			f.updatePosition(other, compared)
		}
	}
}

// domains are a heap, the best candidate on top.
type domains struct {
	all      []*domain
	compared *int
}

// Len implements heap.Interface.
func (h *domains) Len() int { return len(h.all) }

// Less implements heap.Interface.
func (h *domains) Less(i, j int) bool {
	*h.compared++
	return h.all[i].best.before(h.all[j].best)
}

// Swap implements heap.Interface.
func (h *domains) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].at, h.all[j].at = i, j
}

// Push implements heap.Interface.
func (h *domains) Push(x any) {
	d := x.(*domain)
	d.in, d.at = h, len(h.all)
	h.all = append(h.all, d)
}

// Pop implements heap.Interface.
func (h *domains) Pop() any {
	last := len(h.all) - 1
	d := h.all[last]
	h.all[last], d.in = nil, nil
	h.all = h.all[:last]
	return d
}
