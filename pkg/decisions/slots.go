package decisions

// slots counts the visible pages of each group index. Readers rely on two properties: the indexes
// are dense (0, 1, 2 and so on), and the pages of an index have one group name.
type slots struct {
	byIndex  []slot
	limit    int // no plan needs an index from here on
	beyond   int // pages whose index is none, or limit or higher
	distinct int // indexes with pages
	top      int // the highest of them; -1 when there is none
	mixed    int // indexes with several names
}

// slot counts the visible pages of one index.
type slot struct {
	pages int
	names []nameCount // with at least one page
}

type nameCount struct {
	name  string
	pages int
}

func (x *slots) dense() bool { return x.beyond == 0 && x.distinct == x.top+1 }

// label is the group that the labels of a page name. A page that readers do not see has the index
// unseen.
type label struct {
	name  string
	index int
}

// move changes the label of a page. It does nothing and returns false if the indexes would then
// have a gap, or one more index would have several names.
func (x *slots) move(from, to label) bool {
	wasDense, mixed := x.dense(), x.mixed
	x.change(from, -1)
	x.change(to, 1)
	if (!wasDense || x.dense()) && x.mixed <= mixed {
		return true
	}
	x.change(to, -1)
	x.change(from, 1)
	return false
}

// allows reports whether move would return true.
func (x *slots) allows(from, to label) bool {
	if !x.move(from, to) {
		return false
	}
	x.change(to, -1)
	x.change(from, 1)
	return true
}

func (x *slots) pages(index int) int {
	if index >= len(x.byIndex) {
		return 0
	}
	return x.byIndex[index].pages
}

// name returns the group name of an index; ok is false if it has no page, or several names.
func (x *slots) name(index int) (name string, ok bool) {
	if index >= len(x.byIndex) || len(x.byIndex[index].names) != 1 {
		return "", false
	}
	return x.byIndex[index].names[0].name, true
}

func (x *slots) change(l label, by int) {
	if l.index == unseen {
		return
	}
	if l.index < 0 || l.index >= x.limit {
		x.beyond += by
		return
	}
	for len(x.byIndex) <= l.index {
		x.byIndex = append(x.byIndex, slot{})
	}
	s := &x.byIndex[l.index]
	wasMixed := len(s.names) > 1
	s.change(l.name, by)
	switch isMixed := len(s.names) > 1; {
	case isMixed && !wasMixed:
		x.mixed++
	case wasMixed && !isMixed:
		x.mixed--
	}
	before := s.pages
	s.pages += by
	switch {
	case before == 0:
		x.distinct++
		x.top = max(x.top, l.index)
	case s.pages == 0:
		x.distinct--
		for x.top >= 0 && x.byIndex[x.top].pages == 0 {
			x.top--
		}
	}
}

func (s *slot) change(name string, by int) {
	for k := range s.names {
		if s.names[k].name != name {
			continue
		}
		if s.names[k].pages += by; s.names[k].pages == 0 {
			s.names = append(s.names[:k], s.names[k+1:]...)
		}
		return
	}
	s.names = append(s.names, nameCount{name: name, pages: by})
}
