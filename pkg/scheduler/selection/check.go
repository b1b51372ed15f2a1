package selection

import (
	"fmt"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Violated describes the first hard rule of the demand that a set of candidates violates: a tier
// that is not to be used, the number of clusters in a group, or a DoNotSchedule constraint, if a
// candidate lacks its topology key or a domain has more than maxSkew clusters more than another.
// Empty if it violates none.
func Violated(c *Candidates, d *Demand, chosen []int) string {
	p := divide(c, d)
	if p != nil {
		if violated := p.violated(c, d, chosen); violated != "" {
			return violated
		}
	}
	if len(d.Spread) == 0 {
		return ""
	}
	s, paths := spreadOf(c, d, p, chosen)
	for i, constraint := range d.Spread {
		if constraint.WhenUnsatisfiable != v1alpha1.DoNotSchedule {
			continue
		}
		for _, j := range chosen {
			if in := paths[j][i]; in == nil || in.chosen-in.parent.least > in.parent.maxSkew {
				return s.describe(i)
			}
		}
	}
	return ""
}

// spreadOf returns the spreading after candidates were chosen, and the domains of each candidate;
// none for one that is in no tier that may be used.
func spreadOf(c *Candidates, d *Demand, p *parts, chosen []int) (s *spreading, paths [][]*domain) {
	s = newSpreading(c, d, p)
	paths = make([][]*domain, len(c.Totals))
	for _, first := range s.buckets {
		for b := first; b != nil; b = b.next {
			for _, rank := range b.ranks {
				paths[s.ranking[rank]] = b.path
			}
		}
	}
	for _, j := range chosen {
		for _, in := range paths[j] {
			if in != nil {
				in.parent.count(in)
			}
		}
	}
	return s, paths
}

// SpreadBlocks returns a function that describes the first DoNotSchedule constraint that forbids to
// add a candidate to those chosen; empty if none does. lacks is true if the candidate lacks a
// topology key, so that the constraint always forbids it.
func SpreadBlocks(c *Candidates, d *Demand, chosen []int) func(j int) (why string, lacks bool) {
	s, paths := spreadOf(c, d, divide(c, d), chosen)
	return func(j int) (string, bool) {
		if paths[j] == nil {
			return "", false
		}
		hard, _ := s.violations(&bucket{path: paths[j]})
		switch {
		case hard < 0:
			return "", false
		case paths[j][hard] == nil:
			return fmt.Sprintf("lacks %s of %s", keyText(d.Spread[missingKey(c, d.Spread, j)]), s.describe(hard)), true
		}
		return "excluded by " + s.describe(hard), false
	}
}

// violated describes the first rule about tiers and groups that chosen candidates violate.
func (p *parts) violated(c *Candidates, d *Demand, chosen []int) string {
	for _, j := range chosen {
		switch tier := p.tier(j); {
		case tier < 0:
			return "a cluster is in no tier"
		case !p.usable(j):
			return fmt.Sprintf("a cluster is in tier %s, which is not to be used", d.Tiers[tier].Name)
		}
		p.chosen[p.group(c, j)]++
	}
	for i, group := range p.groups {
		switch n := p.chosen[i]; {
		case n < group.Min:
			return fmt.Sprintf("group %s has %d of at least %d clusters", group.Name, n, group.Min)
		case group.Max >= 0 && n > group.Max:
			return fmt.Sprintf("group %s has %d of at most %d clusters", group.Name, n, group.Max)
		}
	}
	return ""
}
