package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

type diffOptions struct {
	simulation simulationFlags
	hub        hubFlags
	files      []string
	edits      diffEdits
	output     string
	// placements are those in the files.
	placements map[string]bool
}

func newDiffCommand(plugins framework.Registry) *cobra.Command {
	o := diffOptions{simulation: simulationFlags{plugins: plugins}}
	cmd := &cobra.Command{
		Use:   "diff [-f FILE|DIR|- …] [EDIT…]",
		Short: "Show how a change would affect every Placement on the hub",
		Long: `Show how a change would affect every Placement on the hub.

diff reads the hub and decides every Placement twice, without and with the change, as the controller does. It shows the differences and
writes nothing. ` + askHelp + `

An object of -f replaces the object of the same name, as kubectl replace does; without a status, it keeps the status on the hub.
Then the edits are applied, in the order --label, --taint, --drain, --lose, --number, --remove. Counts in messages of conditions are no changes.`,
		Example: `  berth diff -f placement.yaml
  berth diff -n shop -f placements/ -o markdown
  berth diff --label paris1:gpu=true --label paris2:gpu-
  berth diff --taint rome1:maintenance:NoSelect
  berth diff --lose label:region=eu
  berth diff --number web=10 -n shop
  berth diff --remove managedclusterset/eu --remove placement/web -n shop`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(o.output, markdown); err != nil {
				return err
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			comparison, err := o.run(cmd.Context(), progress, cmd)
			if err != nil {
				return err
			}
			progress.stop()
			if err := o.print(cmd.OutOrStdout(), comparison); err != nil {
				return err
			}
			return o.outcome(comparison)
		},
	}
	o.hub.add(cmd)
	o.hub.addNamespace(cmd, "namespace of objects that name none (default: the kubeconfig's)")
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects to create or replace, - for standard input; repeatable")
	o.edits.add(cmd, &o.hub)
	o.simulation.add(cmd)
	addOutputFlag(cmd, &o.output, markdown)
	return cmd
}

// outcome selects the exit code.
func (o *diffOptions) outcome(c *simulator.Comparison) error {
	switch {
	case slices.ContainsFunc(c.Misconfigured, func(m simulator.Misconfigured) bool { return !m.Before || o.placements[m.Placement] }):
		return errMisconfigured
	case len(c.Changes) > 0:
		return errChanges
	}
	return nil
}

func (o *diffOptions) run(ctx context.Context, progress *progress, cmd *cobra.Command) (*simulator.Comparison, error) {
	if len(o.files) == 0 && !o.edits.any() {
		return nil, usagef("one of -f, --label, --taint, --drain, --lose, --number and --remove is required")
	}
	// Mistakes are reported before the hub is asked.
	if _, err := o.edits.all(""); err != nil {
		return nil, err
	}
	with, err := o.simulation.settings(ctx)
	if err != nil {
		return nil, err
	}
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return nil, err
	}
	edits, err := o.edits.all(namespace)
	if err != nil {
		return nil, err
	}
	input, err := o.load(namespace, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	progress.say("reading the hub")
	objects, asker, err := o.simulation.fleet(ctx, hub)
	if err != nil {
		return nil, err
	}
	if err := checkInput(ctx, cmd, progress, &input, with, objects); err != nil {
		return nil, err
	}
	if len(edits) == 0 && !affectDecisions(input.Objects) {
		return nil, fmt.Errorf("%s: no object on which decisions depend, such as a Placement or ManagedCluster", strings.Join(o.files, ", "))
	}
	replaced, err := o.replaced(input.Objects)
	if err != nil {
		return nil, err
	}
	edits = append(replaced, edits...)
	progress.say("comparing")
	report := func(done, all int) { progress.say("compared %d of %d Placements", done, all) }
	if asker != nil {
		return asker.Compare(ctx, namespace, edits, report)
	}
	w, err := simulator.NewWhatIf(ctx, objects, edits, time.Now(), with)
	if err != nil {
		return nil, err
	}
	return w.Compare(ctx, w.Placements(), report)
}

// load reads the files.
func (o *diffOptions) load(namespace string, in io.Reader) (simulator.Input, error) {
	if len(o.files) == 0 {
		return simulator.Input{}, nil
	}
	input, err := simulator.LoadInto(namespace, o.files, in)
	if err == nil && input.Scenarios != nil {
		err = errors.New("scenario files are for berth simulate")
	}
	o.placements = map[string]bool{}
	for _, pl := range simulator.List[*v1alpha1.Placement](input.Objects) {
		o.placements[client.ObjectKeyFromObject(pl).String()] = true
	}
	return input, err
}

// affectDecisions reports whether an object is of a kind on which decisions depend.
func affectDecisions(o simulator.Objects) bool {
	return slices.ContainsFunc(o, func(object client.Object) bool {
		if _, ok := kinds.Of(object); ok {
			return true
		}
		kind := object.GetObjectKind().GroupVersionKind().Kind
		return kind == "ConfigMap" || kind == "Namespace"
	})
}

// replaced returns the edits of the files.
func (o *diffOptions) replaced(input simulator.Objects) ([]simulator.Edit, error) {
	queues, err := parseQueueConfig(o.simulation.queues)
	if err != nil {
		return nil, err
	}
	var edits []simulator.Edit
	for _, object := range input {
		other, ok := object.(*unstructured.Unstructured)
		// The ConfigMap that was read from the hub has this name, too.
		if ok && other.GetKind() == "ConfigMap" && client.ObjectKeyFromObject(other) == queues {
			other.SetName(admission.QueueConfigName)
		}
		edits = append(edits, simulator.Edit{Kind: simulator.EditReplace, Object: object})
	}
	return edits, nil
}

