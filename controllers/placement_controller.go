package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// PlacementReconciler decides and publishes a Placement, and reports it in status and events. The
// work queue never runs two attempts for one Placement at once.
type PlacementReconciler struct {
	Client client.Client
	// Reader reads past all caches.
	Reader    client.Reader
	Inventory *inventory.Inventory
	Scheduler *scheduler.Scheduler
	// Queues restricts the clusters that a Placement may use; nil if no queues are configured.
	Queues *admission.Queues
	Events EventSink
	// Records writes the records of changes; nil if the hub does not serve them.
	Records *Recorder
	Now     func() time.Time
	// Times are the times of the events that queued the Placements; nil if they are not measured.
	Times *eventTimes

	reported reported
	// revokedChecks has the last time of removesRevoked for each Placement.
	revokedChecks sync.Map
	// edits are the edits of pages by other clients.
	edits          pageEdits
	satisfiedGauge satisfiedGauge
	resilientGauge resilientGauge
}

// EventSink queues events and never blocks. The context identifies the reconciliation. After Yield,
// events wait for done, but not forever.
type EventSink interface {
	Yield() (done func())
	Send(ctx context.Context, pl *v1alpha1.Placement, events []report.Event)
}

// Permissions of the controller. It writes pages, but of a Placement only the status. The lease,
// and the events about its holder, are in the controller's namespace.
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets;managedclustersetbindings;addonplacementscores;placements,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placementdecisions,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placementdecisions/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=berth-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=berth-system,resources=events,verbs=create

// Reconcile implements reconcile.Reconciler.
func (r *PlacementReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.Events.Yield()()
	defer r.Records.Yield()()
	watch := newStopwatch()
	if err := r.adoptPages(ctx, request.NamespacedName); err != nil {
		return ctrl.Result{}, err
	}
	run, wait := r.Scheduler.Attempt, r.wait(request)
	if wait > 0 {
		var removes bool
		if removes, wait = r.removesRevoked(request.NamespacedName, wait); !removes {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		run = r.Scheduler.RemoveRevoked
	}
	watch.endStage("prepare")
	// Steps 1 to 9: decide on the fleet as it is now, and publish.
	skipped := ""
	var first time.Time
	attempt := run(ctx, request.Namespace, func() *framework.Snapshot {
		watch.endStage("wait")
		first = r.Times.pop(request.NamespacedName)
		snapshot := r.snapshot(request.NamespacedName)
		watch.endStage("snapshot")
		if snapshot != nil {
			skipped = framework.WhyNotDecided(snapshot.Subject.Placement)
		}
		return snapshot
	})
	if attempt == nil {
		if err := r.skip(ctx, request.NamespacedName, skipped); err != nil || skipped != "" {
			return ctrl.Result{}, err
		}
		return r.reportNoPlacement(ctx, request.NamespacedName)
	}
	defer r.Scheduler.Release(attempt.Decision)
	checkSkip(ctx, attempt)
	watch.endStage("publish")
	// 10. Report.
	countAttempt(attempt)
	r.reportEdits(ctx, attempt)
	r.Times.attempted(attempt, first, time.Now())
	if attempt.FirstTimeout() {
		// The machine may have been slow: only a repeated timeout is reported.
		return requeue(ctx, attempt, wait)
	}
	if err := r.report(ctx, attempt); err != nil {
		return r.repeat(ctx, attempt, wait, err)
	}
	r.reported.succeeded(attempt.Snapshot.Subject.Placement)
	watch.endStage("status")
	r.Inventory.Settle(attempt.Snapshot, attempt.Proof())
	return requeue(ctx, attempt, wait)
}

// checkSkip counts an attempt that would have been skipped, and logs an error if it changes the
// answer.
func checkSkip(ctx context.Context, attempt *scheduler.Attempt) {
	switch {
	case !attempt.Snapshot.Skippable:
	case attempt.WronglySkipped():
		attemptsSkipped.WithLabelValues("Different").Inc()
		log.FromContext(ctx).Error(nil, wrongSkip, "outcome", attempt.Outcome, "change", attempt.Target)
	default:
		attemptsSkipped.WithLabelValues("Same").Inc()
	}
}

const wrongSkip = "The attempt would have been skipped, but changes the answer"

// snapshot returns the Snapshot for a Placement; nil if the Placement does not exist.
func (r *PlacementReconciler) snapshot(key types.NamespacedName) *framework.Snapshot {
	return snapshotOf(key, r.Inventory, r.Queues, r.Now())
}

func snapshotOf(key types.NamespacedName, inv *inventory.Inventory, queues *admission.Queues, now time.Time) *framework.Snapshot {
	var queue *framework.QueueAdmission
	if pl := inv.Placement(key); queues != nil && pl != nil {
		queue = queues.Admission(pl, now)
	}
	return inv.Snapshot(key, now, queue)
}

// skip reports in the status that a Placement is disabled, and removes a terminating one from the
// metric. It drops all state of a deleted one.
func (r *PlacementReconciler) skip(ctx context.Context, key types.NamespacedName, why string) error {
	switch why {
	case framework.Disabled:
		pl := r.Inventory.Placement(key)
		if pl == nil {
			return nil
		}
		status := pl.Status.DeepCopy()
		v1alpha1.SetCondition(&status.Conditions, report.Disabled(pl))
		r.edits.forget(key)
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.PlacementConditionDecisionEdited)
		failure := r.Records.Write(ctx, key)
		if err := r.writeStatus(ctx, pl, status); err != nil {
			return errors.Join(failure, fmt.Errorf("writing the status: %w", err))
		}
		return failure
	case framework.Terminating:
		r.satisfiedGauge.remove(key)
		r.resilientGauge.set(key, nil)
		return nil
	}
	r.satisfiedGauge.remove(key)
	r.resilientGauge.set(key, nil)
	r.Scheduler.Forget(key)
	r.Records.Forget(key)
	r.reported.forget(key)
	r.revokedChecks.Delete(key)
	r.edits.forget(key)
	return nil
}

