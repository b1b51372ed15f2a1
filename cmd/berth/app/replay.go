package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

type replayOptions struct {
	plugins   framework.Registry
	dir       string
	placement string
	cluster   string
	config    string
	maxMoved  int
	verify    bool
	at, since string
	until     string
	all       bool
	output    string
}

func newReplayCommand(plugins framework.Registry) *cobra.Command {
	o := replayOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "Look back: list, explain and verify recorded decisions",
		Long: `Look back at the decisions of a recording: the folder of berth controller --record, or the folder recording in the data directory of berth
up. The controller may still write to it. replay needs no hub and changes nothing.

Without other flags, replay lists what changed: the time and cause of each decision that added or removed clusters, or that could not be
made.

--at makes the last decision about a Placement until that time again, on the fleet as it was, and shows the same as berth explain.

--verify makes all decisions again, in their order, and compares the results. A difference means that a plugin depends on something else
than its input, that another version decides differently, or that the recording was changed.

--config makes the decisions under another configuration: which Placements would have had other clusters, how many more or fewer clusters
would have moved, and how many changes a plugin would have held. It compares what was selected: holds, approvals and movement in steps do
not delay the clusters there. --max-moved counts those in addition to the clusters that did move.`,
		Example: `  berth replay .berth/recording --placement shop/web
  berth replay .berth/recording --placement shop/web --at 2026-06-01T03:12:00Z --cluster paris1
  berth replay .berth/recording --verify
  berth replay .berth/recording --config new.yaml --since 24h --max-moved 10`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.placement, "placement", "", "only this Placement, as NAMESPACE/NAME")
	flags.BoolVar(&o.verify, "verify", false, "make all decisions again and compare them")
	flags.StringVar(&o.config, "config", "", "file with another PlacementSchedulerConfiguration, under which to make the decisions")
	flags.IntVar(&o.maxMoved, "max-moved", -1, "with --config, exit with 3 if more clusters than this would have moved in addition; -1 is no limit")
	flags.StringVar(&o.at, "at", "", "explain the decision about --placement at this time (RFC 3339), or this long ago (10m)")
	flags.StringVar(&o.cluster, "cluster", "", "with --at, explain only this cluster; otherwise list only changes of this cluster")
	flags.StringVar(&o.since, "since", "", "only changes, and with --config only decisions, since this time (RFC 3339), or since this long before the last one, such as 2h")
	flags.StringVar(&o.until, "until", "", "list only changes until this time (RFC 3339)")
	addAllFlag(cmd, &o.all)
	addOutputFlag(cmd, &o.output)
	complete(cmd, "placement", cobra.NoFileCompletions)
	return cmd
}

func (o *replayOptions) run(cmd *cobra.Command) error {
	key, err := placementKey("placement", o.placement, "")
	if err != nil {
		return err
	}
	if o.cluster, err = clusterName("cluster", o.cluster); err != nil {
		return err
	}
	if err := o.check(key); err != nil {
		return err
	}
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	r, err := recording.Open(o.dir)
	if err != nil {
		return fmt.Errorf("opening the recording: %w", err)
	}
	defer r.Close()
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	switch {
	case o.verify:
		err = o.runVerify(ctx, r, progress, out)
	case o.config != "":
		err = o.runCompare(ctx, r, progress, out)
	case o.at != "":
		err = o.runAt(ctx, r, *key, progress, out)
	default:
		err = o.list(ctx, r, key, progress, out)
	}
	progress.stop()
	if !structured(o.output) {
		sayDamage(cmd.ErrOrStderr(), r)
		sayRemoved(cmd.ErrOrStderr(), r)
	}
	return err
}

// check validates the combination of flags.
func (o *replayOptions) check(key *types.NamespacedName) error {
	switch {
	case o.verify && o.at != "":
		return usagef("--verify and --at exclude each other")
	case o.verify && (key != nil || o.cluster != ""):
		return usagef("--verify verifies all decisions; --placement and --cluster are for --at and for the list")
	case o.at != "" && key == nil:
		return usagef("--at needs --placement")
	}
	return o.checkConfig(key)
}

// sayDamage reports segments that could not be read to their end.
func sayDamage(out io.Writer, r *recording.Reader) {
	for _, d := range r.Damaged {
		if d.Cut {
			say(out, "%s ends after %s: it is still being written, or a crash cut it off.\n", d.Path, entries(d.Entries))
		} else {
			say(out, "%s is damaged after %s, and the rest of it is not read: %v\n", d.Path, entries(d.Entries), d.Err)
		}
	}
}

// sayRemoved reports which decisions were removed.
func sayRemoved(out io.Writer, r *recording.Reader) {
	for _, share := range slices.Sorted(maps.Keys(r.NoDecisions)) {
		say(out, "Decisions of namespace %s before about %s were removed: it used the most of the recording.\n", share, r.NoDecisions[share].UTC().Format(time.RFC3339))
	}
}