func (o *diffOptions) print(out io.Writer, c *simulator.Comparison) error {
	if structured(o.output) {
		return printObject(out, o.output, c)
	}
	wide := o.output == "wide"
	if o.output == markdown {
		return printMarkdown(out, "Placements that change", changeTable(c, false), append([]string{summaryText(c)}, notes(c, false)...))
	}
	if len(c.Changes) > 0 {
		if err := changeTable(c, wide).print(out, colourful(out)); err != nil {
			return err
		}
		say(out, "\n")
	}
	say(out, "%s\n", summaryText(c))
	for _, note := range notes(c, wide) {
		say(out, "%s\n", note)
	}
	return nil
}

func summaryText(c *simulator.Comparison) string {
	s := c.Summary
	if s.Changed == 0 {
		return fmt.Sprintf("Nothing changes: %s compared.", number(s.Placements, "Placement"))
	}
	return fmt.Sprintf("Changes: %d of %s, %s added, %d removed, %s written.",
		s.Changed, number(s.Placements, "Placement"), number(s.Added, "cluster"), s.Removed, number(s.Pages, "page"))
}

// notes are the lines on Placements that are misconfigured or out of date.
func notes(c *simulator.Comparison, wide bool) []string {
	var lines []string
	for _, m := range c.Misconfigured {
		already := ""
		if m.Before {
			already = ", also without this change"
		}
		lines = append(lines, fmt.Sprintf("Misconfigured%s: %s: %s", already, m.Placement, m.Message))
	}
	lines = append(lines, c.Notes...)
	if len(c.OutOfDate) == 0 {
		return lines
	}
	names := make([]string, len(c.OutOfDate))
	for i, u := range c.OutOfDate {
		if names[i] = u.Placement; u.Held {
			names[i] += " (held)"
		}
	}
	return append(lines, fmt.Sprintf("Already out of date, independent of this change: %s.", list(names, wide, ", ")))
}

// changeTable has one line for each Placement, and the column APPROVAL if one needs it.
func changeTable(c *simulator.Comparison, wide bool) *table {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "CHANGE", "BEFORE", "AFTER", "ADDED", "REMOVED", "PAGES", "CONDITIONS"}, whole: wide}
	approval := wide || slices.ContainsFunc(c.Changes, func(change simulator.Change) bool { return change.NeedsApproval })
	if approval {
		t.heading = append(t.heading, "APPROVAL")
	}
	for _, change := range c.Changes {
		namespace, name, _ := strings.Cut(change.Placement, "/")
		added, removed := cell{counted(change.Added, wide), plain}, cell{counted(change.Removed, wide), plain}
		if len(change.Added) > 0 {
			added.colour = green
		}
		if len(change.Removed) > 0 {
			removed.colour = red
		}
		row := []cell{
			{namespace, plain}, {name, plain}, {change.Operation, plain}, {beforeText(change), plain}, {fmt.Sprint(change.After), plain},
			added, removed, {pagesText(change.Pages, wide), plain}, {conditionsText(change, wide), plain},
		}
		if approval {
			needed := none
			if change.NeedsApproval {
				needed = "required"
			}
			row = append(row, cell{needed, plain})
		}
		t.add(row...)
	}
	return t
}

// beforeText counts the clusters without the change, and those that are published if that is
// another number: then a change of the Placement itself is not complete.
func beforeText(change simulator.Change) string {
	if change.Published != change.Before {
		return fmt.Sprintf("%d (%d published)", change.Before, change.Published)
	}
	return fmt.Sprint(change.Before)
}

func number(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// none is the text of an empty cell, as in kubectl.
const none = "<none>"

// maxListed is the number of names in a cell that is not wide.
const maxListed = 5

func counted(names []string, wide bool) string {
	if len(names) == 0 {
		return none
	}
	return fmt.Sprintf("%d: %s", len(names), list(names, wide, " "))
}

// list joins names. If the cell is not wide, it shows only the first ones.
func list(names []string, wide bool, separator string) string {
	if more := len(names) - maxListed; more > 0 && !wide {
		return fmt.Sprintf("%s … %d more", strings.Join(names[:maxListed], separator), more)
	}
	return strings.Join(names, separator)
}

func pagesText(pages []simulator.PageChange, wide bool) string {
	if !wide {
		return fmt.Sprint(len(pages))
	}
	names := make([]string, len(pages))
	for i, page := range pages {
		names[i] = page.Name + " " + page.Operation
	}
	return counted(names, true)
}

// conditionsText lists the conditions that change. For a new Placement it omits Misconfigured if
// the configuration is valid.
func conditionsText(change simulator.Change, wide bool) string {
	var texts []string
	for _, c := range change.Conditions {
		switch {
		case c.After == nil:
			continue
		case change.Operation == simulator.Created && c.Type == v1alpha1.PlacementConditionMisconfigured && c.After.Reason == v1alpha1.ReasonSucceedConfigured:
			continue
		}
		text := fmt.Sprintf("%s=%s %s", c.Type, c.After.Status, c.After.Reason)
		if wide {
			text += ": " + c.After.Message
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return none
	}
	return strings.Join(texts, "; ")
}
