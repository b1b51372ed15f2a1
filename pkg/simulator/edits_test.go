package simulator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEdits: each kind of edit, alone and after another one.
func TestEdits(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []Edit
		want  []string
	}{
		"drain": {[]Edit{{Kind: EditDrain, Cluster: "c2"}}, []string{"shop/web -c2"}},
		"drain and end it": {
			[]Edit{{Kind: EditDrain, Cluster: "c2"}, {Kind: EditDrain, Cluster: "c2", Remove: true}}, nil,
		},
		"lose a label":          {[]Edit{{Kind: EditLose, Key: "label:gpu", Value: "true"}}, []string{"shop/api -c1", "shop/web -c1"}},
		"lose a label by a key": {[]Edit{{Kind: EditLose, Key: "gpu", Value: "true"}}, []string{"shop/api -c1", "shop/web -c1"}},
		"lose a claim":          {[]Edit{{Kind: EditLose, Key: "claim:zone", Value: "b"}}, []string{"shop/web -c2"}},
		"number":                {[]Edit{{Kind: EditNumber, Placement: "shop/web", Number: new(int32(1))}}, []string{"shop/web -c1"}},
		"all":                   {[]Edit{{Kind: EditNumber, Placement: "shop/api"}}, nil},
		"replace by text": {
			[]Edit{{Kind: EditReplace, Text: "{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: web, namespace: shop}, spec: {numberOfClusters: 1}}"}},
			[]string{"shop/web -c1"},
		},
		"a cluster that an edit adds is lost": {
			append(replaced(fixture.Cluster("c4").Set("eu").Label("region", "x").Obj()), Edit{Kind: EditLose, Key: "region", Value: "x"}), nil,
		},
		"remove and add again": {
			append(removed("cluster", "c2"), replaced(fixture.Cluster("c2").Set("eu").Obj())...), nil,
		},
		"label and lose": {
			append(labelled("c2", "gpu", "true"), Edit{Kind: EditLose, Key: "gpu", Value: "true"}), []string{"shop/web -c1 -c2", "shop/api -c1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := shop()
			List[*v1alpha1.ManagedCluster](hub)[1].Status.ClusterClaims = []v1alpha1.ManagedClusterClaim{{Name: "zone", Value: "b"}}
			before := slices.Clone(hub)
			var got []string
			for _, change := range compared(t, hub, tc.edits).Changes {
				text := change.Placement
				for _, name := range change.Added {
					text += " +" + name
				}
				for _, name := range change.Removed {
					text += " -" + name
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, hub); diff != "" {
				t.Errorf("the hub's own objects changed:\n%s", diff)
			}
		})
	}
}

// TestEditMistakes: an edit that cannot be made says why.
func TestEditMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   Edit
		want   string
		absent bool
	}{
		"a kind":                 {Edit{Kind: "delete"}, `kind: "delete" is not one of taint, drain, label, lose, number, replace, remove`, false},
		"a cluster":              {Edit{Kind: EditDrain, Cluster: "c9"}, "there is no ManagedCluster c9", true},
		"a Placement":            {Edit{Kind: EditNumber, Placement: "shop/none"}, "there is no Placement shop/none", true},
		"a negative number":      {Edit{Kind: EditNumber, Placement: "shop/web", Number: new(int32(-1))}, "number: -1 is negative", false},
		"an effect":              {Edit{Kind: EditTaint, Cluster: "c1", Key: "k", Effect: "Never"}, `the taint "k": effect "Never" is not one of`, false},
		"a taint":                {Edit{Kind: EditTaint, Cluster: "c1", Key: "-", Effect: "NoSelect"}, `the taint "-": `, false},
		"a label":                {Edit{Kind: EditLabel, Cluster: "c1", Key: "-"}, `the label "-": `, false},
		"a domain":               {Edit{Kind: EditLose, Key: "gpu", Value: "none"}, "there is no cluster with label:gpu=none", true},
		"a domain of a kind":     {Edit{Kind: EditLose, Key: "set:eu", Value: "x"}, `key: "set:eu" is not label:KEY`, false},
		"a domain without value": {Edit{Kind: EditLose, Key: "gpu"}, "value: ", false},
		"no object":              {Edit{Kind: EditReplace}, "text: the object is missing", false},
		"no YAML":                {Edit{Kind: EditReplace, Text: "{"}, "text: ", false},
		"two objects":            {Edit{Kind: EditReplace, Text: "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: a}}\n---\n{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: b}}"}, "text: there must be one object", false},
		"a type":                 {Edit{Kind: EditRemove, Type: "pod", Name: "x"}, `type: "pod" is not one of`, false},
		"a name":                 {Edit{Kind: EditRemove, Type: "placement", Name: "web"}, `name: "web" is not NAMESPACE/NAME of a Placement`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shop().Apply([]Edit{tc.edit}, noon)
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrNoObject) != tc.absent {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for _, kind := range kinds.All() {
		name := "none"
		if kind.Namespaced {
			name = "shop/none"
		}
		if _, err := shop().Apply(removed(kind.Name, name), noon); !errors.Is(err, ErrNoObject) {
			t.Errorf("a %s that is not there: %v", kind.Name, err)
		}
	}
}

// TestReplace: an object keeps its status, metadata and the times of its taints.
func TestReplace(t *testing.T) {
	early := metav1.NewTime(noon.Add(-time.Hour))
	old := fixture.Cluster("c").Set("eu").TaintAt("known", "", v1alpha1.TaintEffectNoSelect, early).
		Taint("undated", "", v1alpha1.TaintEffectNoSelect).Allocatable("cpu", "4").Obj()
	old.UID, old.ResourceVersion = "u", "7"
	next := fixture.Cluster("c").Label("a", "b").Taint("known", "", v1alpha1.TaintEffectNoSelect).
		Taint("undated", "", v1alpha1.TaintEffectNoSelect).Taint("fresh", "", v1alpha1.TaintEffectNoSelect).Obj()
	created := fixture.Cluster("d").Taint("fresh", "", v1alpha1.TaintEffectNoSelect).Obj()
	edited, err := Objects{old}.Apply(replaced(next, created), noon)
	if err != nil {
		t.Fatal(err)
	}
	want := next.DeepCopy()
	want.UID, want.ResourceVersion, want.Status = old.UID, old.ResourceVersion, old.Status
	want.Spec.Taints[0].TimeAdded = early
	want.Spec.Taints[2].TimeAdded = metav1.NewTime(noon)
	wantCreated := created.DeepCopy()
	wantCreated.Spec.Taints[0].TimeAdded = metav1.NewTime(noon)
	if diff := cmp.Diff(&Edited{Changed: Objects{want, wantCreated}}, edited, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
