package changes

import (
	"cmp"
	"slices"
)

// Removal is why a published cluster is not in the target.
type Removal int

// The removals in the order in which they are made.
const (
	// Stays: the cluster is in the target.
	Stays Removal = iota
	// Forced: the Placement cannot keep the cluster: it is deleted, in no usable set any more, or
	// has an untolerated NoSelect taint other than DrainTaint. It is removed at once. All other
	// removals are voluntary.
	Forced
	// Drained: the cluster is drained or evicted.
	Drained
	// Unqualified: the cluster does not qualify any more for another reason.
	Unqualified
	// Outranked: the cluster qualifies, but others were selected.
	Outranked
)

// Listed is a cluster that is published now.
type Listed struct {
	Name    string
	Ready   bool
	Removal Removal
	// Rank is the position in the ranking, from 1; 0 if the cluster does not qualify.
	Rank int
}

// RollingUpdate is a permitted change that is published in steps.
type RollingUpdate struct {
	// Desired is the number of clusters that the Placement is to have. MaxUnavailable of them may
	// be missing or not ready, and MaxSurge more may be published.
	Desired, MaxUnavailable, MaxSurge int
	// Listed are the clusters that are published now.
	Listed []Listed
	// Missing are the clusters of the target that are not published yet, best first.
	Missing []string
	// Adds is true if the change, from its first step, adds clusters.
	Adds bool
}

// Next returns the clusters that the next step adds and removes, sorted. Without forced removals,
// no step makes the number of ready clusters fall below Desired − MaxUnavailable.
func (u *RollingUpdate) Next() (added, removed []string) {
	var stay []Listed
	for _, c := range u.Listed {
		if c.Removal == Forced {
			removed = append(removed, c.Name)
		} else {
			stay = append(stay, c)
		}
	}
	count := len(stay)
	for _, name := range u.Missing {
		if count >= u.Desired+u.MaxSurge {
			break
		}
		added = append(added, name)
		count++
	}
	removed = append(removed, u.voluntary(stay, count, len(added) > 0)...)
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}

// voluntary returns the clusters that may leave. count is the number of clusters with the added
// ones, which are not known to be ready.
func (u *RollingUpdate) voluntary(listed []Listed, count int, adds bool) (removed []string) {
	least := u.Desired - u.MaxUnavailable
	ready, settled := 0, !adds
	var leaving []Listed
	for _, c := range listed {
		if c.Ready {
			ready++
		} else if c.Removal == Stays {
			settled = false
		}
		if c.Removal != Stays {
			leaving = append(leaving, c)
		}
	}
	slices.SortFunc(leaving, compareLeaving)
	// Clusters that are not ready could otherwise block the change forever.
	stuck := !u.Adds || count >= u.Desired+u.MaxSurge && settled
	for _, c := range leaving {
		switch {
		case c.Ready && ready > least:
			ready--
		case !c.Ready && (ready >= least || stuck && count > least):
		default:
			continue
		}
		removed = append(removed, c.Name)
		count--
	}
	return removed
}

// compareLeaving orders clusters by which leaves first.
func compareLeaving(a, b Listed) int {
	if a.Ready != b.Ready {
		if a.Ready {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Removal, b.Removal), cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Name, b.Name))
}
