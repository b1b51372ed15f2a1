package selection

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestSelect: the candidates chosen without ranking all are the first of a full ranking, by
// demotion, total and name.
func TestSelect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "candidates")
		c := &Candidates{Totals: make([]int64, n)}
		for i := range n {
			c.Totals[i] = rapid.Int64Range(-2, 2).Draw(t, "total")
		}
		names := rapid.Permutation(sequence(n)).Draw(t, "names")
		c.ByName = func(a, b int) int { return cmp.Compare(names[a], names[b]) }
		demoted := make([]bool, n)
		if rapid.Bool().Draw(t, "demotes") {
			for i := range demoted {
				demoted[i] = rapid.Bool().Draw(t, "demoted")
			}
			c.Demoted = func(i int) bool { return demoted[i] }
		}
		d := &Demand{Number: rapid.IntRange(-1, 60).Draw(t, "number"), Limit: rapid.IntRange(-1, 60).Draw(t, "limit")}

		literal := sequence(n)
		slices.SortFunc(literal, func(a, b int) int {
			tier := map[bool]int{true: 1}
			return cmp.Or(cmp.Compare(tier[demoted[a]], tier[demoted[b]]), cmp.Compare(c.Totals[b], c.Totals[a]), cmp.Compare(names[a], names[b]))
		})
		if diff := gocmp.Diff(literal, Rank(c)); diff != "" {
			t.Fatalf("ranking (-want +got):\n%s", diff)
		}
		if d.Number >= 0 {
			literal = literal[:min(len(literal), d.Number)]
		}
		if d.Limit >= 0 {
			literal = literal[:min(len(literal), d.Limit)]
		}
		chosen, short, err := Select(c, d, never)
		if want := (Shortfall{Missing: d.Wanted(n) - len(literal)}); !slices.Equal(literal, chosen) || !gocmp.Equal(want, short) || err != nil {
			t.Fatalf("chosen %v, %+v, %v; want %v, %+v", chosen, short, err, literal, want)
		}
	})
}

func sequence(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestDemand(t *testing.T) {
	for name, tc := range map[string]struct {
		number           *int32
		limit            int
		feasible, chosen int
		wantCount        int
		wantMissing      int
		wantCapped       bool
	}{
		"all":                               {limit: -1, feasible: 5, chosen: 5, wantCount: 5},
		"all, but spread stopped blockedBy": {limit: -1, feasible: 5, chosen: 3, wantCount: 5, wantMissing: 2},
		"all under a limit":                 {limit: 2, feasible: 5, chosen: 2, wantCount: 2, wantMissing: 3, wantCapped: true},
		"all under a limit that is not met": {limit: 9, feasible: 5, chosen: 5, wantCount: 5},
		"some":                              {number: new(int32(3)), limit: -1, feasible: 5, chosen: 3, wantCount: 3},
		"more than are feasible":            {number: new(int32(7)), limit: -1, feasible: 5, chosen: 5, wantCount: 5, wantMissing: 2},
		"none":                              {number: new(int32(0)), limit: -1, feasible: 5},
		"some under a lower limit":          {number: new(int32(3)), limit: 2, feasible: 5, chosen: 2, wantCount: 2, wantMissing: 1, wantCapped: true},
		"some under the same limit":         {number: new(int32(3)), limit: 3, feasible: 5, chosen: 3, wantCount: 3},
		"a limit of none":                   {limit: 0, feasible: 5, wantMissing: 5, wantCapped: true},
		"blockedBy of the limit":            {number: new(int32(3)), limit: 2, feasible: 1, chosen: 1, wantCount: 1, wantMissing: 2},
	} {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{}
			pl.Spec.NumberOfClusters = tc.number
			pl.Spec.SpreadPolicy.SpreadConstraints = spreadOver(true, "zone")
			d := DemandOf(pl, tc.limit)
			if len(d.Spread) != 1 {
				t.Errorf("demand %+v", d)
			}
			if got := d.count(tc.feasible); got != tc.wantCount {
				t.Errorf("%d to choose, want %d", got, tc.wantCount)
			}
			missing := d.Wanted(tc.feasible) - tc.chosen
			if missing != tc.wantMissing {
				t.Errorf("%d missing, want %d", missing, tc.wantMissing)
			}
			if got := d.Capped(tc.chosen, missing); got != tc.wantCapped {
				t.Errorf("capped: %t, want %t", got, tc.wantCapped)
			}
		})
	}
}
