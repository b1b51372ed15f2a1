package actions

import (
	"fmt"
	"strings"
)

// Command returns the request as a command of kubectl.
func (r Request) Command() string {
	words := []string{"kubectl", "placement", r.Verb}
	switch {
	case !OnPlacement(r.Verb):
		words = append(words, ShellQuote(r.Cluster))
	case r.Change != "":
		words = append(words, ShellQuote("placementchange/"+r.Change), "-n", ShellQuote(r.Placement.Namespace))
	default:
		words = append(words, ShellQuote(r.Placement.Name), "-n", ShellQuote(r.Placement.Namespace))
	}
	if r.Verb == Evict {
		words = append(words, "--cluster", ShellQuote(r.Cluster))
	}
	if r.Verb == Undo && r.Revision > 0 {
		words = append(words, "--to-revision", fmt.Sprint(r.Revision))
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
