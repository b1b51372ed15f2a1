package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
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
// published change later, in the background. It is the owner of what attempts owe to records. A nil
// Recorder writes nothing, for a hub that does not serve PlacementChanges.
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

	mu sync.Mutex
	// owed is what is not written yet. turns are Placements with changes for the background, oldest
	// first; retries those whose record could not be written, by the time of the next try.
	owed    map[types.NamespacedName]*owed
	turns   []types.NamespacedName
	retries []laterTry

	// gate makes records yield to decisions, but no longer than recordPatience.
	gate
}

// NewRecorder returns a Recorder that owes nothing.
func NewRecorder(c client.Client, reader client.Reader, inv *inventory.Inventory, log logr.Logger) *Recorder {
	return &Recorder{
		Client: c, Reader: reader, Inventory: inv, Log: log, Now: time.Now, NeedsRecords: func() time.Duration { return 0 },
		owed: map[types.NamespacedName]*owed{}, gate: newGate(recordQuiet),
	}
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
	pl, key := a.Snapshot.Subject.Placement, a.Snapshot.Subject.Key()
	if record := a.Record(); record != nil {
		r.cancelEnd(key, record.Name)
	}
	writes := a.Records.Before
	if len(writes) == 0 {
		return nil
	}
	// Records are written in the order of their revisions, unless one is refused: it must not hold
	// back decisions.
	queued := r.closeChanges(key)
	if err := r.writeChanges(ctx, key); err != nil && !isRefusal(err) {
		return err
	}
	for _, record := range writes {
		if slices.Contains(queued, record.Spec.Revision) {
			// The record of a published change gets its status with the change.
			continue
		}
		end := r.owedStatus(key, record.Name)
		if end != nil && !changes.IsOpen(end) {
			record.Status = end.Status
		}
		begun := record.DeepCopy()
		if err := r.write(ctx, pl, record); err != nil {
			r.addUnsure(pl, begun)
			return err
		}
		r.endWrite(key, record.Name, end)
	}
	a.SetRecorded()
	return nil
}

// Owe queues the record of the change that an attempt published, and the statuses of existing
// records, before the first of them is written.
func (r *Recorder) Owe(a *scheduler.Attempt) {
	if r == nil {
		return
	}
	statuses, recorded := a.RecordsAfter(), a.Err == nil && a.Recorded()
	revision, change, published := a.History()
	if len(statuses) == 0 && !recorded && !published && r.owedBy(a.Snapshot.Subject.Key()) == nil {
		return
	}
	r.queue(a.Snapshot.Subject.Placement, func(o *owed) {
		if record := a.Record(); record != nil && a.Err == nil {
			o.dropProgress(record.Name, statuses)
		}
		for _, record := range statuses {
			o.addStatus(record)
		}
		o.prune = o.prune || recorded || len(statuses) > 0
		if published {
			o.addChange(&unwritten{first: revision, revision: revision, change: change, at: metav1.NewTime(a.Snapshot.Now.Truncate(time.Second))})
		}
	})
}

// Write writes the owed statuses of existing records, and deletes those that history no longer
// keeps. One that fails stays owed and does not affect the others. Attempts of one Placement call
// it one after the other.
func (r *Recorder) Write(ctx context.Context, key types.NamespacedName) error {
	if r == nil {
		return nil
	}
	o := r.owedBy(key)
	if o == nil {
		return nil
	}
	r.checkUnsure(ctx, o)
	var failures []error
	for _, record := range r.statuses(o) {
		if err := r.writeStatus(ctx, o.placement, record); err != nil {
			recordFailures.WithLabelValues(reasonOf(err)).Inc()
			failures = append(failures, err)
			continue
		}
		r.removeStatus(key, record)
	}
	failures = append(failures, r.pruneOwed(ctx, key, o))
	r.dropIfDone(key, o)
	return errors.Join(failures...)
}

// writeStatus writes the status of an existing record. If a user edited the record meanwhile, for
// example approved it, the edit stays. A record that is gone, or that another writer ended, needs
// no status.
func (r *Recorder) writeStatus(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) error {
	var err error
	for range statusTries {
		next := record.DeepCopy()
		if err = r.write(ctx, pl, next); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		existing := &berthv1alpha1.PlacementChange{}
		if readErr := r.Reader.Get(ctx, client.ObjectKeyFromObject(record), existing); apierrors.IsNotFound(readErr) {
			return nil
		} else if readErr != nil {
			return err
		}
		if existing.UID != record.UID || !changes.IsOpen(existing) {
			r.assume(existing)
			return nil
		}
		existing.Status = record.Status
		record = existing
	}
	return err
}

// writePublished writes the record of a published change.
func (r *Recorder) writePublished(ctx context.Context, pl *v1alpha1.Placement, u *unwritten) error {
	record := changes.NewRecord(pl, u.first, u.revision, u.change)
	record.Status = publishedAt(&u.at)
	err := r.write(ctx, pl, record)
	u.tried = u.tried || err != nil && (record.ResourceVersion != "" || !isRefusal(err))
	return err
}

