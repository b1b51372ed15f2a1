package inventory

import (
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// HasRevoked reports whether the last published decision of a Placement has clusters that are in no
// set bound to its namespace. Deleted clusters do not count, as in an attempt.
func (inv *Inventory) HasRevoked(key Key) bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[key]
	if p == nil {
		return false
	}
	inv.restoreLast(p)
	if p.last == nil {
		return false
	}
	var usable framework.Bitset
	for name := range inv.bindings[key.Namespace] {
		if set := inv.sets[name]; set != nil {
			usable = usable.Or(set.members)
		}
	}
	return slices.ContainsFunc(p.last.Names, func(name string) bool {
		i, known := inv.names.index[name]
		if !known || usable.Has(i) {
			return false
		}
		c := inv.clusters.Get(i)
		return c != nil && c.DeletionTimestamp.IsZero()
	})
}
