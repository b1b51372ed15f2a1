package lifecycle

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
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

// removalCounts are the counted removals at one time; immutable.
type removalCounts struct {
	// removals are the published removals, in the order of their times, up to the longest window.
	removals []removal
	// open are the removals that are being published, or were published in part, by Placement.
	open map[types.UID]openRemoval
	// progress are the changes that are published in steps, by Placement. All their removals are
	// counted.
	progress map[types.UID]progressing
}

// removal is a number of clusters that a Placement lost at one time.
type removal struct {
	placement types.UID
	namespace string
	// revision is that of the change.
	revision int64
	at       time.Time
	clusters int
	// edited is true if the removal followed an edit of the Placement's spec or profile.
	edited bool
}

// openRemoval is a removal that is not complete. Repeated attempts remove the same clusters, which
// count once.
type openRemoval struct {
	removal
	// begun are the clusters of attempts that failed after a page was written, reserved those of
	// the attempt in progress; sorted.
	begun, reserved []string
}

// progressing is a change that is published in steps.
type progressing struct {
	revision int64
	// counted is when its removals were counted; left of them are not made yet.
	counted time.Time
	left    int
}

// removedClusters counts the removals of one namespace: all, and those that did not follow an edit
// of the Placement.
type removedClusters struct{ all, unedited int }

// countsText is how recordings store removalCounts.
type countsText struct {
	Removals []removalText              `json:"removals,omitempty"`
	Open     map[types.UID]removalText  `json:"open,omitempty"`
	Progress map[types.UID]progressText `json:"progress,omitempty"`
}

type removalText struct {
	Placement types.UID `json:"placement"`
	Namespace string    `json:"namespace"`
	Revision  int64     `json:"revision,omitempty"`
	At        time.Time `json:"at"`
	Clusters  int       `json:"clusters,omitempty"`
	Edited    bool      `json:"edited,omitempty"`
	Begun     []string  `json:"begun,omitempty"`
	Reserved  []string  `json:"reserved,omitempty"`
}

type progressText struct {
	Revision int64     `json:"revision"`
	Counted  time.Time `json:"counted"`
	Left     int       `json:"left"`
}

func textOf(r removal) removalText {
	return removalText{Placement: r.placement, Namespace: r.namespace, Revision: r.revision, At: r.at, Clusters: r.clusters, Edited: r.edited}
}

func (t removalText) removal() removal {
	return removal{placement: t.Placement, namespace: t.Namespace, revision: t.Revision, at: t.At, clusters: t.Clusters, edited: t.Edited}
}

