package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestAdviceOfAWaitingChange: a change goes on with the maxUnavailable that its message names and
// not with a lower one. Another cluster helps unless the message says that none replaces those to
// remove.
func TestAdviceOfAWaitingChange(t *testing.T) {
	for name, tc := range map[string]struct {
		number int32
		change func(d *desk)
		with   int
		// leaves is published and to be removed.
		leaves string
	}{
		"drained":               {3, func(d *desk) { d.taint("a", v1alpha1.DrainTaint) }, 1, "a"},
		"no longer matching":    {3, func(d *desk) { d.tier("silver", "a") }, 1, "a"},
		"after a deletion":      {3, func(d *desk) { d.remove("a"); d.evict("b") }, 2, "b"},
		"drained, all clusters": {0, func(d *desk) { d.taint("a", v1alpha1.DrainTaint) }, 1, "a"},
		"evicted, all clusters": {0, func(d *desk) { d.evict("a"); d.evict("b") }, 1, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := func() *desk {
				d := governed(t, tc.number, nothing)
				tc.change(d)
				d.attemptUntilStable()
				return d
			}
			left := func(d *desk) bool {
				before := d.published()
				d.attemptUntilStable()
				return len(d.published()) < len(before)
			}
			d := waiting()
			message := d.condition(v1alpha1.PlacementConditionDecisionProgressing).Message
			if want := fmt.Sprintf("; with %d the next one leaves", tc.with); !strings.HasSuffix(message, want) {
				t.Fatalf("got %s", message)
			}
			for n := 1; n <= tc.with; n++ {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(int32(n))) })
				if got := left(d); got != (n == tc.with) {
					t.Errorf("maxUnavailable %d: one leaves is %t", n, got)
				}
			}
			d = waiting()
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			helps := !strings.Contains(d.published()+" ", " "+tc.leaves+" ")
			if says := !strings.Contains(message, "without numberOfClusters, no cluster replaces"); helps != says {
				t.Errorf("another cluster helps is %t: %s", helps, message)
			}
		})
	}
}
