package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestMinReadyBeforeTheRecord: minReadySeconds of a new policy apply to what was added shortly
// before, whether the record of that change is already written or not.
func TestMinReadyBeforeTheRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		// before happens before the policy is created.
		before func(d *archive)
		// measured are the clusters that count as ready after minReadySeconds.
		measured []string
	}{
		"one change":               {func(d *archive) { d.move("gold", "x") }, []string{"x"}},
		"several clusters":         {func(d *archive) { d.move("gold", "x", "y") }, []string{"x", "y"}},
		"two changes":              {func(d *archive) { d.move("gold", "x"); d.later(20); d.move("gold", "y"); d.later(20) }, []string{"x", "y"}},
		"one of them left":         {func(d *archive) { d.move("gold", "x"); d.move("gold", "y"); d.move("silver", "y") }, []string{"x"}},
		"one came back":            {func(d *archive) { d.move("silver", "a"); d.move("gold", "a") }, []string{"a"}},
		"nothing was added":        {func(d *archive) { d.move("silver", "a") }, nil},
		"long ago":                 {func(d *archive) { d.move("gold", "x"); d.later(31) }, nil},
		"in the second of the end": {func(d *archive) { d.move("gold", "x"); d.later(30) }, []string{"x"}},
		"an attempt in between":    {func(d *archive) { d.move("gold", "x"); d.later(5); d.run() }, []string{"x"}},
		"an earlier record":        {func(d *archive) { d.move("gold", "x"); d.flush(); d.later(5); d.move("gold", "y") }, []string{"x", "y"}},
		"under another policy": {func(d *archive) {
			d.govern(nothing)
			d.move("gold", "x")
			d.ungovern()
			d.run()
		}, []string{"x"}},
	} {
		for _, written := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", record written ", written), func(t *testing.T) {
				d := newArchive(t, nothing)
				d.ungovern()
				d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = nil })
				d.runUntilStable()
				tc.before(d)
				if written {
					d.flush()
				}
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 30 })
				for range 2 {
					d.run()
					if got := slices.Sorted(maps.Keys(d.scheduler.ReadySince(key))); !slices.Equal(got, tc.measured) {
						t.Fatalf("measured are %v, want %v", got, tc.measured)
					}
				}
			})
		}
	}
}

// move changes the tier of clusters, and publishes what follows.
func (d *archive) move(tier string, names ...string) {
	d.tier(tier, names...)
	d.apps()
	d.runUntilStable()
}

// ungovern deletes the policy.
func (d *archive) ungovern() {
	d.inv.Delete(d.policy.DeepCopy())
	d.policy = nil
}
