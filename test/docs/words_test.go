package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxColumns is the width of a comment line, with four columns for a tab.
const maxColumns = 100

// unclear are words that have a plain one instead.
var unclear = map[string]string{
	"whoever": "the user, the client", "whosever": "of the user", "whatever becomes of": "if … fails",
	"amiss": "invalid, missing", "mend": "fix, repair", "mends": "fixes, repairs", "mended": "fixed, repaired", "in force": "last published, current",
	"woken": "affected", "told of": "receives", "tells of": "reports, describes", "tell of": "report, describe", "none to speak of": "none",
	"makes no sense": "is invalid", "for ever": "forever", "anew": "again", "put right": "restored", "puts right": "restores", "put it right": "restored it",
	"as ever": "as before", "dressed": "complete", "nobody knows": "is unknown", "comes of": "results from", "came of": "resulted from",
}

// commentLine matches a line of a comment, but no marker, directive or code in it.
var commentLine = regexp.MustCompile(`^\s*// [^\s+]`)

// TestPlainWords holds comments and documentation to plain words, and comments to their width.
func TestPlainWords(t *testing.T) {
	var patterns []*regexp.Regexp
	for word := range unclear {
		patterns = append(patterns, regexp.MustCompile(`(?i)\b`+word+`\b`))
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
			return fs.SkipDir
		}
		ext := filepath.Ext(name)
		if entry.IsDir() || ext != ".go" && ext != ".md" || name == "words_test.go" || strings.HasPrefix(name, "zz_generated") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checkWords(t, path, string(text), ext == ".go", patterns)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkWords(t *testing.T, path, text string, code bool, patterns []*regexp.Regexp) {
	t.Helper()
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		if code && !commentLine.MatchString(line) {
			continue
		}
		if width := len([]rune(strings.ReplaceAll(line, "\t", "    "))); code && width > maxColumns {
			t.Errorf("%s:%d: the comment is %d columns wide, at most %d are allowed", path, number, width, maxColumns)
		}
		for _, pattern := range patterns {
			if word := strings.ToLower(pattern.FindString(line)); word != "" {
				t.Errorf("%s:%d: %q: write %q", path, number, word, unclear[word])
			}
		}
	}
}
