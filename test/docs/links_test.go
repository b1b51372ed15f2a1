package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks demands the file behind every relative link.
func TestLinks(t *testing.T) {
	link, code := regexp.MustCompile(`\]\(([^)#\s]+)`), regexp.MustCompile("`[^`\n]*`")
	for page, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(match[1], ":") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
			}
		}
	}
}

// TestIndex demands that docs/README.md leads to every page beside it.
func TestIndex(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	beside, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range beside {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(text), "("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}
