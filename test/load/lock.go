package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// The costly Placements of the lock row: costlyPlacements use CEL at its cost limit on each of
// costlyClusters.
const (
	costlyNamespace  = "costly"
	costlyPlacements = 5
	costlyClusters   = 9
	// disturbances is the number of changes in a second. More would keep both processors of a small
	// machine busy, so that attempts wait for a processor.
	disturbances = 4
)

// atCostLimit is an expression that reaches the cost limit of one cluster.
var atCostLimit = strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", 7) + "true" + strings.Repeat(")", 7)

// measureLock starts the controller again, and measures how long attempts wait while costly
// Placements are decided beside them.
func (r *run) measureLock(ctx context.Context) error {
	r.printStep("lock: preparing")
	if err := r.createCostly(ctx); err != nil {
		return err
	}
	r.process.stop()
	var err error
	if r.process, err = startProcess(r.options, r.hub.kubeconfig, r.dir); err != nil {
		return err
	}
	if err := r.awaitMetric(ctx, "berth_cycle_lock_duration_seconds_count{", float64(r.Placements)); err != nil {
		return err
	}
	waits, held, err := r.lockTimes()
	if err != nil {
		return err
	}
	var spent effort
	events, late := 0, time.Duration(0)
	if err := r.spend(&spent, func() error { events, late, err = r.disturbBesideTimer(ctx); return err }); err != nil {
		return err
	}
	waitsAfter, heldAfter, err := r.lockTimes()
	if err != nil {
		return err
	}
	waits, held = waitsAfter.since(waits), heldAfter.since(held)
	r.printStep("lock: attempts waited p50 ≤ %.3g s, p99.9 ≤ %.3g s of %.0f", waits.quantile(0.5), waits.quantile(0.999), waits.total())
	const work = "CEL at its limit; "
	r.add(result{
		Row: "lock-p99.9", Work: work + "the wait of an attempt, p99.9", Value: 1000 * waits.quantile(0.999), Unit: "ms at most", Samples: int(waits.total()),
	}, spent, events)
	r.add(result{
		Row: "lock", Work: work + "the longest wait of an attempt", Value: 1000 * waits.quantile(1), Unit: "ms at most", Target: 20, Samples: int(waits.total()),
	}, spent, events)
	r.add(result{
		Row: "lock-timer", Work: "meanwhile a program that only waits for a timer: its longest wait for a processor",
		Value: float64(late.Microseconds()) / 1000, Unit: "ms", Samples: 1,
	}, spent, events)
	r.add(result{
		Row: "lock-held", Work: work + "the longest attempt", Value: 1000 * held.quantile(1), Unit: "ms at most", Samples: int(held.total()),
	}, spent, events)
	return nil
}

// createCostly creates the costly Placements, and their clusters.
func (r *run) createCostly(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: costlyNamespace}}, fixture.Set(costlyNamespace), fixture.Binding(costlyNamespace, costlyNamespace),
	}
	for i := range costlyClusters {
		objects = append(objects, costlyCluster(i, 0))
	}
	for i := range costlyPlacements {
		costly := fixture.Placement(costlyNamespace, fmt.Sprint("cel-", i)).Number(1).Predicate(fixture.MatchCEL("!" + atCostLimit)).Obj()
		costly.UID, costly.Generation = "", 0
		objects = append(objects, costly)
	}
	for _, object := range objects {
		if err := r.hub.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func costlyCluster(i, version int) *v1alpha1.ManagedCluster {
	return fixture.Cluster(fmt.Sprint("costly-", i)).Set(costlyNamespace).Label("version", fmt.Sprint(version)).Obj()
}

// disturbBesideTimer is disturb while another program waits for a timer. It returns how late that
// timer was at most.
func (r *run) disturbBesideTimer(ctx context.Context) (events int, late time.Duration, err error) {
	timer, err := startTimer(r.dir)
	if err != nil {
		return 0, 0, err
	}
	events, err = r.disturb(ctx)
	late, failure := stopTimer(timer)
	return events, late, errors.Join(err, failure)
}

// disturb changes clusters for the length of a busy row, some each second: ordinary ones become
// unreachable and come back, so that Placements move, and the costly Placements must evaluate one
// again each second.
func (r *run) disturb(ctx context.Context) (events int, err error) {
	r.printStep("lock: %s of changes", r.length)
	changes := time.NewTicker(time.Second / disturbances)
	defer changes.Stop()
	for end := time.Now().Add(r.length); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return events, context.Cause(ctx)
		case <-r.process.ended:
			return events, r.process.exitError()
		case <-changes.C:
		}
		events++
		if events%disturbances == 0 {
			n := events / disturbances
			if err := r.hub.Patch(ctx, costlyCluster(n%costlyClusters, n), client.MergeFrom(costlyCluster(n%costlyClusters, -1))); err != nil {
				return events, fmt.Errorf("changing a costly cluster: %w", err)
			}
			continue
		}
		if err := r.setUnreachable(ctx, r.hub, events/2%r.Clusters, events%2 == 0); err != nil {
			return events, err
		}
	}
	return events, nil
}

// awaitMetric waits until the metrics with a prefix have a sum.
func (r *run) awaitMetric(ctx context.Context, prefix string, least float64) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.process.ended:
			return r.process.exitError()
		case <-tick.C:
		}
		// Until the controller serves them, metrics cannot be read.
		if n, _, err := r.process.metric(prefix); err == nil && n >= least {
			return nil
		}
	}
	return fmt.Errorf("%s} is not %v after %s", prefix, least, patience)
}

// lockTimes returns how long attempts waited for the cycle lock, and how long they held it.
func (r *run) lockTimes() (waited, held histogram, err error) {
	if waited, err = r.process.histogram("berth_scheduling_duration_seconds", `stage="wait"`); err != nil {
		return waited, held, err
	}
	held, err = r.process.histogram("berth_cycle_lock_duration_seconds", "")
	return waited, held, err
}
