package decisions

import "testing"

// TestIndexes: pages move between indexes from 0 as long as these stay dense.
func TestIndexes(t *testing.T) {
	type move struct {
		from, to int
		want     bool
	}
	for name, tc := range map[string]struct {
		at    []int
		moves []move
	}{
		"from the end":                       {[]int{0, 1}, []move{{1, unseen, true}, {0, unseen, true}}},
		"not from the start":                 {[]int{0, 1}, []move{{0, unseen, false}, {1, unseen, true}}},
		"not over a gap":                     {[]int{0, 1}, []move{{1, 2, false}, {unseen, 2, true}}},
		"a refused move changes nothing":     {[]int{0, 1}, []move{{0, 2, false}, {1, unseen, true}}},
		"one of two pages":                   {[]int{0, 0, 1}, []move{{0, unseen, true}, {0, unseen, false}}},
		"without dense indexes, all moves":   {[]int{1}, []move{{1, 3, true}, {3, 0, true}, {0, 1, false}}},
		"an invalid index is not dense":      {[]int{0, noIndex}, []move{{0, 3, true}, {3, 0, true}, {noIndex, 1, true}, {0, 2, false}}},
		"an index beyond all others neither": {[]int{0, 5}, []move{{0, 3, true}, {5, unseen, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := indexes{count: make([]int, 5), top: -1}
			for _, index := range tc.at {
				x.change(index, 1)
			}
			for _, m := range tc.moves {
				if got := x.allow(m.from, m.to); got != m.want {
					t.Errorf("from %d to %d is allowed: %t", m.from, m.to, got)
				}
				if got := x.move(m.from, m.to); got != m.want {
					t.Errorf("from %d to %d: %t", m.from, m.to, got)
				}
			}
		})
	}
}
