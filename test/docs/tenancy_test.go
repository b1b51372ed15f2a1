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

// TestTenancyExamples runs every command in docs/tenancy.md with the queues.yaml above it, and
// demands the output below it.
func TestTenancyExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/tenancy.md"))
	if err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(filepath.Join(root, "examples/queues.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, first, _ := strings.Cut(string(page), "```yaml\n"); !strings.HasPrefix(first, string(sample)+"```\n") {
		t.Error("examples/queues.yaml is not the first configuration of docs/tenancy.md")
	}
	t.Chdir(t.TempDir())
	commands := 0
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if block[1] == "yaml" {
			if err := os.WriteFile("queues.yaml", []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for example := range strings.SplitSeq(strings.TrimPrefix(block[2], "$ "), "\n$ ") {
			commands++
			line, want, _ := strings.Cut(example, "\n")
			var got bytes.Buffer
			command := app.NewCommand()
			command.SetOut(&got)
			command.SetErr(&got)
			app.Run(command, strings.Fields(line)[1:])
			if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got.String())); diff != "" {
				t.Errorf("%s (-page +got):\n%s", line, diff)
			}
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands found", commands)
	}
}
