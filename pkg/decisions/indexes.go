package decisions

// indexes counts the visible pages of each group index. Readers rely on dense indexes: 0, 1, 2 and
// so on.
type indexes struct {
	count    []int // by index
	beyond   int   // pages whose index is none, or higher than any plan needs
	distinct int   // indexes with pages
	top      int   // the highest of them; -1 when there is none
}

func (x *indexes) dense() bool { return x.beyond == 0 && x.distinct == x.top+1 }

// move moves a page from one index to another; either may be unseen. It returns false, and does
// nothing, if dense indexes would get a gap.
func (x *indexes) move(from, to int) bool {
	was := x.dense()
	x.change(from, -1)
	x.change(to, 1)
	if !was || x.dense() {
		return true
	}
	x.change(to, -1)
	x.change(from, 1)
	return false
}

// allow reports whether move would return true.
func (x *indexes) allow(from, to int) bool {
	if !x.move(from, to) {
		return false
	}
	x.change(to, -1)
	x.change(from, 1)
	return true
}

func (x *indexes) change(index, by int) {
	if index == unseen {
		return
	}
	if index < 0 || index >= len(x.count) {
		x.beyond += by
		return
	}
	before := x.count[index]
	x.count[index] += by
	switch {
	case before == 0:
		x.distinct++
		x.top = max(x.top, index)
	case before+by == 0:
		x.distinct--
		for x.top >= 0 && x.count[x.top] == 0 {
			x.top--
		}
	}
}
