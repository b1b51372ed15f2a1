package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/cmd/berth/app"
)

// TestTutorial saves the tutorial's files and runs its commands, and holds what they print against
// the page.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ran := 0
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		first, rest, _ := strings.Cut(block[2], "\n")
		if block[1] == "yaml" {
			if err := os.WriteFile(strings.TrimPrefix(first, "# "), []byte(rest), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		line, ok := strings.CutPrefix(first, "$ berth ")
		if !ok {
			t.Fatalf("%q is no command", first)
		}
		var printed bytes.Buffer
		command := app.NewCommand()
		command.SetOut(&printed)
		command.SetErr(&printed)
		app.Run(command, strings.Fields(line))
		if diff := cmp.Diff(rest, printed.String()); diff != "" {
			t.Errorf("%s (-page +printed):\n%s", first, diff)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("only %d commands were found", ran)
	}
}
