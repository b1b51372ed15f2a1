package changes

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Needs says for whom the records of a Placement are kept, beside historyLimit.
type Needs struct {
	// HistoryLimit is the number of Published records that are kept for users, and of others.
	HistoryLimit int
	// Published is the digest of the published clusters, and Generation that of the Placement:
	// Rejected and Expired records of changes from there still apply.
	Published  string
	Generation int64
	// Pinned is the revision to which the Placement is pinned; 0 if it is not.
	Pinned int64
	// RemovedSince is the time from which on plugins count removals, and AddedSince the time from
	// which on minReadySeconds are measured; zero without them.
	RemovedSince, AddedSince time.Time
}

// NeedsOf returns what the records of a Placement are needed for. published are its clusters;
// counters is for how long plugins need the records of removals.
func NeedsOf(pl *v1alpha1.Placement, policies []*berthv1alpha1.DisruptionPolicy, published []string, counters time.Duration, now time.Time) Needs {
	policy := PolicyOf(policies)
	n := Needs{HistoryLimit: policy.HistoryLimit, Published: berthv1alpha1.Digest(published), Generation: pl.Generation}
	// An invalid pin keeps no records.
	n.Pinned, _ = PinnedRevision(pl)
	if counters > 0 {
		n.RemovedSince = now.Add(-counters)
	}
	if policy.MinReady > 0 {
		n.AddedSince = now.Add(-policy.MinReady)
	}
	return n
}

// Surplus returns the records to delete, oldest first. It keeps those that are needed, the newest
// HistoryLimit Published ones, as many others, and those between needed ones, so that the history
// has no gaps. It keeps at most berthv1alpha1.MaxHistoryLimit records. If more are needed, the
// newest of them stay, and IncompleteUntil says so.
func (h History) Surplus(n *Needs) []*berthv1alpha1.PlacementChange {
	needed, oldest := h.needed(n)
	kept, spare := 0, berthv1alpha1.MaxHistoryLimit
	for _, is := range needed {
		if is {
			spare--
		}
	}
	var surplus []*berthv1alpha1.PlacementChange
	published, others := 0, 0
	for i, record := range slices.Backward(h) {
		limited := &others
		if record.Status.Phase == berthv1alpha1.PhasePublished {
			limited = &published
		}
		*limited++
		switch {
		case needed[i] && kept < berthv1alpha1.MaxHistoryLimit:
			kept++
		case !needed[i] && spare > 0 && (*limited <= n.HistoryLimit || i > oldest && mayBePublished(record)):
			spare--
			kept++
		default:
			surplus = append(surplus, record)
		}
	}
	slices.Reverse(surplus)
	return surplus
}

// needed says of each record whether it is needed. oldest is the position of the oldest of them
// whose change has begun.
func (h History) needed(n *Needs) (needed []bool, oldest int) {
	newest, undo := h.undoes()
	needed, oldest = make([]bool, len(h)), len(h)
	for i, record := range slices.Backward(h) {
		needed[i] = IsOpen(record) ||
			n.applies(record) ||
			n.Pinned > 0 && record.Spec.Revision >= n.Pinned ||
			i >= min(newest, undo) && mayBePublished(record) ||
			n.counts(record) ||
			n.measures(record)
		if needed[i] && mayBePublished(record) {
			oldest = i
		}
	}
	return needed, oldest
}

// undoes returns the positions of the newest Published record and of the one to which undo returns:
// the newest before it with other clusters. A change that was published in part since then is not
// complete, and its clusters count for the next one. Without such records it returns 0 for the
// newest, and the length of the history for the other.
func (h History) undoes() (newest, undo int) {
	newest, undo = -1, len(h)
	for i, record := range slices.Backward(h) {
		switch {
		case record.Status.Phase != berthv1alpha1.PhasePublished:
		case newest < 0:
			newest = i
		case record.Spec.To != h[newest].Spec.To:
			return newest, i
		}
	}
	return max(newest, 0), undo
}

// applies reports whether a Rejected or Expired record is that of a change which could be proposed
// now.
func (n *Needs) applies(record *berthv1alpha1.PlacementChange) bool {
	return applies(record, n.Published, n.Generation)
}

