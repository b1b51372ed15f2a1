package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
// a change: whether it would be selected if it had no taints and no eviction.
func (a *attempt) qualifies(name string, otherwise bool) bool {
	c, exists := a.Clusters[name]
	return exists && c.Matches && c.Usable && !c.Deleting &&
		(otherwise || (!c.Tainted || a.Placement.Tolerates) && !c.Unavailable && !c.Drained && !c.Evicted && (!c.OnlyOld || a.incumbent(name)))
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

// awaitsRecord reports whether nothing is decided only until a record is written, to which the
// pinned revision may belong.
func (a *attempt) awaitsRecord() bool {
	n := len(a.Records)
	return a.Placement.Pinned > 0 && a.memory.Known && (n == 0 || a.Revision > a.Records[n-1].Revision)
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
	return slices.DeleteFunc(slices.Clone(a.Listed), func(name string) bool { return !a.isForced(name) })
}

func (a *attempt) isForced(name string) bool {
	c, exists := a.Clusters[name]
	if !exists || c.Deleting || !c.Usable {
		return true
	}
	forces, since := false, time.Time{}
	if c.Tainted && !a.Placement.Tolerates {
		forces, since = true, c.TaintedSince
	}
	if c.Unavailable && !a.policy.replaceFirst {
		if forces = true; c.UnavailableSince.After(since) {
			since = c.UnavailableSince
		}
	}
	return forces && !a.causedByEdit(name, since)
}

// causedByEdit: the published clusters were decided for another generation, and the taint existed
// when the first decision for the present one was made. It did not cause what was forced already
// when a record since the last complete change was written.
func (a *attempt) causedByEdit(name string, since time.Time) bool {
	published, generation := a.publishedGeneration(), a.Placement.Generation
	if published == 0 || published == generation {
		return false
	}
	if at := a.wasForced(name); !at.IsZero() && !since.After(at) {
		return false
	}
	begins := a.memory.DecidedSince
	recorded := time.Time{}
	for _, r := range a.Records {
		at := r.Started
		switch {
		case r.Phase == berthv1alpha1.PhasePublished:
			recorded = time.Time{}
		case r.Generation == generation && recorded.IsZero():
			recorded = at
		}
	}
	if !recorded.IsZero() && (begins.IsZero() || recorded.Before(begins)) {
		begins = recorded
	}
	return begins.IsZero() || !since.After(begins)
}

// wasForced is when the last record since the last publication was written that says that the
// Placement could not keep a cluster; zero if none does. Records have whole seconds.
func (a *attempt) wasForced(name string) (at time.Time) {
	for i := range a.Records {
		r := &a.Records[i]
		switch {
		case r.Phase == berthv1alpha1.PhasePublished:
			at = time.Time{}
		case slices.Contains(r.Forced, name) && r.Published == a.publishedGeneration():
			at = r.Started.Add(time.Second)
		}
	}
	return at
}

// publishedGeneration is the generation for which the published clusters were decided. After a
// restart the open record, the status or the newest record says so.
func (a *attempt) publishedGeneration() int64 {
	switch open := a.openRecord(); {
	case a.memory.Published != 0:
		return a.memory.Published
	case a.Revision == 0 && len(a.Listed) == 0:
		return 0
	case open != nil && open.Published != 0:
		return open.Published
	case a.Observed != 0:
		return a.Observed
	case len(a.Records) == 0:
		return 0
	}
	newest := a.Records[len(a.Records)-1]
	if newest.Phase != berthv1alpha1.PhasePublished {
		return newest.Published
	}
	return newest.Generation
}
