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

// TestConsoleExamples runs the commands of pages whose examples read files of the repository.
func TestConsoleExamples(t *testing.T) {
	for page, want := range map[string]int{"resilience.md": 3, "replay.md": 3} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		examples := regexp.MustCompile("(?ms)^```console\n\\$ berth (.*?)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
		if len(examples) != want {
			t.Fatalf("%s: %d examples", page, len(examples))
		}
		for _, example := range examples {
			t.Run(example[1], func(t *testing.T) { runExample(t, example[1], example[2]) })
		}
	}
}

func runExample(t *testing.T, arguments, want string) {
	t.Helper()
	t.Chdir(root)
	var out bytes.Buffer
	command := app.NewCommand()
	command.SetOut(&out)
	wantCode := 0
	if strings.Contains(arguments, "--fail-below") {
		wantCode = 3
	}
	if code := app.Run(command, strings.Fields(arguments)); code != wantCode {
		t.Errorf("exit code %d, want %d", code, wantCode)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-page +printed:\n%s", diff)
	}
}