// publishedAt is the status of a record of a change that was published as a whole.
func publishedAt(at *metav1.Time) berthv1alpha1.PlacementChangeStatus {
	return berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhasePublished, StartTime: at, PermittedTime: at, LastProgressTime: at, CompletionTime: at,
	}
}

// write creates a record with its status, or writes the status of one that exists.
func (r *Recorder) write(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) error {
	created := record.ResourceVersion == ""
	if created {
		written, err := r.create(ctx, pl, record)
		if err != nil {
			return fmt.Errorf("creating PlacementChange %s/%s: %w", record.Namespace, record.Name, err)
		}
		if written {
			return nil
		}
	}
	if err := r.Client.Status().Update(ctx, record); err != nil {
		if written, readErr := r.isWritten(ctx, record); !written || readErr != nil {
			return fmt.Errorf("writing the status of PlacementChange %s/%s: %w", record.Namespace, record.Name, err)
		}
	}
	r.assume(record)
	if !created {
		observeEnd(record)
	}
	return nil
}

// observeEnd measures how long a change was held that ended.
func observeEnd(record *berthv1alpha1.PlacementChange) {
	if status := &record.Status; status.CompletionTime != nil && status.StartTime != nil {
		permitSeconds.WithLabelValues(string(status.Phase)).Observe(status.CompletionTime.Sub(status.StartTime.Time).Seconds())
	}
}

// isWritten reads a record after a failed write of its status, and reports whether only the
// response was lost. The record is then the one that was read.
func (r *Recorder) isWritten(ctx context.Context, record *berthv1alpha1.PlacementChange) (bool, error) {
	existing := &berthv1alpha1.PlacementChange{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(record), existing); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if existing.UID != record.UID || !equality.Semantic.DeepEqual(existing.Status, record.Status) {
		return false, nil
	}
	*record = *existing
	return true, nil
}

func (r *Recorder) assume(record *berthv1alpha1.PlacementChange) {
	record.ManagedFields = nil
	r.Inventory.AssumeRecord(record)
}

// errOtherRecord: another writer, such as a former leader, has recorded the revision.
var errOtherRecord = errors.New("another record has the revision")

// create creates a record without its status, or finds the same record of an interrupted try;
// written is true if that has its status, too. It first deletes a record of the same name that
// belonged to a deleted Placement, or to none. It fails with errOtherRecord if another writer has
// recorded the revision; what is not published yet is then decided again.
func (r *Recorder) create(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange) (written bool, err error) {
	status := record.Status
	err = r.Client.Create(ctx, record)
	record.Status = status
	if !apierrors.IsAlreadyExists(err) {
		return false, err
	}
	existing := &berthv1alpha1.PlacementChange{}
	if readErr := r.Reader.Get(ctx, client.ObjectKeyFromObject(record), existing); readErr != nil {
		return false, fmt.Errorf("%w; reading it: %w", err, readErr)
	}
	own := pl.Controls(existing)
	switch same := own && equality.Semantic.DeepEqual(existing.Spec, record.Spec); {
	case same && (existing.Status.Phase == "" || existing.Status.Phase == status.Phase):
		record.UID, record.ResourceVersion = existing.UID, existing.ResourceVersion
		written = !changes.IsOpen(existing) || equality.Semantic.DeepEqual(existing.Status, status)
		if written {
			r.assume(existing)
		}
		return written, nil
	case own && !r.isAbandoned(existing, record):
		r.assume(existing)
		return false, fmt.Errorf("%w: %w", errOtherRecord, err)
	case !own && metav1.GetControllerOf(existing) != nil && existing.CreationTimestamp.After(pl.CreationTimestamp.Time) && !pl.CreationTimestamp.IsZero():
		// The record belongs to a later Placement of the same name. This process has not seen the
		// deletion of its own one yet.
		return false, fmt.Errorf("%w: %w", errOtherRecord, err)
	}
	return false, r.replace(ctx, existing, record)
}

// isAbandoned reports whether this process created the existing record for a change that it did
// not make, because the write of the record failed. Another change was published under its
// revision.
func (r *Recorder) isAbandoned(existing, wanted *berthv1alpha1.PlacementChange) bool {
	return wanted.Status.Phase == berthv1alpha1.PhasePublished && r.isUnsure(existing)
}

// replace deletes an existing record and creates another one of that name.
func (r *Recorder) replace(ctx context.Context, existing, record *berthv1alpha1.PlacementChange) error {
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID})); err != nil {
		return fmt.Errorf("deleting the one that a deleted Placement left: %w", err)
	}
	status := record.Status
	err := r.Client.Create(ctx, record)
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
	needs := changes.NeedsOf(subject.Placement, subject.DisruptionPolicies, subject.LastNames(), r.NeedsRecords(), r.Now())
	var failures []error
	for _, record := range changes.History(subject.Records).Surplus(&needs) {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, record, client.Preconditions{UID: &record.UID})); err != nil {
			failures = append(failures, fmt.Errorf("deleting PlacementChange %s/%s, which history no longer keeps: %w", record.Namespace, record.Name, err))
		}
	}
	return errors.Join(failures...)
}
