package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// report is step 10. What the attempt owes is queued before the first write, so that a write that
// fails loses nothing else. Then it writes the statuses of records and the status, which describes
// the published decision.
func (r *PlacementReconciler) report(ctx context.Context, attempt *scheduler.Attempt) error {
	pl := attempt.Snapshot.Subject.Placement
	r.queueReport(ctx, attempt)
	recordsFailed := r.Records.Write(ctx, attempt.Snapshot.Subject.Key())
	if recordsFailed != nil {
		recordsFailed = recordsError{recordsFailed}
	}
	if err := attempt.Err.Err(); err != nil {
		if err := r.failed(ctx, pl, attempt, err); err != nil {
			return err
		}
		return recordsFailed
	}
	status := r.statusOf(attempt)
	if end := r.edits.setCondition(pl, &status.Conditions, r.Now()); !end.IsZero() {
		attempt.State.AttemptAt(end)
	}
	statusFailed := r.writeStatus(ctx, pl, status)
	if statusFailed != nil {
		statusFailed = fmt.Errorf("writing the status: %w", statusFailed)
	}
	return errors.Join(recordsFailed, statusFailed, r.writeSelectionStatuses(ctx, attempt))
}

// recordsError is why statuses of records could not be written.
type recordsError struct{ error }

func (e recordsError) Unwrap() error { return e.error }

// queueReport queues the events and records that the attempt owes, and those of Earlier.
func (r *PlacementReconciler) queueReport(ctx context.Context, attempt *scheduler.Attempt) {
	pl := attempt.Snapshot.Subject.Placement
	if attempt.Step != nil {
		r.Events.Send(ctx, pl, report.Writes(attempt))
	}
	r.sendWarnings(ctx, pl, attempt)
	if earlier := attempt.Earlier; earlier != nil {
		countWrites(earlier.FoundWrites())
		r.Events.Send(ctx, pl, report.FoundWrites(earlier))
		r.Records.Owe(earlier)
	}
	r.Records.Owe(attempt)
	if attempt.Err != nil {
		if len(attempt.Records.Before) > 0 && !attempt.Recorded() {
			// Perhaps only the response was lost. Then the next attempt writes no record.
			r.reported.changed(pl, topicUnannounced, announcement(attempt))
		}
		return
	}
	r.sendConditions(ctx, pl, attempt)
	if !attempt.Effects().Keep && attempt.Outcome != plan.Waiting {
		// An attempt that waits, or continues later, keeps its cause.
		r.Inventory.ClearCause(attempt.Snapshot)
	}
}

// announcement identifies the outcome of a change that has a record; empty if it has no event.
func announcement(attempt *scheduler.Attempt) string {
	if attempt.Effects().Event == "" || attempt.Change == nil {
		return ""
	}
	return fmt.Sprint(attempt.Outcome, " ", attempt.Change.Revision)
}

// sendConditions sends the events about conditions that become True, once each, also if the status
// cannot be written.
func (r *PlacementReconciler) sendConditions(ctx context.Context, pl *v1alpha1.Placement, attempt *scheduler.Attempt) {
	send := func(e *report.Event) bool {
		if e == nil || !r.reported.changed(pl, e.Reason, e.Note) {
			return false
		}
		r.Events.Send(ctx, pl, []report.Event{*e})
		return true
	}
	if e := report.Misconfigured(attempt); send(e) {
		log.FromContext(ctx).Info("The Placement is misconfigured", "plugin", attempt.Failure.Plugin(), "message", e.Note)
	}
	if send(report.Stuck(attempt)) {
		stuckChanges.Inc()
	}
	unannounced := announcement(attempt) != "" && !r.reported.changed(pl, topicUnannounced, announcement(attempt))
	r.reported.changed(pl, topicUnannounced, "")
	if unannounced || report.IsNewOutcome(attempt) {
		send(report.OutcomeEvent(attempt))
	}
}

// repeat returns when to repeat an attempt after an error: with backoff, but a decision that is due
// earlier does not wait.
func (r *PlacementReconciler) repeat(ctx context.Context, attempt *scheduler.Attempt, wait time.Duration, err error) (ctrl.Result, error) {
	if attempt.Err != nil {
		return ctrl.Result{}, err
	}
	backoff, due := r.reported.backoff(attempt.Snapshot.Subject.Placement), dueAfter(attempt, wait)
	if due == time.Millisecond && attempt.Step == nil && errors.As(err, new(recordsError)) {
		// It is due at once because it ends a record, whose end is not written.
		return ctrl.Result{}, err
	}
	if due > 0 && due < backoff {
		log.FromContext(ctx).Error(err, "The report of an attempt failed; it is repeated with the next attempt")
		return ctrl.Result{RequeueAfter: due}, nil
	}
	return ctrl.Result{}, err
}

// failed reports in the status that the decision could not be published. attempt is nil if it could
// not begin. It returns the error, so that the attempt is repeated.
func (r *PlacementReconciler) failed(ctx context.Context, pl *v1alpha1.Placement, attempt *scheduler.Attempt, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// The Placement is deleted with its namespace; its deletion is the next event.
		return nil
	}
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		status := pl.Status.DeepCopy()
		report.SetFailed(attempt, &status.Conditions, pl.Generation, err)
		if statusErr := r.writeStatus(ctx, pl, status); statusErr != nil {
			return fmt.Errorf("%w; writing the status: %w", err, statusErr)
		}
	}
	return err
}

