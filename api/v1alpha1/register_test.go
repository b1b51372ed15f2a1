package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEachTypeHasOneVersionInAScheme(t *testing.T) {
	consumers, pages := runtime.NewScheme(), runtime.NewScheme()
	if err := AddToScheme(consumers); err != nil {
		t.Fatal(err)
	}
	if err := AddPagesToScheme(pages); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		scheme      *runtime.Scheme
		object      runtime.Object
		wantVersion schema.GroupVersion
	}{
		"Placement":                {consumers, &Placement{}, GroupVersionV1Beta1},
		"PlacementDecision":        {consumers, &PlacementDecision{}, GroupVersionV1Beta1},
		"ManagedCluster":           {consumers, &ManagedCluster{}, GroupVersionV1},
		"ManagedClusterSet":        {consumers, &ManagedClusterSet{}, GroupVersionV1Beta2},
		"ManagedClusterSetBinding": {consumers, &ManagedClusterSetBinding{}, GroupVersionV1Beta2},
		"AddOnPlacementScore":      {consumers, &AddOnPlacementScore{}, GroupVersion},
		"a page":                   {pages, &PlacementDecision{}, GroupVersion},
		"a list of pages":          {pages, &PlacementDecisionList{}, GroupVersion},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kinds, _, err := tc.scheme.ObjectKinds(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			if len(kinds) != 1 || kinds[0].GroupVersion() != tc.wantVersion {
				t.Errorf("registered as %v, want %v alone", kinds, tc.wantVersion)
			}
		})
	}
}

func TestDecisionsAreNeverNull(t *testing.T) {
	cases := map[string]struct {
		decisions []ClusterDecision
		want      string
	}{
		"no content yet":     {nil, `{"metadata":{}}`},
		"nothing was chosen": {[]ClusterDecision{}, `{"metadata":{},"status":{"decisions":[]}}`},
		"one cluster":        {[]ClusterDecision{{ClusterName: "c"}}, `{"metadata":{},"status":{"decisions":[{"clusterName":"c","reason":""}]}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			page := &PlacementDecision{Status: PlacementDecisionStatus{Decisions: tc.decisions}}
			body, err := json.Marshal(page.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(body)); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(page)
			if err != nil {
				t.Fatal(err)
			}
			if status, ok := raw["status"].(map[string]any); ok != (tc.decisions != nil) || ok && status["decisions"] == nil {
				t.Errorf("unstructured status is %v", raw["status"])
			}
		})
	}
}
