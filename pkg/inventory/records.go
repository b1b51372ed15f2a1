package inventory

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// record is a PlacementChange. Either object or packed is nil.
type record struct {
	object *berthv1alpha1.PlacementChange
	packed *changes.PackedRecord
	// owner is the Placement that the owner reference names.
	owner Key
	// added and removed are the name indexes of the clusters that an open change adds and removes.
	added, removed framework.Bitset
}

// recordTable holds the hub's PlacementChanges.
type recordTable struct {
	byOwner[*record]
	watched
}

// whole returns the record as an object, which must not be changed.
func (r *record) whole() *berthv1alpha1.PlacementChange {
	if r.packed != nil {
		return r.packed.Record()
	}
	return r.object
}

// isOpen reports whether the change is open. Packed records have ended.
func (r *record) isOpen() bool { return r.packed == nil && changes.IsOpen(r.object) }

// updateRecord adds the Placement to the affected ones if the approval changed. The controller
// itself writes the rest of a record. If packed is not nil, it is kept instead of the object.
func (inv *Inventory) updateRecord(object *berthv1alpha1.PlacementChange, packed *changes.PackedRecord, e *event) {
	old, answered := inv.records.byName[nameOf(object)], object.Spec.Approval != nil
	var before *berthv1alpha1.PlacementChange
	if old != nil {
		if before = old.whole(); earlier(object, before) {
			return
		}
		answered = !equality.Semantic.DeepEqual(before.Spec.Approval, object.Spec.Approval)
	}
	if before == nil || !sameVersion(before, object) {
		inv.addObject(object)
	}
	r := inv.newRecord(object, packed, old)
	if old != nil {
		inv.removeRecord(old, before)
	}
	inv.records.set(nameOf(object), r.owner, r)
	if r.isOpen() {
		inv.updateTarget(r.owner)
	}
	if old != nil && old.owner != r.owner && inv.dropSubject(old.owner) && changes.IsOpen(before) {
		// The old owner is affected as by a deletion.
		e.affected.add(old.owner)
	}
	if inv.dropSubject(r.owner) && answered {
		e.affected.add(r.owner)
		e.changed, e.unseen = "approval", true
	}
}

// newRecord returns a record that is not stored yet. It takes the lists from the last state of the
// record, which may be nil, if they are the same: to read those of a large fleet takes long.
func (inv *Inventory) newRecord(object *berthv1alpha1.PlacementChange, packed *changes.PackedRecord, last *record) *record {
	r := &record{object: object, owner: recordOwner(object)}
	if packed != nil {
		r.object, r.packed = nil, packed
	}
	switch {
	case !r.isOpen():
	case last != nil && last.isOpen() && sameLists(last.object, object):
		r.added, r.removed = last.added, last.removed
		for _, set := range []framework.Bitset{r.added, r.removed} {
			for i := range set.All {
				inv.names.hold(i)
			}
		}
	default:
		// A record with unreadable lists counts as one without lists.
		added, removed, _ := changes.Lists(object)
		r.added, r.removed = inv.names.acquireAll(added), inv.names.acquireAll(removed)
	}
	return r
}

// sameLists reports whether two states of a record have the same lists.
func sameLists(a, b *berthv1alpha1.PlacementChange) bool {
	return a.Spec.Truncated == b.Spec.Truncated && a.Spec.AddedCount == b.Spec.AddedCount && a.Spec.RemovedCount == b.Spec.RemovedCount &&
		bytes.Equal(a.Spec.Delta, b.Spec.Delta) && slices.Equal(a.Spec.Added, b.Spec.Added) && slices.Equal(a.Spec.Removed, b.Spec.Removed)
}

// recordOwner returns the Placement that the owner reference names; an empty Key without one.
func recordOwner(object *berthv1alpha1.PlacementChange) Key {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.Kind == "Placement" {
		return Key{Namespace: object.Namespace, Name: owner.Name}
	}
	return Key{}
}

func (inv *Inventory) deleteRecord(object *berthv1alpha1.PlacementChange, e *event) {
	inv.records.observe(object)
	old := inv.records.byName[nameOf(object)]
	if old == nil {
		return
	}
	last := old.whole()
	if last.UID != object.UID {
		return // A later record already has this name.
	}
	inv.addDeleted(last)
	inv.removeRecord(old, last)
	if inv.dropSubject(old.owner) && changes.IsOpen(last) {
		e.affected.add(old.owner)
	}
}

func (inv *Inventory) removeRecord(r *record, object *berthv1alpha1.PlacementChange) {
	inv.records.remove(nameOf(object), r.owner)
	if r.isOpen() {
		inv.updateTarget(r.owner)
	}
	inv.names.releaseAll(r.added)
	inv.names.releaseAll(r.removed)
}

// UpdatePacked processes a packed record that was added or changed. It returns the affected
// Placements, sorted.
func (inv *Inventory) UpdatePacked(packed *changes.PackedRecord) []Key {
	object := packed.Record()
	return inv.process(object, func(e *event) {
		e.changed = "changed"
		inv.records.observe(object)
		inv.updateRecord(object, packed, e)
	})
}

// AssumeRecord processes a record that was just written, before or after its watch event. It
// ignores a record whose deletion the watch has already reported.
func (inv *Inventory) AssumeRecord(object *berthv1alpha1.PlacementChange) {
	inv.processOwn(func(e *event) {
		var known *berthv1alpha1.PlacementChange
		if r := inv.records.byName[nameOf(object)]; r != nil && r.whole().UID == object.UID {
			known = r.whole()
		}
		version, ok := versionOf(object)
		if ok && known == nil && version <= inv.records.seen || ok && known != nil && !earlier(known, object) {
			return // The watch was faster.
		}
		inv.updateRecord(object, nil, e)
	})
}

