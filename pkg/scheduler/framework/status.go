package framework

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Code is the kind of a plugin's answer. Each extension point's interface documents its meaning
// there.
type Code int

const (
	// Success continues the attempt. A nil *Status is Success.
	Success Code = iota
	// Error ends the attempt. The published decision stays, and the attempt is repeated with
	// backoff.
	Error
	// Unschedulable excludes a cluster (Filter), denies a change (Reserve, Permit), or keeps the
	// published decision until something changes (PreEnqueue, PreFilter).
	Unschedulable
	// UnschedulableAndUnresolvable is Unschedulable that only an edit of the Placement can resolve.
	// From PreFilter it means that the Placement is misconfigured.
	UnschedulableAndUnresolvable
	// Wait holds the change, with outcome and condition reason Held. Only Permit may return it.
	Wait
	// Skip disables the plugin's Filter (PreFilter) or Score (PreScore), leaves the Proposal to the
	// next plugin (Bind), or means no score (Score).
	Skip
	// Pending waits for an outside fact, for example a score. Its outcome for a change is Waiting.
	// The attempt is repeated without backoff, at the time of CycleState.RequeueAt or after 10 s.
	Pending
)

var codeNames = [...]string{"Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"}

func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("Code(%d)", int(c))
	}
	return codeNames[c]
}

// Status is a plugin's answer. The zero value and nil mean Success. A Status is immutable, so a
// plugin may return the same one for many clusters.
type Status struct {
	code   Code
	plugin string
	reason string
	err    error
	// ended is the time of WithEnd.
	ended time.Time
	// unfinished is set by Unfinished.
	unfinished bool
}

// NewStatus returns a Status with a code and a reason for people.
func NewStatus(code Code, reason string) *Status { return &Status{code: code, reason: reason} }

// Misconfigured returns the UnschedulableAndUnresolvable Status for a mistake in a Placement.
func Misconfigured(mistake *field.Error) *Status {
	return NewStatus(UnschedulableAndUnresolvable, mistake.Error())
}

// AsStatus returns an Error status that wraps err; nil for nil.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, reason: err.Error(), err: err}
}

// Unfinished returns a Pending status for a PreFilter plugin that continues its work in a later
// attempt, at the time of CycleState.RequeueAt. Until then conditions describe the published
// decision.
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

// Reason is the reason for people; empty for nil.
func (s *Status) Reason() string {
	if s == nil {
		return ""
	}
	return s.reason
}

// Plugin is the name of the plugin that returned the Status. The engine sets it.
func (s *Status) Plugin() string {
	if s == nil {
		return ""
	}
	return s.plugin
}

// WithPlugin returns the Status with a plugin's name, unless it has one already.
func (s *Status) WithPlugin(name string) *Status {
	if s == nil || s.plugin != "" {
		return s
	}
	named := *s
	named.plugin = name
	return &named
}

// WithEnd returns the Status with the time until which it was Success.
func (s *Status) WithEnd(t time.Time) *Status {
	ended := *s
	ended.ended = t
	return &ended
}

// Ended is the time of WithEnd; zero for none.
func (s *Status) Ended() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.ended
}

// IsSuccess reports whether the code is Success; true for nil.
func (s *Status) IsSuccess() bool { return s.Code() == Success }

// IsSkip reports whether the code is Skip.
func (s *Status) IsSkip() bool { return s.Code() == Skip }

// IsUnfinished reports whether Unfinished returned this Status.
func (s *Status) IsUnfinished() bool { return s != nil && s.unfinished }

// Err is nil for Success, otherwise an error with the text `<plugin>: <reason>` that wraps the
// error of AsStatus.
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
