package model

import (
	"cmp"
	"maps"
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// selectTarget returns the target; false if nothing can be decided.
func (a *attempt) selectTarget() (target []string, decided bool) {
	ranked := a.qualifying()
	if a.Placement.Pinned > 0 {
		members, known := a.at(a.Placement.Pinned)
		if !known {
			return nil, false
		}
		ranked = slices.DeleteFunc(ranked, func(name string) bool { return !slices.Contains(members, name) })
	}
	if n := a.Placement.Number; n >= 0 && len(ranked) > n {
		ranked = ranked[:n]
	}
	return plus(ranked, nil), true
}

// qualifying returns the clusters that may be selected, best first: those that stay put first, and
// by name.
func (a *attempt) qualifying() []string {
	names := slices.Sorted(maps.Keys(a.Clusters))
	names = slices.DeleteFunc(names, func(name string) bool { return !a.qualifies(name, false) })
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(a.steady(y), a.steady(x)) })
	return names
}

// qualifies reports whether a cluster may be selected. otherwise is for a cluster of the set before
// a change: whether it would be selected, as an incumbent, if it were not drained or evicted.
func (a *attempt) qualifies(name string, otherwise bool) bool {
	c, exists := a.Clusters[name]
	return exists && c.Matches && c.Usable && !c.Deleting && !c.Tainted &&
		(otherwise || !c.Drained && !c.Evicted && (!c.OnlyOld || a.incumbent(name)))
}

// openRecord returns the newest open record; nil if there is none.
func (a *attempt) openRecord() *Record {
	for i := range slices.Backward(a.Records) {
		if a.Records[i].open() {
			return &a.Records[i]
		}
	}
	return nil
}

// incumbent: while a change is held, the published clusters and its target; while it progresses,
// its target only.
func (a *attempt) incumbent(name string) bool {
	listed, open := slices.Contains(a.Listed, name), a.openRecord()
	switch {
	case open == nil:
		return listed
	case open.Phase == berthv1alpha1.PhaseProgressing:
		return slices.Contains(targetOf(open, a.Listed), name)
	}
	return listed || slices.Contains(open.Added, name)
}

// steady is the score of the only prioritizer. The clusters that an open change removes are between
// its target and all others.
func (a *attempt) steady(name string) int {
	switch open := a.openRecord(); {
	case open != nil && slices.Contains(open.Removed, name):
		return 50
	case slices.Contains(a.Listed, name), open != nil && slices.Contains(open.Added, name):
		return 100
	}
	return 0
}

// targetOf is the target of a change, and beforeOf the set before it, from what is published.
func targetOf(r *Record, listed []string) []string { return plus(minus(listed, r.Removed), r.Added) }

func beforeOf(r *Record, listed []string) []string { return plus(minus(listed, r.Added), r.Removed) }

// at returns the clusters of a revision that was published: those published now, or computed
// backwards from them.
func (a *attempt) at(revision int64) (names []string, known bool) {
	names = a.Listed
	for i := range slices.Backward(a.Records) {
		r := &a.Records[i]
		switch {
		case r.Revision != revision:
		case r.Phase != berthv1alpha1.PhasePublished:
			return nil, false
		case r.To == digest(a.Listed):
			return a.Listed, true
		default:
			return names, r.To == digest(names)
		}
		if r.Phase == "" || r.Phase == berthv1alpha1.PhaseProgressing || r.Phase == berthv1alpha1.PhasePublished || r.permitted() {
			names = beforeOf(r, names)
		}
	}
	return nil, false
}

// revoked are the published clusters that exist, but that the namespace may no longer use.
func (a *attempt) revoked() []string {
	return slices.DeleteFunc(slices.Clone(a.Listed), func(name string) bool {
		c, exists := a.Clusters[name]
		return !exists || c.Deleting || c.Usable
	})
}

// forced are the published clusters that the Placement cannot keep.
func (a *attempt) forced() []string {
	return slices.DeleteFunc(slices.Clone(a.Listed), func(name string) bool {
		c, exists := a.Clusters[name]
		return exists && !c.Deleting && c.Usable && !c.Tainted
	})
}
