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
