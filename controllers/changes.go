package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// Recorder writes PlacementChanges: that of a held change before the status reports it, that of a
// published change later, in the background. A nil Recorder writes nothing, for a hub that does not
// serve PlacementChanges.
type Recorder struct {
	Client client.Client
	// Reader reads past all caches.
	Reader    client.Reader
	Inventory *inventory.Inventory
	Log       logr.Logger
	// Now is the clock of decisions, and NeedsRecords is for how long plugins need the records of
	// removals.
	Now          func() time.Time
	NeedsRecords func() time.Duration

	// writing is held while a published change is recorded: one at a time, so that the records of a
	// Placement are written in order.
	writing sync.Mutex

	mu sync.Mutex
	// unwritten are published changes without a record, one per Placement. turns are their keys,
	// oldest first.
	unwritten map[types.NamespacedName]*unwritten
	turns     []types.NamespacedName
	// retries are Placements whose record could not be written, with the time of the next try,
	// oldest first.
	retries []laterTry

	// gate makes records yield to decisions, but no longer than recordPatience.
	gate
}

// unwritten is one published change, or several that were merged.
type unwritten struct {
	placement       *v1alpha1.Placement
	first, revision int64
	change          changes.Change
	at              metav1.Time
	since           time.Time
	// tried is the record that an earlier try may have created, without its status.
	tried *berthv1alpha1.PlacementChange
}

// laterTry is a Placement whose record is tried again at a given time.
type laterTry struct {
	key types.NamespacedName
	at  time.Time
}

// Time limits of the background writer.
const (
	// recordPatience is how long a record yields to decisions.
	recordPatience = 30 * time.Second
	// recordQuiet is how long no attempt has run before records are written: a change of the whole
	// fleet starts attempts one after the other.
	recordQuiet = time.Second
	recordRetry = time.Second
	recordFlush = 5 * time.Second
)

// NewRecorder returns a Recorder without unwritten changes.
func NewRecorder(c client.Client, reader client.Reader, inv *inventory.Inventory, log logr.Logger) *Recorder {
	return &Recorder{Client: c, Reader: reader, Inventory: inv, Log: log, Now: time.Now, NeedsRecords: func() time.Duration { return 0 }, unwritten: map[types.NamespacedName]*unwritten{}, gate: newGate(recordQuiet)}
}

// Yield makes the background writer wait until recordQuiet after done is called, or until
// recordPatience has passed.
// It may be called on nil.
func (r *Recorder) Yield() (done func()) {
	if r == nil {
		return func() {}
	}
	return r.gate.Yield()
}

// Before writes the records that must exist before an attempt publishes or reports a held change.
func (r *Recorder) Before(ctx context.Context, a *scheduler.Attempt) error {
	writes, err := a.RecordsBefore()
	if err != nil || len(writes) == 0 {
		return err
	}
	// Records are written in the order of their revisions.
	if err := r.flush(ctx, a.Snapshot.Subject.Key()); err != nil {
		return err
	}
	for _, record := range writes {
		if err := r.write(ctx, a.Snapshot.Subject.Placement, record); err != nil {
			return err
		}
	}
	a.SetRecorded()
	return nil
}

// After updates the records of a successful attempt and queues the record of its published change.
func (r *Recorder) After(ctx context.Context, a *scheduler.Attempt) error {
	if r == nil || a.Err != nil {
		return nil
	}
	writes := a.RecordsAfter()
	for _, record := range writes {
		if err := r.write(ctx, a.Snapshot.Subject.Placement, record); err != nil {
			return err
		}
	}
	if len(writes) > 0 || a.Recorded() {
		if err := r.prune(ctx, a.Snapshot.Subject.Key()); err != nil {
			return err
		}
	}
	if revision, change, ok := a.History(); ok {
		r.published(a, revision, change)
	}
	return nil
}

// published queues the record of a change, merged with the Placement's unwritten changes.
func (r *Recorder) published(a *scheduler.Attempt, revision int64, change changes.Change) {
	key := a.Snapshot.Subject.Key()
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &unwritten{
		placement: a.Snapshot.Subject.Placement, first: revision, revision: revision, change: change,
		at: metav1.Time{Time: a.Snapshot.Now.Truncate(time.Second)}, since: time.Now(),
	}
	if before := r.unwritten[key]; before != nil && before.placement.UID == next.placement.UID {
		next.first, next.change, next.since, next.tried = before.first, changes.Merge(before.change, change), before.since, before.tried
	} else {
		r.turns = append(r.turns, key)
	}
	r.unwritten[key] = next
	r.signal()
}

