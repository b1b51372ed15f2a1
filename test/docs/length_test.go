package docs

import (
	"strings"
	"testing"
)

// maxWords bounds the words of all pages in docs, with the reference. It is only made smaller.
const maxWords = 45_000

// TestWords demands that docs stays short enough to be read.
func TestWords(t *testing.T) {
	words := 0
	for page, text := range pages(t) {
		if strings.HasPrefix(page, root+"/docs/") {
			words += len(strings.Fields(text))
		}
	}
	if words > maxWords {
		t.Errorf("docs has %d words, at most %d are allowed: say it in fewer words, and each fact on one page", words, maxWords)
	}
	t.Logf("%d words", words)
}
