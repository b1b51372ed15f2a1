package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoRecipe demands that the Go code of docs/consumers.md is part of the compiled example.
func TestGoRecipe(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "consumers.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "pkg", "client", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks were found", len(blocks))
	}
	if !strings.Contains(string(example), blocks[0][1]) {
		t.Errorf("the example has not:\n%s", blocks[0][1])
	}
}
