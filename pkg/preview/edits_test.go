package preview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// TestQuestions: edits become one question for each Placement that they may affect.
func TestQuestions(t *testing.T) {
	web := fixture.Placement("shop", "web").Number(2).Annotation("a", "b").Annotation(lastApplied, "long").Obj()
	eviction := &berthv1alpha1.PlacementEviction{Spec: berthv1alpha1.PlacementEvictionSpec{Placement: "web", Cluster: "c1"}}
	eviction.Namespace = "shop"
	edited := func(n int32, annotations map[string]string) *berthv1alpha1.PlacementTemplate {
		return &berthv1alpha1.PlacementTemplate{
			Metadata: berthv1alpha1.TemplateMetadata{Annotations: annotations}, Spec: fixture.Placement("", "").Number(n).Obj().Spec,
		}
	}
	question := func(name string, template *berthv1alpha1.PlacementTemplate, edits ...berthv1alpha1.ClusterEdit) berthv1alpha1.PlacementExplanationSpec {
		return berthv1alpha1.PlacementExplanationSpec{Placement: name, Template: template, Edits: edits, Limit: 1}
	}
	for name, tc := range map[string]struct {
		edits []simulator.Edit
		want  map[string]berthv1alpha1.PlacementExplanationSpec
		err   string
	}{
		"a number": {
			[]simulator.Edit{{Kind: simulator.EditNumber, Placement: "shop/web", Number: new(int32(5))}},
			map[string]berthv1alpha1.PlacementExplanationSpec{"shop/web": question("web", edited(5, map[string]string{"a": "b"}))}, "",
		},
		"a Placement, then its number": {
			[]simulator.Edit{
				{Kind: simulator.EditReplace, Object: fixture.Placement("other", "new").Number(1).Obj()},
				{Kind: simulator.EditNumber, Placement: "other/new", Number: new(int32(7))},
			},
			map[string]berthv1alpha1.PlacementExplanationSpec{"other/new": question("new", edited(7, nil))}, "",
		},
		"an eviction": {
			[]simulator.Edit{{Kind: simulator.EditReplace, Object: eviction}},
			map[string]berthv1alpha1.PlacementExplanationSpec{"shop/web": question("web", nil, berthv1alpha1.ClusterEdit{Kind: "evict", Cluster: "c1"})}, "",
		},
		"clusters": {
			[]simulator.Edit{{Kind: simulator.EditLose, Key: "label:region", Value: "eu"}, {Kind: simulator.EditDrain, Cluster: "c1"}},
			map[string]berthv1alpha1.PlacementExplanationSpec{
				"shop/web": question("web", nil, berthv1alpha1.ClusterEdit{Kind: "lose", Key: "label:region", Value: "eu"}, berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c1"}),
				"shop/api": question("api", nil, berthv1alpha1.ClusterEdit{Kind: "lose", Key: "label:region", Value: "eu"}, berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "c1"}),
			}, "",
		},
		"a mistake":          {[]simulator.Edit{{Kind: simulator.EditLose, Key: "region"}}, nil, "value: the value of the label or claim is missing"},
		"a missing one":      {[]simulator.Edit{{Kind: simulator.EditNumber, Placement: "shop/nosuch"}}, nil, "there is no Placement shop/nosuch"},
		"another object":     {[]simulator.Edit{{Kind: simulator.EditRemove, Type: "ManagedClusterSet", Name: "eu"}}, nil, "remove ManagedClusterSet eu: without permission to list the fleet (role berth-fleet-viewer)"},
		"a replaced cluster": {[]simulator.Edit{{Kind: simulator.EditReplace, Object: fixture.Cluster("c1").Obj()}}, nil, "replace ManagedCluster c1: "},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := kinds.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web.DeepCopy(), fixture.Placement("shop", "api").Obj(), fixture.Placement("other", "web").Obj()).Build()
			a := &Asker{Hub: hub}
			w, err := a.newWhatIf(t.Context(), tc.edits)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			keys, err := a.affected(t.Context(), "shop", w)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]berthv1alpha1.PlacementExplanationSpec{}
			for _, key := range keys {
				got[key.String()] = w.spec(key)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}
