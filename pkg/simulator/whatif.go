package simulator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// WhatIf is a hub without and with edits.
type WhatIf struct {
	Before, After *Simulator
	// Affected are the Placements whose decision the edits may change, in order of namespace and
	// name.
	Affected []types.NamespacedName
}

// NewWhatIf applies edits to a hub with the given objects at a given time.
func NewWhatIf(ctx context.Context, objects Objects, edits []Edit, now time.Time, o Options) (*WhatIf, error) {
	edited, err := objects.Apply(edits, now)
	if err != nil {
		return nil, err
	}
	w := &WhatIf{}
	for _, side := range []**Simulator{&w.Before, &w.After} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if *side, err = New(ctx, objects, now, o); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w, w.edit(objects, edited)
}

// edit changes After as the feed of a controller does.
func (w *WhatIf) edit(objects Objects, edited *Edited) error {
	for _, object := range edited.Removed {
		w.Affected = append(w.Affected, w.After.Delete(object)...)
	}
	for _, object := range edited.Changed {
		w.Affected = append(w.Affected, w.After.Update(object)...)
	}
	w.Affected = append(w.Affected, checkEvictions(edited.Changed, w.After.inventory, w.After.now)...)
	others := List[*unstructured.Unstructured](edited.Changed)
	if len(others) > 0 {
		// The queues, which decide every Placement.
		if err := w.After.SetQueues(queueObjects(objects, others)); err != nil {
			return err
		}
		w.Affected = w.Placements()
	}
	w.Affected = sortedKeys(w.Affected)
	return nil
}

// queueObjects are the objects from which queues are built, after others replaced some.
func queueObjects(objects Objects, changed []*unstructured.Unstructured) Objects {
	by := map[identity]*unstructured.Unstructured{}
	for _, object := range append(List[*unstructured.Unstructured](objects), changed...) {
		by[identityOf(object)] = object
	}
	var all Objects
	for _, object := range by {
		all = append(all, object)
	}
	return all
}

// Placements are those without or with the edits, in order of namespace and name.
func (w *WhatIf) Placements() []types.NamespacedName {
	return sortedKeys(append(w.Before.Placements(), w.After.Placements()...))
}

// Compare decides Placements without and with the edits, and returns the differences. It calls
// progress, unless nil, with the number of Placements done and in total.
func (w *WhatIf) Compare(ctx context.Context, keys []types.NamespacedName, progress func(done, all int)) (*Comparison, error) {
	return compare(ctx, w.Before, w.After, keys, progress)
}

func sortedKeys(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(keys)
}