// counts reports whether plugins that count removals need a record.
func (n *Needs) counts(record *berthv1alpha1.PlacementChange) bool {
	return !n.RemovedSince.IsZero() && slices.ContainsFunc(RemovalsOf(record), func(r Removed) bool { return r.At.After(n.RemovedSince) })
}

// measures reports whether the measurement of minReadySeconds needs a record.
func (n *Needs) measures(record *berthv1alpha1.PlacementChange) bool {
	return !n.AddedSince.IsZero() && Joins(record) && endOf(record).After(n.AddedSince)
}

// Joins reports whether a record may name clusters that were published by it, and are new.
func Joins(record *berthv1alpha1.PlacementChange) bool {
	spec := &record.Spec
	return mayBePublished(record) && (spec.AddedCount > 0 || len(spec.Returned) > 0 || len(spec.Delta) > 0 || spec.Truncated)
}

// EndedSince reports whether a change was still published after a time, or is not complete.
func EndedSince(record *berthv1alpha1.PlacementChange, since time.Time) bool {
	return IsOpen(record) || endOf(record).After(since)
}

// endOf returns the end of the second in which a change ended or, if it is open, was published
// last. Records have no fractions of seconds.
func endOf(record *berthv1alpha1.PlacementChange) time.Time {
	s := &record.Status
	if at := cmp.Or(s.CompletionTime, s.LastProgressTime, s.PermittedTime); at != nil {
		return EndOfSecond(at.Time)
	}
	return time.Time{}
}

// EndOfSecond returns the end of the second in which a change ended, as its record has it.
func EndOfSecond(at time.Time) time.Time { return at.Truncate(time.Second).Add(time.Second) }

// Removed is a number of clusters that a change removed, for limits on removals.
type Removed struct {
	// At is not before the removal.
	At       time.Time
	Clusters int
	// Edited is true if the change followed an edit of the Placement's spec or profile.
	Edited bool
}

// RemovalsOf returns what limits on removals count of a record: what was published, or will be
// because it is permitted. What other writers removed while scheduling was disabled does not count.
func RemovalsOf(record *berthv1alpha1.PlacementChange) []Removed {
	clusters := int(record.Spec.RemovedCount)
	switch phase := record.Status.Phase; {
	case phase == berthv1alpha1.PhasePublished && len(record.Spec.Removals) > 0:
		all := make([]Removed, len(record.Spec.Removals))
		for i, r := range record.Spec.Removals {
			all[i] = Removed{At: r.Time.Add(time.Second), Clusters: int(r.Clusters), Edited: r.Edited}
		}
		return all
	case phase == berthv1alpha1.PhaseSuperseded:
		clusters = RemovedInPart(record)
	case phase != berthv1alpha1.PhasePublished && (phase == "" || !IsOpen(record) || !IsPermitted(record)):
		return nil
	}
	if clusters == 0 || record.Spec.Cause == CauseDisabled || endOf(record).IsZero() {
		return nil
	}
	return []Removed{{At: endOf(record), Clusters: clusters, Edited: record.Spec.Edited}}
}

// IncompleteUntil returns the time until which needed records may be missing, because more than
// berthv1alpha1.MaxHistoryLimit were needed; zero if none is.
func (h History) IncompleteUntil() time.Time {
	if len(h) < berthv1alpha1.MaxHistoryLimit || firstRevision(h[0]) <= 1 {
		return time.Time{}
	}
	i := slices.IndexFunc(h, func(record *berthv1alpha1.PlacementChange) bool { return !endOf(record).IsZero() })
	if i < 0 {
		return time.Time{}
	}
	return endOf(h[i])
}

// ByOwner returns the records of each Placement by its UID, sorted by revision. Records without an
// owner are not included.
func ByOwner(records []*berthv1alpha1.PlacementChange) map[types.UID]History {
	owned := map[types.UID]History{}
	for _, record := range records {
		if owner := metav1.GetControllerOfNoCopy(record); owner != nil {
			owned[owner.UID] = append(owned[owner.UID], record)
		}
	}
	for _, h := range owned {
		slices.SortFunc(h, func(a, b *berthv1alpha1.PlacementChange) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	}
	return owned
}
