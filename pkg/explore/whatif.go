package explore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
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
func (all *whatIfs) start(v anyWorld, o simulator.Options, edits []Edit, slots chan struct{}) (*WhatIf, error) {
	switch {
	case len(edits) == 0:
		return nil, fmt.Errorf("edits: %w: there is nothing to change", errInvalid)
	case len(edits) > maxEdits:
		return nil, fmt.Errorf("edits: %w: %d edits, at most %d are allowed", errInvalid, len(edits), maxEdits)
	}
	var objects simulator.Objects
	var now time.Time
	if err := v.use(func(w *world, _ int64) error {
		if _, local := w.decider.(simulated); !local {
			return fmt.Errorf("what if: %w: it needs permission to list everything that decisions depend on", errInvalid)
		}
		objects, now = objectsOf(w.inventory), w.now()
		return nil
	}); err != nil {
		return nil, err
	}
	changes, err := changesOf(objects, edits, now)
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
			return compare(ctx, objects, changes, now, o, w.progress)
		})
	}()
	return w.get(), nil
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
		if err == nil {
			comparison, shown = result, newWhatIfWorld(after, now)
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Done, w.result.Comparison, w.fixed = true, comparison, shown
	w.result.Decided = w.result.All
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

// compare decides the Placements that changes affect, without and with them. It returns the state
// with them, too.
func compare(
	ctx context.Context, objects simulator.Objects, changes []objectChange, now time.Time, o simulator.Options, progress func(done, all int),
) (*simulator.Comparison, *simulator.Simulator, error) {
	before, err := simulator.New(ctx, objects, now, o)
	if err != nil {
		return nil, nil, err
	}
	// New does not look at ctx.
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	after, err := simulator.New(ctx, objects, now, o)
	if err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	var affected []types.NamespacedName
	for _, c := range changes {
		if c.deleted {
			affected = append(affected, after.Delete(c.object)...)
		} else {
			affected = append(affected, after.Update(c.object)...)
		}
	}
	slices.SortFunc(affected, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	affected = slices.Compact(affected)
	comparison, err := simulator.CompareOnly(ctx, before, after, affected, progress)
	return comparison, after, err
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

// objectChange is an object that a what-if changes or deletes.
type objectChange struct {
	object  client.Object
	deleted bool
}

// changesOf applies edits to copies of the objects.
func changesOf(objects simulator.Objects, edits []Edit, now time.Time) ([]objectChange, error) {
	e := &editor{now: now, clusters: map[string]*v1alpha1.ManagedCluster{}, placements: map[string]*v1alpha1.Placement{}}
	for _, c := range simulator.List[*v1alpha1.ManagedCluster](objects) {
		e.clusters[c.Name] = c
	}
	for _, p := range simulator.List[*v1alpha1.Placement](objects) {
		e.placements[p.Namespace+"/"+p.Name] = p
	}
	for i, edit := range edits {
		if err := e.apply(edit); err != nil {
			return nil, fmt.Errorf("edits[%d]: %w", i, err)
		}
	}
	return e.result, nil
}

// editor applies edits, each to the result of those before it.
type editor struct {
	now        time.Time
	clusters   map[string]*v1alpha1.ManagedCluster
	placements map[string]*v1alpha1.Placement
	result     []objectChange
}

func (e *editor) apply(edit Edit) error {
	switch edit.Kind {
	case "taint":
		if problem := simulator.CheckTaint(edit.Key, edit.Effect, edit.Remove); problem != "" {
			return fmt.Errorf("the taint %q: %w: %s", edit.Key, errInvalid, problem)
		}
		taint := v1alpha1.Taint{Key: edit.Key, Value: edit.Value, Effect: v1alpha1.TaintEffect(edit.Effect)}
		return e.onCluster(edit.Cluster, func(c *v1alpha1.ManagedCluster) { simulator.SetTaint(c, taint, edit.Remove, e.now) })
	case "drain":
		taint := v1alpha1.Taint{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect}
		return e.onCluster(edit.Cluster, func(c *v1alpha1.ManagedCluster) { simulator.SetTaint(c, taint, edit.Remove, e.now) })
	case "label":
		if problem := simulator.CheckLabel(edit.Key, edit.Value); problem != "" {
			return fmt.Errorf("the label %q: %w: %s", edit.Key, errInvalid, problem)
		}
		return e.onCluster(edit.Cluster, func(c *v1alpha1.ManagedCluster) { simulator.SetLabel(c, edit.Key, edit.Value, edit.Remove) })
	case "lose":
		return e.lose(edit.Key, edit.Value)
	case "number":
		return e.setNumber(edit.Placement, edit.Number)
	}
	return fmt.Errorf("kind: %w: %q is not one of taint, drain, label, lose, number", errInvalid, edit.Kind)
}

func (e *editor) onCluster(name string, change func(*v1alpha1.ManagedCluster)) error {
	c := e.clusters[name]
	if c == nil {
		return fmt.Errorf("the cluster %q: %w", name, errUnknown)
	}
	c = c.DeepCopy()
	change(c)
	e.clusters[name] = c
	e.result = append(e.result, objectChange{object: c})
	return nil
}

// lose deletes the clusters with a label.
func (e *editor) lose(key, value string) error {
	lost := 0
	for name, c := range e.clusters {
		if got, ok := c.Labels[key]; ok && got == value {
			delete(e.clusters, name)
			e.result = append(e.result, objectChange{c, true})
			lost++
		}
	}
	if lost == 0 {
		return fmt.Errorf("no cluster has the label %s=%s: %w", key, value, errUnknown)
	}
	return nil
}

func (e *editor) setNumber(placement string, number *int32) error {
	p := e.placements[placement]
	switch {
	case p == nil:
		return fmt.Errorf("the Placement %q: %w", placement, errUnknown)
	case number != nil && *number < 0:
		return fmt.Errorf("number: %w: %d is negative", errInvalid, *number)
	}
	p = p.DeepCopy()
	p.Spec.NumberOfClusters = number
	p.Generation++
	e.placements[placement] = p
	e.result = append(e.result, objectChange{object: p})
	return nil
}
