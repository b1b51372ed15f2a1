package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// adoptPages ends the time in which other writers own the pages of a Placement, because scheduling
// was disabled. What the pages list becomes what Berth published last, and the difference to the
// last record gets a record. The condition SchedulingDisabled is removed after that, so that a
// controller that starts in between does the same.
func (r *PlacementReconciler) adoptPages(ctx context.Context, key types.NamespacedName) error {
	before, delegated := r.Inventory.Delegated(key)
	pl := r.Inventory.Placement(key)
	if !delegated || pl == nil || framework.WhyNotDecided(pl) != "" {
		return nil
	}
	// The watch of pages may be behind that of Placements.
	var pages v1alpha1.PlacementDecisionList
	if err := r.Reader.List(ctx, &pages, client.InNamespace(key.Namespace)); err != nil {
		return r.failed(ctx, pl, nil, fmt.Errorf("listing the pages after scheduling was disabled: %w", err))
	}
	r.Inventory.AssumePages(key, pages.Items, pages.ResourceVersion)
	subject := r.Inventory.Subject(key)
	if subject == nil {
		return nil
	}
	revision, err := r.Records.adopt(ctx, subject, before, r.Now())
	if err != nil {
		return r.failed(ctx, pl, nil, fmt.Errorf("recording the pages that were edited while scheduling was disabled: %w", err))
	}
	status := pl.Status.DeepCopy()
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.PlacementConditionSchedulingDisabled)
	if err := r.writeStatus(ctx, pl, status); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.Inventory.AdoptPages(subject, revision)
	return nil
}

// adopt writes the record of what other writers published while scheduling was disabled, if they
// changed anything. It returns the revision of the pages after that. before are the clusters that
// Berth published last, if they are known.
func (r *Recorder) adopt(ctx context.Context, subject *framework.Subject, before []string, now time.Time) (revision int64, err error) {
	revision = subject.LastRevision()
	if r == nil {
		return revision, nil
	}
	key := subject.Key()
	// A user may have removed the revision from the pages.
	revision = slices.Max(append(r.closeChanges(key), revision))
	if err := r.writeChanges(ctx, key); err != nil && !isRefusal(err) {
		return 0, err
	}
	if subject = r.Inventory.Subject(key); subject == nil {
		return revision, nil
	}
	history := changes.History(subject.Records)
	at := metav1.NewTime(now.Truncate(time.Second))
	if tried := history.Open(); tried != nil && tried.Status.Phase == "" && tried.Spec.Cause == changes.CauseDisabled && tried.Spec.To == berthv1alpha1.Digest(subject.LastNames()) {
		return max(revision, tried.Spec.Revision), r.completeAdoption(ctx, subject.Placement, tried.DeepCopy(), &at)
	}
	c, changed := history.Disabled(subject.LastNames(), before, revision)
	if !changed {
		if newest := history.Newest(berthv1alpha1.PhasePublished); newest != nil {
			revision = max(revision, newest.Spec.Revision)
		}
		return revision, nil
	}
	c.Generation, c.Profile = subject.Placement.Generation, decide.ProfileName(subject.Placement)
	revision = max(revision, history.Last()) + 1
	u := &unwritten{first: revision, revision: revision, change: c, at: at, closed: true}
	if err := r.writePublished(ctx, subject.Placement, u); isRefusal(err) {
		// The record is tried again in the background: without adoption nothing is decided.
		r.queue(subject.Placement, func(o *owed) { o.addChange(u) })
	} else if err != nil {
		return 0, err
	}
	log.FromContext(ctx).Info("Other writers changed the published decision while scheduling was disabled",
		"revision", revision, "added", len(c.Added), "removed", len(c.Removed))
	if err := r.prune(ctx, key); err != nil {
		log.FromContext(ctx).Error(err, "Old records could not be deleted")
	}
	return revision, nil
}

// completeAdoption writes the status of the record that an earlier try to adopt pages created.
func (r *Recorder) completeAdoption(ctx context.Context, pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange, at *metav1.Time) error {
	record.Status = publishedAt(at)
	err := r.writeStatus(ctx, pl, record)
	if isRefusal(err) {
		r.queue(pl, func(o *owed) { o.addStatus(record) })
		return nil
	}
	return err
}
