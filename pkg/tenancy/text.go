package tenancy

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

const (
	// MaxQuote is how many characters of an input a message quotes.
	MaxQuote = 80
	// MaxMessage bounds a message, in bytes.
	MaxMessage = 1024

	ellipsis = "…"
)

// Cut returns the first MaxQuote characters of a name that a message contains, followed by … where
// there are more.
func Cut(name string) string {
	end := cutAt(name)
	if end == len(name) {
		return name
	}
	return name[:end] + ellipsis
}

// Quote returns Cut in double quotes, with the … after them.
func Quote(text string) string {
	end := cutAt(text)
	if end == len(text) {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:end]) + ellipsis
}

// cutAt returns the byte index after the first MaxQuote characters.
func cutAt(text string) int {
	count := 0
	for i := range text {
		if count == MaxQuote {
			return i
		}
		count++
	}
	return len(text)
}

// Bound cuts a message at MaxMessage bytes. It ends in … where it was longer.
func Bound(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	end := MaxMessage - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}

// Part is a bounded part of a message. Messagef does not cut it.
type Part string

// Messagef formats a message. It cuts strings and lists of strings among the arguments, and bounds
// the result. To combine messages, join them and use Bound instead.
func Messagef(format string, args ...any) string {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = input(arg)
		case []string:
			inputs := make([]input, len(arg))
			for j, text := range arg {
				inputs[j] = input(text)
			}
			args[i] = inputs
		}
	}
	return Bound(fmt.Sprintf(format, args...))
}

// input is text from a user in a message.
type input string

// Format implements fmt.Formatter: %q is Quote, all else Cut.
func (i input) Format(to fmt.State, verb rune) {
	text := Cut(string(i))
	if verb == 'q' {
		text = Quote(string(i))
	}
	_, _ = io.WriteString(to, text) // the formatter keeps it
}
