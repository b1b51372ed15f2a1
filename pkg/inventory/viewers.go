package inventory

import (
	"fmt"
	"maps"
	"slices"
)

// audience are the Placements that see a set, grouped by what they read, so that an event which
// concerns none of them, such as a heartbeat, costs as much as there are groups.
type audience map[string]*readers

// readers read the same of a cluster.
type readers struct {
	reads      *reads
	placements map[Key]*placement
}

// String is the same for equal reads, and for no others.
func (r *reads) String() string {
	names := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("%q %q %t %t %q %t", names(r.labels), names(r.claims), r.cpu, r.memory, names(r.scores), r.everything)
}

// wake adds all of the audience.
func (a audience) wake(woken wakeSet) {
	for _, group := range a {
		woken.all(group.placements)
	}
}

// wakeWhere adds those whose reads are concerned.
func (a audience) wakeWhere(concerned func(*reads) bool, woken wakeSet) {
	for _, group := range a {
		if concerned(group.reads) {
			woken.all(group.placements)
		}
	}
}

// view notes whether a Placement sees a set.
func (inv *Inventory) view(set string, p *placement, sees bool) {
	seen := inv.viewers[set]
	group := seen[p.kind]
	switch {
	case sees && group != nil:
		group.placements[p.key] = p
	case sees:
		if seen == nil {
			seen = audience{}
			inv.viewers[set] = seen
		}
		seen[p.kind] = &readers{reads: &p.reads, placements: map[Key]*placement{p.key: p}}
	case group != nil:
		delete(group.placements, p.key)
		if len(group.placements) == 0 {
			delete(seen, p.kind)
		}
		if len(seen) == 0 {
			delete(inv.viewers, set)
		}
	}
}
