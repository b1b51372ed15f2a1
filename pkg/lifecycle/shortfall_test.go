package lifecycle

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestShortfall(t *testing.T) {
	excluded := func(predicate, taints int) (all []framework.ExcludedBy) {
		if predicate > 0 {
			all = append(all, framework.ExcludedBy{Plugin: "Predicate", Clusters: predicate})
		}
		if taints > 0 {
			all = append(all, framework.ExcludedBy{Plugin: "TaintToleration", Clusters: taints})
		}
		return all
	}
	tests := map[string]struct {
		wanted   *int32
		fit      int
		excluded []framework.ExcludedBy
		// want is the note; empty if no intent is returned.
		want string
	}{
		"enough clusters fit": {wanted: new(int32(3)), fit: 3, excluded: excluded(5, 5)},
		"more clusters fit":   {wanted: new(int32(3)), fit: 4},
		"no numberOfClusters": {fit: 0, excluded: excluded(5, 5)},
		"no candidates":       {wanted: new(int32(1)), fit: 0, want: "0 of 1 clusters fit, 1 missing: no cluster set that the Placement may use has clusters"},
		"no other candidates": {wanted: new(int32(3)), fit: 1, want: "1 of 3 clusters fit, 2 missing: the cluster sets have no others"},
		"one filter, enough":  {wanted: new(int32(3)), fit: 1, excluded: excluded(2, 0), want: "1 of 3 clusters fit, 2 missing: Predicate excludes 2"},
		"one filter, not enough": {wanted: new(int32(3)), excluded: excluded(2, 0),
			want: "0 of 3 clusters fit, 3 missing: Predicate excludes 2"},
		"the last filter is enough": {wanted: new(int32(3)), fit: 1, excluded: excluded(9, 2),
			want: "1 of 3 clusters fit, 2 missing: Predicate excludes 9, TaintToleration excludes 2"},
		"both filters must be relaxed": {wanted: new(int32(3)), fit: 0, excluded: excluded(2, 1),
			want: "0 of 3 clusters fit, 3 missing: Predicate excludes 2, TaintToleration excludes 1"},
		"both filters are not enough": {wanted: new(int32(9)), fit: 0, excluded: excluded(2, 1),
			want: "0 of 9 clusters fit, 9 missing: Predicate excludes 2, TaintToleration excludes 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{Spec: v1alpha1.PlacementSpec{NumberOfClusters: tc.wanted}}
			filtered := framework.Filtered{Feasible: make([]*framework.Cluster, tc.fit), Excluded: tc.excluded}
			intents, status := Shortfall{}.PostFilter(context.Background(), nil, pl, filtered)
			if status.Code() != framework.Unschedulable {
				t.Errorf("returned %s, so the next plugin does not run", status.Code())
			}
			var want []framework.Intent
			if tc.want != "" {
				want = []framework.Intent{{Reason: "ClustersMissing", Note: tc.want}}
			}
			if diff := cmp.Diff(want, intents); diff != "" {
				t.Errorf("intents (-want +got):\n%s", diff)
			}
		})
	}
}
