package inventory

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

// release removes a reference to an index.
func (t *nameTable) release(i int) {
	t.slots[i].refs--
	if t.slots[i].refs == 0 {
		delete(t.index, t.slots[i].name)
		t.slots[i].name = ""
		t.free = append(t.free, i)
	}
}
