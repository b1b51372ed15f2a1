package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// helpWidth is the largest number of columns of a line of help text.
const helpWidth = 100

// wrapHelp breaks the lines of the help of a command and of those below it. Indented lines stay.
func wrapHelp(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, text := range paragraphs {
		if !strings.HasPrefix(text, " ") && !strings.Contains(text, "\n ") {
			paragraphs[i] = wrap(text)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		wrapHelp(sub)
	}
}

// shownHubFlags are the flags of kubectl that the help describes. The others it only names.
var shownHubFlags = []string{"kubeconfig", "context", "namespace"}

// usage prints the usage of a command. kubectl's many flags for the hub and the user are one
// paragraph.
func usage(cmd *cobra.Command) error {
	kubectl := genericclioptions.NewConfigFlags(false)
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	kubectl.AddFlags(all)
	var names []string
	var hidden []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		same := all.Lookup(f.Name)
		if same != nil && same.Usage == f.Usage && !slices.Contains(shownHubFlags, f.Name) && !f.Hidden {
			hidden = append(hidden, f)
			names = append(names, "--"+f.Name)
		}
	})
	hide := func(yes bool) {
		for _, f := range hidden {
			f.Hidden = yes
		}
	}
	hide(true)
	defer hide(false)
	if err := new(cobra.Command).UsageFunc()(cmd); err != nil || len(names) == 0 {
		return err
	}
	out := cmd.OutOrStderr()
	say(out, "\nAlso these flags of kubectl (see kubectl options):\n")
	for line := range strings.Lines(wrap(strings.Join(names, ", "))) {
		say(out, "  %s\n", strings.TrimSpace(line))
	}
	return nil
}

func wrap(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > helpWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}
