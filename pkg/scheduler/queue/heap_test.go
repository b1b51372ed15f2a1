package queue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestTouchComparesOnlyChangedPlacements: a cluster's change touches every queued Placement.
func TestTouchComparesOnlyChangedPlacements(t *testing.T) {
	placements := map[types.NamespacedName]*v1alpha1.Placement{}
	compared := 0
	h := NewHeap(func(a, b *v1alpha1.Placement) bool {
		compared++
		return a.Annotations["order"] < b.Annotations["order"]
	}, func(key types.NamespacedName) *v1alpha1.Placement { return placements[key] }, 0)
	requests := make([]reconcile.Request, 10)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{Namespace: "n", Name: fmt.Sprint(i)}
		placements[requests[i].NamespacedName] = fixture.Placement("n", fmt.Sprint(i)).Annotation("order", fmt.Sprint("b", i)).Obj()
		h.Push(requests[i])
	}
	compared = 0
	for _, r := range requests {
		h.Touch(r)
		h.Push(r)
	}
	if compared != 0 {
		t.Errorf("%d comparisons of Placements that did not change", compared)
	}
	placements[requests[7].NamespacedName] = fixture.Placement("n", "7").Annotation("order", "a").Obj()
	h.Touch(requests[7])
	if first := h.Pop(); compared == 0 || first != requests[7] {
		t.Errorf("the first is %s after %d comparisons", first, compared)
	}
}