// sendWarnings sends the Intents of the attempt, warnings about pages that have the Placement's
// label but another controller, and those about plugins. It repeats them only when they change.
func (r *PlacementReconciler) sendWarnings(ctx context.Context, pl *v1alpha1.Placement, attempt *scheduler.Attempt) {
	warnings := report.Plugins(attempt)
	published := attempt.Step
	if published == nil && len(warnings) == 0 {
		return
	}
	if published != nil && len(published.Result.Foreign) > 0 {
		warnings = append(warnings, report.Event{
			Type: corev1.EventTypeWarning, Reason: "ForeignDecision", Action: "DecisionIgnored",
			Note: fmt.Sprintf("PlacementDecisions %s have the label %s=%s, but another controller owns them: Berth does not change them",
				strings.Join(published.Result.Foreign, ", "), v1alpha1.PlacementLabel, pl.Name),
		})
	}
	if published != nil {
		for _, intent := range attempt.Intents {
			warnings = append(warnings, report.Event{Type: corev1.EventTypeWarning, Reason: intent.Reason, Action: intent.Plugin, Note: report.CutNote(intent.Note)})
		}
	}
	var text strings.Builder
	for _, e := range warnings {
		text.WriteString(e.Reason + " " + e.Note + "\n")
	}
	if r.reported.changed(pl, topicWarnings, text.String()) {
		r.Events.Send(ctx, pl, warnings)
	}
}

// sendStatusRefused sends an event that the API server refused the status. It repeats the event
// only when the error changes.
func (r *PlacementReconciler) sendStatusRefused(ctx context.Context, pl *v1alpha1.Placement, err error) {
	const reason = "StatusRefused"
	note := report.CutNote("The API server refuses the status, so that it does not describe the published decision: " + err.Error())
	if r.reported.changed(pl, reason, note) {
		r.Events.Send(ctx, pl, []report.Event{{Type: corev1.EventTypeWarning, Reason: reason, Action: "WriteStatus", Note: note}})
	}
}

// statusOf returns the status. It describes the published decision, as long as that is known: an
// attempt that publishes nothing after a step that failed, or beside edited pages, keeps the
// counts.
func (r *PlacementReconciler) statusOf(attempt *scheduler.Attempt) *v1alpha1.PlacementStatus {
	published, subject := attempt.Step, attempt.Snapshot.Subject
	status := subject.Placement.Status.DeepCopy()
	switch {
	case published == nil && !attempt.ListsLast():
	case published == nil:
		// Other writers, or an earlier process, published what the status does not describe yet.
		status.NumberOfSelectedClusters = int32(len(subject.Last.Names))
		status.DecisionGroups = decisions.PublishedStatus(subject.Placement, subject.Pages)
	default:
		status.NumberOfSelectedClusters = int32(len(published.Selected))
		status.DecisionGroups = published.Result.Groups
		if attempt.ScoresWritten() {
			// The API stores whole seconds. Rounded down, the rate limit would end early.
			status.LastScoreUpdateTime = roundUp(attempt.Snapshot.Now)
		} else if last := published.LastScores; !last.IsZero() && (status.LastScoreUpdateTime == nil || last.After(status.LastScoreUpdateTime.Time)) {
			// The API server did not store the status that had this time.
			status.LastScoreUpdateTime = roundUp(last)
		}
	}
	report.SetConditions(attempt, &status.Conditions)
	return status
}

func roundUp(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.Add(time.Second - 1).Truncate(time.Second)}
}

// stateOf returns the most urgent state of a Placement with a status. It does without the records,
// of which the inventory has not seen the last writes yet; the conditions say the same.
func (r *PlacementReconciler) stateOf(pl *v1alpha1.Placement, status *v1alpha1.PlacementStatus) changes.StateName {
	with := *pl
	with.Status = *status
	in := changes.StateInput{Placement: &with}
	if subject := r.Inventory.Subject(client.ObjectKeyFromObject(pl)); subject != nil {
		in.DisruptionPolicies, in.SelectionPolicies = subject.DisruptionPolicies, subject.SelectionPolicies
	}
	return in.States()[0].Name
}

// writeStatus writes a status that changed. After a conflict, the attempt is repeated with the
// newer Placement. If the API server refuses the status as invalid, the attempt is repeated, too,
// and an event gives the reason, because no condition can.
func (r *PlacementReconciler) writeStatus(ctx context.Context, pl *v1alpha1.Placement, status *v1alpha1.PlacementStatus) error {
	r.satisfiedGauge.set(client.ObjectKeyFromObject(pl), r.stateOf(pl, status), status.Conditions)
	r.resilientGauge.set(client.ObjectKeyFromObject(pl), status.Conditions)
	if equality.Semantic.DeepEqual(&pl.Status, status) {
		r.reported.statusStored(pl)
		return nil
	}
	// The patch is made from the part that it may contain: specs may be long.
	base := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name, ResourceVersion: pl.ResourceVersion}, Status: pl.Status}
	written := &v1alpha1.Placement{ObjectMeta: base.ObjectMeta, Status: *status}
	defer r.Inventory.AnnounceStatus(pl)()
	if err := r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		if known := r.Inventory.Placement(client.ObjectKeyFromObject(pl)); apierrors.IsNotFound(err) && (known == nil || known.UID != pl.UID) {
			return nil
		}
		statusFailures.WithLabelValues(reasonOf(err)).Inc()
		if apierrors.IsInvalid(err) {
			r.sendStatusRefused(ctx, pl, err)
		}
		return err
	}
	r.reported.statusStored(pl)
	// The next attempt starts from this status, also before its watch event arrives.
	written.ManagedFields, written.Annotations = pl.ManagedFields, pl.Annotations // as the cache keeps them
	r.Inventory.AssumePlacement(written)
	return nil
}