// Records returns all PlacementChanges, unsorted.
func (inv *Inventory) Records() []*berthv1alpha1.PlacementChange {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	all := make([]*berthv1alpha1.PlacementChange, 0, len(inv.records.byName))
	for _, r := range inv.records.byName {
		all = append(all, r.whole())
	}
	return all
}

// RecordsToCount is Records with what the pages say of permitted changes and of those without a
// status, which a crash may have lost: what is left, and whether all removed clusters have left.
func (inv *Inventory) RecordsToCount() []*berthv1alpha1.PlacementChange {
	all := inv.Records()
	for i, record := range all {
		subject := inv.Subject(recordOwner(record))
		if subject == nil || !subject.Placement.Controls(record) {
			continue
		}
		if changes.IsOpen(record) && changes.IsPermitted(record) {
			if left := changes.RemainingOf(record, subject.LastNames()); left != nil {
				all[i] = record.DeepCopy()
				all[i].Status.Remaining = left
			}
		} else if _, removed, err := changes.Lists(record); record.Status.Phase == "" && err == nil && len(removed) > 0 && len(changes.Minus(removed, subject.LastNames())) == len(removed) {
			all[i] = record.DeepCopy()
			all[i].Status.Phase, all[i].Status.CompletionTime = berthv1alpha1.PhasePublished, &record.CreationTimestamp
		}
	}
	return all
}

// RecordedQueue returns spec.queue of the newest Published record of a Placement, which only the
// controller writes, and the queue annotation of its pages, which others can write: of those that
// this Placement (same UID) controls. Each is empty if there is none.
func (inv *Inventory) RecordedQueue(key Key) (inRecord, onPages string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[key]
	if p == nil {
		return "", ""
	}
	if newest := inv.historyOf(p).Newest(berthv1alpha1.PhasePublished); newest != nil {
		inRecord = newest.Spec.Queue
	}
	return inRecord, queueOn(inv.subject(p))
}

// queueOn returns the queue annotation of the first page that the Placement controls; empty without
// one.
func queueOn(subject *framework.Subject) string {
	for _, page := range subject.OwnPages() {
		if queue := page.Annotations[v1alpha1.QueueAnnotation]; queue != "" && subject.Placement.Controls(page) {
			return queue
		}
	}
	return ""
}

// historyOf returns the records of this Placement (same UID), sorted by revision.
func (inv *Inventory) historyOf(p *placement) changes.History {
	var all []*berthv1alpha1.PlacementChange
	for _, r := range inv.records.byPlacement[p.key] {
		all = append(all, r.whole())
	}
	return changes.HistoryOf(p.object, all)
}

// openRecord returns the record of the open change of a Placement; nil without one.
func (inv *Inventory) openRecord(p *placement) *record {
	var newest *record
	for _, r := range inv.records.byPlacement[p.key] {
		if r.isOpen() && p.object.Controls(r.object) && (newest == nil || r.object.Spec.Revision > newest.object.Spec.Revision) {
			newest = r
		}
	}
	return newest
}

// OpenChanges returns the Placements with an open change, sorted.
func (inv *Inventory) OpenChanges() []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return slices.DeleteFunc(sortedPlacements(inv.placements), func(key Key) bool { return inv.openRecord(inv.placements[key]) == nil })
}

// ClearCause drops the cause of the attempt on a Snapshot after it succeeded. It keeps the cause of
// a later trigger.
func (inv *Inventory) ClearCause(snapshot *framework.Snapshot) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if p := inv.placements[snapshot.Subject.Key()]; p != nil && p.causeSequence <= snapshot.Sequence {
		p.cause = ""
	}
}

// Started ends the initial listing. Events before it have the cause "start", and the holdings that
// they lead to affect no Placement, because all are decided at start.
func (inv *Inventory) Started() {
	inv.Apply(Input{Kind: InputStarted})
}

// setCause stores the cause of the next attempt for each affected Placement.
func (inv *Inventory) setCause(e *event, by client.Object) {
	if len(e.affected) == 0 {
		return
	}
	cause := "start"
	if inv.started {
		cause = causeOf(by, e.changed)
	}
	if e.changed == ofStatus {
		inv.setCorrection(e.affected, cause)
		return
	}
	inv.setCauseText(e.affected, cause)
	if !e.keepsStart {
		inv.endStart(e.affected)
	}
}

// setCorrection stores the cause of attempts that correct a status, unless there is another one.
func (inv *Inventory) setCorrection(affected affectedSet, cause string) {
	for key := range affected {
		if p := inv.placements[key]; p.cause == "" {
			p.cause, p.causeSequence = cause, p.affectedAt
		}
	}
}

func (inv *Inventory) setCauseText(affected affectedSet, cause string) {
	for key := range affected {
		if p := inv.placements[key]; p != nil {
			inv.unsettle(p)
			p.cause, p.causeSequence, p.corrections = cause, p.affectedAt, 0
		}
	}
}

// causeOf returns the cause of a change, as in its record.
func causeOf(by client.Object, what string) string {
	kind, _ := kinds.Of(by)
	switch by.(type) {
	case *v1alpha1.Placement:
		return kind.Name + ": " + what
	case *v1alpha1.AddOnPlacementScore:
		// Only its scores can change.
		return kind.Name + " " + by.GetNamespace() + "/" + by.GetName()
	}
	return kind.Name + " " + by.GetName() + ": " + what
}
