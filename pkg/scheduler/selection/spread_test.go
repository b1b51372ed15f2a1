package selection

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func never() bool { return false }

// fleet has n candidates, named by their position. Each is in a rack of its own; zones and regions
// have 10 and 100 of them.
func fleet(n int) *Candidates {
	racks := make([]map[string]string, n)
	for i := range racks {
		racks[i] = map[string]string{"rack": fmt.Sprint(i), "zone": fmt.Sprint(i / 10), "region": fmt.Sprint(i / 100)}
	}
	return labelled(racks...)
}

// labelled are candidates with equal scores and these labels.
func labelled(labels ...map[string]string) *Candidates {
	return &Candidates{
		Totals: make([]int64, len(labels)),
		ByName: cmp.Compare[int],
		Topology: func(i int, term v1alpha1.SpreadConstraintsTerm) (string, bool) {
			value, ok := labels[i][term.TopologyKey]
			return value, ok
		},
	}
}

func spreadOver(hard bool, keys ...string) []v1alpha1.SpreadConstraintsTerm {
	constraints := make([]v1alpha1.SpreadConstraintsTerm, len(keys))
	for i, key := range keys {
		constraints[i] = v1alpha1.SpreadConstraintsTerm{
			TopologyKey: key, TopologyKeyType: v1alpha1.TopologyKeyTypeLabel, MaxSkew: 1, WhenUnsatisfiable: v1alpha1.ScheduleAnyway,
		}
		if hard {
			constraints[i].WhenUnsatisfiable = v1alpha1.DoNotSchedule
		}
	}
	return constraints
}

func TestSpread(t *testing.T) {
	in := func(values ...string) []map[string]string {
		labels := make([]map[string]string, len(values))
		for i, value := range values {
			if labels[i] = map[string]string{}; value != "" {
				labels[i]["zone"] = value
			}
		}
		return labels
	}
	skew := func(n int32, constraints []v1alpha1.SpreadConstraintsTerm) []v1alpha1.SpreadConstraintsTerm {
		for i := range constraints {
			constraints[i].MaxSkew = n
		}
		return constraints
	}
	const zone = "spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)"
	for name, tc := range map[string]struct {
		zones     []string
		totals    []int64
		demoted   int
		number    int
		spread    []v1alpha1.SpreadConstraintsTerm
		weight    int64
		want      []int
		wantShort string
	}{
		"one of each zone first":             {zones: []string{"a", "a", "b", "b"}, number: 3, spread: spreadOver(true, "zone"), want: []int{0, 2, 1}},
		"a higher score within the skew":     {zones: []string{"a", "a", "b", "b"}, totals: []int64{0, 9, 1, 2}, number: 2, spread: spreadOver(true, "zone"), want: []int{1, 3}},
		"a wider skew lets the score decide": {zones: []string{"a", "a", "b"}, totals: []int64{9, 9, 0}, number: 2, spread: skew(2, spreadOver(true, "zone")), want: []int{0, 1}},
		"no skew counts as 1":                {zones: []string{"a", "a", "b"}, number: 2, spread: skew(0, spreadOver(true, "zone")), want: []int{0, 2}},
		"must be, and stops blockedBy":       {zones: []string{"a", "a", "a", "b"}, number: 4, spread: spreadOver(true, "zone"), want: []int{0, 3, 1}, wantShort: zone},
		"should be, and goes on":             {zones: []string{"a", "a", "a", "b"}, number: 4, spread: spreadOver(false, "zone"), want: []int{0, 3, 1, 2}},
		"no key, must be":                    {zones: []string{"", "a"}, number: 2, spread: spreadOver(true, "zone"), want: []int{1}, wantShort: zone},
		"no key, should be: last":            {zones: []string{"", "a", "a"}, number: 3, spread: spreadOver(false, "zone"), want: []int{1, 2, 0}},
		"fewer feasible than wanted":         {zones: []string{"a", "b"}, number: 9, spread: spreadOver(true, "zone"), want: []int{0, 1}},
		"all that are feasible":              {zones: []string{"a", "b"}, number: -1, spread: spreadOver(true, "zone"), want: []int{0, 1}},
		"demoted ones come last":             {zones: []string{"a", "b", "b"}, totals: []int64{0, 9, 0}, demoted: 1, number: 3, spread: spreadOver(true, "zone"), want: []int{0, 2, 1}},
		"the prioritizer weighs, too": {
			zones: []string{"a", "a", "b"}, totals: []int64{50, 50, 0}, number: 2, spread: skew(2, spreadOver(true, "zone")), weight: 1, want: []int{0, 2},
		},
		"against a higher score": {
			zones: []string{"a", "a", "b"}, totals: []int64{500, 500, 0}, number: 2, spread: skew(2, spreadOver(true, "zone")), weight: 1, want: []int{0, 1},
		},
		"without the key the prioritizer scores as in the fullest domain": {
			zones: []string{"a", "a", "a", "a", "b", "b", "b", "c", ""}, totals: []int64{20, 20, 20, 20, -200, -200, -200, 0, 10},
			number: 9, spread: spreadOver(false, "zone"), weight: 1, want: []int{0, 7, 4, 1, 5, 2, 3, 8, 6},
		},
		"the prioritizer promotes no demoted one": {
			zones: []string{"a", "b", "a"}, demoted: 1, number: 2, spread: skew(2, spreadOver(true, "zone")), weight: 10, want: []int{0, 2},
		},
		"the prioritizer breaks no constraint": {
			zones: []string{"a", "a", "a", "b"}, number: 4, spread: spreadOver(true, "zone"), weight: -10, want: []int{0, 3, 1}, wantShort: zone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := labelled(in(tc.zones...)...)
			if tc.totals != nil {
				c.Totals = tc.totals
			}
			if tc.demoted > 0 {
				c.Demoted = func(i int) bool { return i == tc.demoted }
			}
			got, short, err := Select(c, &Demand{Number: tc.number, Limit: -1, Spread: tc.spread, SpreadWeight: tc.weight}, never)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
			if short.BlockedBy != tc.wantShort {
				t.Errorf("blocked by %q, want %q", short.BlockedBy, tc.wantShort)
			}
		})
	}
}

