package scheduler

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxSpreadWork bounds the selection by the Spread prioritizer: clusters picked times domains to
// pick from. Each pick changes what all domains are worth, as its scores are scaled over the
// candidates.
const maxSpreadWork = 500_000

// spreading is the selection under topology spread constraints. Constraints nest: the domain of constraint i is the tuple of
// the values of keys 1 to i, and its siblings are the domains that share the first i-1.
//
// A pick changes nothing but the domains it is in, and those siblings that no longer violate a
// constraint because the least chosen has risen. Each domain is in a heap of its siblings by the
// best cluster in it, so that a pick costs about the logarithm of their number.
type spreading struct {
	r           *Result
	constraints []v1alpha1.SpreadConstraintsTerm
	weight      int64
	root        *siblings
	// queues are the clusters not chosen yet that agree in all domains, in rank order: only the first of each can be next.
	queues []*queue
	// open and soft are scratch space of next.
	open []*queue
	soft []uint
	// compared counts comparisons of domains.
	compared int
}

// spread picks k clusters one by one; short names the constraint that left no candidate.
func (r *Result) spread(constraints []v1alpha1.SpreadConstraintsTerm, weight int64, k int) (chosen []int, short string, failure *framework.Status) {
	s := &spreading{r: r, constraints: constraints, weight: weight}
	s.sort()
	if weight != 0 && k*len(s.queues) > maxSpreadWork {
		return nil, "", misconfigured(fmt.Sprintf("spec.spreadPolicy.spreadConstraints: with the prioritizer Spread, %d clusters to choose times "+
			"%d topology domains is more than %d; choose fewer clusters, use topology keys with fewer values, or leave Spread out of "+
			"spec.prioritizerPolicy.configurations", k, len(s.queues), maxSpreadWork))
	}
	chosen, short = s.pickAll(k)
	return chosen, short, nil
}

func (s *spreading) pickAll(k int) (chosen []int, short string) {
	for len(chosen) < k && !s.r.expired() {
		var q *queue
		if s.weight == 0 {
			q = s.root.best(s).queue
		} else {
			q = s.next()
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
	ranking := s.r.Ranking()
	j := ranking[q.ranks[0]]
	q.ranks = q.ranks[1:]
	for _, d := range slices.Backward(q.path) {
		if d != nil {
			d.parent.pick(s, d)
		}
	}
	return j
}

// sort puts the feasible clusters, in rank order, into one queue for each tuple of domains.
func (s *spreading) sort() {
	type place struct {
		in    *siblings
		value string
	}
	s.root = newSiblings(s.constraints, 0)
	domains := map[place]*domain{}
	for rank, j := range s.r.Ranking() {
		path := make([]*domain, len(s.constraints))
		in := s.root
		var last *domain
		for i, c := range s.constraints {
			value, ok := topologyValue(s.r.Feasible[j], c)
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
		s.root.fill(s)
	}
}

func topologyValue(c *framework.Cluster, term v1alpha1.SpreadConstraintsTerm) (string, bool) {
	values := c.Labels
	if term.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
		values = c.Claims
	}
	value, ok := values[term.TopologyKey]
	return value, ok
}

// next is the queue whose first cluster is picked under the Spread prioritizer: among those that
// violate no DoNotSchedule constraint, the least by the violated ScheduleAnyway constraints in
// index order, then by rank. It looks at all queues, as each pick may change what all of them are
// worth.
func (s *spreading) next() *queue {
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
	s.favour(open)
	best := -1
	for n, q := range open {
		if best < 0 || soft[n] < soft[best] || soft[n] == soft[best] && s.before(q, open[best]) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	return open[best]
}

// favour gives each queue what the Spread prioritizer adds to its clusters: weight times the sum of s(i)/2^i, i from 1, where
// s(i) is the least chosen among the domain's siblings less those chosen in it, scaled over the candidates to -100..100.
func (s *spreading) favour(open []*queue) {
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

// before compares the first clusters of two queues as the ranking does, the Spread prioritizer's part added.
func (s *spreading) before(a, b *queue) bool {
	i, j := s.r.Ranking()[a.ranks[0]], s.r.Ranking()[b.ranks[0]]
	demoted := s.r.State.Demoted()
	if demoted.Has(s.r.Feasible[i].Index) != demoted.Has(s.r.Feasible[j].Index) {
		return s.r.before(i, j)
	}
	x, y := float64(s.r.Totals[i])+a.bonus, float64(s.r.Totals[j])+b.bonus
	if x != y {
		return x > y
	}
	return s.r.byName(i, j) < 0
}

// blocking names the first DoNotSchedule constraint that stands in the way of a cluster that is left.
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
	return fmt.Sprintf("spec.spreadPolicy.spreadConstraints[%d] (%s %s, maxSkew %d)", first, c.TopologyKeyType, c.TopologyKey, max(c.MaxSkew, 1))
}

// violations returns the first violated DoNotSchedule constraint, or -1, and the violated ScheduleAnyway ones as a number in
// which the first constraint weighs most.
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
