package crd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// served is what one version of a CRD offers.
type served struct {
	Version         string
	Storage, Status bool
}

func TestVersions(t *testing.T) {
	want := map[string]struct {
		scope    apiextensionsv1.ResourceScope
		versions []served
	}{
		"DisruptionPolicy":         {"Namespaced", []served{{"v1alpha1", true, true}}},
		"PlacementChange":          {"Namespaced", []served{{"v1alpha1", true, true}}},
		"PlacementEviction":        {"Namespaced", []served{{"v1alpha1", true, true}}},
		"PlacementExplanation":     {"Namespaced", []served{{"v1alpha1", true, true}}},
		"SelectionPolicy":          {"Namespaced", []served{{"v1alpha1", true, true}}},
		"AddOnPlacementScore":      {"Namespaced", []served{{"v1alpha1", true, true}}},
		"ManagedCluster":           {"Cluster", []served{{"v1", true, true}, {"v1alpha1", false, true}}},
		"ManagedClusterSet":        {"Cluster", []served{{"v1beta2", true, true}, {"v1alpha1", false, true}}},
		"ManagedClusterSetBinding": {"Namespaced", []served{{"v1beta2", true, true}, {"v1alpha1", false, true}}},
		"Placement":                {"Namespaced", []served{{"v1beta1", true, true}, {"v1alpha1", false, true}}},
		// One request through v1alpha1 writes a page whole: there, and only there, status is no
		// subresource.
		"PlacementDecision": {"Namespaced", []served{{"v1beta1", true, true}, {"v1alpha1", false, false}}},
	}
	crds := all(t)
	if len(crds) != len(want) {
		t.Errorf("%d CRDs, want %d", len(crds), len(want))
	}
	for _, crd := range crds {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			tc, ok := want[crd.Spec.Names.Kind]
			if !ok {
				t.Fatal("unknown kind")
			}
			var got []served
			for _, v := range crd.Spec.Versions {
				if !v.Served {
					t.Errorf("%s is not served", v.Name)
				}
				got = append(got, served{v.Name, v.Storage, v.Subresources != nil && v.Subresources.Status != nil})
			}
			if diff := cmp.Diff(tc.versions, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if crd.Spec.Scope != tc.scope {
				t.Errorf("scope %s, want %s", crd.Spec.Scope, tc.scope)
			}
		})
	}
}

// TestNoneConversionIsHonest holds the versions of each kind equal: what one version shows, the
// others keep.
func TestNoneConversionIsHonest(t *testing.T) {
	for _, crd := range all(t) {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
				t.Errorf("conversion is %v, want None", crd.Spec.Conversion)
			}
			first := crd.Spec.Versions[0]
			ignored := cmpopts.IgnoreFields(first, "Name", "Storage", "Subresources")
			for _, v := range crd.Spec.Versions[1:] {
				if diff := cmp.Diff(first, v, ignored); diff != "" {
					t.Errorf("%s and %s differ:\n%s", first.Name, v.Name, diff)
				}
			}
		})
	}
}

func TestKustomizationListsEveryFile(t *testing.T) {
	body, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(body, &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("bases/*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, kustomization.Resources); diff != "" {
		t.Errorf("resources (-files +kustomization):\n%s", diff)
	}
}

func all(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return crds
}

// TestEveryListIsBounded: a list without a limit is what one object can make every reader pay for.
func TestEveryListIsBounded(t *testing.T) {
	crds, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			walkLists(version.Schema.OpenAPIV3Schema, crd.Spec.Names.Kind+" "+version.Name, func(path string, list *apiextensionsv1.JSONSchemaProps) {
				if list.MaxItems == nil {
					t.Errorf("%s has no maxItems", path)
				}
			})
		}
	}
}

// TestLimitsAreTheEngines: the engine refuses the same where the schema is not Berth's.
func TestLimitsAreTheEngines(t *testing.T) {
	crds, err := All()
	if err != nil {
		t.Fatal(err)
	}
	selector := "Placement v1beta1.spec.predicates[].requiredClusterSelector"
	want := map[string]int64{
		"Placement v1beta1.spec.clusterSets":                                   v1alpha1.MaxClusterSets,
		"Placement v1beta1.spec.predicates":                                    v1alpha1.MaxPredicates,
		"Placement v1beta1.spec.tolerations":                                   v1alpha1.MaxTolerations,
		"Placement v1beta1.spec.prioritizerPolicy.configurations":              v1alpha1.MaxPrioritizers,
		"Placement v1beta1.spec.spreadPolicy.spreadConstraints":                v1alpha1.MaxSpreadConstraints,
		"Placement v1beta1.spec.decisionStrategy.groupStrategy.decisionGroups": v1alpha1.MaxDecisionGroups,
		selector + ".celSelector.celExpressions":                               v1alpha1.MaxCelExpressions,
		selector + ".labelSelector.matchExpressions":                           v1alpha1.MaxRequirements,
		selector + ".claimSelector.matchExpressions":                           v1alpha1.MaxRequirements,
		selector + ".labelSelector.matchExpressions[].values":                  v1alpha1.MaxRequirementValues,
	}
	got := map[string]int64{}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			walkLists(version.Schema.OpenAPIV3Schema, crd.Spec.Names.Kind+" "+version.Name, func(path string, list *apiextensionsv1.JSONSchemaProps) {
				if _, ok := want[path]; ok && list.MaxItems != nil {
					got[path] = *list.MaxItems
				}
			})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestResourcesAreBounded: each heartbeat of a cluster compares all amounts that it reports.
func TestResourcesAreBounded(t *testing.T) {
	for _, crd := range all(t) {
		if crd.Spec.Names.Kind != "ManagedCluster" {
			continue
		}
		for _, version := range crd.Spec.Versions {
			status := version.Schema.OpenAPIV3Schema.Properties["status"]
			for _, list := range []string{"capacity", "allocatable"} {
				if most := status.Properties[list].MaxProperties; most == nil || *most != v1alpha1.MaxResources {
					t.Errorf("%s status.%s: maxProperties is not %d", version.Name, list, v1alpha1.MaxResources)
				}
			}
		}
	}
}

func walkLists(schema *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	for name, property := range schema.Properties {
		walkLists(&property, path+"."+name, visit)
	}
	if schema.Items != nil {
		visit(path, schema)
		walkLists(schema.Items.Schema, path+"[]", visit)
	}
}
