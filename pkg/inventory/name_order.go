package inventory

import (
	"slices"
	"strings"
)

// nameOrder keeps the clusters sorted by name, so that cycles compare numbers instead of names.
type nameOrder struct {
	// sorted are the indexes of the clusters, sorted by name. added are those not merged yet.
	sorted, added []int32
	// ranks and frozen, a copy of sorted, are shared by frozen fleets; nil after the order changed.
	ranks, frozen []int32
}

func (o *nameOrder) insert(i int) {
	o.added = append(o.added, int32(i))
	o.ranks = nil
}

func (o *nameOrder) remove(i int, names *nameTable) {
	o.merge(names)
	at, _ := slices.BinarySearchFunc(o.sorted, int32(i), names.compare)
	o.sorted = slices.Delete(o.sorted, at, at+1)
	o.ranks = nil
}

// merge merges the added clusters into the sorted ones.
func (o *nameOrder) merge(names *nameTable) {
	if len(o.added) == 0 {
		return
	}
	slices.SortFunc(o.added, names.compare)
	merged, rest := make([]int32, 0, len(o.sorted)+len(o.added)), o.sorted
	for _, i := range o.added {
		at, _ := slices.BinarySearchFunc(rest, i, names.compare)
		merged = append(append(merged, rest[:at]...), i)
		rest = rest[at:]
	}
	o.sorted, o.added = append(merged, rest...), nil
}

// freeze returns the position of each cluster in the order, by its index, and the indexes in order.
func (o *nameOrder) freeze(names *nameTable) (ranks, sorted []int32) {
	if o.ranks == nil {
		o.merge(names)
		o.ranks = make([]int32, len(names.slots))
		for rank, i := range o.sorted {
			o.ranks[i] = int32(rank)
		}
		o.frozen = slices.Clone(o.sorted)
	}
	return o.ranks, o.frozen
}

func (t *nameTable) compare(i, j int32) int { return strings.Compare(t.slots[i].name, t.slots[j].name) }
