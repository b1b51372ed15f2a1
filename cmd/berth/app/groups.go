package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groups are the commands by what they are for, in the order of the help.
var groups = []struct {
	id, title string
	commands  []string
}{
	{"look", "Look at clusters, decisions and changes:", []string{"explain", "explore", "history", "replay", "resilience", "status", "top"}},
	{"try", "Try a change without making it:", []string{"diff", "queues", "simulate"}},
	{"act", "Act on Placements and clusters:", []string{"approve", "drain", "evict", "pin", "reject", "resume", "suspend", "undo", "undrain", "unpin"}},
	{"run", "Run Berth:", []string{"add-cluster", "argocd-clusters", "controller", "generator", "placement", "report", "up"}},
}

// addGroups divides the help of a command line into groups.
func addGroups(root *cobra.Command) {
	for _, g := range groups {
		group := &cobra.Group{ID: g.id, Title: g.title}
		for _, name := range g.commands {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				cmd.GroupID = g.id
				if !root.ContainsGroup(g.id) {
					root.AddGroup(group)
				}
			}
		}
	}
}

// maxTypos is how many letters a suggestion may differ in.
const maxTypos = 2

// unknownCommand refuses the arguments of a command line without a command, and names similar ones.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	root.SuggestionsMinimumDistance = maxTypos
	return fmt.Errorf("unknown command %q for %q%s", args[0], root.CommandPath(), didYouMean(root.SuggestionsFor(args[0])))
}

// valueForms are what the values of flags of a type must be.
var valueForms = map[string]string{
	"bool": "true or false", "int": "a whole number", "int32": "a whole number", "int64": "a whole number", "duration": "a duration such as 12h or 30m",
}

// flagError says what the value of a flag must be, and adds similar flags to the error of an
// unknown one.
func flagError(cmd *cobra.Command, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		if form := valueForms[invalid.GetFlag().Value.Type()]; form != "" {
			return fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), form)
		}
		return err
	}
	name, isUnknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !isUnknown {
		return err
	}
	// cobra compares names of commands only.
	names := &cobra.Command{SuggestionsMinimumDistance: maxTypos}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	var similar []string
	for _, flag := range names.SuggestionsFor(name) {
		similar = append(similar, "--"+flag)
	}
	return fmt.Errorf("%w%s", err, didYouMean(similar))
}

func didYouMean(similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}