// requeue returns when to repeat the attempt: with backoff after an error, or at the time that the
// attempt asked for, at most after wait. 0 is no limit.
func requeue(ctx context.Context, attempt *scheduler.Attempt, wait time.Duration) (ctrl.Result, error) {
	if _, _, timedOut := attempt.TimedOut(); timedOut {
		log.FromContext(ctx).Info("The attempt timed out; it is repeated later", "error", attempt.Failure.Err().Error())
	} else if attempt.Failure.Code() == framework.Error {
		return ctrl.Result{}, attempt.Failure.Err()
	}
	return ctrl.Result{RequeueAfter: dueAfter(attempt, wait)}, nil
}

// dueAfter returns the time until the next attempt: the one that the attempt asked for, at most
// wait. 0 is no limit.
func dueAfter(attempt *scheduler.Attempt, wait time.Duration) time.Duration {
	if at := attempt.State.NextAttempt(); !at.IsZero() {
		if after := max(at.Sub(attempt.Snapshot.Now), time.Millisecond); wait == 0 || after < wait {
			return after
		}
	}
	return wait
}

// wait returns how long the attempt must wait: because earlier ones took too long, or because the
// Placement is not yet compiled.
func (r *PlacementReconciler) wait(request ctrl.Request) time.Duration {
	pl := r.Inventory.Placement(request.NamespacedName)
	if pl == nil || framework.WhyNotDecided(pl) != "" {
		return 0
	}
	if wait := r.Scheduler.AttemptDelay(pl); wait > 0 {
		attemptsDeferred.Inc()
		return wait
	}
	if !r.Scheduler.Prepare(pl, r.Inventory.SelectionPolicies(request.NamespacedName)...) {
		return limits.PrepareInterval
	}
	r.Inventory.PrepareWindows(request.NamespacedName, r.Now())
	r.Inventory.PrepareReadiness(request.NamespacedName)
	return 0
}
