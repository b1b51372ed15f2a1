package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpToDate demands that the pages in the tree are what the code says.
func TestUpToDate(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	pages, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is out of date: go run ./test/docs/reference (-want +got):\n%s", name, diff)
		}
	}
}
