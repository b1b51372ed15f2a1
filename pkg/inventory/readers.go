package inventory

import (
	"fmt"
	"maps"
	"slices"
)

// readerGroups are the Placements that can use a set, grouped by the cluster properties that they
// read, by group key. The cost of an event that affects none of them, such as a heartbeat, is
// proportional to the number of groups.
type readerGroups map[string]*readerGroup

// readerGroup are Placements that read the same properties of a cluster.
type readerGroup struct {
	reads      *reads
	placements map[Key]*placement
}

// String is the group key: equal for equal reads only.
func (r *reads) String() string {
	names := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("%q %q %t %t %q %t %q", names(r.labels), names(r.claims), r.cpu, r.memory, names(r.scores), r.everything, names(r.resources))
}

// addTo adds all Placements of all groups.
func (a readerGroups) addTo(affected affectedSet) {
	for _, group := range a {
		affected.all(group.placements)
	}
}

// addReadersTo adds the Placements of the groups whose reads are concerned.
func (a readerGroups) addReadersTo(concerned func(*reads) bool, affected affectedSet) {
	for _, group := range a {
		if concerned(group.reads) {
			affected.all(group.placements)
		}
	}
}

// setReader adds a Placement to the readers of a set, or removes it.
func (inv *Inventory) setReader(set string, p *placement, reads bool) {
	groups := inv.readers[set]
	group := groups[p.readsKey]
	switch {
	case reads && group != nil:
		group.placements[p.key] = p
	case reads:
		if groups == nil {
			groups = readerGroups{}
			inv.readers[set] = groups
		}
		// A copy: updateReads changes those of the Placement, which then leaves the group.
		same := p.reads
		groups[p.readsKey] = &readerGroup{reads: &same, placements: map[Key]*placement{p.key: p}}
	case group != nil:
		delete(group.placements, p.key)
		if len(group.placements) == 0 {
			delete(groups, p.readsKey)
		}
		if len(groups) == 0 {
			delete(inv.readers, set)
		}
	}
}
