package app

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Program names of berth as a plugin of kubectl: `kubectl placement` runs the first one, and
// kubectl's completion the second.
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

// NewKubectlCommand returns the command line of `kubectl placement`, for Run.
func NewKubectlCommand(opts ...Option) *cobra.Command {
	o := optionsOf(opts)
	root := newRoot(o, kubectlPlugin, "Explain decisions, preview and list changes, and approve, reject, suspend or drain")
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl placement"}
	root.AddCommand(verbs(o)...)
	for _, cmd := range append(root.Commands(), root) {
		cmd.Example = strings.ReplaceAll(cmd.Example, "berth ", "kubectl placement ")
	}
	addGroups(root)
	markFailures(root)
	showStages(root)
	addExits(root)
	wrapHelp(root)
	return root
}
