package golden

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/simulator"
)

// TestHandover starts Berth on the recorded pages of every scenario: it writes none of them if it
// selects the same clusters. sortBy Score adds scores to pages.
func TestHandover(t *testing.T) {
	snapshots, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	same, grouped, empty := 0, 0, 0
	for _, s := range snapshots {
		handed, err := simulator.New(t.Context(), s.handOver(), s.step.Now, simulator.Options{})
		if err != nil {
			t.Fatalf("%s: %v", s.id, err)
		}
		for _, e := range s.evaluations {
			if len(e.want.Decisions) == 0 || e.placement.Spec.SortBy == v1alpha1.SortByScore {
				continue
			}
			taken, err := handed.Take(placementOf(e.want.Placement))
			if err != nil {
				t.Fatalf("%s: %v", e.id, err)
			}
			_, err = taken.Attempt(t.Context(), func(a *scheduler.Attempt) {
				if a.Target == nil || !maps.Equal(setOf(a.Target.Clusters), e.recorded) {
					return
				}
				plan, err := lifecycle.Plan(a.State, a.Target)
				if err != nil || len(plan.Writes) > 0 {
					t.Errorf("%s: %d writes, first %+v, error %v", e.id, len(plan.Writes), plan.Writes, err)
				}
				same++
				if len(e.want.GroupStatus) > 1 {
					grouped++
				}
				if len(e.recorded) == 0 {
					empty++
				}
			})
			if err != nil {
				t.Fatalf("%s: %v", e.id, err)
			}
		}
	}
	t.Logf("%d decisions, %d of them with several groups, %d empty", same, grouped, empty)
	if same < 850 || grouped < 70 || empty < 250 {
		t.Errorf("too few decisions were handed over")
	}
}

// handOver returns the objects with the recorded pages instead of the published ones.
func (s *snapshot) handOver() simulator.Objects {
	replaced := map[string]bool{} // by namespace and name of the page, or of its Placement
	objects := simulator.Objects{}
	for _, e := range s.evaluations {
		for _, page := range e.want.Decisions {
			replaced[e.placement.Namespace+"/page/"+page.Name], replaced[e.want.Placement] = true, true
			object := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: e.placement.Namespace, Name: page.Name, Labels: page.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e.placement, v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))},
			}}
			for _, name := range page.Clusters {
				object.Status.Decisions = append(object.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
			}
			objects = append(objects, object)
		}
	}
	for _, object := range s.step.Objects {
		page, ok := object.(*v1alpha1.PlacementDecision)
		if !ok || !replaced[page.Namespace+"/page/"+page.Name] && !replaced[page.Namespace+"/"+page.Labels[v1alpha1.PlacementLabel]] {
			objects = append(objects, object)
		}
	}
	return objects
}
