package queueconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// MaxProblems is how many errors, and how many warnings, about one configuration are listed. The
// last one counts those that are not.
const MaxProblems = 100

// Problem is an error in a configuration, or a warning about one.
type Problem struct {
	Line    int    // from 1; 0 where no line is known
	Path    string // such as partitions[0].queues[1].submitacl; may be empty
	Message string
}

// String returns the problem with its position, at most MaxMessage bytes.
func (p Problem) String() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return tenancy.Bound(text)
}

// Problems is the error of an invalid configuration: its problems by line, at most MaxProblems.
type Problems []Problem

// Error has one problem on each line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// problemList collects problems. It keeps the first MaxProblems and counts all.
type problemList struct {
	kept  []Problem
	total int
}

// addf adds a problem. It formats only problems that are kept.
func (l *problemList) addf(at position, format string, args ...any) {
	if l.total++; l.total <= MaxProblems {
		l.kept = append(l.kept, Problem{at.line, at.path, tenancy.Messagef(format, args...)})
	}
}

// sorted returns the problems by line.
func (l *problemList) sorted() []Problem {
	problems := l.kept
	if l.total > MaxProblems {
		problems = problems[:MaxProblems-1]
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	if l.total > MaxProblems {
		problems = append(problems, Problem{Message: fmt.Sprintf("%d more are not listed", l.total-len(problems))})
	}
	return problems
}
