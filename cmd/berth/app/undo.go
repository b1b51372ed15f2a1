package app

import (
	"github.com/spf13/cobra"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// revisionOptions are those of undo, pin and unpin.
type revisionOptions struct {
	effectOptions
	verb                    string
	revision                int64
	allowFewer, allowOthers bool
}

// previewHelp describes what undo and pin have in common.
const previewHelp = `The command shows the change of the decision first, as diff does, and asks. It is refused if the Placement would not have the
clusters of the revision, and says which differ and why, and if it cannot show the change. The change is published as any other:
DisruptionPolicies apply. `

func newUndoCommand(plugins framework.Registry) *cobra.Command {
	o := revisionOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}, verb: actions.Undo}
	cmd := &cobra.Command{
		Use:   "undo [TYPE/]NAME [-n NAMESPACE] [--revision N]",
		Short: "Restore the spec of a Placement before an edit",
		Long: `Restore the spec of a Placement before an edit.

The command writes the spec for which the clusters of a revision were decided. Without --revision it is the revision before the newest edit of
the spec, which must have clusters; history lists the revisions. ` + previewHelp + placementHelp + `Needs permission to get and patch placements, and to list
placementchanges and placementdecisions.`,
		Example: `  berth undo web -n shop
  berth undo web -n shop --revision 16 --allow-fewer --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	o.addRevision(cmd, "a Published revision of the history (default: the one before the newest edit of the spec)",
		"also if the revision has fewer clusters than are published now")
	cmd.Flags().BoolVar(&o.allowOthers, "allow-others", false, "also if other clusters would be selected")
	return cmd
}

func newPinCommand(plugins framework.Registry) *cobra.Command {
	o := revisionOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}, verb: actions.Pin}
	cmd := &cobra.Command{
		Use:   "pin [TYPE/]NAME [-n NAMESPACE] [--revision N]",
		Short: "Keep the clusters of a revision, or return to them",
		Long: `Keep the clusters of a revision, or return to them.

The command sets the annotation ` + berthv1alpha1.PinnedRevisionAnnotation + `. While it is set, the Placement has those clusters of the revision that qualify,
at most numberOfClusters, and no others. unpin ends that. ` + previewHelp + placementHelp + `Needs permission to get and patch placements, and to list
placementchanges and placementdecisions.`,
		Example: `  berth pin web -n shop
  berth pin web -n shop --revision 16 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	o.addRevision(cmd, "a Published revision of the history (default: the one that is published now)",
		"also with fewer clusters than are published now, and without those of the revision that do not qualify")
	return cmd
}

func newUnpinCommand(plugins framework.Registry) *cobra.Command {
	o := revisionOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}, verb: actions.Unpin}
	cmd := &cobra.Command{
		Use:   "unpin [TYPE/]NAME [-n NAMESPACE]",
		Short: "End the pin of a Placement, so that other clusters can be selected",
		Long: `End the pin of a Placement, so that other clusters can be selected.

The command removes the annotation ` + berthv1alpha1.PinnedRevisionAnnotation + `, which pin sets. ` + effectHelp + placementHelp + `Needs permission to get and patch placements.`,
		Example: `  berth unpin web -n shop
  berth unpin web -n shop --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	return cmd
}

func (o *revisionOptions) addRevision(cmd *cobra.Command, revision, allowFewer string) {
	cmd.Flags().Int64Var(&o.revision, "revision", 0, revision)
	cmd.Flags().BoolVar(&o.allowFewer, "allow-fewer", false, allowFewer)
}

func (o *revisionOptions) run(cmd *cobra.Command, arg string) error {
	if o.revision < 0 || cmd.Flags().Changed("revision") && o.revision == 0 {
		return usagef("--revision: %d is not the number of a revision", o.revision)
	}
	ctx := cmd.Context()
	hub, key, err := o.connect(ctx, arg)
	if err != nil {
		return err
	}
	action, err := o.prepare(ctx, hub, actions.Request{Verb: o.verb, Placement: key, Revision: o.revision, AllowFewer: o.allowFewer, AllowOthers: o.allowOthers})
	if err != nil {
		return err
	}
	if err := o.show(cmd, hub, action); err != nil {
		return err
	}
	if _, err := o.do(cmd, action); err != nil {
		return err
	}
	return o.sayDone(cmd, action.Done)
}
