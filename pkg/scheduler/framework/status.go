package framework

import "fmt"

// Code is the kind of a plugin's answer. Its meaning at each extension point is said at the point's
// interface.
type Code int

const (
	// Success continues. A nil *Status is Success.
	Success Code = iota
	// Error is unexpected: the attempt ends, the published decision stays, the Placement is retried
	// with backoff.
	Error
	// Unschedulable excludes a cluster (Filter), or parks the Placement until something changes.
	Unschedulable
	// UnschedulableAndUnresolvable is Unschedulable that nothing but an edit of the Placement
	// resolves. From PreFilter it means that the Placement is misconfigured.
	UnschedulableAndUnresolvable
	// Wait is an answer of Permit only: the Proposal is held.
	Wait
	// Skip switches off a partner (PreFilter, PreScore), passes on (Bind), or says that there is no
	// score (Score).
	Skip
	// Pending waits for an outside fact, for example a score; the attempt is parked without
	// backoff.
	Pending
)

var codeNames = [...]string{"Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"}

func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("Code(%d)", int(c))
	}
	return codeNames[c]
}

// Status is a plugin's verdict. The zero value and nil mean Success. A Status is immutable, so that
// a plugin may answer thousands of clusters with one.
type Status struct {
	code   Code
	plugin string
	reason string
	err    error
	// unfinished is set by Unfinished.
	unfinished bool
}

// NewStatus answers with a code and a reason in words.
func NewStatus(code Code, reason string) *Status { return &Status{code: code, reason: reason} }

// AsStatus wraps an unexpected error; nil stays nil.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, reason: err.Error(), err: err}
}

// Unfinished answers Pending for a PreFilter plugin that continues its work in a later attempt, at
// the time it asked for with CycleState.RequeueAt. Until then conditions keep speaking of the
// published decision.
func Unfinished(reason string) *Status {
	return &Status{code: Pending, reason: reason, unfinished: true}
}

// Code is Success for nil.
func (s *Status) Code() Code {
	if s == nil {
		return Success
	}
	return s.code
}

// Reason is the answer in words; empty for nil.
func (s *Status) Reason() string {
	if s == nil {
		return ""
	}
	return s.reason
}

// Plugin names who answered; the engine fills it in.
func (s *Status) Plugin() string {
	if s == nil {
		return ""
	}
	return s.plugin
}

// WithPlugin returns the same verdict with its author's name.
func (s *Status) WithPlugin(name string) *Status {
	if s == nil || s.plugin != "" {
		return s
	}
	named := *s
	named.plugin = name
	return &named
}

// IsSuccess holds for nil, too.
func (s *Status) IsSuccess() bool { return s.Code() == Success }

// IsSkip says whether the plugin passed.
func (s *Status) IsSkip() bool { return s.Code() == Skip }

// IsUnfinished says whether the plugin continues its work in a later attempt.
func (s *Status) IsUnfinished() bool { return s != nil && s.unfinished }

// Err is nil for Success, else an error that reads `<plugin>: <reason>` and wraps what AsStatus was
// given.
func (s *Status) Err() error {
	switch {
	case s.IsSuccess():
		return nil
	case s.err != nil && s.plugin != "":
		return fmt.Errorf("%s: %w", s.plugin, s.err)
	case s.err != nil:
		return s.err
	case s.plugin != "":
		return fmt.Errorf("%s: %s", s.plugin, s.reason)
	}
	return fmt.Errorf("%s", s.reason)
}
