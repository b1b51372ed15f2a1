package selection

import (
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestViolated(t *testing.T) {
	const zone, rack = "spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)", "spec.spreadPolicy.spreadConstraints[1] (Label rack, maxSkew 1)"
	// 0 and 1 are in zone a, 2 and 3 in zone b, each in a rack of its own; 4 has no zone.
	c := labelled(
		map[string]string{"zone": "a", "rack": "1"}, map[string]string{"zone": "a", "rack": "2"},
		map[string]string{"zone": "b", "rack": "1"}, map[string]string{"zone": "b", "rack": "2"}, map[string]string{},
	)
	wider := spreadOver(true, "zone")
	wider[0].MaxSkew = 2
	tests := map[string]struct {
		spread []v1alpha1.SpreadConstraintsTerm
		chosen []int
		want   string
	}{
		"no constraint":                {chosen: []int{0, 1}},
		"none chosen":                  {spread: spreadOver(true, "zone")},
		"one of each":                  {spread: spreadOver(true, "zone"), chosen: []int{0, 2}},
		"one more in a zone":           {spread: spreadOver(true, "zone"), chosen: []int{0, 1, 2}},
		"two more in a zone":           {spread: spreadOver(true, "zone"), chosen: []int{0, 1}, want: zone},
		"two more, as maxSkew allows":  {spread: wider, chosen: []int{0, 1}},
		"two more, which is preferred": {spread: spreadOver(false, "zone"), chosen: []int{0, 1}},
		"without the key":              {spread: spreadOver(true, "zone"), chosen: []int{0, 2, 4}, want: zone},
		"within a zone":                {spread: spreadOver(true, "zone", "rack"), chosen: []int{0, 1, 2, 3}},
		"the second of two":            {spread: append(spreadOver(false, "zone"), spreadOver(true, "rack")...), chosen: []int{0, 4}, want: rack},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Violated(c, &Demand{Spread: tc.spread}, tc.chosen); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestViolatedTiersAndGroups: 0 and 1 are in tier a, 2 to 5 in tier b, 6 in none. 1 to 3 are in
// group x.
func TestViolatedTiersAndGroups(t *testing.T) {
	c := labelled(make([]map[string]string, 7)...)
	c.Tier = func(i int) int { return []int{0, 0, 1, 1, 1, 1, -1}[i] }
	c.Group = func(i int) int { return []int{-1, 0, 0, 0, -1, -1, -1}[i] }
	tiers := func(least int) []Tier { return []Tier{{Name: "a", Min: least}, {Name: "b", Min: 2}} }
	groups := []Group{{Name: "x", Min: 1, Max: 2}}
	tests := map[string]struct {
		demand Demand
		chosen []int
		want   string
	}{
		"the first tier":             {demand: Demand{Tiers: tiers(2)}, chosen: []int{0, 1}},
		"another tier":               {demand: Demand{Tiers: tiers(2)}, chosen: []int{0, 2}, want: "a cluster is in tier b, which is not to be used"},
		"an insufficient tier":       {demand: Demand{Tiers: tiers(3)}, chosen: []int{0, 2}, want: "a cluster is in tier a, which is not to be used"},
		"both with overflow":         {demand: Demand{Tiers: tiers(3), Overflow: true}, chosen: []int{0, 2}},
		"no tier":                    {demand: Demand{Tiers: tiers(2)}, chosen: []int{0, 6}, want: "a cluster is in no tier"},
		"the minimum and no group":   {demand: Demand{Groups: groups}, chosen: []int{0, 1, 6}},
		"the maximum":                {demand: Demand{Groups: groups}, chosen: []int{1, 2}},
		"less than the minimum":      {demand: Demand{Groups: groups}, chosen: []int{0, 4, 5}, want: "group x has 0 of at least 1 clusters"},
		"more than the maximum":      {demand: Demand{Groups: groups}, chosen: []int{1, 2, 3}, want: "group x has 3 of at most 2 clusters"},
		"a constraint in the groups": {demand: Demand{Groups: groups, Spread: spreadOver(true, "zone")}, chosen: []int{1}, want: "spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Violated(c, &tc.demand, tc.chosen); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
