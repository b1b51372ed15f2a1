package samples

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// types maps what a sample may say it is to the type it must parse into. An ApplicationSet is Argo
// CD's and has no type here.
var types = func() map[string]func() any {
	all := map[string]func() any{
		"cluster.open-cluster-management.io/v1alpha1 Placement": func() any { return &v1alpha1.Placement{} },
		"v1 Namespace":                                  func() any { return &corev1.Namespace{} },
		"v1 ServiceAccount":                             func() any { return &corev1.ServiceAccount{} },
		"v1 Secret":                                     func() any { return &corev1.Secret{} },
		"v1 ConfigMap":                                  func() any { return &corev1.ConfigMap{} },
		"rbac.authorization.k8s.io/v1 Role":             func() any { return &rbacv1.Role{} },
		"rbac.authorization.k8s.io/v1 RoleBinding":      func() any { return &rbacv1.RoleBinding{} },
		"argoproj.io/v1alpha1 ApplicationSet":           func() any { return &map[string]any{} },
		"kustomize.config.k8s.io/v1beta1 Kustomization": func() any { return &map[string]any{} },
	}
	for _, kind := range kinds.All() {
		all[kind.GroupVersion.String()+" "+kind.Name] = func() any { return kind.New() }
	}
	return all
}()

func TestEverySampleParses(t *testing.T) {
	samples := parseAll(t, os.DirFS("."))
	if len(samples) < 250 {
		t.Errorf("found %d objects, want the fleet of 250 and more", len(samples))
	}
}

func TestEmbeddedFilesAreTheOnesKustomizeLists(t *testing.T) {
	data, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	embedded, err := fs.Glob(FS, "*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kustomization.Resources, embedded); diff != "" {
		t.Errorf("resources of kustomization.yaml and embedded files differ (-listed +embedded):\n%s", diff)
	}
}

// The guide's scores depend on Balance, which counts every decision on the hub: nobody else may
// choose from its clusters.
func TestOnlyTheGuideSeesItsClusters(t *testing.T) {
	guideSets := map[string]bool{}
	var sets []*v1alpha1.ManagedClusterSet
	var bindings []*v1alpha1.ManagedClusterSetBinding
	for _, s := range parseAll(t, os.DirFS(".")) {
		switch object := s.(type) {
		case *v1alpha1.ManagedCluster:
			if strings.HasPrefix(object.Name, "cluster") {
				guideSets[object.Labels[v1alpha1.ClusterSetLabel]] = true
			}
		case *v1alpha1.ManagedClusterSet:
			sets = append(sets, object)
		case *v1alpha1.ManagedClusterSetBinding:
			bindings = append(bindings, object)
		}
	}
	if diff := cmp.Diff(map[string]bool{"guide": true}, guideSets); diff != "" {
		t.Errorf("sets that cluster1 to cluster4 are in (-want +got):\n%s", diff)
	}
	for _, set := range sets {
		if kind := set.Spec.ClusterSelector.SelectorType; kind != v1alpha1.ExclusiveClusterSetLabel {
			t.Errorf("ManagedClusterSet %s selects by %s, which may select the guide's clusters", set.Name, kind)
		}
	}
	for _, binding := range bindings {
		if binding.Spec.ClusterSet == "guide" != (binding.Namespace == "ns1") {
			t.Errorf("namespace %s is bound to set %s, want ns1 alone on guide, and on nothing else", binding.Namespace, binding.Spec.ClusterSet)
		}
	}
}

// parseAll reads every YAML file below fsys strictly: an unknown kind, an unknown field or one
// given twice fails the test.
func parseAll(t *testing.T, fsys fs.FS) []any {
	t.Helper()
	var samples []any
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			samples = append(samples, parse(t, name, document))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func parse(t *testing.T, file string, document []byte) any {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	newObject, ok := types[kind.APIVersion+" "+kind.Kind]
	if !ok {
		t.Fatalf("%s: %s %s is no kind that a sample may have", file, kind.APIVersion, kind.Kind)
	}
	object := newObject()
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		t.Errorf("%s: %s: %v", file, kind.Kind, err)
	}
	return object
}
