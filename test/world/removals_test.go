package world

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/world/server"
)

// No more than maxRemoved clusters leave the Placements of the namespace within the window of a
// world with limits, unless their removal is approved.
const (
	maxRemoved   = 4
	removeWindow = 10 * time.Minute
)

// removed are clusters that one write of a page removed.
type removed struct {
	at        time.Time
	placement string
	revision  int64
	clusters  int
	// approved is true if the limit did not apply.
	approved bool
}

// endHistory forgets what happened to a deleted Placement: its records are deleted with it.
func (l *laws) endHistory(w *server.Write) {
	name := decode[v1alpha1.Placement](w.Object).Name
	delete(l.originals, name)
	l.removals = slices.DeleteFunc(l.removals, func(r removed) bool { return r.placement == name })
}

// isApproved reports whether a change of a Placement that is not complete, or removes all of the
// clusters, was approved.
func (l *laws) isApproved(placement string, clusters []string) bool {
	for _, record := range l.records {
		approval := changes.ApprovalOf(record)
		if record.Spec.Placement != placement || approval == nil || approval.Decision != berthv1alpha1.Approved {
			continue
		}
		_, names, err := changes.Lists(record)
		if err != nil || changes.IsOpen(record) || len(changes.Minus(clusters, names)) == 0 {
			return true
		}
	}
	return false
}

// clustersThatLeft returns the clusters that a write removed, sorted.
func clustersThatLeft(before, after map[string]bool) (names []string) {
	for name := range before {
		if !after[name] {
			names = append(names, name)
		}
	}
	return changes.Sorted(names)
}

// wasFrozen reports whether a replica is, or was a moment ago. What it had sent reaches the server
// when it wakes, whatever the other one decided since.
func (l *laws) wasFrozen() bool { return l.froze("one") || l.froze("two") }

func (l *laws) froze(replica string) bool {
	return time.Now().Before(l.w.frozen[replica].Add(time.Minute))
}

// maxStale is how long a replica whose requests fail may not know an input.
const maxStale = time.Minute

// isLate reports whether a write of pages may follow an older state of the world.
func (l *laws) isLate(w *server.Write, placement string) bool {
	late := l.reaction()
	if l.w.lossesEnd.After(l.lastInputs[0]) {
		late = maxStale
	}
	return w.Late || l.wasFrozen() || time.Since(l.lastInputs[0]) < late || l.othersWrote(placement, late)
}

// othersWrote reports whether pages of other Placements, on which a decision depends, were written
// a moment ago.
func (l *laws) othersWrote(placement string, moment time.Duration) bool {
	for of, writes := range l.writes {
		if of != placement && time.Since(writes.last) < moment {
			return true
		}
	}
	return false
}

// permittedAt returns when the change was permitted that removes a cluster now, because BlastRadius
// counts the whole change then, also if its pages are late, or its rest goes on under the next
// record; now without a record that says so.
func (l *laws) permittedAt(placement, name string) time.Time {
	permits := func(record *berthv1alpha1.PlacementChange) bool {
		_, removed, err := changes.Lists(record)
		return err == nil && changes.IsPermitted(record) && changes.Contains(removed, name)
	}
	records := l.history(placement)
	for i, record := range slices.Backward(records) {
		if changes.IsOpen(record) && permits(record) {
			for i > 0 && isRestOf(records[i], records[i-1]) && permits(records[i-1]) {
				i--
			}
			return records[i].Status.PermittedTime.Time
		}
	}
	return time.Now()
}

// isRestOf reports whether a record is of what was left of a superseded change, and of clusters
// that leave beside that.
func isRestOf(record, superseded *berthv1alpha1.PlacementChange) bool {
	added, removed, err := changes.Lists(record)
	before, leave, errBefore := changes.Lists(superseded)
	left := superseded.Status.Remaining
	return err == nil && errBefore == nil && left != nil && superseded.Status.Phase == berthv1alpha1.PhaseSuperseded &&
		record.Spec.Cause == superseded.Spec.Cause && len(changes.Minus(added, before)) == 0 && len(changes.Both(leave, removed)) == int(left.Removed)
}

