package decisions

import "testing"

// TestSlots: pages move between indexes from 0 as long as these stay dense, each with one name.
func TestSlots(t *testing.T) {
	type move struct {
		from, to label
		want     bool
	}
	at := func(name string, index int) label { return label{name: name, index: index} }
	none := label{index: unseen}
	for name, tc := range map[string]struct {
		at    []label
		moves []move
	}{
		"from the end":                       {[]label{at("", 0), at("", 1)}, []move{{at("", 1), none, true}, {at("", 0), none, true}}},
		"not from the start":                 {[]label{at("", 0), at("", 1)}, []move{{at("", 0), none, false}, {at("", 1), none, true}}},
		"not over a gap":                     {[]label{at("", 0), at("", 1)}, []move{{at("", 1), at("", 2), false}, {none, at("", 2), true}}},
		"a refused move changes nothing":     {[]label{at("", 0), at("", 1)}, []move{{at("", 0), at("", 2), false}, {at("", 1), none, true}}},
		"one of two pages":                   {[]label{at("", 0), at("", 0), at("", 1)}, []move{{at("", 0), none, true}, {at("", 0), none, false}}},
		"without dense indexes, all moves":   {[]label{at("", 1)}, []move{{at("", 1), at("", 3), true}, {at("", 3), at("", 0), true}, {at("", 0), at("", 1), false}}},
		"an invalid index is not dense":      {[]label{at("", 0), at("", noIndex)}, []move{{at("", 0), at("", 3), true}, {at("", 3), at("", 0), true}, {at("", noIndex), at("", 1), true}, {at("", 0), at("", 2), false}}},
		"an index beyond all others neither": {[]label{at("", 0), at("", 5)}, []move{{at("", 0), at("", 3), true}, {at("", 5), none, true}}},
		"no second name for an index":        {[]label{at("a", 0), at("b", 1)}, []move{{at("b", 1), at("b", 0), false}, {at("b", 1), at("a", 0), true}}},
		"the only page renames its index":    {[]label{at("a", 0), at("b", 1)}, []move{{at("a", 0), at("c", 0), true}, {none, at("c", 0), true}, {at("c", 0), at("d", 0), false}}},
		"with two names, all moves":          {[]label{at("a", 0), at("b", 0)}, []move{{at("a", 0), at("c", 0), true}, {at("c", 0), at("b", 2), false}, {at("c", 0), at("b", 0), true}, {at("b", 0), at("a", 0), false}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := slots{limit: 5, top: -1}
			for _, l := range tc.at {
				x.change(l, 1)
			}
			for _, m := range tc.moves {
				if got := x.allows(m.from, m.to); got != m.want {
					t.Errorf("from %v to %v is allowed: %t", m.from, m.to, got)
				}
				if got := x.move(m.from, m.to); got != m.want {
					t.Errorf("from %v to %v: %t", m.from, m.to, got)
				}
			}
		})
	}
}
