package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestAmounts(t *testing.T) {
	for amount, want := range map[string]framework.Amount{
		"4":      {Value: 4, Known: true},
		"500m":   {Value: 0.5, Known: true},
		"1Gi":    {Value: 1 << 30, Known: true},
		"0":      {Known: true},
		"-4":     {Value: -4, Known: true},
		"1e300":  {Value: 1e300, Known: true},
		"-8e307": {Value: -8e307, Known: true},
		"0e-400": {Known: true},
		// Not a number.
		"0e309":  {},
		"-0e999": {},
		// Infinite.
		"1e309":  {},
		"-1e309": {},
		"9e999":  {},
		// The difference of two such amounts is infinite.
		"1e308":  {},
		"-1e308": {},
	} {
		t.Run(amount, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("n", "p").Obj())
			cluster := fixture.Cluster("c").Allocatable("cpu", amount).Allocatable("memory", amount).Obj()
			inv.Update(cluster)
			got := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil).Clusters.Get(0)
			if diff := cmp.Diff([]framework.Amount{want, want}, []framework.Amount{got.CPU, got.Memory}); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeartbeatWithAnInfiniteAmountAffectsNoPlacement: NaN differs from itself.
func TestHeartbeatWithAnInfiniteAmountAffectsNoPlacement(t *testing.T) {
	inv := fullInventory()
	hostile := c1().Allocatable("cpu", "0e309").Allocatable("memory", "1e309")
	inv.Update(hostile.Obj())
	if affected := inv.Update(hostile.Obj()); len(affected) > 0 {
		t.Errorf("a heartbeat affects %v", names(affected))
	}
}
