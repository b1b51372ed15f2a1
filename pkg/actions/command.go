package actions

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/pkg/changes"
)

// Command returns the request as a command of kubectl.
func (r Request) Command() string {
	if r.Change != "" {
		return changes.AnswerCommand(r.Verb, ShellQuote(r.Placement.Namespace), ShellQuote(r.Change))
	}
	words := []string{"kubectl", "placement", r.Verb}
	if OnPlacement(r.Verb) {
		words = append(words, ShellQuote(r.Placement.Name), "-n", ShellQuote(r.Placement.Namespace))
	} else {
		words = append(words, ShellQuote(r.Cluster))
	}
	if r.Verb == Evict {
		words = append(words, "--cluster", ShellQuote(r.Cluster))
	}
	if NeedsPreview(r.Verb) && r.Revision > 0 {
		words = append(words, "--revision", fmt.Sprint(r.Revision))
	}
	if r.AllowFewer {
		words = append(words, "--allow-fewer")
	}
	if r.AllowOthers {
		words = append(words, "--allow-others")
	}
	return strings.Join(words, " ")
}

// ShellQuote quotes any text as one word of a POSIX shell.
func ShellQuote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
