package builtin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// pointsOf returns the extension points at which the plugins of the default profile run.
func pointsOf(t *testing.T) map[string][]string {
	t.Helper()
	profiles, err := Profiles(t.Context(), nil, Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	p, points := profiles[config.DefaultProfile], map[string][]string{}
	add(points, "QueueSort", p.QueueSort)
	add(points, "PreEnqueue", p.PreEnqueue...)
	add(points, "PreFilter", p.PreFilter...)
	add(points, "Filter", p.Filter...)
	add(points, "PostFilter", p.PostFilter...)
	add(points, "PreScore", p.PreScore...)
	for _, s := range p.Score {
		add(points, "Score", s.ScorePlugin)
	}
	add(points, "Reserve", p.Reserve...)
	add(points, "Permit", p.Permit...)
	add(points, "Transition", p.Transition...)
	add(points, "PreBind", p.PreBind...)
	add(points, "Bind", p.Bind...)
	add(points, "PostBind", p.PostBind...)
	return points
}

func add[T framework.Plugin](points map[string][]string, point string, plugins ...T) {
	for _, p := range plugins {
		points[p.Name()] = append(points[p.Name()], point)
	}
}

// TestPagesHaveExtensionPoints: each plugin's page, and the table of all plugins, name the points
// at which it runs.
func TestPagesHaveExtensionPoints(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	point := regexp.MustCompile(`\b(QueueSort|PreEnqueue|PreFilter|Filter|PostFilter|PreScore|Score|Reserve|Permit|Transition|PreBind|Bind|PostBind)\b`)
	for name, want := range pointsOf(t) {
		page, err := os.ReadFile(filepath.Join(docs, name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(page), "\n**Extension points:**")
		_, row, _ := strings.Cut(string(table), "\n| ["+name+"]("+name+".md) | ")
		for where, text := range map[string]string{name + ".md": line, "README.md": row} {
			text, _, _ = strings.Cut(strings.Split(text, "\n")[0], " | ")
			got := point.FindAllString(text, -1)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("docs/plugins/%s: %s has the extension points %v, want %v", where, name, got, want)
			}
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
				_, err = Profiles(t.Context(), c, Registry(), &framework.Handle{})
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
