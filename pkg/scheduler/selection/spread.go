package selection

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// maxSpreadWork bounds the selection by the Spread prioritizer: clusters picked times domains to
// pick from. Each pick changes what all domains are worth, as its scores are scaled over the
// candidates.
const maxSpreadWork = 500_000

// spreading is one selection under topology spread constraints. Constraints nest: the domain of
// constraint i is the tuple of the values of keys 1 to i, and its siblings are the domains that
// share the first i-1.
//
// A pick changes only the domains that it is in, and those siblings that no longer violate a
// constraint because the least chosen has risen. Each domain is in a heap of its siblings by the
// best cluster in it, so that a pick costs about the logarithm of their number.
//
// The Candidates are an argument of its methods, not a field: so the functions in them are not
// allocated on the heap, in cycles without constraints either.
type spreading struct {
	constraints []v1alpha1.SpreadConstraintsTerm
	weight      int64
	// ranking are all candidates, best first.
	ranking []int
	root    *siblings
	// queues are the clusters not chosen yet that agree in all domains, in rank order: only the
	// first of each can be next.
	queues []*queue
	// open and soft are scratch buffers of next.
	open []*queue
	soft []uint
	// compared counts comparisons of domains.
	compared *int
}

func newSpreading(c *Candidates, d *Demand) *spreading {
	s := &spreading{constraints: d.Spread, weight: d.SpreadWeight, ranking: Rank(c), compared: new(int)}
	s.fillQueues(c)
	return s
}

// spread picks k candidates one by one.
func spread(c *Candidates, d *Demand, k int, stop func() bool) (chosen []int, short string, err error) {
	s := newSpreading(c, d)
	if s.weight != 0 && k*len(s.queues) > maxSpreadWork {
		return nil, "", fmt.Errorf("spec.spreadPolicy.spreadConstraints: with the prioritizer Spread, %d clusters to choose times "+
			"%d topology domains is more than %d; choose fewer clusters, use topology keys with fewer values, or leave Spread out of "+
			"spec.prioritizerPolicy.configurations", k, len(s.queues), maxSpreadWork)
	}
	chosen, short = s.pickAll(c, k, stop)
	return chosen, short, nil
}

func (s *spreading) pickAll(c *Candidates, k int, stop func() bool) (chosen []int, short string) {
	for len(chosen) < k && !stop() {
		var q *queue
		if s.weight == 0 {
			q = s.root.best(s.compared).queue
		} else {
			q = s.next(c)
		}
		if q == nil {
			return chosen, s.blocking()
		}
		chosen = append(chosen, s.pick(q))
	}
	return chosen, ""
}

// pick takes the first cluster of a queue.
func (s *spreading) pick(q *queue) int {
	j := s.ranking[q.ranks[0]]
	q.ranks = q.ranks[1:]
	for _, d := range slices.Backward(q.path) {
		switch {
		case d == nil:
		case s.weight == 0:
			d.parent.pick(d, s.compared)
		default:
			d.parent.count(d)
		}
	}
	return j
}

// fillQueues puts the candidates, in rank order, into one queue for each tuple of domains.
func (s *spreading) fillQueues(c *Candidates) {
	type place struct {
		in    *siblings
		value string
	}
	s.root = newSiblings(s.constraints, 0)
	domains := map[place]*domain{}
	for rank, j := range s.ranking {
		path := make([]*domain, len(s.constraints))
		in := s.root
		var last *domain
		for i, constraint := range s.constraints {
			value, ok := c.Topology(j, constraint)
			if !ok {
				break
			}
			d := domains[place{in, value}]
			if d == nil {
				d = in.add()
				if i+1 < len(s.constraints) {
					d.children = newSiblings(s.constraints, i+1)
				}
				domains[place{in, value}] = d
			}
			path[i], last, in = d, d, d.children
		}
		var q **queue
		if in == nil {
			q = &last.queue
		} else {
			q = &in.missing
		}
		if *q == nil {
			*q = &queue{path: path}
			s.queues = append(s.queues, *q)
		}
		(*q).ranks = append((*q).ranks, rank)
	}
	if s.weight == 0 {
		s.root.fill(s.compared)
	}
}

