package lifecycle

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// removalCounter is shared by the instances in all profiles, because limits apply over all
// Placements and a Placement may change its profile.
type removalCounter struct {
	mu     sync.Mutex
	window time.Duration
	// counts is replaced, never modified.
	counts    *removalCounts
	recounted bool
}

// removalCounts are the counted removals at one time; immutable. Recordings store them as JSON.
type removalCounts struct {
	// Removals are the published removals, up to the longest window.
	Removals []removal `json:"removals,omitempty"`
	// Open are the removals that are being published, or were published in part, by Placement.
	Open map[types.UID]openRemoval `json:"open,omitempty"`
	// Progress are the changes that are published in steps, by Placement. All their removals are
	// counted.
	Progress map[types.UID]progressing `json:"progress,omitempty"`
}

// removal is a number of clusters that a Placement lost at one time.
type removal struct {
	Placement types.UID `json:"placement"`
	Namespace string    `json:"namespace"`
	// Revision is that of the change.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	Clusters int       `json:"clusters,omitempty"`
	// Edited is true if the removal followed an edit of the Placement's spec or profile.
	Edited bool `json:"edited,omitempty"`
}

// openRemoval is a removal that is not complete. Repeated attempts remove the same clusters, which
// count once.
type openRemoval struct {
	removal
	// Begun are the clusters of attempts that failed after a page was written, Reserved those of
	// the attempt in progress; sorted.
	Begun    []string `json:"begun,omitempty"`
	Reserved []string `json:"reserved,omitempty"`
}

// progressing is a change that is published in steps.
type progressing struct {
	Revision int64 `json:"revision"`
	// CountedAs is the revision with which its removals were counted, if it goes on as a later one;
	// Counted when that was. Left of them are not made yet.
	CountedAs int64     `json:"countedAs,omitempty"`
	Counted   time.Time `json:"counted"`
	Left      int       `json:"left"`
}

// removedClusters counts the removals of one namespace: all, and those that did not follow an edit
// of the Placement.
type removedClusters struct{ all, unedited int }

// inWindow yields the removals within the window, without an open one of the Placement itself.
func (b *BlastRadius) inWindow(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) iter.Seq[removal] {
	counts = cmp.Or(counts, &removalCounts{})
	return func(yield func(removal) bool) {
		for _, r := range counts.Removals {
			if r.At.After(now.Add(-b.args.Window.Duration)) && !yield(r) {
				return
			}
		}
		for uid, r := range counts.Open {
			if uid != pl.UID && r.At.After(now.Add(-b.args.Window.Duration)) && !yield(r.whole()) {
				return
			}
		}
	}
}

