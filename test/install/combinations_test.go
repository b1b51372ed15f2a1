package install

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// component is a folder of config, with the chart's values for it, and an object that it needs.
type component struct{ name, values, outside string }

// components can be combined at will.
var components = []component{
	{"beside-ocm", "{ocmCRDs: false, housekeeping: false}", ""},
	{"validation", "{webhook: {certificate: cert-manager}}", ""},
	{"queues", "{queues: {enabled: true}, webhook: {certificate: cert-manager}}", "ConfigMap berth-system/yunikorn-configs"},
	{"multicluster", "{multicluster: {enabled: true}}", ""},
	{"reporter", "{reporter: {enabled: true}}", ""},
	{"explore", "{explore: {enabled: true}}", "ConfigMap berth-system/kube-root-ca.crt"},
	{"generator", "{generator: {enabled: true}}", ""},
	{"monitoring", "{serviceMonitor: {enabled: true}, rules: {enabled: true}}", ""},
}

// shortFiles are the files on the disk, but CRDs have no schemas, which take most of the time.
type shortFiles struct{ filesys.FileSystem }

// ReadFile implements filesys.FileSystem.
func (f shortFiles) ReadFile(path string) ([]byte, error) {
	text, err := f.FileSystem.ReadFile(path)
	if err != nil || filepath.Base(filepath.Dir(path)) != "bases" {
		return text, err
	}
	before, _, _ := bytes.Cut(text, []byte("\n  versions:\n"))
	return append(before, '\n'), nil
}

// TestCombinations: every combination of components is whole, has no object twice, has the objects
// of each of its components, and one image.
func TestCombinations(t *testing.T) {
	files := shortFiles{filesys.MakeFsOnDisk()}
	added := make([][]string, len(components))
	alone := titles(t, files)
	for i, c := range components {
		added[i] = slices.DeleteFunc(titles(t, files, c.name), func(title string) bool { return slices.Contains(alone, title) })
		if c.name != "beside-ocm" && len(added[i]) == 0 {
			t.Errorf("%s adds nothing", c.name)
		}
	}
	for set := range 1 << len(components) {
		var names, outside, wanted []string
		for i, c := range components {
			if set&(1<<i) != 0 {
				names, wanted = append(names, c.name), append(wanted, added[i]...)
				if c.outside != "" {
					outside = append(outside, c.outside)
				}
			}
		}
		// The order of the components has no effect.
		if set%2 == 1 {
			slices.Reverse(names)
		}
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			t.Parallel()
			objects, err := installedFrom(files, names...)
			if err != nil {
				t.Fatal(err)
			}
			checkCombination(t, objects, wanted, outside)
		})
	}
}

func checkCombination(t *testing.T, objects []*unstructured.Unstructured, wanted, outside []string) {
	t.Helper()
	for _, problem := range dangling(objects, outside) {
		t.Error(problem)
	}
	found, images := map[string]int{}, map[string]bool{}
	for _, o := range objects {
		found[title(o)]++
		pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		containers, _ := pod["containers"].([]any)
		for _, c := range containers {
			container := c.(map[string]any)
			images[container["image"].(string)] = true
			flags := map[string]bool{}
			for _, argument := range container["args"].([]any) {
				name, _, _ := strings.Cut(argument.(string), "=")
				if flags[name] {
					t.Errorf("%s has the flag %s twice", title(o), name)
				}
				flags[name] = true
			}
		}
	}
	for title, n := range found {
		if n != 1 {
			t.Errorf("%s is there %d times", title, n)
		}
	}
	for _, title := range wanted {
		if found[title] == 0 {
			t.Errorf("%s is missing", title)
		}
	}
	if diff := cmp.Diff([]string{"berth:v0.1.0"}, slices.Sorted(maps.Keys(images))); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func titles(t *testing.T, files filesys.FileSystem, names ...string) []string {
	t.Helper()
	objects, err := installedFrom(files, names...)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, o := range objects {
		all = append(all, title(o))
	}
	return all
}
