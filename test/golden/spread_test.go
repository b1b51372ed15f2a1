package golden

import (
	"fmt"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// spreader picks clusters one by one under spread constraints, with a literal implementation of the
// rules.
type spreader struct {
	terms []v1alpha1.SpreadConstraintsTerm
	// paths are the domains of each cluster under each constraint, up to the first missing key.
	paths map[string][]string
	// chosen counts by constraint, parent domain and domain. It has all domains of all candidates
	// from the start.
	chosen []map[string]map[string]int
}

func newSpreader(terms []v1alpha1.SpreadConstraintsTerm, clusters []*v1alpha1.ManagedCluster) *spreader {
	s := &spreader{terms: terms, paths: map[string][]string{}}
	for range terms {
		s.chosen = append(s.chosen, map[string]map[string]int{})
	}
	for _, c := range clusters {
		domain := ""
		for i, term := range terms {
			have := claimsOf(c)
			if term.TopologyKeyType == v1alpha1.TopologyKeyTypeLabel {
				have = c.Labels
			}
			value, ok := have[term.TopologyKey]
			if !ok {
				break
			}
			domain += fmt.Sprintf("%q", value)
			s.paths[c.Name] = append(s.paths[c.Name], domain)
			siblings := s.chosen[i][s.parent(c.Name, i)]
			if siblings == nil {
				siblings = map[string]int{}
				s.chosen[i][s.parent(c.Name, i)] = siblings
			}
			siblings[domain] = 0
		}
	}
	return s
}

func (s *spreader) parent(name string, i int) string {
	if i == 0 {
		return ""
	}
	return s.paths[name][i-1]
}

// violates reports whether picking the cluster next violates constraint i. A cluster without the
// key always does.
func (s *spreader) violates(name string, i int) bool {
	if i >= len(s.paths[name]) {
		return true
	}
	siblings := s.chosen[i][s.parent(name, i)]
	here := siblings[s.paths[name][i]]
	least := here
	for _, n := range siblings {
		least = min(least, n)
	}
	return here+1-least > int(max(s.terms[i].MaxSkew, 1))
}

// violations returns the ScheduleAnyway constraints that the pick violates, the first one weighing
// most, or false if it violates a DoNotSchedule one.
func (s *spreader) violations(name string) (int, bool) {
	soft := 0
	for i, term := range s.terms {
		soft *= 2
		switch broken := s.violates(name, i); {
		case broken && term.WhenUnsatisfiable == v1alpha1.DoNotSchedule:
			return 0, false
		case broken:
			soft++
		}
	}
	return soft, true
}

// pick takes k clusters from a ranking; short is true if constraints prevented that.
func (s *spreader) pick(ranking []string, k int) (chosen map[string]bool, short bool) {
	chosen = map[string]bool{}
	for len(chosen) < k {
		best, least := "", 0
		for _, name := range ranking {
			if chosen[name] {
				continue
			}
			if soft, ok := s.violations(name); ok && (best == "" || soft < least) {
				best, least = name, soft
			}
		}
		if best == "" {
			return chosen, true
		}
		chosen[best] = true
		for i, domain := range s.paths[best] {
			s.chosen[i][s.parent(best, i)][domain]++
		}
	}
	return chosen, false
}
