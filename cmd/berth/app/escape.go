package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// Names and messages of the hub, and the content of files, are the text of others. A terminal would
// obey the control characters in it: it would set the clipboard, rename the window, or show a name
// that is not the name. Two layers keep them out:
//
//   - escapingWriter, which Run puts under every command, escapes all control characters but newline and tab;
//   - say and table escape newline and tab, too, in what they are given to show, so that a text cannot add a line or a column.

// escapingWriter escapes control characters in all that is written to it, but newlines and tabs.
type escapingWriter struct{ out io.Writer }

// escaping is out behind an escapingWriter.
func escaping(out io.Writer) io.Writer {
	if w, ok := out.(*escapingWriter); ok {
		return w
	}
	return &escapingWriter{out}
}

func (w *escapingWriter) Write(p []byte) (int, error) {
	text := escape(string(p), "\n\t")
	if n, err := io.WriteString(w.out, text); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// writeRaw writes control sequences of Berth's own. The text of others in it must be escaped.
func writeRaw(out io.Writer, text string) error {
	if w, ok := out.(*escapingWriter); ok {
		out = w.out
	}
	_, err := io.WriteString(out, text)
	return err
}

// isTerminal says whether a stream ends at a person.
func isTerminal(stream any) bool {
	if w, ok := stream.(*escapingWriter); ok {
		stream = w.out
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// say formats as fmt.Fprintf does and escapes every control character of the arguments, newlines
// and tabs included.
func say(out io.Writer, format string, args ...any) error {
	if false {
		_ = fmt.Sprintf(format, args...) // go vet checks the format of calls of say
	}
	escaped := make([]any, len(args))
	for i, arg := range args {
		escaped[i] = escapedArg{arg}
	}
	_, err := fmt.Fprintf(out, format, escaped...)
	return err
}

// escapedArg formats a value as fmt does, then escapes the result.
type escapedArg struct{ value any }

func (a escapedArg) Format(state fmt.State, verb rune) {
	_, _ = io.WriteString(state, oneLine(fmt.Sprintf(fmt.FormatString(state, verb), a.value)))
}

// oneLine escapes every control character, newlines and tabs included.
func oneLine(text string) string { return escape(text, "") }

// escape replaces the characters that could control a terminal or hide on it by \uXXXX, as in JSON,
// and bytes that are not UTF-8 by \xXX. What is JSON stays the same JSON. Characters in keep stay
// as they are.
func escape(text, keep string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return controls(r) || r == utf8.RuneError }) {
		return text
	}
	var escaped strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&escaped, `\x%02x`, text[i])
		case !controls(r) || strings.ContainsRune(keep, r):
			escaped.WriteString(text[i : i+size])
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&escaped, `\u%04x`, unit)
			}
		}
		i += size
	}
	return escaped.String()
}

// controls says whether a character is a control (C0, DEL, C1), a format character (bidirectional
// and zero-width controls among them) or a separator of lines or paragraphs.
func controls(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// shellQuote makes a text one word of a POSIX shell, whatever it has.
func shellQuote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
