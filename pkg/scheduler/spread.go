package scheduler

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// spreading is the selection under topology spread constraints. Constraints nest: the domain of constraint i is the tuple of
// the values of keys 1 to i, and its siblings are the domains that share the first i-1.
type spreading struct {
	r           *Result
	constraints []v1alpha1.SpreadConstraintsTerm
	weight      int64
	// queues are the clusters not chosen yet that agree in all domains, in rank order: only the first of each can be next.
	queues []*queue
}

// siblings are the domains of one constraint that share all earlier values. The least chosen is kept, with how many
// domains have it, so that a pick looks at the siblings again only when the last of those moves on.
type siblings struct {
	members []*domain
	least   int64
	atLeast int
}

type domain struct {
	parent *siblings
	chosen int64
}

func (d *domain) pick() {
	f := d.parent
	d.chosen++
	if d.chosen-1 > f.least {
		return
	}
	if f.atLeast--; f.atLeast > 0 {
		return
	}
	f.least = d.chosen
	for _, m := range f.members {
		f.least = min(f.least, m.chosen)
	}
	for _, m := range f.members {
		if m.chosen == f.least {
			f.atLeast++
		}
	}
}

type queue struct {
	// path has the domain of each constraint; nil where a key is missing.
	path     []*domain
	clusters []int
	// bonus is what the Spread prioritizer adds to the next pick from here.
	bonus float64
}

// spread picks k clusters one by one; short names the constraint that left no candidate.
func (r *Result) spread(constraints []v1alpha1.SpreadConstraintsTerm, weight int64, k int) (chosen []int, short string) {
	s := &spreading{r: r, constraints: constraints, weight: weight}
	s.sort()
	for len(chosen) < k {
		q := s.next()
		if q == nil {
			return chosen, s.blocking()
		}
		chosen = append(chosen, q.clusters[0])
		q.clusters = q.clusters[1:]
		for _, d := range q.path {
			if d != nil {
				d.pick()
			}
		}
	}
	return chosen, ""
}

// sort puts the feasible clusters, in rank order, into one queue for each tuple of domains.
func (s *spreading) sort() {
	byPath := map[string]*queue{}
	type place struct {
		level int
		path  string
	}
	domains, families := map[place]*domain{}, map[place]*siblings{}
	for _, j := range s.r.Ranking() {
		var key strings.Builder
		path := make([]*domain, len(s.constraints))
		whole := true
		for i, c := range s.constraints {
			value, ok := topologyValue(s.r.Feasible[j], c)
			whole = whole && ok
			family := place{i, key.String()}
			fmt.Fprintf(&key, "%t%d:%s", ok, len(value), value)
			if !whole {
				continue
			}
			at := place{i, key.String()}
			if domains[at] == nil {
				if families[family] == nil {
					families[family] = &siblings{}
				}
				domains[at] = &domain{parent: families[family]}
				families[family].members = append(families[family].members, domains[at])
				families[family].atLeast++
			}
			path[i] = domains[at]
		}
		q := byPath[key.String()]
		if q == nil {
			q = &queue{path: path}
			byPath[key.String()] = q
			s.queues = append(s.queues, q)
		}
		q.clusters = append(q.clusters, j)
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

// next is the queue whose first cluster is picked: among those that violate no DoNotSchedule constraint, the least by the
// violated ScheduleAnyway constraints in index order, then by rank.
func (s *spreading) next() *queue {
	var open []*queue
	var soft []uint
	for _, q := range s.queues {
		if len(q.clusters) == 0 {
			continue
		}
		if hard, violated := s.violations(q); hard < 0 {
			open, soft = append(open, q), append(soft, violated)
		}
	}
	if s.weight != 0 {
		s.favour(open)
	}
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
			q.bonus += float64(s.weight) * scaled / math.Pow(2, float64(i+1))
		}
	}
}

// before compares the first clusters of two queues as the ranking does, the Spread prioritizer's part added.
func (s *spreading) before(a, b *queue) bool {
	i, j := a.clusters[0], b.clusters[0]
	demoted := s.r.State.Demoted()
	if s.weight == 0 || demoted.Has(s.r.Feasible[i].Index) != demoted.Has(s.r.Feasible[j].Index) {
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
		if len(q.clusters) == 0 {
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
