package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/pkg/changes"
)

// Exit codes of the commands.
const (
	exitOK            = 0
	exitFailure       = 1
	exitUsage         = 2
	exitChanges       = 3
	exitMisconfigured = 4
)

// ExitCode is an exit code and what it means.
type ExitCode struct {
	Code    int
	Meaning string
}

// CommonExits are the exit codes of all commands. A code of ownExits replaces them.
var CommonExits = []ExitCode{{exitOK, "success"}, {exitFailure, "failure"}, {exitUsage, "wrong usage"}}

// tooFewSurvived is the meaning of exitChanges with --fail-below.
const tooFewSurvived = "a Placement survives the loss of fewer domains than --fail-below, or is not satisfied now"

// ownExits are the further exit codes of each command.
var ownExits = map[string][]ExitCode{
	"diff": {
		{exitOK, "no Placement changes"}, {exitFailure, "failure; also without an object that diff reads"},
		{exitChanges, "a Placement changes"}, {exitMisconfigured, "a Placement of the files is misconfigured, or one on the hub would become so"},
	},
	"drain":      {{exitOK, "the taint is set; with --wait: no Placement has the cluster"}, {exitChanges, "--wait was interrupted"}},
	"evict":      {{exitOK, "the cluster was removed"}, {exitChanges, "interrupted; the eviction goes on"}},
	"replay":     {{exitFailure, "failure; also a difference of --verify"}, {exitChanges, "more than --max-moved clusters would have moved"}},
	"resilience": {{exitChanges, tooFewSurvived}},
	"simulate": {
		{exitFailure, "failure; also a refused object, or no Placement to decide"}, {exitChanges, tooFewSurvived},
		{exitMisconfigured, "a Placement is misconfigured (not with scenario files)"},
	},
	"status": statusExits(),
}

// statusExits are those of changes.StateTable.
func statusExits() []ExitCode {
	exits := []ExitCode{{exitOK, "each Placement has its clusters, and no change is open"}}
	for code := exitChanges; ; code++ {
		var words []string
		for _, row := range changes.StateTable {
			if row.Exit == code {
				words = append(words, string(row.Name))
			}
		}
		if len(words) == 0 {
			return exits
		}
		exits = append(exits, ExitCode{code, "a Placement is " + anyOf(words)})
	}
}

// anyOf joins words: "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// addExits adds the exit codes to the help of the commands that have some of their own.
func addExits(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		own := ownExits[cmd.Name()]
		if own == nil {
			continue
		}
		meanings, last := map[int]string{}, 0
		for _, exit := range append(append([]ExitCode{}, CommonExits...), own...) {
			meanings[exit.Code], last = exit.Meaning, max(last, exit.Code)
		}
		lines := []string{"Exit codes:"}
		for code := 0; code <= last; code++ {
			lines = append(lines, fmt.Sprintf("  %d  %s", code, meanings[code]))
		}
		cmd.Long += "\n\n" + strings.Join(lines, "\n")
	}
}

// outcome is no failure: the command has printed its result, which has an exit code of its own.
type outcome struct {
	error
	code int
}

var (
	// errChanges is for what changes, or is not over yet.
	errChanges = &outcome{errors.New("something changes"), exitChanges}
	// errMisconfigured is for a misconfigured Placement in the files of diff or simulate.
	errMisconfigured = &outcome{errors.New("a Placement is misconfigured"), exitMisconfigured}
)
