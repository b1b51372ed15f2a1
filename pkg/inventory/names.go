package inventory

import (
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// nameTable maps every cluster name that an object contains to a dense index: names of clusters,
// names in decisions, namespaces of scores. An index is reused when no object contains its name.
type nameTable struct {
	index map[string]int
	slots []slot
	free  []int
}

type slot struct {
	name string
	refs int
}

// acquire returns the name's index and adds a reference to it.
func (t *nameTable) acquire(name string) int {
	i, ok := t.index[name]
	switch {
	case ok:
	case len(t.free) > 0:
		i = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	default:
		i = len(t.slots)
		t.slots = append(t.slots, slot{})
	}
	t.index[name] = i
	t.slots[i].name = name
	t.slots[i].refs++
	return i
}

// hold adds a reference to an index that has one.
func (t *nameTable) hold(i int) { t.slots[i].refs++ }

// acquireAll acquires each of the names once.
func (t *nameTable) acquireAll(names []string) (set framework.Bitset) {
	for _, name := range names {
		if i := t.acquire(name); set.Has(i) {
			t.release(i)
		} else {
			set = set.Set(i)
		}
	}
	return set
}

// releaseAll releases each index of a set.
func (t *nameTable) releaseAll(set framework.Bitset) {
	for i := range set.All {
		t.release(i)
	}
}

// of returns the names of a set, sorted.
func (t *nameTable) of(set framework.Bitset) []string {
	names := make([]string, 0, set.Len())
	for i := range set.All {
		names = append(names, t.slots[i].name)
	}
	slices.Sort(names)
	return names
}

// release removes a reference to an index.
func (t *nameTable) release(i int) {
	t.slots[i].refs--
	if t.slots[i].refs == 0 {
		delete(t.index, t.slots[i].name)
		t.slots[i].name = ""
		t.free = append(t.free, i)
	}
}