// TestSpreadStops: a selection that is stopped ends with the clusters so far, and names no
// constraint.
func TestSpreadStops(t *testing.T) {
	asked := 0
	chosen, short, err := Select(fleet(9), &Demand{Number: 9, Limit: -1, Spread: spreadOver(true, "rack")}, func() bool {
		asked++
		return asked == 4
	})
	if len(chosen) != 3 || short.BlockedBy != "" || err != nil {
		t.Errorf("chosen %v, blocked by %q, %v; want 3 candidates", chosen, short.BlockedBy, err)
	}
}

// TestSpreadWork counts comparisons: they must grow with the clusters, not with clusters times
// domains.
func TestSpreadWork(t *testing.T) {
	const n = 5_000
	for name, constraints := range map[string][]v1alpha1.SpreadConstraintsTerm{
		"each its own domain":          spreadOver(false, "rack"),
		"each its own domain, must be": spreadOver(true, "rack"),
		"nested":                       spreadOver(false, "region", "zone", "rack"),
		"nested, must be":              spreadOver(true, "region", "zone", "rack"),
		"nested the other way":         spreadOver(false, "rack", "zone", "region"),
		"ten in a domain":              spreadOver(true, "zone"),
		"no cluster has it":            spreadOver(false, "none", "rack"),
	} {
		t.Run(name, func(t *testing.T) {
			c := fleet(n)
			s := newSpreading(c, &Demand{Spread: constraints}, nil)
			chosen, blocking := s.pickAll(c, n, never)
			if len(chosen) != n || blocking >= 0 {
				t.Fatalf("%d are chosen, blocked by constraint %d", len(chosen), blocking)
			}
			if most := n * len(constraints) * 5 * bits.Len(n); *s.compared > most {
				t.Errorf("%d comparisons, want at most %d", *s.compared, most)
			}
		})
	}
}

// TestSpreadWorkWithGroups: a group that reaches its minimum or maximum changes the order of all
// its domains, which must not happen for each of its clusters.
func TestSpreadWorkWithGroups(t *testing.T) {
	const n = 5_000
	c := fleet(n)
	c.Tier = func(i int) int { return i % 3 }
	c.Group = func(i int) int { return i%5 - 1 }
	d := &Demand{Spread: spreadOver(false, "region", "zone", "rack"), Overflow: true, Tiers: make([]Tier, 3)}
	d.Groups = []Group{{"w", 100, -1}, {"x", 200, 500}, {"y", 0, 300}, {"z", 700, 700}}
	s := newSpreading(c, d, divide(c, d))
	chosen, blocking := s.pickAll(c, n, never)
	if want := 2*n/5 + 500 + 300 + 700; len(chosen) != want || blocking >= 0 {
		t.Fatalf("%d are chosen, want %d; blocked by constraint %d", len(chosen), want, blocking)
	}
	if most := n * len(d.Spread) * 5 * bits.Len(n); *s.compared > most {
		t.Errorf("%d comparisons, want at most %d", *s.compared, most)
	}
}

func TestSpreadPrioritizerIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters, wanted int
		want             string
	}{
		"few of many domains":  {clusters: 1_200, wanted: 400},
		"many of many domains": {clusters: 1_200, wanted: 500, want: "500 clusters to choose times 1200 topology domains is more than 500000"},
	} {
		t.Run(name, func(t *testing.T) {
			demand := Demand{Number: tc.wanted, Limit: -1, Spread: spreadOver(false, "rack"), SpreadWeight: 1}
			chosen, _, err := Select(fleet(tc.clusters), &demand, never)
			switch {
			case tc.want == "" && (err != nil || len(chosen) != tc.wanted):
				t.Errorf("got %d clusters, %v", len(chosen), err)
			case tc.want != "" && (err == nil || len(chosen) > 0 || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %d clusters, %v, want %q", len(chosen), err, tc.want)
			}
		})
	}
}

func BenchmarkSpread(b *testing.B) {
	for name, d := range map[string]Demand{
		"rack":                     {Spread: spreadOver(false, "rack"), Number: 5_000, Limit: -1},
		"nested":                   {Spread: spreadOver(true, "region", "zone", "rack"), Number: 5_000, Limit: -1},
		"rack, Spread prioritizer": {Spread: spreadOver(false, "rack"), SpreadWeight: 1, Number: 100, Limit: -1},
	} {
		b.Run(name, func(b *testing.B) {
			c := fleet(5_000)
			for b.Loop() {
				if _, _, err := Select(c, &d, never); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
