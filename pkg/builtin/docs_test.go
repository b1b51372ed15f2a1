package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

const docs = "../../docs/plugins"

func TestEveryPluginHasAPage(t *testing.T) {
	for name := range Registry() {
		if _, err := os.Stat(filepath.Join(docs, name+".md")); err != nil {
			t.Error(err)
		}
	}
}

// TestExamplesInPages builds profiles from each configuration that a page shows.
func TestExamplesInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range examples(string(text)) {
			found++
			c, err := config.Load([]byte(example))
			if err == nil {
				_, err = scheduler.NewProfiles(t.Context(), c, DefaultProfile(), Registry(), &framework.Handle{})
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", page, err, example)
			}
		}
	}
	if found == 0 {
		t.Error("there are no examples")
	}
}

// examples are the indented blocks that are configurations.
func examples(text string) (all []string) {
	var block strings.Builder
	for line := range strings.Lines(text + "\n\nend\n") {
		switch code, indented := strings.CutPrefix(line, "    "); {
		case indented:
			block.WriteString(code)
		case strings.TrimSpace(line) != "":
			if strings.HasPrefix(block.String(), "apiVersion: "+config.APIVersion) {
				all = append(all, block.String())
			}
			block.Reset()
		}
	}
	return all
}
