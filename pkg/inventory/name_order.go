package inventory

import (
	"slices"
	"strings"
)

// nameOrder keeps the clusters in the order of their names, so that cycles compare numbers where
// they would compare names.
type nameOrder struct {
	// sorted are the indexes of the clusters by name, but for those that joined since.
	sorted, joined []int32
	// ranks are what frozen fleets share; nil once the order is another.
	ranks []int32
}

func (o *nameOrder) join(i int) {
	o.joined = append(o.joined, int32(i))
	o.ranks = nil
}

func (o *nameOrder) leave(i int, names *nameTable) {
	o.merge(names)
	at, _ := slices.BinarySearchFunc(o.sorted, int32(i), names.compare)
	o.sorted = slices.Delete(o.sorted, at, at+1)
	o.ranks = nil
}

// merge sorts in the clusters that joined.
func (o *nameOrder) merge(names *nameTable) {
	if len(o.joined) == 0 {
		return
	}
	slices.SortFunc(o.joined, names.compare)
	merged, rest := make([]int32, 0, len(o.sorted)+len(o.joined)), o.sorted
	for _, i := range o.joined {
		at, _ := slices.BinarySearchFunc(rest, i, names.compare)
		merged = append(append(merged, rest[:at]...), i)
		rest = rest[at:]
	}
	o.sorted, o.joined = append(merged, rest...), nil
}

// freeze returns the position of each cluster in the order, by its index.
func (o *nameOrder) freeze(names *nameTable) []int32 {
	if o.ranks == nil {
		o.merge(names)
		o.ranks = make([]int32, len(names.slots))
		for rank, i := range o.sorted {
			o.ranks[i] = int32(rank)
		}
	}
	return o.ranks
}

func (t *nameTable) compare(i, j int32) int { return strings.Compare(t.slots[i].name, t.slots[j].name) }
