package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package p

// HoldArgs are the arguments of Hold. Without any, it is off.
type HoldArgs struct {
	// Most is a share,
	// a|b, of Spans when set. Default 2.
	Most *intstr.IntOrString ` + "`json:\"most,omitempty\"`" + `
	// Spans are when.
	Spans []Span ` + "`json:\"spans\"`" + `
}

// Span is a span.
type Span struct {
	// Length is how long. Default 1h.
	Length metav1.Duration ` + "`json:\"length\"`" + `
}
`

const table = `Without any, it is off.

| argument | type | meaning |
|---|---|---|
| ` + "`most` | integer or percentage | A share, a\\|b, of `spans`" + ` when set. Default 2. |
| ` + "`spans`" + ` | list of object | When. |
| ` + "`spans[].length`" + ` | duration | How long. Default 1h. |
`

const (
	blank = "# Page\n\n<!-- args -->\n<!-- /args -->\n\nEnd.\n"
	stale = "# Page\n\n<!-- args -->\nold\n<!-- /args -->\n\nEnd.\n"
)

func TestRun(t *testing.T) {
	filled := func(text string) string { return "# Page\n\n<!-- args -->\n" + text + "<!-- /args -->\n\nEnd.\n" }
	tests := map[string]struct {
		source  string
		pages   map[string]string
		want    map[string]string
		wantErr string
	}{
		"empty": {source: source, pages: map[string]string{"README.md": "", "Hold.md": blank}, want: map[string]string{"Hold.md": filled(table)}},
		"stale": {source: source, pages: map[string]string{"README.md": "", "Hold.md": stale}, want: map[string]string{"Hold.md": filled(table)}},
		"what was written stays": {
			source: source,
			pages:  map[string]string{"README.md": "", "Hold.md": filled(table)},
			want:   map[string]string{"Hold.md": filled(table)},
		},
		"no page":  {source: source, pages: map[string]string{"README.md": ""}, wantErr: "HoldArgs has no page DIR/Hold.md"},
		"no lines": {source: source, pages: map[string]string{"Hold.md": "# A\n"}, wantErr: `DIR/Hold.md: there are no lines "<!-- args -->" and "<!-- /args -->"`},
		"no arguments": {
			source: "package p", pages: map[string]string{"A.md": blank}, wantErr: "DIR/A.md is the page of a plugin without arguments: README.md has those",
		},
		"no comment": {
			source:  "package p\n\ntype AArgs struct {\n\tMost int `json:\"most\"`\n}\n",
			pages:   map[string]string{"README.md": ""},
			wantErr: "describing AArgs: AArgs.Most has no JSON name, or no comment that begins with its name",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, docs := t.TempDir(), t.TempDir()
			write(t, filepath.Join(code, "p.go"), tc.source)
			for file, text := range tc.pages {
				write(t, filepath.Join(docs, file), text)
			}
			err := run(docs, []string{code})
			if tc.wantErr != "" {
				if want := strings.ReplaceAll(tc.wantErr, "DIR", docs); err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range tc.want {
				got, err := os.ReadFile(filepath.Join(docs, file))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
