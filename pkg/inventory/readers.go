package inventory

import (
	"fmt"
	"maps"
	"slices"
)

// readerGroup are Placements that can use a set and read the same properties of a cluster. The cost
// of an event that affects none of them, such as a heartbeat, is proportional to the number of
// groups.
type readerGroup struct {
	reads      *reads
	placements map[Key]*placement
}

// String is the group key: equal for equal reads only.
func (r *reads) String() string {
	names := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("%q %q %t %t %q %t %q", names(r.labels), names(r.claims), r.cpu, r.memory, names(r.scores), r.everything, names(r.resources))
}

// addReaders adds the Placements that may use a set and whose reads are concerned; nil means all.
func (inv *Inventory) addReaders(set string, concerned func(*reads) bool, affected affectedSet) {
	for _, group := range inv.readers[set] {
		if concerned == nil || concerned(group.reads) {
			affected.all(group.placements)
		}
	}
}

// setReaders adds a Placement to the readers of all sets that it uses, or removes it.
func (inv *Inventory) setReaders(p *placement, reads bool) {
	for set := range inv.bindings[p.key.Namespace] {
		inv.setReader(set, p, reads)
	}
}

// setReader adds a Placement to the readers of a set, if it uses that, or removes it.
func (inv *Inventory) setReader(set string, p *placement, reads bool) {
	group := inv.readers[set][p.readsKey]
	switch {
	case !p.wants(set):
	case reads && group != nil:
		group.placements[p.key] = p
	case reads:
		// A copy: updateReads changes those of the Placement, which then leaves the group.
		same := p.reads
		inv.readers.set(set, p.readsKey, &readerGroup{reads: &same, placements: map[Key]*placement{p.key: p}})
	case group != nil:
		if delete(group.placements, p.key); len(group.placements) == 0 {
			inv.readers.remove(set, p.readsKey)
		}
	}
}
