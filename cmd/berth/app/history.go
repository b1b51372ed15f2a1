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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
)

type historyOptions struct {
	hub      placementFlags
	revision int64
	since    time.Duration
	output   string
}

func newHistoryCommand() *cobra.Command {
	o := historyOptions{}
	cmd := &cobra.Command{
		Use:   "history " + placementUse,
		Short: "List the changes of published decisions",
		Long: `List the changes of published decisions, the oldest first. BY is who edited the Placement, if an edit caused the change.

Without a name it lists the changes of all Placements of the namespace, in order of time. ` + placementHelp + `

A revision such as 3-7 is one record of several changes. A line with … marks missing records: they were lost in a crash or deleted by the
history limit. --revision, or the name of a PlacementChange, shows one change with all its clusters. Needs permission to get placements and to list placementchanges.`,
		Example: `  berth history web -n shop
  berth history web -n shop --revision 3
  berth history placementchange/web-3 -n shop
  berth history -A --since 12h -o wide`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if cmd.Flags().Changed("revision") && o.revision < 1 {
				return usagef("--revision: %d must be at least 1", o.revision)
			}
			if o.since < 0 || cmd.Flags().Changed("since") && o.since == 0 {
				return usagef("--since: %s must be more than 0", o.since)
			}
			if o.revision > 0 && len(args) != 1 {
				return usagef("--revision needs the name of one Placement")
			}
			return o.run(cmd.Context(), args, cmd)
		},
	}
	o.hub.add(cmd)
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "show this change with all its clusters")
	cmd.Flags().Var((*durationFlag)(&o.since), "since", "list only changes that began within this time, for example 12h or 7d (default: all)")
	complete(cmd, "revision", cobra.NoFileCompletions)
	addOutputFlag(cmd, &o.output)
	return cmd
}

func (o *historyOptions) run(ctx context.Context, args []string, cmd *cobra.Command) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	out, now := cmd.OutOrStdout(), time.Now()
	if len(args) == 1 {
		return o.runOne(ctx, hub, namespace, args[0], out, now)
	}
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	progress.say("reading the hub")
	inputs, err := o.hub.states(ctx, hub, namespace, args)
	progress.stop()
	if err != nil {
		return err
	}
	all := make([]placementHistory, len(inputs))
	for i, in := range inputs {
		all[i] = newPlacementHistory(client.ObjectKeyFromObject(in.Placement), in.History).since(now, o.since)
	}
	return o.printAll(out, all, now)
}

func (o *historyOptions) runOne(ctx context.Context, hub client.Client, namespace, arg string, out io.Writer, now time.Time) error {
	ref, err := o.hub.resolve(ctx, hub, namespace, arg)
	if err != nil {
		return err
	}
	pl, history, err := actions.ReadHistory(ctx, hub, ref.NamespacedName)
	if err != nil {
		return err
	}
	if revision := cmp.Or(o.revision, ref.revision); revision > 0 {
		return o.printOne(out, pl, history, revision)
	}
	return o.print(out, newPlacementHistory(ref.NamespacedName, history).since(now, o.since), now)
}

func (o *historyOptions) printOne(out io.Writer, pl *v1alpha1.Placement, history changes.History, revision int64) error {
	record, err := actions.RecordOf(history, client.ObjectKeyFromObject(pl), revision)
	if err != nil {
		return err
	}
	view := changes.ViewOf(record).WithClusters(record)
	if structured(o.output) {
		return printObject(out, o.output, view)
	}
	edit := history.EditOfRecord(record, &pl.Spec)
	if len(edit.Fields) > 0 {
		_, cut, _ := strings.Cut(view.Cause, changes.CausePlacement)
		view.Cause = strings.TrimSuffix(view.Cause, cut) + "spec"
	}
	return printChange(out, view, true, edit.Fields...)
}

// placementHistory is the shown form of a Placement's records. Its json and yaml output is a public
// interface.
type placementHistory struct {
	Placement string          `json:"placement"`
	Changes   []*changes.View `json:"changes"`
}

