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
	// Forced: the Placement cannot keep the cluster, which is removed at once. It is deleted, in no
	// usable set any more, or has an untolerated NoSelect taint. The removal is voluntary if the
	// taint is a drain, is subject to ReplaceFirst, or was tolerated until an edit.
	Forced
	// Drained: the cluster is drained, evicted, or unavailable with ReplaceFirst.
	Drained
	// Unqualified: the cluster does not qualify any more for another reason.
	Unqualified
	// Outranked: the cluster qualifies, but others were selected.
	Outranked
)

// Listed is a cluster that is published now.
type Listed struct {
	Name string
	// Unknown is true if a readiness source cannot be read, Young if Ready is false only because of
	// minReadySeconds.
	Ready, Unknown, Young bool
	Removal               Removal
	// Original is true if the cluster was published when the change began.
	Original bool
	// Rank is the position in the ranking, from 1; 0 if the cluster does not qualify.
	Rank int
}

// RollingUpdate is a permitted change that is published in steps.
type RollingUpdate struct {
	// Desired is the number of clusters that the Placement is to have. MaxUnavailable of them may
	// be missing or not ready, and MaxSurge more may be published.
	Desired, MaxUnavailable, MaxSurge int
	// MinAvailable is how many original clusters stay published.
	MinAvailable int
	// Listed are the clusters that are published now.
	Listed []Listed
	// Missing are the clusters of the target that are not published yet, best first.
	Missing []string
}

// Next returns the clusters that the next step adds and removes, sorted. Without forced removals,
// no step makes the number of ready clusters fall below Desired − MaxUnavailable, or that of
// original clusters below MinAvailable.
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
	removed = append(removed, u.voluntary(stay)...)
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}

// Moves reports whether there is a next step.
func (u *RollingUpdate) Moves() bool {
	added, removed := u.Next()
	return len(added)+len(removed) > 0
}

// voluntary returns the clusters that may leave. The clusters that the step adds do not count: they
// are not known to be ready.
func (u *RollingUpdate) voluntary(listed []Listed) (removed []string) {
	var left remaining
	var leaving []Listed
	for _, c := range listed {
		left.count(c, 1)
		if c.Removal != Stays {
			leaving = append(leaving, c)
		}
	}
	slices.SortFunc(leaving, compareLeaving)
	for _, c := range leaving {
		if u.mayLeave(c, left) {
			removed = append(removed, c.Name)
			left.count(c, -1)
		}
	}
	return removed
}

// remaining counts the clusters that stay published after the removals so far. young are original
// ones: those that the change added replace none yet.
type remaining struct{ all, ready, young, original int }

func (r *remaining) count(c Listed, n int) {
	r.all += n
	if c.Ready {
		r.ready += n
	}
	if c.Original {
		r.original += n
	}
	if c.Original && c.Young {
		r.young += n
	}
}

// mayLeave reports whether one more cluster may leave. The removal of one that is not ready lowers
// no count of ready clusters. A young one leaves as a ready one does, because it is in use.
func (u *RollingUpdate) mayLeave(c Listed, left remaining) bool {
	if c.Original && left.original <= u.MinAvailable {
		return false
	}
	left.count(c, -1)
	least := u.Desired - u.MaxUnavailable
	switch {
	case c.Ready, c.Unknown:
		return left.ready >= least
	case c.Young:
		return left.ready+left.young >= least
	}
	return left.all >= least
}

// compareLeaving orders clusters by which leaves first.
func compareLeaving(a, b Listed) int {
	return cmp.Or(cmp.Compare(a.readiness(), b.readiness()), cmp.Compare(a.Removal, b.Removal), cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Name, b.Name))
}

func (c *Listed) readiness() int {
	switch {
	case c.Ready:
		return 2
	case c.Young:
		return 1
	}
	return 0
}
