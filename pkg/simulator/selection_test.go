package simulator

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestDecideCountsEarlierDecisions decides Placements in one input that must not share a cluster.
func TestDecideCountsEarlierDecisions(t *testing.T) {
	for name, spec := range map[string]berthv1alpha1.SelectionPolicySpec{
		"requests":   {Requests: map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse("6")}},
		"apart from": {Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: []berthv1alpha1.PlacementReference{{Placement: "a"}, {Placement: "b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := Objects{fixture.Set("eu"), fixture.Binding("shop", "eu")}
			for i := range 2 {
				objects = append(objects, fixture.Cluster(fmt.Sprint("c", i)).Set("eu").Allocatable("cpu", "8").Obj())
			}
			for _, name := range []string{"a", "b", "c"} {
				policy := &berthv1alpha1.SelectionPolicy{Spec: *spec.DeepCopy()}
				policy.Namespace, policy.Name, policy.Spec.Placement = "shop", name, name
				objects = append(objects, policy, fixture.Placement("shop", name).Number(1).Obj())
			}
			s, err := New(t.Context(), objects, fixture.Now, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var selected []string
			for _, key := range s.Placements() {
				d, err := s.decide(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				selected = append(selected, d.Target.Clusters...)
			}
			slices.Sort(selected)
			if want := []string{"c0", "c1"}; !slices.Equal(selected, want) {
				t.Errorf("selected %v, want %v", selected, want)
			}
		})
	}
}