// nextEnd returns when the first removal that counts for a Placement leaves the window; zero if
// none counts.
func (b *BlastRadius) nextEnd(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) (next time.Time) {
	for r := range b.inWindow(counts, pl, now) {
		counted := r.Placement == pl.UID || b.args.FleetMaxRemoved != nil && (r.Namespace == pl.Namespace || !r.Edited)
		if end := r.At.Add(b.args.Window.Duration); counted && r.Clusters > 0 && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

// count adds up the removals within the window: of the Placement, of its namespace, and of other
// namespaces as far as they count.
func (b *BlastRadius) count(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) (placement int, namespace removedClusters, others int) {
	byNamespace := map[string]removedClusters{}
	for r := range b.inWindow(counts, pl, now) {
		n := byNamespace[r.Namespace]
		if n.all += r.Clusters; !r.Edited {
			n.unedited += r.Clusters
		}
		byNamespace[r.Namespace] = n
		if r.Placement == pl.UID {
			placement += r.Clusters
		}
	}
	namespace = byNamespace[pl.Namespace]
	delete(byNamespace, pl.Namespace)
	if limit := b.args.FleetMaxRemoved; limit != nil {
		for _, n := range byNamespace {
			others += min(n.unedited, (*limit+1)/2)
		}
	}
	return placement, namespace, others
}

// whole returns the removal with all its clusters.
func (r openRemoval) whole() removal {
	r.Clusters = len(r.clusters())
	return r.removal
}

func (r openRemoval) clusters() []string { return union(r.Begun, r.Reserved) }

// openSince returns the open removal of a Placement if it is within the window.
func (b *BlastRadius) openSince(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) openRemoval {
	if r := counts.Open[pl.UID]; r.At.After(now.Add(-b.window)) {
		return r
	}
	return openRemoval{}
}

// union merges two lists of sorted names.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	return changes.Sorted(slices.Concat(a, b))
}

func (c *removalCounts) clone() *removalCounts {
	next := &removalCounts{Removals: slices.Clone(c.Removals), Open: map[types.UID]openRemoval{}, Progress: map[types.UID]progressing{}}
	maps.Copy(next.Open, c.Open)
	maps.Copy(next.Progress, c.Progress)
	return next
}

// update replaces the counts by a changed copy, without removals before the longest window.
func (b *removalCounter) update(now time.Time, change func(next *removalCounts)) {
	next := b.counts.clone()
	if !now.IsZero() {
		oldest := now.Add(-b.window)
		next.Removals = slices.DeleteFunc(next.Removals, func(r removal) bool { return !r.At.After(oldest) })
		maps.DeleteFunc(next.Open, func(_ types.UID, r openRemoval) bool { return !r.At.After(oldest) })
		maps.DeleteFunc(next.Progress, func(_ types.UID, p progressing) bool { return !p.Counted.After(oldest) })
	}
	change(next)
	b.counts = next
}

// has reports whether a change of a Placement is counted that is not complete.
func (c *removalCounts) has(pl *v1alpha1.Placement) bool {
	_, progresses := c.Progress[pl.UID]
	_, known := c.Open[pl.UID]
	return progresses || known
}

// drop uncounts what an open removal reserved.
func (c *removalCounts) drop(placement types.UID, r openRemoval) {
	if r.Reserved = nil; len(r.Begun) > 0 {
		c.Open[placement] = r
	} else {
		delete(c.Open, placement)
	}
}

// proceed returns the clusters of a Proposal that were not counted when an earlier change was
// permitted. If that goes on, it stays counted, or is counted again from its record; else it gives
// back what was not removed. If its record was deleted, its revision may be that of another change,
// which is not permitted.
func (c *removalCounts) proceed(subject *framework.Subject, p *framework.Proposal, permitted bool) []string {
	placement := subject.Placement.UID
	begun, progresses := c.Progress[placement]
	restGoesOn := p.Kind == framework.Continuation || p.KeepsReservation
	switch {
	case progresses && begun.Revision == p.Revision && permitted:
		return nil
	case progresses && (begun.Revision == p.Revision || !restGoesOn):
		c.giveBack(placement)
		begun, progresses = progressing{}, false
	}
	record := permittedRecord(subject.Records, begun.Revision, p.Revision, restGoesOn)
	if record == nil {
		return p.Removed
	}
	_, removed, err := changes.Lists(record)
	if err != nil {
		return p.Removed
	}
	if !progresses {
		c.resume(placement, record, changes.Both(removed, subject.LastNames()))
	}
	return changes.Minus(p.Removed, removed)
}

// permittedRecord returns the record of the change that is counted; if none is, the open one that
// was permitted with a revision, or is in progress if its rest goes on; else nil.
func permittedRecord(records changes.History, counted, revision int64, restGoesOn bool) *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(records) {
		switch of := record.Spec.Revision; {
		case counted != 0:
			if of == counted {
				return record
			}
		case !changes.IsOpen(record) || !changes.IsPermitted(record):
		case of == revision, restGoesOn && record.Status.Phase == berthv1alpha1.PhaseProgressing:
			return record
		}
	}
	return nil
}

// resume counts a permitted change that is not counted, or still as open, with the clusters that
// are left of it.
func (c *removalCounts) resume(placement types.UID, record *berthv1alpha1.PlacementChange, left []string) {
	if open, known := c.Open[placement]; known && open.Revision == record.Spec.Revision {
		open.Reserved = union(open.Reserved, left)
		c.Open[placement] = open
		c.begin(placement)
	} else {
		at := changes.EndOfSecond(record.Status.PermittedTime.Time)
		left = changes.Minus(left, open.Begun)
		c.Removals = append(c.Removals, removal{
			Placement: placement, Namespace: record.Namespace, Revision: record.Spec.Revision, At: at, Clusters: len(left), Edited: record.Spec.Edited,
		})
		c.Progress[placement] = progressing{Revision: record.Spec.Revision, Counted: at, Left: len(left)}
	}
}

