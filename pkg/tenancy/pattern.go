package tenancy

import (
	"errors"
	"regexp"
	"regexp/syntax"
)

// Regular expressions take memory when they are compiled, and time for each character that they are
// matched with, in proportion to their instructions: a{1000} has a thousand.
const (
	maxPattern         = 512                  // characters of one
	maxInstructions    = 10000                // of one
	maxAllInstructions = 10 * maxInstructions // of all together
)

// CompilePattern compiles a regular expression of bounded size. Used counts the instructions of all
// that one configuration has.
func CompilePattern(text string, used *int) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, errors.New(Messagef("it is longer than %d characters", maxPattern))
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if reason := (*syntax.Error)(nil); errors.As(err, &reason) {
			return nil, errors.New(Messagef("%s: %q", reason.Code.String(), reason.Expr))
		}
		return nil, err
	}
	size := instructions(parsed)
	if size > maxInstructions {
		return nil, errors.New(Messagef("it has more than %d instructions", maxInstructions))
	}
	if *used += size; *used > maxAllInstructions {
		return nil, errors.New(Messagef("all regular expressions together have more than %d instructions", maxAllInstructions))
	}
	return regexp.Compile(text)
}

// instructions estimates how many instructions an expression is compiled to.
func instructions(e *syntax.Regexp) int {
	size := 1 + len(e.Rune)
	for _, sub := range e.Sub {
		size += instructions(sub)
	}
	if e.Op == syntax.OpRepeat {
		size *= max(e.Min+1, e.Max)
	}
	return size
}