// MarshalJSON implements json.Marshaler.
func (c *removalCounts) MarshalJSON() ([]byte, error) {
	text := countsText{Open: map[types.UID]removalText{}, Progress: map[types.UID]progressText{}}
	for _, r := range c.removals {
		text.Removals = append(text.Removals, textOf(r))
	}
	for uid, r := range c.open {
		t := textOf(r.removal)
		t.Begun, t.Reserved = r.begun, r.reserved
		text.Open[uid] = t
	}
	for uid, p := range c.progress {
		text.Progress[uid] = progressText{p.revision, p.counted, p.left}
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *removalCounts) UnmarshalJSON(data []byte) error {
	var text countsText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*c = removalCounts{open: map[types.UID]openRemoval{}, progress: map[types.UID]progressing{}}
	for _, r := range text.Removals {
		c.removals = append(c.removals, r.removal())
	}
	for uid, r := range text.Open {
		c.open[uid] = openRemoval{removal: r.removal(), begun: r.Begun, reserved: r.Reserved}
	}
	for uid, p := range text.Progress {
		c.progress[uid] = progressing{p.Revision, p.Counted, p.Left}
	}
	return nil
}

// count adds up the removals within the window: of the Placement, of its namespace, and of other
// namespaces as far as they count. It excludes an open removal of the Placement itself.
func (b *BlastRadius) count(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) (placement int, namespace removedClusters, others int) {
	byNamespace := map[string]removedClusters{}
	add := func(r removal) {
		if !r.at.After(now.Add(-b.args.Window.Duration)) {
			return
		}
		n := byNamespace[r.namespace]
		if n.all += r.clusters; !r.edited {
			n.unedited += r.clusters
		}
		byNamespace[r.namespace] = n
		if r.placement == pl.UID {
			placement += r.clusters
		}
	}
	for _, r := range counts.removals {
		add(r)
	}
	for uid, r := range counts.open {
		if uid != pl.UID {
			add(r.whole())
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
	r.clusters = len(union(r.begun, r.reserved))
	return r.removal
}

// openSince returns the open removal of a Placement if it is within the window.
func (b *BlastRadius) openSince(counts *removalCounts, pl *v1alpha1.Placement, now time.Time) openRemoval {
	if r := counts.open[pl.UID]; r.at.After(now.Add(-b.window)) {
		return r
	}
	return openRemoval{}
}

// union merges two lists of sorted names.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// update replaces the counts by a changed copy, without removals before the longest window.
func (b *removalCounter) update(now time.Time, change func(next *removalCounts)) {
	next := &removalCounts{removals: slices.Clone(b.counts.removals), open: map[types.UID]openRemoval{}, progress: map[types.UID]progressing{}}
	maps.Copy(next.open, b.counts.open)
	maps.Copy(next.progress, b.counts.progress)
	if !now.IsZero() {
		oldest := now.Add(-b.window)
		next.removals = slices.DeleteFunc(next.removals, func(r removal) bool { return !r.at.After(oldest) })
		maps.DeleteFunc(next.open, func(_ types.UID, r openRemoval) bool { return !r.at.After(oldest) })
		maps.DeleteFunc(next.progress, func(_ types.UID, p progressing) bool { return !p.counted.After(oldest) })
	}
	change(next)
	b.counts = next
}

// drop uncounts what an open removal reserved.
func (c *removalCounts) drop(placement types.UID, r openRemoval) {
	if r.reserved = nil; len(r.begun) > 0 {
		c.open[placement] = r
	} else {
		delete(c.open, placement)
	}
}

// giveBack uncounts the removals of a change in steps that were not made.
func (c *removalCounts) giveBack(placement types.UID, p progressing) {
	delete(c.progress, placement)
	for i := range c.removals {
		if r := &c.removals[i]; r.placement == placement && r.revision == p.revision && r.at.Equal(p.counted) {
			r.clusters -= p.left
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
				next.removals = append(next.removals, removal{placement: uid, namespace: history[0].Namespace, at: until, clusters: unknownRemovals, edited: true})
			}
			for _, record := range history {
				next.recount(uid, record)
			}
		}
		slices.SortFunc(next.removals, func(x, y removal) int {
			return cmp.Or(x.at.Compare(y.at), strings.Compare(string(x.placement), string(y.placement)))
		})
	})
}

// recount adds the removals of a record. As long as a change in steps has removed nothing, each
// attempt counts it again.
func (c *removalCounts) recount(placement types.UID, record *berthv1alpha1.PlacementChange) {
	left := record.Spec.RemovedCount
	if remaining := record.Status.Remaining; remaining != nil {
		left = remaining.Removed
	}
	for _, counted := range changes.RemovalsOf(record) {
		r := removal{
			placement: placement, namespace: record.Namespace, revision: record.Spec.Revision, at: counted.At, clusters: counted.Clusters, edited: counted.Edited,
		}
		if changes.IsOpen(record) {
			if _, removed, err := changes.Lists(record); err == nil && left == record.Spec.RemovedCount {
				r.clusters = 0
				c.open[placement] = openRemoval{removal: r, reserved: removed}
				continue
			}
			c.progress[placement] = progressing{revision: record.Spec.Revision, counted: r.at, left: int(left)}
		}
		c.removals = append(c.removals, r)
	}
}
