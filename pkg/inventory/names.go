package inventory

// nameTable gives every name that an object mentions a dense index: clusters, names on decisions,
// namespaces of scores. An index is free again when nothing mentions its name.
type nameTable struct {
	index map[string]int
	slots []slot
	free  []int
}

type slot struct {
	name string
	refs int
}

// hold returns the name's index and counts one more mention.
func (t *nameTable) hold(name string) int {
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

// release counts one mention less.
func (t *nameTable) release(i int) {
	t.slots[i].refs--
	if t.slots[i].refs == 0 {
		delete(t.index, t.slots[i].name)
		t.slots[i].name = ""
		t.free = append(t.free, i)
	}
}
