package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	file = "config/schema/placementschedulerconfiguration.json"
	head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"
)

// TestUpToDate demands that the schema in the tree is what the types say.
func TestUpToDate(t *testing.T) {
	t.Chdir(root)
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("make manifests is due (-want +got):\n%s", diff)
	}
}

// validate is nil for a file that the schema in the tree accepts.
func validate(t *testing.T, text string) error {
	t.Helper()
	schemaText, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(file, schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	// The validator wants numbers as the JSON said them.
	asJSON, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(asJSON)); err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value)
}

// TestDocumentation demands that the schema accepts the configurations in the documentation, but
// those shown for their mistakes.
func TestDocumentation(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"docs/*.md", "docs/plugins/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	accepted := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "\n\n")
		for i, block := range blocks {
			example := strings.TrimPrefix(strings.ReplaceAll("\n"+strings.Trim(block, "\n"), "\n    ", "\n"), "\n")
			if strings.HasPrefix(example, "profiles:") {
				example = head + example
			}
			if !strings.HasPrefix(example, head) || i+1 < len(blocks) && strings.HasPrefix(strings.TrimSpace(blocks[i+1]), "! ") {
				continue
			}
			if err := validate(t, example); err != nil {
				t.Errorf("%s: %v\n%s", page, err, example)
			}
			accepted++
		}
	}
	if accepted < 12 {
		t.Errorf("the documentation has %d configurations only", accepted)
	}
}

// TestMistakes demands that the schema refuses what Load refuses, as far as a schema can.
func TestMistakes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "pkg/scheduler/config/testdata/mistakes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var mistakes []struct {
		Name, File string
		Schema     *bool
	}
	if err := yaml.Unmarshal(text, &mistakes); err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		if m.Schema != nil && !*m.Schema {
			continue
		}
		if validate(t, m.File) == nil {
			t.Errorf("accepted: %s:\n%s", m.Name, m.File)
		}
	}
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		plugin, args string
		want         bool
	}{
		"known ones":                        {plugin: "BlastRadius", args: "{maxRemoved: 20%, window: 30m}", want: true},
		"a number or a share":               {plugin: "BlastRadius", args: "{maxRemoved: 5}", want: true},
		"none of many":                      {plugin: "BlastRadius", args: "{}", want: true},
		"unknown ones":                      {plugin: "BlastRadius", args: "{maxRemove: 5}"},
		"those of another plugin":           {plugin: "MaintenanceWindow", args: "{maxRemoved: 5}"},
		"of another type":                   {plugin: "BlastRadius", args: "{maxRemoved: [5]}"},
		"in a list":                         {plugin: "MaintenanceWindow", args: "{windows: [{schedule: 0 6 * * 0, duration: 2h}]}", want: true},
		"unknown ones in a list":            {plugin: "MaintenanceWindow", args: "{windows: [{schedule: 0 6 * * 0, duration: 2h, zone: UTC}]}"},
		"any for a plugin that takes none":  {plugin: "Balance", args: "{x: 1}"},
		"none for a plugin that takes none": {plugin: "Balance", args: "{}", want: true},
		"any for a plugin out of the tree":  {plugin: "Other", args: "[anything, {x: 1}]", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := validate(t, head+fmt.Sprintf("profiles: [{pluginConfig: [{name: %s, args: %s}]}]", tc.plugin, tc.args))
			if (err == nil) != tc.want {
				t.Errorf("got %v, want it accepted: %t", err, tc.want)
			}
		})
	}
}
