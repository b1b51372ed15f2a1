package controllers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// owed is what attempts of one Placement still owe to its records. Its fields are guarded by
// Recorder.mu.
type owed struct {
	placement *v1alpha1.Placement
	// since is when the oldest change was queued.
	since time.Time
	// written is closed when the changes are no longer being written; nil while nobody writes them.
	// One writes at a time, so that they are written in order.
	written chan struct{}
	// changes are published changes without a record, oldest first: one, unless an earlier one is
	// being written or refused.
	changes []*unwritten
	// statuses are those of existing records, at most one for each record.
	statuses []*berthv1alpha1.PlacementChange
	// unsure are records whose write failed before the publication, so that it was not made. The
	// hub may have them: only the response may have been lost.
	unsure []*berthv1alpha1.PlacementChange
	// prune is true until the records that history no longer keeps are deleted.
	prune bool
	// scheduled is true while the background has a turn or a retry for the changes.
	scheduled bool
	// failures counts failed tries of the background since the last successful one.
	failures int
}

// unwritten is one published change, or several that were merged.
type unwritten struct {
	first, revision int64
	change          changes.Change
	at              metav1.Time
	// writing is true while the record is written, and tried if the hub may have a record of this
	// name already, or may still create it: an earlier write may have failed without a
	// response. Such a change is not merged with others: no revision may be in two records.
	writing, tried bool
	// closed is true if a record of a later revision was written first. Such a change is not merged
	// with later ones.
	closed bool
}

// isSent reports whether a request to create the record of this name was sent, or may have been.
func (u *unwritten) isSent() bool { return u.writing || u.tried }

// laterTry is a Placement whose record is tried again at a given time.
type laterTry struct {
	key types.NamespacedName
	at  time.Time
}

// Limits of the background writer.
const (
	// recordPatience is how long a record yields to decisions.
	recordPatience = 30 * time.Second
	// recordQuiet is how long no attempt has run before records are written: a change of the whole
	// fleet starts attempts one after the other.
	recordQuiet = time.Second
	// recordRetry is the time until the second try. It doubles with each further one, up to
	// maxRecordRetry, which is also the time after a refusal.
	recordRetry    = time.Second
	maxRecordRetry = time.Minute
	// recordFlush is how long the last records may take at a normal stop; they are tried every
	// flushRetry.
	recordFlush = 5 * time.Second
	flushRetry  = 250 * time.Millisecond
	// statusTries bounds the tries to write the status of a record that is edited meanwhile.
	statusTries = 3
)