// flush writes the record of a Placement's unwritten changes, if there are any.
func (r *Recorder) flush(ctx context.Context, key types.NamespacedName) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	u := r.unwritten[key]
	delete(r.unwritten, key)
	r.mu.Unlock()
	if u == nil {
		return nil
	}
	if err := r.writePublished(ctx, u); err != nil {
		if !isFinal(err) {
			r.keepUnwritten(key, u)
		}
		return err
	}
	return r.prune(ctx, key)
}

// keepUnwritten keeps changes whose record could not be written, merged with later ones.
func (r *Recorder) keepUnwritten(key types.NamespacedName, u *unwritten) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch next := r.unwritten[key]; {
	case next == nil:
		r.unwritten[key] = u
	case next.placement.UID == u.placement.UID:
		next.first, next.change, next.since, next.tried = u.first, changes.Merge(u.change, next.change), u.since, u.tried
	}
}

// writePublished writes the record of a published change. If an earlier try created a record of
// another name, this one covers it, and the earlier one is deleted.
func (r *Recorder) writePublished(ctx context.Context, u *unwritten) error {
	record, err := changes.NewRecord(u.placement, u.first, u.revision, u.change)
	if err != nil {
		return err
	}
	record.Status = berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhasePublished, StartTime: &u.at, PermittedTime: &u.at, LastProgressTime: &u.at, CompletionTime: &u.at,
	}
	if u.tried != nil && u.tried.Name != record.Name {
		if err := r.deleteCovered(ctx, u.placement, u.tried); err != nil {
			return fmt.Errorf("deleting PlacementChange %s/%s, which revision %d covers: %w", record.Namespace, u.tried.Name, u.revision, err)
		}
	}
	u.tried = record.DeepCopy()
	return r.write(ctx, u.placement, record)
}

// deleteCovered deletes a record of an earlier try that a merged record covers. The try may have
// written its status: perhaps only the response was lost.
func (r *Recorder) deleteCovered(ctx context.Context, pl *v1alpha1.Placement, tried *berthv1alpha1.PlacementChange) error {
	existing := &berthv1alpha1.PlacementChange{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(tried), existing); err != nil {
		return client.IgnoreNotFound(err)
	}
	other := existing.Status.Phase != "" && existing.Status.Phase != berthv1alpha1.PhasePublished
	if other || !pl.Controls(existing) || !equality.Semantic.DeepEqual(existing.Spec, tried.Spec) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID}))
}

// isUnfinished is true if an existing record belongs to the Placement, has the wanted spec, and has
// no status.
func isUnfinished(pl *v1alpha1.Placement, existing, wanted *berthv1alpha1.PlacementChange) bool {
	return pl.Controls(existing) && existing.Status.Phase == "" && equality.Semantic.DeepEqual(existing.Spec, wanted.Spec)
}

// write creates a record with its status, or writes the status of one that exists.
func (r *Recorder) write(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) error {
	before := berthv1alpha1.ChangePhase("")
	if record.ResourceVersion == "" {
		if err := r.create(ctx, pl, record); err != nil {
			return fmt.Errorf("creating PlacementChange %s/%s: %w", record.Namespace, record.Name, err)
		}
	} else {
		before = berthv1alpha1.PhaseHeld
	}
	if err := r.Client.Status().Update(ctx, record); err != nil {
		return fmt.Errorf("writing the status of PlacementChange %s/%s: %w", record.Namespace, record.Name, err)
	}
	record.ManagedFields = nil
	r.Inventory.AssumeRecord(record)
	if before == berthv1alpha1.PhaseHeld && record.Status.CompletionTime != nil && record.Status.StartTime != nil {
		permitSeconds.WithLabelValues(string(record.Status.Phase)).Observe(record.Status.CompletionTime.Sub(record.Status.StartTime.Time).Seconds())
	}
	return nil
}

