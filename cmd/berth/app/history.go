package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

type historyOptions struct {
	hub      hubFlags
	revision int64
	output   string
}

func newHistoryCommand() *cobra.Command {
	o := historyOptions{}
	cmd := &cobra.Command{
		Use:   "history NAME [-n NAMESPACE] [--revision N]",
		Short: "List the changes of a Placement's published decision",
		Long: `List the changes of a Placement's published decision, the oldest first. The table shows the cause of each change, the numbers of clusters
that it added and removed, its phase, and who approved or rejected it.

A revision such as 3-7 is one record of several changes. A line with … marks missing records: they were lost in a crash or deleted by the
history limit. --revision shows one change with all its clusters. Needs permission to get placements and to list placementchanges.`,
		Example:           "  kubectl placement history web -n shop",
		Args:              onePlacement,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if cmd.Flags().Changed("revision") && o.revision < 1 {
				return usagef("--revision: %d must be at least 1", o.revision)
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	o.hub.add(cmd)
	o.hub.addNamespace(cmd, "the Placement's namespace (default: the kubeconfig's)")
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "show this change with all its clusters")
	complete(cmd, "revision", cobra.NoFileCompletions)
	addOutputFlag(cmd, &o.output)
	return cmd
}

func (o *historyOptions) run(ctx context.Context, name string, out io.Writer) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	_, history, err := readHistory(ctx, hub, key)
	if err != nil {
		return err
	}
	if o.revision == 0 {
		return o.printAll(out, key, history, time.Now())
	}
	record, err := recordOf(history, key, o.revision)
	if err != nil {
		return err
	}
	view := viewOf(record).withClusters(record)
	if o.output == "json" || o.output == "yaml" {
		return printObject(out, o.output, view)
	}
	return view.print(out, true)
}

// recordOf returns the record that covers a revision.
func recordOf(history changes.History, key types.NamespacedName, revision int64) (*berthv1alpha1.PlacementChange, error) {
	var known []string
	for _, record := range history {
		view := viewOf(record)
		if revision == view.Revision || view.FirstRevision > 0 && view.FirstRevision <= revision && revision <= view.Revision {
			return record, nil
		}
		known = append(known, view.revisions())
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("there is no record of revision %d: Placement %s has no recorded changes", revision, key)
	}
	return nil, fmt.Errorf("there is no record of revision %d of Placement %s; there are %s", revision, key, strings.Join(known, ", "))
}

func (o *historyOptions) printAll(out io.Writer, key types.NamespacedName, history changes.History, now time.Time) error {
	gaps := history.Gaps()
	views := []*changeView{}
	for _, record := range history {
		view := viewOf(record)
		view.MissingBefore = slices.Contains(gaps, view.Revision)
		views = append(views, view)
	}
	if o.output == "json" || o.output == "yaml" {
		return printObject(out, o.output, map[string]any{"placement": key.String(), "changes": views})
	}
	if len(views) == 0 {
		return say(out, "Placement %s has no recorded changes.\n", key)
	}
	return historyTable(views, o.output == "wide", now).print(out, false)
}

// historyTable has a row for each record and for each gap. The wide form adds exact times, sizes
// and comments.
func historyTable(views []*changeView, wide bool, now time.Time) *table {
	t := &table{heading: []string{"REVISION", "AGE", "PHASE", "CAUSE", "ADDED", "REMOVED", "APPROVER"}}
	if wide {
		t.heading = append(slices.Replace(t.heading, 1, 2, "TIME"), "SELECTED", "PROFILE", "COMMENT")
	}
	for _, v := range views {
		if v.MissingBefore {
			t.add(cell{text: "…"}, cell{}, cell{}, cell{text: "records are missing"})
		}
		when, comment := duration.HumanDuration(now.Sub(v.Time)), none
		if wide {
			when = v.Time.Format(time.RFC3339)
		}
		if v.Approval != nil && v.Approval.Comment != "" {
			comment = v.Approval.Comment
		}
		row := []cell{
			{text: v.revisions()}, {text: when}, {text: cmp.Or(v.Phase, none)}, {text: v.Cause},
			{text: fmt.Sprint(v.AddedCount)}, {text: fmt.Sprint(v.RemovedCount)}, {text: v.approver()},
		}
		if wide {
			row = append(row, cell{text: fmt.Sprint(v.Clusters)}, cell{text: cmp.Or(v.Profile, none)}, cell{text: comment})
		}
		t.add(row...)
	}
	return t
}
