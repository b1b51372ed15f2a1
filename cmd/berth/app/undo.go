package app

import (
	"github.com/spf13/cobra"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

type undoOptions struct {
	effectOptions
	unpin    bool
	revision int64
}

func newUndoCommand(plugins framework.Registry) *cobra.Command {
	o := undoOptions{effectOptions: effectOptions{plugins: plugins}}
	cmd := &cobra.Command{
		Use:   "undo [TYPE/]NAME [-n NAMESPACE] [--revision N]",
		Short: "Return to the clusters of an earlier revision, and stay there",
		Long: `Return to the clusters of an earlier revision, and stay there.

The command pins the Placement: it sets the annotation ` + berthv1alpha1.PinnedRevisionAnnotation + `. While the Placement is pinned, it has those clusters of
the revision that still qualify, at most numberOfClusters, and no others. The change is published as any other: DisruptionPolicies apply.
unpin ends that. Without --revision it is the newest revision with other clusters than those that are published now; history lists the
revisions. ` + effectHelp + placementHelp + `Needs permission to get and patch placements, and to list
placementchanges and placementdecisions.`,
		Example: `  berth undo web -n shop
  berth undo web -n shop --revision 16 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "a Published revision of the history (default: the newest one with other clusters)")
	return cmd
}

func newUnpinCommand(plugins framework.Registry) *cobra.Command {
	o := undoOptions{effectOptions: effectOptions{plugins: plugins}, unpin: true}
	cmd := &cobra.Command{
		Use:   "unpin [TYPE/]NAME [-n NAMESPACE]",
		Short: "End the pin of a Placement, so that other clusters can be selected",
		Long: `End the pin of a Placement, so that other clusters can be selected.

The command removes the annotation ` + berthv1alpha1.PinnedRevisionAnnotation + `, which undo sets. ` + effectHelp + placementHelp + `Needs permission to get and patch placements.`,
		Example: `  berth unpin web -n shop
  berth unpin web -n shop --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	return cmd
}

func (o *undoOptions) run(cmd *cobra.Command, arg string) error {
	if o.revision < 0 || cmd.Flags().Changed("revision") && o.revision == 0 {
		return usagef("--revision: %d is not the number of a revision", o.revision)
	}
	ctx := cmd.Context()
	hub, key, err := o.connect(ctx, arg)
	if err != nil {
		return err
	}
	verb := actions.Undo
	if o.unpin {
		verb = actions.Unpin
	}
	action, err := actions.Prepare(ctx, hub, actions.Request{Verb: verb, Placement: key, Revision: o.revision})
	if err != nil {
		return err
	}
	if err := o.show(cmd, hub, key, action.Object); err != nil {
		return err
	}
	if err := confirm(cmd, o.yes, action.Question, action.Declined); err != nil {
		return err
	}
	if _, err := action.Do(ctx); err != nil {
		return err
	}
	return say(cmd.OutOrStdout(), "%s\n", action.Done)
}
