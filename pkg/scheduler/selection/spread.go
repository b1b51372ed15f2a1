package selection

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// maxSpreadWork is the maximum of selected clusters times domains with the Spread prioritizer,
// because each selected cluster changes the scores of all domains.
const maxSpreadWork = 500_000

// spreading is one selection under topology spread constraints. Constraints nest: the domain of
// constraint i is the tuple of the values of keys 1 to i, and its siblings are the domains that
// share the first i-1.
//
// Selecting a cluster changes only its own domains, and siblings that no longer violate a
// constraint because the smallest count has risen. Each domain is in a heap of its siblings,
// ordered by their best clusters, so the cost per cluster is about the logarithm of the number of
// siblings.
//
// Candidates are an argument of the methods, not a field, so that their functions are not allocated
// on the heap.
type spreading struct {
	constraints []v1alpha1.SpreadConstraintsTerm
	weight      int64
	// ranking are all candidates in tiers that may be used, best first.
	ranking []int
	root    *siblings
	// buckets hold the clusters that are not selected yet, in rank order. Only the first of each
	// can be next. These are the first buckets of their domains, grouped are all by group.
	buckets []*bucket
	grouped [][]*bucket
	// parts are nil if all candidates are in one part, which is then whole.
	parts *parts
	whole part
	// open and soft are scratch buffers of next.
	open []*bucket
	soft []uint
	// compared counts comparisons of domains.
	compared *int
}

func newSpreading(c *Candidates, d *Demand, p *parts) *spreading {
	s := &spreading{constraints: d.Spread, weight: d.SpreadWeight, parts: p, compared: new(int)}
	if p == nil {
		s.ranking = Rank(c)
	} else {
		s.ranking = p.members(len(c.Totals))
		slices.SortFunc(s.ranking, c.compare)
		s.grouped = make([][]*bucket, p.width)
		p.setOrders(len(d.Spread))
	}
	s.fillBuckets(c)
	return s
}

// spread selects k candidates one by one.
func spread(c *Candidates, d *Demand, p *parts, k int, stop func() bool) (chosen []int, blockedBy, lacking string, err error) {
	s := newSpreading(c, d, p)
	k = min(k, len(s.ranking))
	if s.weight != 0 && k*len(s.buckets) > maxSpreadWork {
		return nil, "", "", fmt.Errorf("spec.spreadPolicy.spreadConstraints: with the prioritizer Spread, %d clusters to choose times "+
			"%d topology domains is more than %d; choose fewer clusters, use topology keys with fewer values, or leave Spread out of "+
			"spec.prioritizerPolicy.configurations", k, len(s.buckets), maxSpreadWork)
	}
	chosen, blocking := s.pickAll(c, k, stop)
	if blocking >= 0 {
		blockedBy, lacking = s.describe(blocking), s.lacking(c, blocking)
	}
	return chosen, blockedBy, lacking, nil
}

// pickAll also returns the constraint that ended the selection early; -1 if none did.
func (s *spreading) pickAll(c *Candidates, k int, stop func() bool) (chosen []int, blocking int) {
	for len(chosen) < k && !stop() {
		var q *bucket
		if s.weight == 0 {
			q = s.root.best(s.compared).bucket
		} else {
			q = s.next(c)
		}
		if q == nil {
			return chosen, s.blockingConstraint()
		}
		chosen = append(chosen, s.pick(q))
	}
	return chosen, -1
}

// pick selects the first cluster of a bucket.
func (s *spreading) pick(q *bucket) int {
	j := s.ranking[q.ranks[0]]
	q.ranks = q.ranks[1:]
	changed := s.parts != nil && s.parts.count(q.part.group)
	for _, d := range slices.Backward(q.path) {
		switch {
		case d == nil:
		case s.weight == 0:
			d.parent.pick(d, s.compared)
		default:
			d.parent.count(d)
		}
	}
	if changed && s.weight == 0 {
		s.updateGroup(q.part.group)
	}
	return j
}

// updateGroup updates the domains of a group whose order changed, or that is full.
func (s *spreading) updateGroup(group int) {
	for _, q := range s.grouped[group] {
		if len(q.ranks) == 0 {
			continue
		}
		for _, d := range slices.Backward(q.path) {
			if d != nil {
				d.parent.updatePosition(d, s.compared)
			}
		}
	}
}

