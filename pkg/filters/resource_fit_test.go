package filters

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestTooSmallForAll: on a cluster that is too small for all Placements that have it, the oldest
// that fit stay. One that does not fit itself pushes no other out.
func TestTooSmallForAll(t *testing.T) {
	const cluster = 0
	request := func(name string, minute int, cores, gpus string) *framework.CapacityRequest {
		amounts := map[v1alpha1.ResourceName]int64{"cpu": framework.UnitsOf("cpu", resource.MustParse(cores), true)}
		if gpus != "" {
			amounts["gpu"] = framework.UnitsOf("gpu", resource.MustParse(gpus), true)
		}
		return &framework.CapacityRequest{Placement: types.NamespacedName{Namespace: "n", Name: name}, Created: fixture.At(minute).Time, Amounts: amounts}
	}
	tests := map[string]struct {
		// requests are those of the Placements that have the cluster, which has 8 cpu, 1 gpu and no
		// other resource.
		requests []*framework.CapacityRequest
		want     []string
	}{
		"all fit":                       {[]*framework.CapacityRequest{request("a", 1, "4", ""), request("b", 2, "4", "")}, []string{"a", "b"}},
		"the youngest leaves":           {[]*framework.CapacityRequest{request("a", 1, "4", ""), request("b", 2, "4", ""), request("c", 3, "1", "")}, []string{"a", "b"}},
		"the oldest is too large":       {[]*framework.CapacityRequest{request("a", 1, "1k", ""), request("b", 2, "4", ""), request("c", 3, "4", "")}, []string{"b", "c"}},
		"a younger one fits":            {[]*framework.CapacityRequest{request("a", 1, "6", ""), request("b", 2, "4", ""), request("c", 3, "2", "")}, []string{"a", "c"}},
		"the oldest lacks another one":  {[]*framework.CapacityRequest{request("a", 1, "4", "2"), request("b", 2, "8", "")}, []string{"b"}},
		"one of both has the other one": {[]*framework.CapacityRequest{request("a", 1, "4", "1"), request("b", 2, "4", "1")}, []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			capacities := map[v1alpha1.ResourceName]*framework.Capacity{}
			for name, amount := range map[v1alpha1.ResourceName]int64{"cpu": 8000, "gpu": 1} {
				var allocatable, requested framework.Vector[int64]
				allocatable.Set(cluster, 1+amount)
				sum := int64(0)
				for _, r := range tc.requests {
					sum += r.Amounts[name]
				}
				requested.Set(cluster, sum)
				capacities[name] = &framework.Capacity{Allocatable: allocatable.Freeze(), Requested: requested.Freeze()}
			}
			var requests framework.Vector[[]*framework.CapacityRequest]
			requests.Set(cluster, tc.requests)
			var kept []string
			for _, r := range tc.requests {
				snapshot := &framework.Snapshot{
					Fleet:   &framework.Fleet{Capacities: capacities, CapacityRequests: requests.Freeze()},
					Subject: &framework.Subject{CapacityRequest: r, Has: framework.Bitset(nil).Set(cluster)},
				}
				if len(missingAmounts(snapshot, cluster)) == 0 {
					kept = append(kept, r.Placement.Name)
				}
			}
			if len(kept) != len(tc.want) || len(kept) > 0 && kept[0] != tc.want[0] || len(kept) > 1 && kept[1] != tc.want[1] {
				t.Errorf("%v keep it, want %v", kept, tc.want)
			}
		})
	}
}
