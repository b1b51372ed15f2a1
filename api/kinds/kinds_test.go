package kinds_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

// TestTable holds the table against the CRDs and the scheme.
func TestTable(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is decided from a PlacementExplanation.
	definitions = slices.DeleteFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Names.Kind == "PlacementExplanation"
	})
	if len(definitions) != len(kinds.All()) {
		t.Errorf("%d CRDs, and %d kinds in the table", len(definitions), len(kinds.All()))
	}
	for _, definition := range definitions {
		t.Run(definition.Spec.Names.Kind, func(t *testing.T) {
			kind, ok := kinds.Get(definition.Spec.Group, definition.Spec.Names.Kind)
			if !ok {
				t.Fatal("the kind is not in the table")
			}
			if kind.Plural != definition.Spec.Names.Plural {
				t.Errorf("plural %s, want %s", kind.Plural, definition.Spec.Names.Plural)
			}
			if namespaced := definition.Spec.Scope == apiextensionsv1.NamespaceScoped; kind.Namespaced != namespaced {
				t.Errorf("namespaced %t, want %t", kind.Namespaced, namespaced)
			}
			stored := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
			want := schema.GroupVersion{Group: definition.Spec.Group, Version: definition.Spec.Versions[stored].Name}
			if kind.GroupVersion != want {
				t.Errorf("version %s, want %s", kind.GroupVersion, want)
			}
			for _, object := range []runtime.Object{kind.New(), kind.NewList()} {
				gvk := want.WithKind(kind.Name)
				if _, list := object.(kinds.ObjectList); list {
					gvk.Kind += "List"
				}
				registered, _, err := scheme.ObjectKinds(object)
				if diff := cmp.Diff([]schema.GroupVersionKind{gvk}, registered); err != nil || diff != "" {
					t.Errorf("registered (-want +got), %v:\n%s", err, diff)
				}
			}
			if of, ok := kinds.Of(kind.New()); !ok || of.Name != kind.Name {
				t.Errorf("a %s is taken for a %s", kind.Name, of.Name)
			}
			if kind.Optional() != (want.Group == "berth.dev") {
				t.Errorf("optional: %t", kind.Optional())
			}
		})
	}
	if _, ok := kinds.Of(&berthv1alpha1.PlacementChangeList{}); ok {
		t.Error("a list is taken for an object")
	}
}

func TestNamed(t *testing.T) {
	for word, want := range map[string]string{
		"Placement": "Placement", "placements": "Placement", "cluster": "ManagedCluster", "Clusters": "ManagedCluster",
		"managedclusters": "ManagedCluster", "set": "ManagedClusterSet", "bindings": "ManagedClusterSetBinding",
		"score": "AddOnPlacementScore", "disruptionpolicies": "DisruptionPolicy", "dp": "DisruptionPolicy", "PCH": "PlacementChange",
		"eviction": "PlacementEviction", "decision": "PlacementDecision", "secret": "", "": "", "s": "",
	} {
		t.Run(word, func(t *testing.T) {
			if kind, ok := kinds.Named(word); kind.Name != want || ok != (want != "") {
				t.Errorf("got %s, want %q", kind.Name, want)
			}
		})
	}
	words := map[string]string{}
	for _, kind := range kinds.All() {
		for _, word := range append([]string{strings.ToLower(kind.Name), kind.Plural}, kind.Aliases...) {
			if other := words[word]; other != "" {
				t.Errorf("%s means %s and %s", word, other, kind.Name)
			}
			words[word] = kind.Name
		}
	}
	if got := kinds.Names(); len(got) != len(kinds.All()) || !slices.IsSorted(got) {
		t.Errorf("the names are %v", got)
	}
}

func TestInGroup(t *testing.T) {
	for group, want := range map[string]bool{v1alpha1.GroupName: true, berthv1alpha1.GroupName: true, "": false, "config.berth.dev": false} {
		if got := kinds.InGroup(group); got != want {
			t.Errorf("group %q: %t, want %t", group, got, want)
		}
	}
}

func TestKeepStatus(t *testing.T) {
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			older, bare, said := kind.New(), kind.New(), kind.New()
			fill := func(object kinds.Object, message string) {
				status := reflect.ValueOf(object).Elem().FieldByName("Status")
				for _, field := range status.Fields() {
					switch {
					case field.Kind() == reflect.Slice:
						field.Set(reflect.MakeSlice(field.Type(), len(message), len(message)))
					case field.Kind() == reflect.Int32:
						field.SetInt(int64(len(message)))
					}
				}
			}
			fill(older, "old")
			fill(said, "its own")
			want := said.DeepCopyObject()
			kind.KeepStatus(older, bare)
			kind.KeepStatus(older, said)
			if diff := cmp.Diff(older, bare); diff != "" {
				t.Errorf("an object without a status (-older +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, runtime.Object(said)); diff != "" {
				t.Errorf("an object with a status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestItems(t *testing.T) {
	list := &v1alpha1.ManagedClusterList{Items: make([]v1alpha1.ManagedCluster, 2)}
	list.Items[1].Name = "c1"
	items, err := kinds.Items(list)
	if err != nil || len(items) != 2 || items[1].(*v1alpha1.ManagedCluster) != &list.Items[1] {
		t.Errorf("got %v, %v", items, err)
	}
}
