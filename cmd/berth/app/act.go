package app

import (
	"context"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
)

// actFlags are those of every command of the group act. The commands show the effect first; then
// they ask and write.
type actFlags struct {
	yes, dryRun bool
	comment     string
}

// dryRunUsage describes the flag --dry-run.
const dryRunUsage = "let the hub check the requests, and write nothing"

func (f *actFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&f.dryRun, "dry-run", false, dryRunUsage)
	flags.StringVar(&f.comment, "comment", "", "reason, kept with what is written")
	complete(cmd, "comment", cobra.NoFileCompletions)
}

// prepare prepares a request with the flags.
func (f *actFlags) prepare(ctx context.Context, hub client.Client, r actions.Request) (*actions.Prepared, error) {
	if n := utf8.RuneCountInString(f.comment); n > berthv1alpha1.MaxComment {
		return nil, usagef("--comment: %d characters are more than %d", n, berthv1alpha1.MaxComment)
	}
	r.Comment, r.DryRun = f.comment, f.dryRun
	return actions.Prepare(ctx, hub, r)
}

// do asks and writes. It returns the written object. A dry run does not ask.
func (f *actFlags) do(cmd *cobra.Command, action *actions.Prepared) (client.Object, error) {
	if err := f.confirm(cmd, action.Question, action.Declined); err != nil {
		return nil, err
	}
	return action.Do(cmd.Context())
}

// confirm asks, unless the flags make that unnecessary. It returns an error with the text of no
// unless the user agrees.
func (f *actFlags) confirm(cmd *cobra.Command, question, no string) error {
	return confirm(cmd, f.yes || f.dryRun, question, no)
}

// sayDone prints what was written.
func (f *actFlags) sayDone(cmd *cobra.Command, done string) error {
	suffix := ""
	if f.dryRun {
		suffix = " (dry run)"
	}
	return say(cmd.OutOrStdout(), "%s%s\n", done, suffix)
}