// history returns the records of a Placement, sorted by revision.
func (l *laws) history(placement string) (records changes.History) {
	for _, record := range l.records {
		if record.Spec.Placement == placement {
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b *berthv1alpha1.PlacementChange) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return records
}

// checkRemovals: no more clusters leave within the window than the limit says.
func (l *laws) checkRemovals(w *server.Write, placement string, before, after map[string]bool) {
	names := l.withoutLateAdditions(w, placement, before, after)
	if !l.w.limited || len(names) == 0 || w.Late {
		return
	}
	approved, times := l.isApproved(placement, names), map[time.Time]int{}
	for _, name := range names {
		times[l.permittedAt(placement, name)]++
	}
	sorted := slices.SortedFunc(maps.Keys(times), time.Time.Compare)
	for _, at := range sorted {
		l.removals = append(l.removals, removed{at, placement, l.revision(placement), times[at], approved})
	}
	for _, r := range l.removals {
		if all := l.countRemovals(r.at); all > maxRemoved && !r.approved && !r.at.Before(sorted[0]) {
			l.breaks("BlastRadius: %v leave %s, and %d clusters left within %s before %s", names, placement, all, removeWindow, r.at.Format(time.TimeOnly))
			return
		}
	}
}

// countRemovals returns how many removals were permitted within the window before a time. What was
// approved a moment before it may have followed: the time may be that of a page.
func (l *laws) countRemovals(at time.Time) (all int) {
	for _, r := range l.removals {
		if r.approved && at.Sub(r.at) < l.reaction() {
			continue
		}
		if !r.at.After(at) && at.Sub(r.at) < removeWindow-10*time.Second && (l.w.ended.Before(r.at) || l.hasRecord(r)) {
			all += r.clusters
		}
	}
	return all
}

// withoutLateAdditions returns the clusters that a write removed, without those that a write had
// added late, up to a minute ago: the present leader never published them.
func (l *laws) withoutLateAdditions(w *server.Write, placement string, before, after map[string]bool) (names []string) {
	for _, name := range clustersThatLeft(before, after) {
		if time.Since(l.addedLate[placement+"/"+name]) > time.Minute {
			names = append(names, name)
		}
		delete(l.addedLate, placement+"/"+name)
	}
	if w.Late {
		for _, name := range clustersThatLeft(after, before) {
			l.addedLate[placement+"/"+name] = time.Now()
		}
	}
	return names
}

// hasRecord reports whether a removal has a record. One whose record a crash lost does not count
// after it.
func (l *laws) hasRecord(r removed) bool {
	for _, record := range l.records {
		if first := cmp.Or(record.Spec.FirstRevision, record.Spec.Revision); record.Spec.Placement == r.placement && first <= r.revision && r.revision <= record.Spec.Revision {
			return true
		}
	}
	return false
}

func (l *laws) setAvailable(available *intstr.IntOrString, deleted bool) {
	if deleted {
		available = nil
	}
	if !equality.Semantic.DeepEqual(l.available, available) {
		l.available, l.availableSince = available, time.Now()
	}
}

// onSteps remembers with which clusters a change in steps began.
func (l *laws) onSteps(record *berthv1alpha1.PlacementChange) {
	placement := record.Spec.Placement
	switch record.Status.Phase {
	case berthv1alpha1.PhaseProgressing:
		if l.originals[placement] == nil {
			original := l.union(placement)
			if l.damaged[placement] {
				clear(original) // Berth restores its page, and knows more.
			}
			l.originals[placement] = original
		}
	case berthv1alpha1.PhasePublished:
		if !changes.OnlyForced(record) {
			delete(l.originals, placement)
		}
	}
}

// isComplete reports whether the clusters are those to which the change in progress leads.
func (l *laws) isComplete(placement string, clusters map[string]bool) bool {
	digest := berthv1alpha1.Digest(slices.Sorted(maps.Keys(clusters)))
	for _, record := range l.records {
		if l.deleted[record.UID] == nil && record.Spec.Placement == placement && record.Status.Phase == berthv1alpha1.PhaseProgressing && record.Spec.To == digest {
			return true
		}
	}
	return false
}

// checkAvailable: as long as a change is not complete, minAvailable of the clusters with which it
// began stay, unless the Placement cannot keep them (law 9).
func (l *laws) checkAvailable(w *server.Write, placement string, before, after map[string]bool) {
	original := l.originals[placement]
	if l.isComplete(placement, before) {
		original = before // Its record follows.
	}
	if original == nil || l.available == nil || time.Since(l.availableSince) < settled || l.isLate(w, placement) {
		return
	}
	left := 0
	for name := range original {
		if after[name] {
			left++
		}
	}
	floor, err := intstr.GetScaledValueFromIntOrPercent(l.available, len(original), true)
	if err != nil {
		panic(err)
	}
	names := slices.DeleteFunc(clustersThatLeft(before, after), func(name string) bool {
		_, exists := l.sets[name]
		return !original[name] || !exists || l.isRevoked(name) || l.tainted[name]
	})
	if len(names) > 0 && left < floor && !l.isApproved(placement, names) {
		l.breaks("law 9: %v leave %s, which has %d of the %d clusters with which its change began, at least %d must stay", names, placement, left, len(original), floor)
	}
}
