package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestCut: the lowest total that is selected, and the highest that is not.
func TestCut(t *testing.T) {
	totals := []int64{1, 7, 3, 9, 2, 4}
	r := &Decision{Totals: totals}
	for i := range totals {
		r.Feasible = append(r.Feasible, framework.NewCluster(&v1alpha1.ManagedCluster{}, i))
	}
	for name, tc := range map[string]struct {
		selected                []int
		wantLowest, wantHighest *int64
	}{
		"some": {selected: []int{1, 3}, wantLowest: new(int64(7)), wantHighest: new(int64(4))},
		"none": {wantHighest: new(int64(9))},
		"all":  {selected: []int{0, 1, 2, 3, 4, 5}, wantLowest: new(int64(1))},
	} {
		t.Run(name, func(t *testing.T) {
			var selected framework.Bitset
			for _, i := range tc.selected {
				selected = selected.Set(i)
			}
			lowest, highest := r.cut(selected, func(i int) int64 { return r.Totals[i] })
			if diff := cmp.Diff([]*int64{tc.wantLowest, tc.wantHighest}, []*int64{lowest, highest}); diff != "" {
				t.Errorf("lowest and highest (-want +got):\n%s", diff)
			}
		})
	}
}
