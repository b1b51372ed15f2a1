package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/cmd/berth/app"
)

// TestSelectionExamples simulates each policy of docs/selection.md on its fleet, and compares the
// table of clusters with the one below the policy.
func TestSelectionExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "selection.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy, examples := "", 0
	for block := range strings.SplitSeq(string(page), "\n\n") {
		text := strings.ReplaceAll("\n"+block, "\n    ", "\n")
		switch {
		case strings.HasPrefix(block, "    spec:\n"):
			policy = "apiVersion: berth.dev/v1alpha1\nkind: SelectionPolicy\nmetadata: {name: web, namespace: shop}" + text + "\n"
		case strings.HasPrefix(block, "    CLUSTER "):
			examples++
			var out bytes.Buffer
			command := app.NewCommand()
			command.SetArgs([]string{"simulate", "-f", filepath.Join(root, "examples", "selection.yaml"), "-f", "-", "--placement", "shop/web"})
			command.SetIn(strings.NewReader(policy))
			command.SetOut(&out)
			if err := command.Execute(); err != nil {
				t.Errorf("%v of:\n%s", err, policy)
			}
			_, table, _ := strings.Cut(strings.ReplaceAll(out.String(), "\n  ", "\n"), "\nCLUSTER ")
			if diff := cmp.Diff(strings.TrimSpace(text), strings.TrimSpace("CLUSTER "+table)); diff != "" {
				t.Errorf("(-page +printed):\n%s\nof:\n%s", diff, policy)
			}
			policy = ""
		}
	}
	if examples != 6 {
		t.Errorf("%d examples found, want one for each part", examples)
	}
}
