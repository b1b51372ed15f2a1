package lifecycle

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// generatorReading is how the generators of an ApplicationSet read a Placement. plugin is true for
// a plugin generator, which asks berth generator.
type generatorReading struct{ decision, plugin bool }

// maxGeneratorDepth is more than Argo CD nests generators.
const maxGeneratorDepth = 4

// readingOf returns how an ApplicationSet reads a Placement. A generator that may read it, because
// a template decides that, counts.
func readingOf(set *unstructured.Unstructured, placement types.NamespacedName) generatorReading {
	generators, _, _ := unstructured.NestedSlice(set.Object, "spec", "generators")
	return readingOfAll(generators, set.GetNamespace(), placement, 0)
}

func readingOfAll(generators []any, namespace string, placement types.NamespacedName, depth int) (found generatorReading) {
	if depth == maxGeneratorDepth {
		return found
	}
	for _, g := range generators {
		generator, ok := g.(map[string]any)
		if !ok {
			continue
		}
		if resource, ok := generator["clusterDecisionResource"].(map[string]any); ok && namespace == placement.Namespace {
			found.decision = found.decision || readsDecision(resource, placement.Name)
		}
		if plugin, ok := generator["plugin"].(map[string]any); ok {
			found.plugin = found.plugin || asksFor(plugin, placement)
		}
		for _, combined := range []string{"matrix", "merge"} {
			nested, _, _ := unstructured.NestedSlice(generator, combined, "generators")
			inner := readingOfAll(nested, namespace, placement, depth+1)
			found = generatorReading{found.decision || inner.decision, found.plugin || inner.plugin}
		}
	}
	return found
}

// readsDecision reports whether a clusterDecisionResource generator reads pages of a Placement. It
// lists pages by name or by labels. Of a selector only what it says of the Placement counts.
func readsDecision(resource map[string]any, placement string) bool {
	if name, _, _ := unstructured.NestedString(resource, "name"); name != "" {
		of, _, ok := v1alpha1.NumberOfPage(name)
		return ok && of == placement
	}
	content, ok := resource["labelSelector"].(map[string]any)
	if !ok || len(content) == 0 {
		return false
	}
	var spec metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &spec); err != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&spec)
	if err != nil {
		return false
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Key() == v1alpha1.PlacementLabel && !r.Matches(labels.Set{v1alpha1.PlacementLabel: placement}) {
			return false
		}
	}
	return true
}

// asksFor reports whether a plugin generator has the parameters of a Placement, as berth generator
// reads them.
func asksFor(plugin map[string]any, placement types.NamespacedName) bool {
	name, _, _ := unstructured.NestedString(plugin, "input", "parameters", "placement")
	namespace, _, _ := unstructured.NestedString(plugin, "input", "parameters", "namespace")
	if name == "" {
		return false
	}
	if strings.Contains(name+namespace, "{{") {
		return true
	}
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	return namespace == placement.Namespace && name == placement.Name
}