// isRefusal is true for an error that the same request would get again until a user acts.
func isRefusal(err error) bool {
	return errors.Is(err, errOtherRecord) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// isHopeless is true for an error after which a record is given up: another record has the
// revision, or the namespace is being deleted.
func isHopeless(err error) bool {
	return errors.Is(err, errOtherRecord) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// addChange adds a published change, merged with the ones before it if possible.
func (o *owed) addChange(u *unwritten) {
	if len(o.changes) == 0 {
		o.since = time.Now()
	}
	u.tried = u.tried || slices.ContainsFunc(o.unsure, func(record *berthv1alpha1.PlacementChange) bool { return record.Spec.Revision == u.revision })
	o.changes = append(o.changes, u)
	o.merge()
	// Longer lists arise only while single records are refused; history would not keep more.
	o.changes = o.changes[max(0, len(o.changes)-berthv1alpha1.MaxHistoryLimit):]
}

// merge merges consecutive changes, so that what is owed stays small.
func (o *owed) merge() {
	for i := 0; i+1 < len(o.changes); {
		u, next := o.changes[i], o.changes[i+1]
		if u.closed || u.isSent() || next.isSent() {
			i++
			continue
		}
		merged := *next
		merged.first, merged.change = u.first, changes.Merge(u.change, next.change)
		o.changes = slices.Replace(o.changes, i, i+2, &merged)
	}
}

// addStatus adds the status of a record. The first status that ended a change stays: it describes
// what was published then. The record of a published change gets its status with the change.
func (o *owed) addStatus(record *berthv1alpha1.PlacementChange) {
	i := o.statusOf(record.Name)
	switch {
	case slices.ContainsFunc(o.changes, func(u *unwritten) bool { return u.revision == record.Spec.Revision }):
	case i < 0:
		o.statuses = append(o.statuses, record)
	case changes.IsOpen(o.statuses[i]):
		if last := o.statuses[i].Status.LastProgressTime; record.Status.LastProgressTime.Before(last) {
			record.Status.LastProgressTime = last
		}
		o.statuses[i] = record
	}
}

// statusOf returns the position of the status of a record; -1 if there is none.
func (o *owed) statusOf(name string) int {
	return slices.IndexFunc(o.statuses, func(record *berthv1alpha1.PlacementChange) bool { return record.Name == name })
}

// dropProgress drops the owed status of an open record that needs no other status now.
func (o *owed) dropProgress(name string, statuses []*berthv1alpha1.PlacementChange) {
	i := o.statusOf(name)
	if i < 0 || !changes.IsOpen(o.statuses[i]) || slices.ContainsFunc(statuses, func(s *berthv1alpha1.PlacementChange) bool { return s.Name == name }) {
		return
	}
	o.statuses = slices.Delete(o.statuses, i, i+1)
}

// owedBy returns what is owed for a Placement; nil if nothing is. It drops what was owed for a
// deleted one.
func (r *Recorder) owedBy(key types.NamespacedName) *owed {
	pl := r.Inventory.Placement(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owed[key]
	if o != nil && (pl == nil || pl.UID != o.placement.UID) {
		delete(r.owed, key)
		return nil
	}
	return o
}

// queue changes what is owed for a Placement.
func (r *Recorder) queue(pl *v1alpha1.Placement, change func(*owed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(pl)
	o := r.owed[key]
	if o == nil || o.placement.UID != pl.UID {
		o = &owed{}
		r.owed[key] = o
	}
	o.placement = pl
	if change(o); len(o.changes) > 0 && !o.scheduled {
		o.scheduled = true
		r.turns = append(r.turns, key)
		r.signal()
	}
}

// statuses returns the owed statuses.
func (r *Recorder) statuses(o *owed) []*berthv1alpha1.PlacementChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(o.statuses)
}

// owedStatus returns the owed status of a record; nil if there is none.
func (r *Recorder) owedStatus(key types.NamespacedName, name string) *berthv1alpha1.PlacementChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.owed[key]; o != nil {
		if i := o.statusOf(name); i >= 0 {
			return o.statuses[i]
		}
	}
	return nil
}

// removeStatus removes an owed status that was written.
func (r *Recorder) removeStatus(key types.NamespacedName, record *berthv1alpha1.PlacementChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.owed[key]; o != nil {
		o.statuses = slices.DeleteFunc(o.statuses, func(s *berthv1alpha1.PlacementChange) bool { return s == record })
	}
}

// cancelEnd drops the owed end of a change that was decided again before it was written.
func (r *Recorder) cancelEnd(key types.NamespacedName, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owed[key]
	if o == nil {
		return
	}
	if i := o.statusOf(name); i >= 0 && !changes.IsOpen(o.statuses[i]) {
		o.statuses = slices.Delete(o.statuses, i, i+1)
	}
}

// closeChanges keeps the owed changes from being merged with later ones, because a record of a
// later revision follows. It returns their revisions.
func (r *Recorder) closeChanges(key types.NamespacedName) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var revisions []int64
	if o := r.owed[key]; o != nil {
		for _, u := range o.changes {
			u.closed = true
			revisions = append(revisions, u.revision)
		}
	}
	return revisions
}

// dropIfDone forgets what is owed if it is nothing any more.
func (r *Recorder) dropIfDone(key types.NamespacedName, o *owed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed[key] == o && len(o.changes) == 0 && len(o.statuses) == 0 && len(o.unsure) == 0 && !o.prune {
		delete(r.owed, key)
	}
}

// Forget drops what is owed for a deleted Placement.
func (r *Recorder) Forget(key types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owed, key)
}

// writeChanges writes the records of a Placement's published changes, in order. A refused one stays
// owed, and those after it are written. It returns the first error.
func (r *Recorder) writeChanges(ctx context.Context, key types.NamespacedName) error {
	o := r.owedBy(key)
	if o == nil {
		return nil
	}
	if err := r.beginWriting(ctx, o); err != nil {
		return err
	}
	defer r.endWriting(o)
	defer r.dropIfDone(key, o)
	var refusal error
	for i := 0; ; {
		pl, u := r.beginChange(o, i)
		if u == nil {
			return refusal
		}
		err := r.writePublished(ctx, pl, u)
		r.endChange(o, u, err)
		switch {
		case err == nil:
		case isHopeless(err):
			r.logGivenUp(key, err)
			refusal = cmp.Or(refusal, err)
		case isRefusal(err):
			refusal = cmp.Or(refusal, err)
			i++
		default:
			return err
		}
	}
}

