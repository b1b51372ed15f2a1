package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

// TestLint is `helm lint --strict charts/berth`, with the values of everything on, too.
func TestLint(t *testing.T) {
	for name, values := range map[string]string{"defaults": "", "everything on": everything} {
		set := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &set); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(filepath.Join(root, "charts", "berth"), set, "berth-system").Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestValuesAreDeclaredAndUsed: what has a default, what the schema knows and what templates read
// are the same.
func TestValuesAreDeclaredAndUsed(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, "charts", "berth", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(read("values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var schema property
	if err := json.Unmarshal(read("values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // Helm's own

	var used []string
	templates, err := filepath.Glob(filepath.Join(root, "charts", "berth", "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range templates {
		text := string(read(filepath.Join("templates", filepath.Base(template))))
		for _, found := range regexp.MustCompile(`\.Values((?:\.\w+)+)`).FindAllStringSubmatch(text, -1) {
			used = append(used, strings.TrimPrefix(found[1], "."))
		}
	}
	defaults, known := leaves("", values, &schema), schema.leaves("")
	for _, name := range defaults {
		if !slices.Contains(known, name) {
			t.Errorf("values.schema.json does not know %s", name)
		}
		// One may be used as a part of what is around it.
		if !slices.ContainsFunc(used, func(u string) bool { return u == name || strings.HasPrefix(name, u+".") }) {
			t.Errorf("no template reads %s", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(defaults, name) {
			t.Errorf("values.yaml has no %s", name)
		}
	}
	for _, name := range used {
		if !slices.ContainsFunc(known, func(k string) bool { return k == name || strings.HasPrefix(k, name+".") }) {
			t.Errorf("a template reads %s, which is no value", name)
		}
	}
}

// property is what is of interest of a schema.
type property struct {
	AdditionalProperties any
	Properties           map[string]*property
}

// closed says that the properties of an object are listed. Others are as Kubernetes or the
// configuration file has them.
func (p *property) closed() bool { return p != nil && p.AdditionalProperties == false }

func (p *property) leaves(prefix string) []string {
	var names []string
	for name, child := range p.Properties {
		if child.closed() && prefix+name != "resources" {
			names = append(names, child.leaves(prefix+name+".")...)
		} else {
			names = append(names, prefix+name)
		}
	}
	return names
}

// leaves are the names of values, down to where the schema leaves off.
func leaves(prefix string, values map[string]any, schema *property) []string {
	var names []string
	for name, value := range values {
		child := schema.Properties[name]
		if inner, ok := value.(map[string]any); ok && child.closed() && prefix+name != "resources" {
			names = append(names, leaves(prefix+name+".", inner, child)...)
		} else {
			names = append(names, prefix+name)
		}
	}
	return names
}
