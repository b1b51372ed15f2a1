package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const source = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.io
spec:
  group: example.io
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          amount:
            type: object
            additionalProperties:
              pattern: ^[0-9]+([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+)))?$
              x-kubernetes-int-or-string: true
          spec:
            type: array
            items:
              type: object
              properties:
                matchExpressions:
                  type: array
                  items:
                    type: object
                    properties:
                      operator: {type: string}
`

func TestExpand(t *testing.T) {
	cases := map[string]struct {
		kind                                     kind
		wantVersions, wantStored, wantWithStatus []string
	}{
		"one version": {
			kind:           kind{versions: []version{{name: "v1alpha1"}}},
			wantVersions:   []string{"v1alpha1"},
			wantStored:     []string{"v1alpha1"},
			wantWithStatus: []string{"v1alpha1"},
		},
		"the first is stored": {
			kind:           kind{versions: []version{{name: "v1"}, {name: "v1alpha1"}}},
			wantVersions:   []string{"v1", "v1alpha1"},
			wantStored:     []string{"v1"},
			wantWithStatus: []string{"v1", "v1alpha1"},
		},
		"the name is a label value": {
			kind:           kind{versions: []version{{name: "v1"}}, nameIsLabel: true},
			wantVersions:   []string{"v1"},
			wantStored:     []string{"v1"},
			wantWithStatus: []string{"v1"},
		},
		"a version that is written whole has no status subresource": {
			kind:           kind{versions: []version{{name: "v1beta1"}, {name: "v1alpha1", wholeWrites: true}}},
			wantVersions:   []string{"v1beta1", "v1alpha1"},
			wantStored:     []string{"v1beta1"},
			wantWithStatus: []string{"v1beta1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := expand([]byte(source), tc.kind)
			if err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(string(out), "\n"); !strings.Contains(first, "DO NOT EDIT") {
				t.Errorf("the first line does not say that the file is generated: %q", first)
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.UnmarshalStrict(out, &crd); err != nil {
				t.Fatal(err)
			}
			var versions, stored, withStatus []string
			for _, v := range crd.Spec.Versions {
				versions = append(versions, v.Name)
				if v.Storage {
					stored = append(stored, v.Name)
				}
				if v.Subresources != nil && v.Subresources.Status != nil {
					withStatus = append(withStatus, v.Name)
				}
				if !v.Served {
					t.Errorf("%s is not served", v.Name)
				}
				if diff := cmp.Diff(crd.Spec.Versions[0].Schema, v.Schema); diff != "" {
					t.Errorf("the schema of %s differs:\n%s", v.Name, diff)
				}
			}
			if diff := cmp.Diff([][]string{tc.wantVersions, tc.wantStored, tc.wantWithStatus}, [][]string{versions, stored, withStatus}); diff != "" {
				t.Errorf("versions, stored, with status (-want +got):\n%s", diff)
			}
			if got := crd.Spec.Conversion; got == nil || got.Strategy != apiextensionsv1.NoneConverter {
				t.Errorf("conversion is %v, want None", got)
			}
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			if got := spec.Items.Schema.Properties["matchExpressions"].Items.Schema.Properties["operator"].Enum; len(got) != 4 {
				t.Errorf("operators allowed in a selector: %v, want 4", got)
			}
			metadata := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["metadata"]
			if name := metadata.Properties["name"]; (name.MaxLength != nil) != tc.kind.nameIsLabel {
				t.Errorf("the maximum length of the name is %v", name.MaxLength)
			}
			amount := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["amount"].AdditionalProperties.Schema
			if amount.MaxLength == nil || !strings.Contains(amount.Pattern, boundExponent) {
				t.Errorf("the text of a quantity has no bound: %s", amount.Pattern)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	cases := map[string]struct{ in, wantError string }{
		"two versions":  {in: source + "  - {name: v1, served: true, storage: false}\n", wantError: "found 2"},
		"unknown field": {in: source + "  typo: true\n", wantError: "typo"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := expand([]byte(tc.in), kind{versions: []version{{name: "v1"}}})
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("error %v, want one with %q", err, tc.wantError)
			}
		})
	}
}

func TestRunWantsEveryKind(t *testing.T) {
	from := t.TempDir()
	name := table[0].group + "_" + table[0].plural + ".yaml"
	if err := os.WriteFile(filepath.Join(from, name), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	err := run(from, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), table[1].plural) {
		t.Errorf("error %v, want one that names the missing %s", err, table[1].plural)
	}
}