// beginWriting waits until nobody else writes the changes of a Placement, or until ctx ends.
func (r *Recorder) beginWriting(ctx context.Context, o *owed) error {
	for {
		r.mu.Lock()
		written := o.written
		if written == nil {
			o.written = make(chan struct{})
		}
		r.mu.Unlock()
		if written == nil {
			return nil
		}
		select {
		case <-written:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Recorder) endWriting(o *owed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(o.written)
	o.written = nil
}

// addUnsure adds a record whose write failed.
func (r *Recorder) addUnsure(pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) {
	r.queue(pl, func(o *owed) {
		o.unsure = slices.DeleteFunc(o.unsure, func(other *berthv1alpha1.PlacementChange) bool { return other.Name == record.Name })
		o.unsure = append(o.unsure, record)
	})
}

// checkUnsure counts the records that ended although the response was lost. Those that may have
// been created stay until their revision has a record.
func (r *Recorder) checkUnsure(ctx context.Context, o *owed) {
	r.mu.Lock()
	unsure := slices.DeleteFunc(slices.Clone(o.unsure), func(record *berthv1alpha1.PlacementChange) bool {
		// The record of the published change replaces it (isAbandoned).
		return slices.ContainsFunc(o.changes, func(u *unwritten) bool { return u.revision == record.Spec.Revision })
	})
	r.mu.Unlock()
	for _, record := range unsure {
		if record.ResourceVersion == "" {
			if subject := r.Inventory.Subject(client.ObjectKeyFromObject(o.placement)); subject == nil || changes.History(subject.Records).Last() >= record.Spec.Revision {
				r.removeUnsure(o, record)
			}
			continue
		}
		found := record.DeepCopy()
		written, err := r.isWritten(ctx, found)
		if err != nil {
			continue
		}
		if written {
			r.assume(found)
			observeEnd(found)
		}
		r.removeUnsure(o, record)
	}
}

// endWrite removes what was owed for a record that was written before the publication.
func (r *Recorder) endWrite(key types.NamespacedName, name string, status *berthv1alpha1.PlacementChange) {
	r.removeStatus(key, status)
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.owed[key]; o != nil {
		o.unsure = slices.DeleteFunc(o.unsure, func(record *berthv1alpha1.PlacementChange) bool { return record.Name == name })
	}
}

// removeUnsure removes a record whose state is known now.
func (r *Recorder) removeUnsure(o *owed, record *berthv1alpha1.PlacementChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.unsure = slices.DeleteFunc(o.unsure, func(other *berthv1alpha1.PlacementChange) bool { return other == record })
	o.prune = true
}

// isUnsure reports whether an existing record is one that this process tried to create.
func (r *Recorder) isUnsure(existing *berthv1alpha1.PlacementChange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owed[client.ObjectKey{Namespace: existing.Namespace, Name: existing.Spec.Placement}]
	return o != nil && slices.ContainsFunc(o.unsure, func(record *berthv1alpha1.PlacementChange) bool {
		return record.ResourceVersion == "" && record.Name == existing.Name && equality.Semantic.DeepEqual(existing.Spec, record.Spec)
	})
}

// beginChange returns a change to write; nil if there is none at this position.
func (r *Recorder) beginChange(o *owed, i int) (*v1alpha1.Placement, *unwritten) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i >= len(o.changes) {
		return nil, nil
	}
	o.changes[i].writing = true
	return o.placement, o.changes[i]
}

// endChange removes a change that was written, or that is given up.
func (r *Recorder) endChange(o *owed, u *unwritten, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.writing = false
	if err == nil || isHopeless(err) {
		o.changes = slices.DeleteFunc(o.changes, func(other *unwritten) bool { return other == u })
		o.prune, o.since = o.prune || err == nil, time.Now()
	}
	o.merge()
}

// pruneOwed deletes the records that history no longer keeps, if that is owed.
func (r *Recorder) pruneOwed(ctx context.Context, key types.NamespacedName, o *owed) error {
	r.mu.Lock()
	prune := o.prune
	o.prune = false
	r.mu.Unlock()
	if !prune {
		return nil
	}
	err := r.prune(ctx, key)
	if err != nil {
		recordFailures.WithLabelValues(reasonOf(err)).Inc()
		r.mu.Lock()
		o.prune = true
		r.mu.Unlock()
	}
	return err
}
