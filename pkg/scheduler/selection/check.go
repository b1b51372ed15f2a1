package selection

import "github.com/berth-dev/berth/api/v1alpha1"

// Violated names the first DoNotSchedule constraint of the demand that a set of candidates
// violates: a candidate lacks its topology key, or a domain has more than maxSkew clusters more
// than another. Empty if it violates none.
func Violated(c *Candidates, d *Demand, chosen []int) string {
	if len(d.Spread) == 0 {
		return ""
	}
	s := newSpreading(c, d)
	paths := make([][]*domain, len(c.Totals))
	for _, b := range s.buckets {
		for _, rank := range b.ranks {
			paths[s.ranking[rank]] = b.path
		}
	}
	for _, j := range chosen {
		for _, in := range paths[j] {
			if in != nil {
				in.parent.count(in)
			}
		}
	}
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