func newPlacementHistory(key types.NamespacedName, history changes.History) placementHistory {
	gaps := history.Gaps()
	h := placementHistory{Placement: key.String(), Changes: []*changes.View{}}
	for _, record := range history {
		view := changes.ViewOf(record)
		view.MissingBefore = slices.Contains(gaps, view.Revision)
		h.Changes = append(h.Changes, view)
	}
	return h
}

// since returns the changes that began within a time; all if it is 0.
func (h placementHistory) since(now time.Time, within time.Duration) placementHistory {
	if within > 0 {
		h.Changes = slices.DeleteFunc(h.Changes, func(v *changes.View) bool { return v.Time.Before(now.Add(-within)) })
	}
	return h
}

// print lists the changes of one Placement.
func (o *historyOptions) print(out io.Writer, h placementHistory, now time.Time) error {
	if structured(o.output) {
		return printObject(out, o.output, h)
	}
	if len(h.Changes) == 0 {
		return say(out, "Placement %s has no recorded changes%s.\n", h.Placement, o.within())
	}
	t := newHistoryTable(o.output == "wide")
	t.addChanges(h.Changes, now)
	return t.print(out, false)
}

// within names --since in messages.
func (o *historyOptions) within() string {
	if o.since == 0 {
		return ""
	}
	return " of the last " + o.since.String()
}

// printAll lists the changes of several Placements, in order of time.
func (o *historyOptions) printAll(out io.Writer, all []placementHistory, now time.Time) error {
	merged := []*changes.View{}
	for _, h := range all {
		merged = append(merged, h.Changes...)
	}
	slices.SortStableFunc(merged, func(a, b *changes.View) int { return a.Time.Compare(b.Time) })
	if structured(o.output) {
		return printObject(out, o.output, map[string]any{"changes": merged})
	}
	t := newHistoryTable(o.output == "wide")
	t.heading, t.named = append([]string{"NAMESPACE", "PLACEMENT"}, t.heading...), true
	t.addChanges(merged, now)
	if len(t.rows) == 0 {
		return say(out, "The Placements have no recorded changes%s.\n", o.within())
	}
	return t.print(out, false)
}

// historyTable has a row for each record and for each gap. The wide form adds exact times, sizes
// and comments.
type historyTable struct {
	table
	wide bool
	// named is true if each row begins with the Placement.
	named bool
}

func newHistoryTable(wide bool) *historyTable {
	t := &historyTable{wide: wide}
	t.whole, t.optional = wide, []string{"REMOVED", "ADDED", "APPROVER", "BY"}
	t.heading = []string{"REVISION", "AGE", "PHASE", "CAUSE", "BY", "ADDED", "REMOVED", "APPROVER"}
	if wide {
		t.heading = append(slices.Replace(t.heading, 1, 2, "TIME"), "SELECTED", "PROFILE", "COMMENT")
	}
	return t
}

func (t *historyTable) addChanges(views []*changes.View, now time.Time) {
	for _, v := range views {
		var prefix []cell
		if t.named {
			prefix = placementCells(v.Placement)
		}
		if v.MissingBefore {
			t.add(append(slices.Clone(prefix), cell{text: "…"}, cell{}, cell{}, cell{text: "records are missing"})...)
		}
		t.add(append(prefix, t.row(v, now)...)...)
	}
}

func (t *historyTable) row(v *changes.View, now time.Time) []cell {
	when, comments := duration.HumanDuration(now.Sub(v.Time)), []string{v.Comment}
	if t.wide {
		when = v.Time.Format(time.RFC3339)
	}
	if v.Approval != nil {
		comments = append(comments, v.Approval.Comment)
	}
	comments = slices.DeleteFunc(comments, func(text string) bool { return text == "" })
	row := []cell{
		{text: v.Revisions()}, {text: when}, {text: cmp.Or(v.Phase, none)}, {text: v.CauseText()}, {text: cmp.Or(v.By, none)},
		{text: fmt.Sprint(v.AddedCount)}, {text: fmt.Sprint(v.RemovedCount)}, {text: approver(v)},
	}
	if t.wide {
		row = append(row, cell{text: fmt.Sprint(v.Clusters)}, cell{text: cmp.Or(v.Profile, none)}, cell{text: cmp.Or(strings.Join(comments, "; "), none)})
	}
	return row
}
