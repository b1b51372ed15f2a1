package explanation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/shadow"
)

// TestShadowsOf: what differs most comes first, and names are limited.
func TestShadowsOf(t *testing.T) {
	one := func(name string, result shadow.Result, profile, other string, c shadow.Counts) shadow.Comparison {
		return shadow.Comparison{
			Placement: types.NamespacedName{Namespace: "shop", Name: name}, Profile: "default", Shadow: "new", Result: result, Since: time.Unix(1, 0),
			ProfileClusters: strings.Fields(profile), ShadowClusters: strings.Fields(other), Counts: c,
		}
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("c%04d", i)
	}
	all := []shadow.Comparison{
		one("same", shadow.Agrees, "a b", "a b", shadow.Counts{Compared: 4}),
		one("calm", shadow.Agrees, "a b", "a b", shadow.Counts{Compared: 4, ProfileMoves: 3}),
		one("busy", shadow.Agrees, "a b", "a b", shadow.Counts{Compared: 4, ShadowMoves: 3}),
		one("broken", shadow.Failed, "", "", shadow.Counts{Failed: 1}),
		one("one", shadow.Differs, "a b", "b c", shadow.Counts{Compared: 4}),
		one("big", shadow.Differs, strings.Join(many, " "), "", shadow.Counts{Compared: 4}),
	}
	got, message := ShadowsOf(slices.Clone(all), true)
	var names []string
	for _, c := range got {
		names = append(names, c.Placement)
	}
	if want := "big one broken busy same calm"; strings.Join(names, " ") != want {
		t.Errorf("the order is %v, want %s", names, want)
	}
	if want := "3 agree, 2 differ, 0 pending, 1 failed"; message != want {
		t.Errorf("%s", message)
	}
	if c := got[0]; len(c.OnlyProfile) != berthv1alpha1.MaxListedShadowClusters || c.OnlyProfileCount != 2000 || c.OnlyShadowCount != 0 {
		t.Errorf("%d names of %d", len(c.OnlyProfile), c.OnlyProfileCount)
	}
	if c := got[1]; !slices.Equal(c.OnlyProfile, []string{"a"}) || !slices.Equal(c.OnlyShadow, []string{"c"}) || c.ComparedTime != nil {
		t.Errorf("%+v", c)
	}
	got, _ = ShadowsOf(all[5:], false)
	if len(got[0].OnlyProfile) != berthv1alpha1.MaxShadowClusters {
		t.Errorf("%d names", len(got[0].OnlyProfile))
	}
}

// TestShadowsAreCut: a status has a bounded size, whatever the profiles and Placements are called.
func TestShadowsAreCut(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	for name, tc := range map[string]struct {
		n    int
		long string
	}{"many": {n: 3000, long: "x"}, "long": {n: 1500, long: long}} {
		t.Run(name, func(t *testing.T) {
			all := make([]shadow.Comparison, tc.n)
			for i := range all {
				all[i] = shadow.Comparison{
					Placement: types.NamespacedName{Name: fmt.Sprint(i)}, Profile: tc.long, Shadow: tc.long, Failure: tc.long, Result: shadow.Failed,
				}
			}
			got, message := ShadowsOf(all, true)
			text, err := json.Marshal(got)
			if err != nil || len(text) > berthv1alpha1.MaxShadowBytes+len(got)+2 || len(got) > berthv1alpha1.MaxShadowComparisons {
				t.Errorf("%d comparisons, %d bytes, %v", len(got), len(text), err)
			}
			if want := fmt.Sprintf("; %d comparisons are too large for the status", tc.n-len(got)); !strings.Contains(message, want) {
				t.Errorf("%q has not %q", message, want)
			}
		})
	}
}
