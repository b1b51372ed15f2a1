package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Program names under which berth is a plugin of kubectl: what `kubectl placement` runs, and what
// kubectl asks to complete it.
const (
	kubectlPlugin     = "kubectl-placement"
	kubectlCompletion = "kubectl_complete-placement"
)

func programName() string {
	if len(os.Args) == 0 {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
}

// NewKubectlCommand returns the command line of `kubectl placement`, to be given to Run.
func NewKubectlCommand(opts ...Option) *cobra.Command {
	o := optionsOf(opts)
	root := newRoot(o, kubectlPlugin, "Explain decisions, preview changes, list them, and approve or reject those that are held")
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl placement"}
	root.AddCommand(
		newAnswerCommand(approval),
		newAnswerCommand(rejection),
		newExplainCommand(o.plugins),
		newCompareCommand(o.plugins),
		newHistoryCommand(),
		newTopCommand(),
		newVersionCommand(),
	)
	markFailures(root)
	return root
}

// formats are what -o takes.
var formats = []string{"table", "wide", "json", "yaml"}

func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "table, wide, json or yaml")
	complete(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	if slices.Contains(formats, output) {
		return nil
	}
	return usagef("-o: %q is not one of %s", output, strings.Join(formats, ", "))
}