// entries counts entries in words.
func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// maxMismatches is how many differences --verify prints in full.
const maxMismatches = 10

// verification is the output of --verify. Its json and yaml form is a public interface.
type verification struct {
	*replay.Verification
	Differences []mismatch `json:"differences,omitempty"`
}

type mismatch struct {
	Placement  string    `json:"placement"`
	Time       time.Time `json:"time"`
	Difference string    `json:"difference"`
	// Recorded and Replayed are the two decisions, Explanation is that of the second one.
	Recorded    *recording.Decision `json:"recorded"`
	Replayed    *recording.Decision `json:"replayed"`
	Explanation *simulator.Report   `json:"explanation,omitempty"`
}

func (o *replayOptions) runVerify(ctx context.Context, r *recording.Reader, progress *progress, out io.Writer) error {
	result := verification{}
	differs := func(m replay.Mismatch) error {
		if len(result.Differences) >= maxMismatches {
			return nil
		}
		one := mismatch{Placement: m.Recorded.Key().String(), Time: m.Recorded.Now, Difference: m.Difference, Recorded: m.Recorded, Replayed: replay.DecisionOf(m.Again.Plan)}
		report, err := simulator.ReportOf(m.Again, m.Engine.Explain(ctx, m.Again.Decision, ""))
		if err != nil {
			return err
		}
		one.Explanation = report
		result.Differences = append(result.Differences, one)
		return nil
	}
	var err error
	result.Verification, err = replay.Verify(ctx, r, o.plugins, differs, func(v *replay.Verification) {
		progress.say("%d decisions, %d differ; %s", v.Decisions, v.Differ, readPart(r))
	})
	progress.stop()
	if err != nil {
		return err
	}
	if err := o.printVerification(out, &result); err != nil {
		return err
	}
	if result.Differ > 0 {
		return fmt.Errorf("%s differ", number(result.Differ, "decision"))
	}
	return nil
}

// readPart says how much of the recording was read.
func readPart(r *recording.Reader) string {
	size, done := r.Size()
	return fmt.Sprintf("%d of %d MB read", done>>20, size>>20)
}

func (o *replayOptions) printVerification(out io.Writer, v *verification) error {
	if structured(o.output) {
		return printObject(out, o.output, v)
	}
	for _, m := range v.Differences {
		say(out, "%s  %s: %s\n", m.Time.Format(time.RFC3339Nano), m.Placement, m.Difference)
		say(out, "  recorded: %s\n  replayed: %s\n", describeDecision(m.Recorded), describeDecision(m.Replayed))
		if err := printReport(out, m.Explanation, nearestRows, o.output == "wide"); err != nil {
			return err
		}
		say(out, "\n")
	}
	if more := v.Differ - len(v.Differences); more > 0 {
		say(out, "%s more are not shown.\n", number(more, "difference"))
	}
	say(out, "%s, %d differ", number(v.Decisions, "decision"), v.Differ)
	if !v.First.IsZero() {
		say(out, " (%s to %s)", v.First.Format(time.RFC3339), v.Last.Format(time.RFC3339))
	}
	say(out, "\n")
	if v.EndedEarly > 0 {
		say(out, "%d were not compared, because they ended at their time limit.\n", v.EndedEarly)
	}
	if v.Failed > 0 {
		say(out, "%d were not compared, because a plugin failed.\n", v.Failed)
	}
	for why, n := range v.Skipped {
		say(out, "%d were not made again: %s.\n", n, why)
	}
	if v.Lost > 0 {
		say(out, "%d entries are missing in gaps of the recording.\n", v.Lost)
	}
	return nil
}

// describeDecision describes a decision in one line.
func describeDecision(d *recording.Decision) string {
	text := fmt.Sprintf("%s, %s selected", d.Outcome, number(d.Selected, "cluster"))
	if len(d.Added)+len(d.Removed) > 0 {
		text += fmt.Sprintf(", added %s, removed %s", namesOf(d.Added, 10), namesOf(d.Removed, 10))
	}
	if d.Failure != "" {
		text += ", " + d.Failure
	}
	return text
}

// namesOf joins names, at most a number of them.
func namesOf(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), len(names)-most)
	}
	return strings.Join(names, " ")
}

func (o *replayOptions) runAt(ctx context.Context, r *recording.Reader, key types.NamespacedName, progress *progress, out io.Writer) error {
	at, ago, err := parseTimeOrAgo("at", o.at)
	if err != nil {
		return err
	}
	if ago > 0 {
		at = time.Now().Add(-ago)
	}
	moment, err := replay.At(ctx, r, o.plugins, key, at, func(t time.Time) { progress.say("at %s", t.Format(time.RFC3339)) })
	if err != nil {
		return err
	}
	report, err := simulator.ReportOf(moment.Again, moment.Engine.Explain(ctx, moment.Again.Decision, o.cluster))
	if err != nil {
		return err
	}
	progress.stop()
	if structured(o.output) {
		return printObject(out, o.output, report)
	}
	if d := moment.Recorded; d != nil {
		say(out, "Decided at %s, because of: %s\n", d.Now.UTC().Format(time.RFC3339Nano), cmp.Or(d.Cause, "nothing recorded"))
	} else {
		say(out, "No decision about the Placement is recorded shortly before %s; this is what would have been decided then.\n", at.UTC().Format(time.RFC3339))
	}
	e := explainOptions{cluster: o.cluster, all: o.all, output: o.output}
	return e.printOne(out, &explained{Report: report}, false)
}

