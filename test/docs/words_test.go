package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxColumns is the width of a comment line, with four columns for a tab.
const maxColumns = 100

// unclear are words and phrases that have a plain one instead, as regular expressions.
var unclear = map[string]string{
	"whoever": "the user, the client", "whosever": "of the user", "somebody": "a user, another client", "anybody": "any user", "somebody else": "another client",
	"amiss": "invalid, missing", "mend(s|ed|ing)?": "fix, repair", "put(s|ting)? (it )?right": "restore", "makes no sense": "is invalid", "without sense": "invalid",
	"in force": "last published, current", "woken": "affected", "anew": "again",
	"tell(s|ing)? of": "report, describe", "told of": "receives", "speaks? of": "describes", "foretell(s|ing)?": "shows the effect of", "said of": "reported about",
	"none to speak of": "none", "as ever": "as before", "for ever": "forever", "dressed": "complete", "made up": "generated, invented",
	"(what|whatever) becomes of": "what happens to", "comes of": "results from", "came of": "resulted from", "brought about": "caused", "nobody knows": "is unknown",
	"(by|without|asks?|asking|gives?) leave": "permission", "leave (is|was) (given|asked)": "permission", "let(s|ting)? go of": "releases, removes",
	"calmer": "more stable", "yardstick": "reference", "judge(s|d)?": "evaluates, decides", "no news": "no change", "of (its|their) own accord": "by default, itself",
	"takes in": "accepts, receives, stores", "took in": "received", "lest": "so that … not", "befall(s|en)?": "happens to", "yonder": "there",
}

// unclearFunction matches the declaration of a function whose name does not say what it does.
var unclearFunction = regexp.MustCompile(`^func (?:\([^)]*\) )?(judge|rate|note|took|tells?|told|leave|settled?|choose|mend|dress|burden)\(`)

// commentLine matches a line of a comment, but no marker or directive.
var commentLine = regexp.MustCompile(`^\s*//\s+[^\s+]`)

// TestPlainWords checks the words of comments, string literals and documentation, the width of
// comments, and the names of functions.
func TestPlainWords(t *testing.T) {
	pattern := regexp.MustCompile(`\b(` + strings.Join(slices.Collect(maps.Keys(unclear)), "|") + `)\b`)
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
		if ext == ".go" {
			checkLines(t, path, string(text))
			text = proseOf(text)
		}
		checkWords(t, path, strings.ToLower(string(text)), pattern)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// proseOf returns the comments and string literals of Go code, on the lines where they are.
func proseOf(code []byte) []byte {
	prose := make([]byte, len(code))
	for i, c := range code {
		if prose[i] = ' '; c == '\n' {
			prose[i] = c
		}
	}
	file := token.NewFileSet().AddFile("", -1, len(code))
	var s scanner.Scanner
	s.Init(file, code, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return prose
		case token.COMMENT, token.STRING:
			copy(prose[file.Offset(pos):], literal)
		}
	}
}

// checkLines checks the names of functions and the width of comments.
func checkLines(t *testing.T, path, code string) {
	t.Helper()
	number := 0
	for line := range strings.Lines(code) {
		number++
		line = strings.TrimRight(line, "\n")
		if width := len([]rune(strings.ReplaceAll(line, "\t", "    "))); commentLine.MatchString(line) && width > maxColumns {
			t.Errorf("%s:%d: the comment is %d columns wide, at most %d are allowed", path, number, width, maxColumns)
		}
		if found := unclearFunction.FindStringSubmatch(line); found != nil {
			t.Errorf("%s:%d: the function %s needs a name that says what it does", path, number, found[1])
		}
	}
}

func checkWords(t *testing.T, path, text string, pattern *regexp.Regexp) {
	t.Helper()
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, found := range pattern.FindAllString(line, -1) {
			t.Errorf("%s:%d: %q: write %q", path, number, found, plain(found))
		}
	}
}

// plain returns the plain words for a text that one of the expressions matches.
func plain(found string) string {
	for word, instead := range unclear {
		if regexp.MustCompile(`^(` + word + `)$`).MatchString(found) {
			return instead
		}
	}
	return ""
}
