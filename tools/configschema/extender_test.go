package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// TestExtenderExamples: the request and the answer in docs/extenders.md are valid by the OpenAPI
// document, and mistakes are not.
func TestExtenderExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/extender.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("extender.json", document); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/extenders.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of JSON", len(blocks))
	}
	for i, name := range []string{"Request", "Answer"} {
		schema, err := compiler.Compile("extender.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		valid := func(text string) error {
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			return schema.Validate(value)
		}
		if err := valid(blocks[i][1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if valid(strings.ReplaceAll(blocks[i][1], "clusters", "other")) == nil {
			t.Errorf("%s without clusters is valid", name)
		}
	}
}
