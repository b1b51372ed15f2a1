package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// hostile sets the clipboard, renames the window, erases the screen, reverses the line, hides, and
// begins a line of its own. It has all kinds of control characters: C0, DEL, C1 (also as a bare
// byte), bidirectional, zero-width, and one of the last plane.
const hostile = "evil\x1b]52;c;ZXZpbA==\x07\x1b]2;title\x1b\\\x1b[2J\x9b2J\u009b2J\x7f\u202eesrever\u2066\u200b\ufeff\U000e0001\r\nFORGED line\tcolumn"

const hostileEscaped = `evil\u001b]52;c;ZXZpbA==\u0007\u001b]2;title\u001b\\u001b[2J\x9b2J\u009b2J\u007f\u202eesrever\u2066\u200b\ufeff\udb40\udc01\u000d\u000aFORGED line\u0009column`

func TestEscape(t *testing.T) {
	for name, tc := range map[string]struct{ text, keep, want string }{
		"plain":            {"store-1 ✓ Zürich 東京 …", "", "store-1 ✓ Zürich 東京 …"},
		"all kinds":        {hostile, "", hostileEscaped},
		"lines are kept":   {"a\n\tb\r\n", "\n\t", "a\n\tb\\u000d\n"},
		"a broken rune":    {"a\xc2", "", `a\xc2`},
		"the sign for one": {"a\ufffd", "", "a\ufffd"},
		"nothing":          {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := escape(tc.text, tc.keep); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSay(t *testing.T) {
	var out bytes.Buffer
	if err := say(&out, "%s|%-4s|%q|%3d|%v\n", "a\nb", "c", "d\x1b", 7, usagef("e\tf")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `a\u000ab|c   |"d\x1b"|  7|e\u0009f`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTableEscapesCells: a cell adds no line and no column, and colours stay.
func TestTableEscapesCells(t *testing.T) {
	var out bytes.Buffer
	list := &table{heading: []string{"NAME", "ON"}}
	list.add(cell{"a\nb\x1b[0m", green}, cell{text: "c"})
	if err := list.print(escaping(&out), true); err != nil {
		t.Fatal(err)
	}
	want := "NAME                ON\n\x1b[32ma\\u000ab\\u001b[0m\x1b[0m   c\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// maxKey is the length of the longest key of an API object, that of a label with a prefix. A YAML
// parser reads keys of at most 1,024 characters.
const maxKey = 317

// FuzzEscape: nothing that is written controls the terminal, and what was JSON or YAML stays the
// same.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{hostile, "", "plain", "\xff\xfe", "\U000e0020", "a: b\n- c", "\u2028", `\u202e`, "\u2000", "b\n\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := oneLine(text)
		if strings.ContainsFunc(line, controls) || !utf8.ValidString(line) {
			t.Errorf("%q becomes %q", text, line)
		}
		if again := oneLine(line); again != line {
			t.Errorf("%q, escaped again, becomes %q", line, again)
		}
		object := map[string]string{"a": text}
		if len(text) <= maxKey {
			object[text] = text
		}
		asJSON, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		if err := json.Unmarshal(asJSON, &want); err != nil {
			t.Fatal(err)
		}
		for format, read := range map[string]func([]byte, any) error{
			"json": json.Unmarshal, "yaml": func(b []byte, into any) error { return yaml.Unmarshal(b, into) },
		} {
			var out bytes.Buffer
			if err := printObject(escaping(&out), format, object); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			if err := read(out.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v\n%q", format, err, out.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%q", format, diff, out.String())
			}
			if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && controls(r) }) {
				t.Errorf("%s prints %q", format, out.String())
			}
		}
	})
}