// fillBuckets puts the candidates, in rank order, into one bucket per tuple of domains and part.
func (s *spreading) fillBuckets(c *Candidates) {
	type domainKey struct {
		in    *siblings
		value string
	}
	s.root = newSiblings(s.constraints, 0)
	domains := map[domainKey]*domain{}
	for rank, j := range s.ranking {
		path := make([]*domain, len(s.constraints))
		in := s.root
		var last *domain
		for i, constraint := range s.constraints {
			value, ok := c.Topology(j, constraint)
			if !ok {
				break
			}
			d := domains[domainKey{in, value}]
			if d == nil {
				d = in.add()
				if i+1 < len(s.constraints) {
					d.children = newSiblings(s.constraints, i+1)
				}
				domains[domainKey{in, value}] = d
			}
			path[i], last, in = d, d, d.children
		}
		var first **bucket
		if in == nil {
			first = &last.bucket
		} else {
			first = &in.missing
		}
		q := s.bucketOf(c, first, j, path)
		q.ranks = append(q.ranks, rank)
	}
	if s.weight == 0 {
		s.root.fillHeaps(s.compared)
	}
}

// bucketOf returns the bucket of a candidate among the first one of its domains and its next ones.
func (s *spreading) bucketOf(c *Candidates, first **bucket, j int, path []*domain) *bucket {
	of := &s.whole
	if s.parts != nil {
		of = s.parts.of(c, j)
	}
	for q := *first; q != nil; q = q.next {
		if q.part == of {
			return q
		}
	}
	q := &bucket{part: of, path: path}
	if *first == nil {
		*first = q
		s.buckets = append(s.buckets, q)
	} else {
		q.next, (*first).next = (*first).next, q
	}
	if s.parts != nil {
		s.grouped[of.group] = append(s.grouped[of.group], q)
	}
	return q
}

// next returns the bucket of the next cluster under the Spread prioritizer: among those that
// violate no DoNotSchedule constraint, the first by part, then by violated ScheduleAnyway
// constraints, then by rank. It checks all domains, because each selected cluster may change all
// their scores.
func (s *spreading) next(c *Candidates) *bucket {
	open, soft := s.open[:0], s.soft[:0]
	for _, q := range s.buckets {
		first := q.best()
		if first.bucket == nil {
			continue
		}
		if hard, violated := s.violations(q); hard < 0 {
			open, soft = append(open, first.bucket), append(soft, first.violated|violated)
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

// addBonus computes the score of the Spread prioritizer for each bucket: weight times the sum of
// s(i)/2^i, i from 1, where s(i) is the smallest count among the siblings minus the domain's count,
// scaled over the candidates to -100..100.
func (s *spreading) addBonus(open []*bucket) {
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

// before compares the first clusters of two buckets as the ranking does, including the bonus.
func (s *spreading) before(c *Candidates, a, b *bucket) bool {
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

// blockingConstraint returns the first DoNotSchedule constraint that excludes a remaining cluster;
// -1 if none does.
func (s *spreading) blockingConstraint() int {
	first := -1
	for _, q := range s.buckets {
		if q.best().bucket == nil {
			continue
		}
		if hard, _ := s.violations(q); hard >= 0 && (first < 0 || hard < first) {
			first = hard
		}
	}
	return first
}

// lacking counts the candidates that lack a topology key of the constraints up to the last one.
func (s *spreading) lacking(c *Candidates, last int) string {
	counts := make([]int, last+1)
	for _, j := range s.ranking {
		if i := missingKey(c, s.constraints[:last+1], j); i >= 0 {
			counts[i]++
		}
	}
	var parts []string
	for i, n := range counts {
		switch key := keyText(s.constraints[i]); n {
		case 0:
		case 1:
			parts = append(parts, "1 cluster lacks "+key)
		default:
			parts = append(parts, fmt.Sprintf("%d clusters lack %s", n, key))
		}
	}
	return strings.Join(parts, ", ")
}

// missingKey returns the first constraint whose topology key a candidate lacks; -1 if it has all.
func missingKey(c *Candidates, constraints []v1alpha1.SpreadConstraintsTerm, j int) int {
	return slices.IndexFunc(constraints, func(term v1alpha1.SpreadConstraintsTerm) bool {
		_, ok := c.Topology(j, term)
		return !ok
	})
}

func keyText(term v1alpha1.SpreadConstraintsTerm) string {
	if term.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
		return "the claim " + term.TopologyKey
	}
	return "the label " + term.TopologyKey
}

// describe names a constraint and what it asks for.
func (s *spreading) describe(i int) string {
	c := s.constraints[i]
	return fmt.Sprintf("spec.spreadPolicy.spreadConstraints[%d] (%s %s, maxSkew %d)", i, c.TopologyKeyType, c.TopologyKey, max(c.MaxSkew, 1))
}

// violations returns the first violated DoNotSchedule constraint, or -1, and the set of violated
// ScheduleAnyway constraints, in which the first constraint has the highest bit.
func (s *spreading) violations(q *bucket) (hard int, soft uint) {
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
