package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	code  = regexp.MustCompile("`[^`\n]*`")
)

// TestLinks demands the file behind every relative link, and the heading behind every #anchor.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]+)?\)`)
	for page, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			if strings.Contains(match[1], ":") {
				continue
			}
			to := page
			if match[1] != "" {
				to = filepath.Join(filepath.Dir(page), match[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
			} else if match[2] != "" && !anchors(t, to)[match[2]] {
				t.Errorf("%s links to %s%s, a heading that does not exist", page, match[1], match[2])
			}
		}
	}
}

// anchors are those that the headings of a page get where it is shown: small letters, digits,
// hyphens and underscores, with hyphens for spaces.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading[1])), "")
		found["#"+strings.ReplaceAll(kept, " ", "-")] = true
	}
	return found
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
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(text), "("+name+")") && !strings.Contains(string(text), "("+name+"#") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}
