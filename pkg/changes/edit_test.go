package changes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestEditOf(t *testing.T) {
	matching := func(value string) []v1alpha1.ClusterPredicate {
		return []v1alpha1.ClusterPredicate{{RequiredClusterSelector: v1alpha1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": value}},
		}}}
	}
	long := make([]string, 3000)
	for i := range long {
		long[i] = "set-" + strings.Repeat("x", i%7)
	}
	for name, tc := range map[string]struct {
		before, after v1alpha1.PlacementSpec
		want          Edit
	}{
		"nothing": {v1alpha1.PlacementSpec{NumberOfClusters: new(int32(8))}, v1alpha1.PlacementSpec{NumberOfClusters: new(int32(8))}, Edit{}},
		"a number": {v1alpha1.PlacementSpec{NumberOfClusters: new(int32(8))}, v1alpha1.PlacementSpec{NumberOfClusters: new(int32(2))},
			Edit{Before: `{"numberOfClusters":8}`, Lines: []string{"numberOfClusters: 8 → 2"}}},
		"a new field": {v1alpha1.PlacementSpec{}, v1alpha1.PlacementSpec{NumberOfClusters: new(int32(2))},
			Edit{Before: `{"numberOfClusters":null}`, Lines: []string{"numberOfClusters: none → 2"}}},
		"a value in a list": {v1alpha1.PlacementSpec{Predicates: matching("prod")}, v1alpha1.PlacementSpec{Predicates: matching("dev")}, Edit{
			Before: `{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"env":"prod"}}}}]}`,
			Lines:  []string{"predicates[0].requiredClusterSelector.labelSelector.matchLabels.env: prod → dev"}}},
		"a list": {v1alpha1.PlacementSpec{ClusterSets: []string{"a"}}, v1alpha1.PlacementSpec{ClusterSets: []string{"a", "b"}},
			Edit{Before: `{"clusterSets":["a"]}`, Lines: []string{`clusterSets: ["a"] → ["a","b"]`}}},
		"too large to keep": {v1alpha1.PlacementSpec{ClusterSets: long}, v1alpha1.PlacementSpec{},
			Edit{Before: "", Lines: []string{`clusterSets: ["set-","set-x","set-xx","set-xxx","set-xxxx","set-xxxxx","set-xxxxxx","set-"… → none`}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EditOf(&tc.before, &tc.after)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Edit{}, "Fields")); diff != "" || err != nil {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			if got.Before == "" {
				return
			}
			restored, err := Restore(&tc.after, got.Before)
			if diff := cmp.Diff(&tc.before, restored); diff != "" || err != nil {
				t.Errorf("restored: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestMergeBefore: two edits in one record restore the spec before the first.
func TestMergeBefore(t *testing.T) {
	first := Change{Before: `{"numberOfClusters":8}`, By: "ann", Comment: "a sale"}
	second := Change{Before: `{"clusterSets":["a"],"numberOfClusters":2}`, By: "bob"}
	if got := Merge(first, second); got.Before != `{"clusterSets":["a"],"numberOfClusters":8}` || got.By != "bob" || got.Comment != "" {
		t.Errorf("got %s by %s", got.Before, got.By)
	}
	if got := Merge(first, Change{}); got.Before != first.Before || got.By != "ann" || got.Comment != "a sale" {
		t.Errorf("got %s by %s", got.Before, got.By)
	}
	large := Change{Before: `{"clusterSets":["` + strings.Repeat("x", 16<<10) + `"]}`}
	if got := Merge(first, large); got.Before != "" {
		t.Errorf("got %d bytes", len(got.Before))
	}
}
