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

// Names, messages and file contents come from other users. A terminal would execute control
// characters in them, which could set the clipboard, rename the window, or show a false name. Two
// layers prevent that:
//
//   - escapingWriter escapes all control characters except newline and tab. Run wraps the output of
//     every command in it.
//   - say and table escape newline and tab in their arguments, too, so that a text cannot add a
//     line or a column.

// escapingWriter escapes all control characters but newlines and tabs in what is written to it.
type escapingWriter struct{ out io.Writer }

// escaping wraps out in an escapingWriter.
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

// writeRaw writes Berth's own control sequences. Texts of other users in it must be escaped
// already.
func writeRaw(out io.Writer, text string) error {
	if w, ok := out.(*escapingWriter); ok {
		out = w.out
	}
	_, err := io.WriteString(out, text)
	return err
}

// isTerminal is true if the stream is a terminal.
func isTerminal(stream any) bool { return terminalOf(stream) != nil }

// obeysEscapes is true if the stream is a terminal that obeys escape sequences.
func obeysEscapes(stream any) bool {
	file := terminalOf(stream)
	return file != nil && enableEscapes(file)
}

// terminalOf returns the file of a stream that is a terminal, else nil.
func terminalOf(stream any) *os.File {
	if w, ok := stream.(*escapingWriter); ok {
		stream = w.out
	}
	if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// say formats as fmt.Fprintf does, and escapes every control character in the arguments, including
// newlines and tabs.
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

// oneLine escapes every control character, including newlines and tabs.
func oneLine(text string) string { return escape(text, "") }

// escape replaces characters that could control a terminal, or hide on it, by \uXXXX as in JSON,
// and bytes that are not UTF-8 by \xXX. JSON keeps its meaning. Characters in keep stay.
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

// controls is true for a control character (C0, DEL, C1), a format character (such as bidirectional
// and zero-width controls) and a separator of lines or paragraphs.
func controls(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