// create creates a record, or completes the same record of an interrupted try. It first deletes a
// record of the same name that belonged to a deleted Placement. It fails if another writer, such as
// a former leader, has recorded the revision: the Placement is then decided again.
func (r *Recorder) create(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) error {
	status := record.Status
	err := r.Client.Create(ctx, record)
	record.Status = status
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &berthv1alpha1.PlacementChange{}
	if readErr := r.Reader.Get(ctx, client.ObjectKeyFromObject(record), existing); readErr != nil {
		return fmt.Errorf("%w; reading it: %w", err, readErr)
	}
	if isUnfinished(pl, existing, record) {
		record.UID, record.ResourceVersion = existing.UID, existing.ResourceVersion
		return nil
	}
	if pl.Controls(existing) {
		existing.ManagedFields = nil
		r.Inventory.AssumeRecord(existing)
		return err
	}
	if existing.CreationTimestamp.After(pl.CreationTimestamp.Time) && !pl.CreationTimestamp.IsZero() {
		// The record belongs to a later Placement of the same name. This process has not seen the
		// deletion of its own one yet.
		return err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID})); err != nil {
		return fmt.Errorf("deleting the one that a deleted Placement left: %w", err)
	}
	err = r.Client.Create(ctx, record)
	record.Status = status
	if apierrors.IsAlreadyExists(err) && len(existing.Finalizers) > 0 {
		// This is no race: finalizers keep the old record. The status must name them.
		return fmt.Errorf("an earlier Placement's record of that name is kept by metadata.finalizers %s", strings.Join(existing.Finalizers, ", "))
	}
	return err
}

// prune deletes the records of a Placement that its history limit no longer keeps and nothing
// needs.
func (r *Recorder) prune(ctx context.Context, key types.NamespacedName) error {
	subject := r.Inventory.Subject(key)
	if subject == nil {
		return nil
	}
	needs := changes.NeedsOf(subject.Placement, subject.Policies, subject.LastNames(), r.NeedsRecords(), r.Now())
	for _, record := range changes.History(subject.Records).Surplus(&needs) {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, record, client.Preconditions{UID: &record.UID})); err != nil {
			return fmt.Errorf("deleting PlacementChange %s/%s, which history no longer keeps: %w", record.Namespace, record.Name, err)
		}
	}
	return nil
}

// Forget drops the unwritten changes of a deleted Placement.
func (r *Recorder) Forget(key types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unwritten, key)
}

// Run writes records in the background. When ctx ends, it writes the remaining ones at once, for at
// most recordFlush.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil {
		return
	}
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(recordFlush, cancel) })()
	for writing.Err() == nil {
		ended := ctx.Err() != nil
		key, wait, ok := r.next(ended)
		switch {
		case ok:
			if err := r.flush(writing, key); err != nil {
				r.retry(key, err, ended)
			}
		case ended:
			return
		default:
			select {
			case <-r.changed:
			case <-wait:
			case <-ctx.Done():
			}
		}
	}
}

// next returns the Placement whose change has waited longest. If it must yield to decisions, or if
// only later retries are left, wait fires when next must be called again.
func (r *Recorder) next(ended bool) (key types.NamespacedName, wait <-chan time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.retries) > 0 && (ended || !time.Now().Before(r.retries[0].at)) {
		r.turns = append(r.turns, r.retries[0].key)
		r.retries = r.retries[1:]
	}
	for len(r.turns) > 0 {
		key = r.turns[0]
		u := r.unwritten[key]
		if u == nil {
			r.turns = r.turns[1:]
			continue
		}
		if wait := min(recordPatience-time.Since(u.since), r.wait()); wait > 0 && !ended {
			return key, time.After(wait), false
		}
		r.turns = r.turns[1:]
		return key, nil, true
	}
	if len(r.retries) > 0 {
		return key, time.After(time.Until(r.retries[0].at)), false
	}
	return key, nil, false
}

// isFinal is true for an error that another try would get again.
func isFinal(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// retry schedules another try. It gives up when Run is ending, and after a final error: the
// Placement or its namespace is going, or another record has the revision.
func (r *Recorder) retry(key types.NamespacedName, err error, ended bool) {
	recordFailures.WithLabelValues(reasonOf(err)).Inc()
	if isFinal(err) || ended {
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			r.Log.Info("A published change has no record: the namespace is being deleted", "placement", key.String())
		} else {
			r.Log.Error(err, "A published change has no record", "placement", key.String())
		}
		if ended {
			r.Forget(key)
		}
		return
	}
	r.mu.Lock()
	if r.unwritten[key] != nil {
		r.retries = append(r.retries, laterTry{key, time.Now().Add(recordRetry)})
	}
	r.mu.Unlock()
}