// begin counts the open removal of a Placement as permitted.
func (c *removalCounts) begin(placement types.UID) {
	r, known := c.Open[placement]
	if !known {
		return
	}
	delete(c.Open, placement)
	c.Removals = append(c.Removals, r.whole())
	if _, progresses := c.Progress[placement]; !progresses {
		c.Progress[placement] = progressing{Revision: r.Revision, Counted: r.At, Left: len(changes.Minus(r.Reserved, r.Begun))}
	}
}

// made counts down what is left of a permitted change, without clusters that leave beside it.
func (c *removalCounts) made(placement types.UID, removed []string) {
	if progress, progresses := c.Progress[placement]; progresses {
		progress.Left = max(0, progress.Left-len(changes.Minus(removed, c.Open[placement].clusters())))
		c.Progress[placement] = progress
	}
}

// giveBack uncounts the removals of a permitted change that were not made.
func (c *removalCounts) giveBack(placement types.UID) {
	p := c.Progress[placement]
	delete(c.Progress, placement)
	for i := range c.Removals {
		if r := &c.Removals[i]; r.Placement == placement && r.Revision == cmp.Or(p.CountedAs, p.Revision) && r.At.Equal(p.Counted) {
			if r.Clusters -= p.Left; r.Clusters <= 0 {
				c.Removals = slices.Delete(c.Removals, i, i+1)
			}
			return
		}
	}
}

// NeedsRecords is that of framework.Counter: the longest window of all profiles.
func (b *BlastRadius) NeedsRecords() time.Duration {
	if b.off() {
		return 0
	}
	return b.window
}

// unknownRemovals stands for removals whose records are missing: more than a limit permits.
const unknownRemovals = 1 << 20

// Recount is that of framework.Counter. It counts what changes.RemovalsOf returns. If records of a
// Placement are missing, because too many were needed, it permits no removal of the namespace in
// the window after them. Other namespaces do not count them, as edits.
func (b *BlastRadius) Recount(records []*berthv1alpha1.PlacementChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off() || b.recounted {
		return
	}
	b.recounted = true
	b.update(time.Time{}, func(next *removalCounts) {
		for uid, history := range changes.ByOwner(records) {
			if until := history.IncompleteUntil(); !until.IsZero() {
				next.Removals = append(next.Removals, removal{Placement: uid, Namespace: history[0].Namespace, At: until, Clusters: unknownRemovals, Edited: true})
			}
			var newest *berthv1alpha1.PlacementChange
			for _, record := range history {
				if changes.IsOpen(record) && changes.IsPermitted(record) {
					newest = record
				}
			}
			for _, record := range history {
				next.recount(uid, record, record == newest)
			}
		}
		slices.SortFunc(next.Removals, func(x, y removal) int {
			return cmp.Or(x.At.Compare(y.At), strings.Compare(string(x.Placement), string(y.Placement)))
		})
	})
}

// recount adds the removals of a record. Of open ones that a crash left, the newest goes on.
func (c *removalCounts) recount(placement types.UID, record *berthv1alpha1.PlacementChange, goesOn bool) {
	left := int(record.Spec.RemovedCount)
	if remaining := record.Status.Remaining; remaining != nil {
		left = int(remaining.Removed)
	}
	for _, counted := range changes.RemovalsOf(record) {
		r := removal{
			Placement: placement, Namespace: record.Namespace, Revision: record.Spec.Revision, At: counted.At, Clusters: counted.Clusters, Edited: counted.Edited,
		}
		if goesOn {
			c.Progress[placement] = progressing{Revision: record.Spec.Revision, Counted: r.At, Left: left}
		} else if changes.IsOpen(record) {
			r.Clusters -= left
		}
		c.Removals = append(c.Removals, r)
	}
}
