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

// TestResilienceExamples runs the commands of docs/resilience.md.
func TestResilienceExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "resilience.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?ms)^```console\n\\$ berth (.*?)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(examples) != 4 {
		t.Fatalf("%d examples", len(examples))
	}
	t.Chdir(root)
	for _, example := range examples {
		t.Run(example[1], func(t *testing.T) {
			var out bytes.Buffer
			command := app.NewCommand()
			command.SetOut(&out)
			wantCode := 0
			if strings.Contains(example[1], "--fail-below") {
				wantCode = 3
			}
			if code := app.Run(command, strings.Fields(example[1])); code != wantCode {
				t.Errorf("exit code %d, want %d", code, wantCode)
			}
			if diff := cmp.Diff(example[2], out.String()); diff != "" {
				t.Errorf("-page +printed:\n%s", diff)
			}
		})
	}
}
