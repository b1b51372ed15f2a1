package app

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
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
		Use:   "undo [TYPE/]NAME [-n NAMESPACE] [--to-revision N]",
		Short: "Return to the clusters of an earlier revision, and stay there",
		Long: `Return to the clusters of an earlier revision, and stay there.

The command pins the Placement: it sets the annotation ` + berthv1alpha1.PinnedRevisionAnnotation + `. While the Placement is pinned, it has those clusters of
the revision that still qualify, at most numberOfClusters, and no others. The change is published as any other: DisruptionPolicies apply.
unpin ends that. Without --to-revision it is the newest revision with other clusters than those that are published now; history lists the
revisions. ` + effectHelp + placementHelp + `Needs permission to get and patch placements, and to list
placementchanges and placementdecisions.`,
		Example: `  berth undo web -n shop
  berth undo web -n shop --to-revision 16 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	cmd.Flags().Int64Var(&o.revision, "to-revision", 0, "a Published revision of the history (default: the newest one with other clusters)")
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
	if o.revision < 0 || cmd.Flags().Changed("to-revision") && o.revision == 0 {
		return usagef("--to-revision: %d is not the number of a revision", o.revision)
	}
	ctx := cmd.Context()
	hub, key, err := o.connect(ctx, arg)
	if err != nil {
		return err
	}
	pl, err := readPlacement(ctx, hub, key)
	if err != nil {
		return err
	}
	changed := pl.DeepCopy()
	question, done := fmt.Sprintf("Unpin Placement %s?", key), "unpinned"
	if o.unpin {
		if _, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; !pinned {
			return fmt.Errorf("nothing to unpin: Placement %s is not pinned", key)
		}
		delete(changed.Annotations, berthv1alpha1.PinnedRevisionAnnotation)
	} else {
		revision, err := o.findRevision(cmd, hub, pl)
		if err != nil {
			return err
		}
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[berthv1alpha1.PinnedRevisionAnnotation] = strconv.FormatInt(revision, 10)
		done = fmt.Sprintf("pinned to revision %d", revision)
		question = fmt.Sprintf("Return Placement %s to revision %d and pin it?", key, revision)
	}
	if err := o.show(cmd, hub, key, changed.DeepCopy()); err != nil {
		return err
	}
	if err := confirm(cmd, o.yes, question, fmt.Sprintf("Placement %s was not changed", key)); err != nil {
		return err
	}
	if err := hub.Patch(ctx, changed, client.MergeFrom(pl)); err != nil {
		return fmt.Errorf("writing the annotation of Placement %s: %w", key, err)
	}
	return say(cmd.OutOrStdout(), "placement.%s/%s %s\n", v1alpha1.GroupName, pl.Name, done)
}

// findRevision returns the revision to return to. Its clusters must be known.
func (o *undoOptions) findRevision(cmd *cobra.Command, hub client.Client, pl *v1alpha1.Placement) (int64, error) {
	key := client.ObjectKeyFromObject(pl)
	_, history, err := readHistory(cmd.Context(), hub, key)
	if err != nil {
		return 0, err
	}
	published, err := publishedClusters(cmd.Context(), hub, pl)
	if err != nil {
		return 0, err
	}
	digest := berthv1alpha1.Digest(published)
	possible := history.Computable(digest)
	if o.revision > 0 {
		if _, err := history.At(o.revision, published); err != nil {
			return 0, fmt.Errorf("the clusters of revision %d of Placement %s are not known: %w; possible revisions are %s", o.revision, key, err, changes.RevisionList(possible))
		}
		return o.revision, nil
	}
	for _, revision := range possible {
		if record, err := recordOf(history, key, revision); err == nil && record.Spec.To != digest {
			return revision, nil
		}
	}
	return 0, fmt.Errorf("nothing to undo: no revision of Placement %s with other clusters is known", key)
}
