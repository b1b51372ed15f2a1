package explore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// maxEdits bounds the edits of one what-if, maxWhatIfs the results that are kept.
	maxEdits   = 100
	maxWhatIfs = 4
	// whatIfTimeout is how long one may take.
	whatIfTimeout = 10 * time.Minute
	// maxComparisons is how many comparisons of the whole fleet one process makes at a time.
	maxComparisons = 2
)

// errInvalid is the error for a request with a mistake.
var errInvalid = errors.New("not valid")

// whatIfs are the last what-ifs of a viewer.
type whatIfs struct {
	mu   sync.Mutex
	kept []*whatIf
	// running is held by the what-if that runs; the others wait. closed is true if the viewer is
	// gone.
	running chan struct{}
	closed  bool
}

// whatIf is one what-if, running or done.
type whatIf struct {
	mu     sync.Mutex
	result WhatIf
	fixed  *fixedWorld
	stop   context.CancelFunc
}

// start begins a what-if on the state of a world. slots bounds the comparisons.
func (all *whatIfs) start(v anyWorld, o simulator.Options, edits []simulator.Edit, slots chan struct{}) (*WhatIf, error) {
	switch {
	case len(edits) == 0:
		return nil, fmt.Errorf("edits: %w: there is nothing to change", errInvalid)
	case len(edits) > maxEdits:
		return nil, fmt.Errorf("edits: %w: %d edits, at most %d are allowed", errInvalid, len(edits), maxEdits)
	}
	decide, now, err := comparisonOf(v, o, edits)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), whatIfTimeout)
	// It is in links, so no other viewer must have it.
	w := &whatIf{result: WhatIf{ID: "what-if-" + rand.Text()}, stop: cancel}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		cancel()
		return nil, fmt.Errorf("what if: %w", context.Canceled)
	}
	all.kept = append(all.kept, w)
	if len(all.kept) > maxWhatIfs {
		all.kept[0].stop()
		all.kept = all.kept[1:]
	}
	go func() {
		defer cancel()
		w.run(ctx, []chan struct{}{all.running, slots}, now, func() (*simulator.Comparison, *simulator.Simulator, error) {
			return decide(ctx, w.progress)
		})
	}()
	return w.get(), nil
}

// comparisonOf returns what makes the comparison for edits: the simulator or, for a viewer who may
// not list everything, the controller. Then there is no Simulator with the edits.
func comparisonOf(v anyWorld, o simulator.Options, edits []simulator.Edit) (
	decide func(ctx context.Context, progress func(done, all int)) (*simulator.Comparison, *simulator.Simulator, error), now time.Time, err error,
) {
	var objects simulator.Objects
	var asked *remote
	err = v.use(func(w *world, _ int64) error {
		now = w.now()
		switch d := w.decider.(type) {
		case simulated:
			objects = objectsOf(w.inventory)
		case *remote:
			asked = d
		default:
			return fmt.Errorf("what if: %w: it needs the state of now", errInvalid)
		}
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	if asked != nil {
		return func(ctx context.Context, progress func(done, all int)) (*simulator.Comparison, *simulator.Simulator, error) {
			comparison, err := asked.scope.asker(asked.hub).Compare(ctx, asked.scope.namespace, edits, progress)
			return comparison, nil, err
		}, now, nil
	}
	return func(ctx context.Context, progress func(done, all int)) (*simulator.Comparison, *simulator.Simulator, error) {
		return compare(ctx, objects, edits, now, o, progress)
	}, now, checkEdits(objects, edits, now)
}

// checkEdits returns the error for a mistake in the request.
func checkEdits(objects simulator.Objects, edits []simulator.Edit, now time.Time) error {
	switch _, err := objects.Apply(edits, now); {
	case errors.Is(err, simulator.ErrNoObject):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case err != nil:
		return fmt.Errorf("edits: %w: %w", errInvalid, err)
	}
	return nil
}

// find returns a what-if by its ID.
func (all *whatIfs) find(id string) (*whatIf, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.kept {
		if w.result.ID == id {
			return w, nil
		}
	}
	return nil, fmt.Errorf("the what-if %q is no longer kept: %w", id, errUnknown)
}

// close ends all that run, and begins none any more.
func (all *whatIfs) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, w := range all.kept {
		w.stop()
	}
}

func (w *whatIf) get() *WhatIf {
	w.mu.Lock()
	defer w.mu.Unlock()
	return new(w.result)
}

// newWhatIfWorld returns the state after the edits of a what-if.
func newWhatIfWorld(after *simulator.Simulator, now time.Time) *fixedWorld {
	w := newWorld(after.Inventory(), simulated{after}, func() time.Time { return now })
	w.isWhatIf = true
	return newFixedWorld(w)
}

func (w *whatIf) progress(done, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Decided, w.result.All = done, all
}

// run decides the Placements that the changes affect, without and with them, while it has all
// slots.
func (w *whatIf) run(
	ctx context.Context, slots []chan struct{}, now time.Time, compare func() (*simulator.Comparison, *simulator.Simulator, error),
) {
	var comparison *simulator.Comparison
	var shown *fixedWorld
	err := withSlots(ctx, slots, func() error {
		result, after, err := compare()
		comparison = result
		if after != nil {
			shown = newWhatIfWorld(after, now)
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Done, w.result.Comparison, w.fixed = true, comparison, shown
	w.result.Decided, w.result.HasWorld = w.result.All, shown != nil
	if err != nil {
		w.result.Error = err.Error()
	}
}

// withSlots waits until each of the slots has room, and takes it while do runs.
func withSlots(ctx context.Context, slots []chan struct{}, do func() error) error {
	for _, slot := range slots {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return do()
}

// compare decides the Placements that edits affect, without and with them. It returns the state
// with them, too.
func compare(
	ctx context.Context, objects simulator.Objects, edits []simulator.Edit, now time.Time, o simulator.Options, progress func(done, all int),
) (*simulator.Comparison, *simulator.Simulator, error) {
	w, err := simulator.NewWhatIf(ctx, objects, edits, now, o)
	if err != nil {
		return nil, nil, err
	}
	comparison, err := w.Compare(ctx, w.Affected, progress)
	return comparison, w.After, err
}

// objectsOf returns the objects of an inventory.
func objectsOf(inv *inventory.Inventory) simulator.Objects {
	var objects simulator.Objects
	inv.Contents(func(_ int64, contents []inventory.Input) {
		for _, in := range contents {
			if in.Kind == inventory.InputObject {
				objects = append(objects, in.Object)
			}
		}
	})
	return objects
}
