package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// patience is the timeout of every wait.
const patience = 10 * time.Minute

// runAll measures every size and prints the tables. It fails only on errors, not because of a time.
func runAll(ctx context.Context, o options, out, progress io.Writer) error {
	report := loadReport{When: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Args: o.args, Per: o.per}
	for _, s := range o.sizes {
		results, err := runSize(ctx, o, s, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		report.Sizes = append(report.Sizes, sizeReport{s, results})
		if err := printTable(out, s, o.per, results); err != nil {
			return err
		}
	}
	if err := report.printGrowth(out); err != nil {
		return err
	}
	if o.json == "" {
		return nil
	}
	return report.write(o.json)
}

// run measures one size.
type run struct {
	options
	size
	hub      *hub
	observer *observer
	floor    *floor
	fleet    *fleet
	process  *process
	dir      string
	progress io.Writer
	begin    time.Time
	// pageFloors measures one page write for each Placement.
	pageFloors []time.Duration
	// hot is the controller's work in the hot rows.
	hot     effort
	results []result
}

// runSize 1. starts a hub with a fleet, 2. starts the controller and measures the cold start, 3.
// measures the other rows, all with that one process, and 4. stops everything.
func runSize(ctx context.Context, o options, s size, progress io.Writer) (results []result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{options: o, size: s, progress: progress, begin: time.Now()}
	if r.dir, err = os.MkdirTemp("", "berth-load"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()

	r.printStep("starting a hub")
	if r.hub, err = openHub(o, r.dir); r.hub != nil {
		defer func() {
			// The API server waits for its watches.
			cancel()
			err = errors.Join(err, r.hub.stop())
		}()
	}
	if err != nil {
		return nil, err
	}
	r.fleet = &fleet{hub: r.hub, size: s, per: o.per}
	if o.kubeconfig != "" {
		defer func() { err = errors.Join(err, r.fleet.remove(context.WithoutCancel(ctx))) }()
	}
	r.printStep("creating the fleet")
	if err := r.fleet.create(ctx); err != nil {
		return nil, err
	}
	if r.floor, err = newFloor(ctx, r.hub, o.per); err != nil {
		return nil, err
	}
	if r.observer, err = observe(ctx, r.hub, r.observedKinds(), namespace, churnNamespace); err != nil {
		return nil, err
	}
	defer func() {
		if r.process != nil {
			r.process.stop()
		}
	}()
	if err := r.measureColdStarts(ctx); err != nil {
		return nil, fmt.Errorf("cold: %w", err)
	}
	if err := r.measureRows(ctx); err != nil {
		return nil, err
	}
	return r.results, nil
}

// measureRows measures the selected rows, except the cold start.
func (r *run) measureRows(ctx context.Context) error {
	for _, row := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"hot", func(ctx context.Context) error { return r.measureHot(ctx, "hot", plain) }},
		{"heartbeat", r.heartbeat},
		{"hot-predicate", func(ctx context.Context) error { return r.measureHot(ctx, "hot-predicate", predicate) }},
		{"hot-read", func(ctx context.Context) error { return r.measureHot(ctx, "hot-read", steady) }},
		{"read", r.measureRead},
		{"hot-last", func(ctx context.Context) error { return r.measureHot(ctx, "hot-last", last) }},
		// After hot-all, all Placements have the same clusters.
		{"busy", func(ctx context.Context) error { return r.measureBusy(ctx, "busy", "busy hub") }},
		{"busy-policies", r.measureBusyWithPolicies},
		{"hot-all", r.measureHotAll},
		{"memory", r.memory},
		{"steps", r.measureSteps},
		{"evictions", r.measureEvictions},
		{"drain", r.measureDrain},
		{"churn", r.measureChurn},
		{"recording", r.measureRecording},
		{"replay", r.verifyRecording},
		// It starts the controller again, with another configuration.
		{"lock", r.measureLock},
	} {
		if !slices.Contains(r.rows, row.name) {
			continue
		}
		if err := row.measure(ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", row.name, err), r.process.exitError())
		}
	}
	return nil
}

// printStep prints the current step.
func (r *run) printStep(format string, args ...any) {
	fmt.Fprintf(r.progress, "%4.0f s  %s: %s…\n", time.Since(r.begin).Seconds(), r.size, fmt.Sprintf(format, args...))
}

// wait returns when all expected changes were reported.
func (r *run) wait(ctx context.Context, w *waiter) (time.Time, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case at := <-w.done:
		return at, nil
	case <-r.process.ended:
		return time.Time{}, r.process.exitError()
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-timer.C:
	}
	r.observer.mu.Lock()
	defer r.observer.mu.Unlock()
	return time.Time{}, fmt.Errorf("%d Placements are not as expected after %s", len(w.pending), patience)
}

// idle returns when the controller has used little processor time and written nothing, twice in a
// row.
func (r *run) idle(ctx context.Context, window, little time.Duration) error {
	tick := time.NewTicker(window)
	defer tick.Stop()
	var before time.Duration
	writtenBefore, quiet := writes{pages: -1}, 0
	for end := time.Now().Add(patience); quiet < 2; {
		cpu, err := r.process.cpu()
		if err != nil {
			return err
		}
		written := r.observer.counted()
		if cpu-before <= little && written == writtenBefore {
			quiet++
		} else {
			quiet = 0
		}
		before, writtenBefore = cpu, written
		if time.Now().After(end) {
			return fmt.Errorf("the controller is still busy after %s", patience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitUntilIdle waits until all effects of a change are complete.
func (r *run) waitUntilIdle(ctx context.Context) error {
	return r.idle(ctx, 250*time.Millisecond, 20*time.Millisecond)
}

// pause is a short settle, between two small changes.
func (r *run) pause(ctx context.Context) error {
	return r.idle(ctx, 30*time.Millisecond, 0)
}

// effort is the work of the controller so far.
type effort struct {
	cpu time.Duration
	// recording is the processor time of the recorder, in seconds.
	recording float64
	cycles    float64
	counted   bool
	writes
}

func (r *run) effort() (e effort, err error) {
	if e.cycles, e.counted, err = r.process.metric(r.cycles); err != nil {
		return e, errors.Join(err, r.process.exitError())
	}
	if e.recording, _, err = r.process.metric("berth_recording_cpu_seconds_total"); err != nil {
		return e, errors.Join(err, r.process.exitError())
	}
	e.writes = r.observer.counted()
	e.cpu, err = r.process.cpu()
	return e, err
}

// spend adds the controller's work during call to total.
func (r *run) spend(total *effort, call func() error) error {
	before, err := r.effort()
	if err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	after, err := r.effort()
	total.cpu += after.cpu - before.cpu
	total.recording += after.recording - before.recording
	total.cycles += after.cycles - before.cycles
	total.counted = after.counted
	total.writes = total.plus(after.minus(before.writes))
	return err
}