// changeRow is one line of the list. Its json and yaml form is a public interface.
type changeRow struct {
	Time      time.Time `json:"time"`
	Placement string    `json:"placement"`
	Outcome   string    `json:"outcome"`
	Cause     string    `json:"cause,omitempty"`
	Added     []string  `json:"added,omitempty"`
	Removed   []string  `json:"removed,omitempty"`
	Selected  int       `json:"selected"`
	Failure   string    `json:"failure,omitempty"`
}

func (o *replayOptions) list(ctx context.Context, r *recording.Reader, key *types.NamespacedName, progress *progress, out io.Writer) error {
	during, err := o.period()
	if err != nil {
		return err
	}
	r.Since(during.since)
	only := types.NamespacedName{}
	if key != nil {
		only = *key
	}
	rows := []changeRow{}
	var last time.Time
	size := 0
	err = replay.Changes(ctx, r, only, func(d *recording.Decision) {
		last = d.Now
		progress.say("%s; %s", number(len(rows), "change"), readPart(r))
		row := changeRow{d.Now, d.Key().String(), d.Outcome, d.Cause, d.Added, d.Removed, d.Selected, d.Failure}
		if n := len(rows); size <= maxChangesSize && during.has(d.Now) && row.concerns(o.cluster) && (n == 0 || !rows[n-1].repeats(row)) {
			rows = append(rows, row)
			size += row.size()
		}
	})
	if err == nil && size > maxChangesSize {
		err = fmt.Errorf("the changes have more than %d MiB: list those of one --placement, or fewer by --since and --until", maxChangesSize>>20)
	}
	if err != nil {
		return err
	}
	if during.ago > 0 {
		rows = slices.DeleteFunc(rows, func(row changeRow) bool { return row.Time.Before(last.Add(-during.ago)) })
	}
	progress.stop()
	return o.printChanges(out, rows)
}

// period is the time of the listed changes. Each field may be zero.
type period struct {
	since, until time.Time
	// ago is the time before the last change.
	ago time.Duration
}

func (p period) has(at time.Time) bool {
	return !at.Before(p.since) && (p.until.IsZero() || !at.After(p.until))
}

// period reads --since and --until.
func (o *replayOptions) period() (p period, err error) {
	if p.until, err = parseTime("until", o.until); err != nil {
		return p, err
	}
	p.since, p.ago, err = parseTimeOrAgo("since", o.since)
	return p, err
}

// concerns reports whether the change adds or removes a cluster; true for no cluster.
func (c changeRow) concerns(cluster string) bool {
	return cluster == "" || slices.Contains(c.Added, cluster) || slices.Contains(c.Removed, cluster)
}

// maxChangesSize bounds the memory of the list, in bytes: users write much of a recording.
const maxChangesSize = 256 << 20

// size is about how much memory the row takes, in bytes.
func (c changeRow) size() int {
	size := 256 + len(c.Placement) + len(c.Outcome) + len(c.Cause) + len(c.Failure)
	for _, name := range slices.Concat(c.Added, c.Removed) {
		size += 16 + len(name)
	}
	return size
}

// repeats reports whether a later attempt had the same result.
func (c changeRow) repeats(next changeRow) bool {
	return c.Placement == next.Placement && c.Outcome == next.Outcome && c.Failure == next.Failure &&
		slices.Equal(c.Added, next.Added) && slices.Equal(c.Removed, next.Removed)
}

func (o *replayOptions) printChanges(out io.Writer, rows []changeRow) error {
	if structured(o.output) {
		return printObject(out, o.output, map[string]any{"changes": rows})
	}
	if len(rows) == 0 {
		return say(out, "The recording has no such change.\n")
	}
	t := table{heading: []string{"TIME", "PLACEMENT", "OUTCOME", "CAUSE", "ADDED", "REMOVED"}}
	most := 3
	if o.output == "wide" {
		most = 1000
	}
	for _, row := range rows {
		cause := cmp.Or(row.Cause, none)
		if row.Failure != "" {
			cause = row.Failure
		}
		t.add(cell{text: row.Time.UTC().Format("2006-01-02T15:04:05.000Z")}, cell{text: row.Placement}, cell{text: row.Outcome}, cell{text: cause},
			cell{text: namesOf(row.Added, most)}, cell{text: namesOf(row.Removed, most)})
	}
	return t.print(out, colourful(out))
}