// next is the queue whose first cluster is picked under the Spread prioritizer: among those that
// violate no DoNotSchedule constraint, the least by the violated ScheduleAnyway constraints in
// index order, then by rank. It looks at all queues, as each pick may change what all of them are
// worth.
func (s *spreading) next(c *Candidates) *queue {
	open, soft := s.open[:0], s.soft[:0]
	for _, q := range s.queues {
		if len(q.ranks) == 0 {
			continue
		}
		if hard, violated := s.violations(q); hard < 0 {
			open, soft = append(open, q), append(soft, violated)
		}
	}
	s.open, s.soft = open, soft
	s.addBonus(open)
	best := -1
	for n, q := range open {
		if best < 0 || soft[n] < soft[best] || soft[n] == soft[best] && s.before(c, q, open[best]) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	return open[best]
}

// addBonus computes what the Spread prioritizer adds to the clusters of each queue: weight times
// the sum of s(i)/2^i, i from 1, where s(i) is the least chosen among the domain's siblings less
// those chosen in it, scaled over the candidates to -100..100.
func (s *spreading) addBonus(open []*queue) {
	for _, q := range open {
		q.bonus = 0
	}
	for i := range s.constraints {
		low, high := math.Inf(1), math.Inf(-1)
		for _, q := range open {
			if d := q.path[i]; d != nil {
				low, high = min(low, float64(d.parent.least-d.chosen)), max(high, float64(d.parent.least-d.chosen))
			}
		}
		for _, q := range open {
			scaled := -100.0
			switch d := q.path[i]; {
			case d == nil:
			case high == low:
				scaled = 100
			default:
				scaled = ((float64(d.parent.least-d.chosen)-low)/(high-low) - 0.5) * 2 * 100
			}
			q.bonus += float64(s.weight) * scaled / float64(int64(2)<<i)
		}
	}
}

// before compares the first clusters of two queues as the ranking does, the Spread prioritizer's
// part added.
func (s *spreading) before(c *Candidates, a, b *queue) bool {
	i, j := s.ranking[a.ranks[0]], s.ranking[b.ranks[0]]
	if c.demoted(i) != c.demoted(j) {
		return c.demoted(j)
	}
	x, y := float64(c.Totals[i])+a.bonus, float64(c.Totals[j])+b.bonus
	if x != y {
		return x > y
	}
	return c.ByName(i, j) < 0
}

// blocking names the first DoNotSchedule constraint that excludes a cluster that is left.
func (s *spreading) blocking() string {
	first := -1
	for _, q := range s.queues {
		if len(q.ranks) == 0 {
			continue
		}
		if hard, _ := s.violations(q); hard >= 0 && (first < 0 || hard < first) {
			first = hard
		}
	}
	if first < 0 {
		return ""
	}
	c := s.constraints[first]
	return fmt.Sprintf("spec.spreadPolicy.spreadConstraints[%d] (%s %s, maxSkew %d)",
		first, c.TopologyKeyType, c.TopologyKey, max(c.MaxSkew, 1))
}

// violations returns the first violated DoNotSchedule constraint, or -1, and the violated
// ScheduleAnyway ones as a number in which the first constraint weighs most.
func (s *spreading) violations(q *queue) (hard int, soft uint) {
	hard = -1
	for i, c := range s.constraints {
		d := q.path[i]
		violated := d == nil || d.chosen+1-d.parent.least > int64(max(c.MaxSkew, 1))
		soft <<= 1
		switch {
		case !violated:
		case c.WhenUnsatisfiable == v1alpha1.DoNotSchedule:
			if hard < 0 {
				hard = i
			}
		default:
			soft |= 1
		}
	}
	return hard, soft
}
