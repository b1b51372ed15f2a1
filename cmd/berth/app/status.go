package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/simulator"
)

// watchInterval is how often status --watch, drain --wait and evict read the hub.
const watchInterval = time.Second

type statusOptions struct {
	hub    placementFlags
	watch  bool
	output string
	// unavailable are the unavailable clusters, as read last.
	unavailable []string
}

func newStatusCommand() *cobra.Command {
	o := statusOptions{}
	cmd := &cobra.Command{
		Use:   "status " + placementUse,
		Short: "Show whether Placements are satisfied, and what their open changes wait for",
		Long: `Show whether Placements are satisfied, and what their open changes wait for.

Without a name it lists all Placements of the namespace, the most urgent first. ` + placementHelp + `With --watch it prints again after
each change, until no change is open. Needs permission to get or list placements and to list placementchanges. The policies that suspend a
Placement, the tier in use and, above the table of -A, the unavailable clusters are shown to users who may list disruptionpolicies,
selectionpolicies and managedclusters.`,
		Example: `  berth status web -n shop
  berth status -A
  berth status placement/web -n shop --watch`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return o.run(cmd.Context(), args, cmd)
		},
	}
	o.hub.add(cmd)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print again after each change, until no change is open")
	addOutputFlag(cmd, &o.output)
	return cmd
}

// placementStatus is the shown form of a Placement. Its json and yaml output is a public interface.
type placementStatus struct {
	Placement string `json:"placement"`
	// States are words of changes.StateTable, the most urgent first. Why is a sentence about the
	// first, and Since is when it began, if that is known.
	States []changes.StateName `json:"states"`
	Why    string              `json:"why,omitempty"`
	Since  time.Time           `json:"since,omitzero"`
	// Done is true if no change is open and the controller has decided the newest spec.
	Done     bool  `json:"done"`
	Selected int32 `json:"selected"`
	// Unavailable are the published clusters that are unavailable, with -A for users who may list
	// clusters.
	Unavailable []string `json:"unavailable,omitempty"`
	// Wanted is numberOfClusters; nil for all clusters that qualify.
	Wanted     *int32               `json:"wanted,omitempty"`
	Conditions simulator.Conditions `json:"conditions"`
	Change     *changes.View        `json:"change,omitempty"`

	states []changes.State
}

func (o *statusOptions) run(ctx context.Context, args []string, cmd *cobra.Command) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	progress.say("reading the hub")
	var shown []*placementStatus
	for {
		statuses, err := o.read(ctx, hub, namespace, args)
		progress.stop()
		if shown != nil && ctx.Err() != nil {
			return outcomeOf(shown)
		}
		if err != nil {
			return err
		}
		if shown == nil || !slices.EqualFunc(shown, statuses, sameStatus) {
			o.printUnavailable(out)
			if err := o.print(out, statuses, len(args) == 1); err != nil {
				return err
			}
			shown = statuses
		}
		if !o.watch || !slices.ContainsFunc(statuses, func(s *placementStatus) bool { return !s.Done }) {
			return outcomeOf(statuses)
		}
		select {
		case <-ctx.Done():
			return outcomeOf(statuses)
		case <-time.After(watchInterval):
		}
	}
}

// outcomeOf has the exit code of the most urgent state; nil for 0.
func outcomeOf(statuses []*placementStatus) error {
	code, order := exitOK, len(changes.StateTable)
	for _, s := range statuses {
		row, at := s.States[0].Row()
		switch {
		case row.Exit != exitOK && at < order:
			code, order = row.Exit, at
		case code == exitOK && !s.Done:
			code = exitChanges
		}
	}
	if code == exitOK {
		return nil
	}
	return &outcome{errors.New("not all Placements have their clusters"), code}
}

func (o *statusOptions) read(ctx context.Context, hub client.Client, namespace string, args []string) ([]*placementStatus, error) {
	inputs, err := o.hub.states(ctx, hub, namespace, args)
	if err != nil && !errors.Is(err, actions.ErrNoRecords) {
		return nil, err
	}
	statuses := make([]*placementStatus, len(inputs))
	for i, in := range inputs {
		statuses[i] = statusOf(in)
	}
	if o.hub.all {
		if o.unavailable, err = readUnavailable(ctx, hub, statuses); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(statuses, func(a, b *placementStatus) int {
		if order := cmp.Compare(a.urgency(), b.urgency()); order != 0 || !changes.NeedsUser(a.urgency()) {
			return order
		}
		return b.Since.Compare(a.Since)
	})
	return statuses, nil
}

// urgency is the order of a Placement in the table. Among equals that may need a user, what
// happened last comes first.
func (s *placementStatus) urgency() float64 {
	return changes.Urgency(s.states, changes.Numbers{Selected: int(s.Selected), Unavailable: len(s.Unavailable), Wanted: s.Wanted})
}

// statusOf returns the status of a Placement.
func statusOf(in changes.StateInput) *placementStatus {
	pl := in.Placement
	s := &placementStatus{
		Placement: client.ObjectKeyFromObject(pl).String(), Selected: pl.Status.NumberOfSelectedClusters, Wanted: pl.Spec.NumberOfClusters,
		Conditions: simulator.Conditions{}, states: in.States(),
	}
	for _, c := range pl.Status.Conditions {
		s.Conditions = append(s.Conditions, simulator.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	if record := in.History.Open(); record != nil {
		s.Change = changes.ViewOf(record).WithClusters(record)
	}
	s.Why, s.Since, s.Done = s.states[0].Message, s.states[0].Since, s.Change == nil
	for _, state := range s.states {
		row, _ := state.Name.Row()
		s.States, s.Done = append(s.States, state.Name), s.Done && !row.Ends
	}
	return s
}

// sameStatus is true if the two would be printed in the same way.
func sameStatus(a, b *placementStatus) bool {
	revision := func(s *placementStatus) string {
		if s.Change == nil {
			return ""
		}
		remaining := berthv1alpha1.RemainingClusters{}
		if s.Change.Remaining != nil {
			remaining = *s.Change.Remaining
		}
		return fmt.Sprint(s.Change.Revision, s.Change.Phase, s.Change.Message, s.Change.Holds, remaining)
	}
	return a.Placement == b.Placement && a.Done == b.Done && a.Selected == b.Selected && slices.Equal(a.Unavailable, b.Unavailable) && slices.Equal(a.states, b.states) &&
		slices.Equal(a.Conditions, b.Conditions) && revision(a) == revision(b)
}

func (o *statusOptions) print(out io.Writer, statuses []*placementStatus, one bool) error {
	if structured(o.output) {
		if one {
			return printObject(out, o.output, statuses[0])
		}
		return printObject(out, o.output, map[string]any{"placements": statuses})
	}
	if one {
		return statuses[0].print(out, o.output == "wide")
	}
	return statusTable(statuses, o.output == "wide", time.Now()).print(out, colourful(out))
}

// print shows one Placement with its open change.
func (s *placementStatus) print(out io.Writer, wide bool) error {
	say(out, "Placement %s: %s selected, %s wanted\n", s.Placement, number(int(s.Selected), "cluster"), wantedText(s.Wanted))
	for _, c := range s.Conditions {
		if !healthy(c) {
			printCondition(out, c)
		}
	}
	for _, state := range s.states {
		// The conditions say the others.
		if !slices.ContainsFunc(s.Conditions, func(c simulator.Condition) bool { return c.Message == state.Message }) {
			say(out, "  %s\n", state.Message)
		}
	}
	if s.Change == nil {
		return say(out, "  No change is open.\n")
	}
	shown := *s.Change
	if slices.Contains(s.States, changes.StateSuspended) {
		shown.Phase = cmp.Or(shown.Phase, "no phase yet") + ", suspended"
	}
	return printChange(out, &shown, wide)
}

// statusTable has a line for each Placement. The wide form adds messages.
func statusTable(statuses []*placementStatus, wide bool, now time.Time) *table {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "STATE", "WANTED", "SELECTED", "REASON", "CHANGE", "ADDED", "REMOVED", "SINCE"}, whole: wide}
	t.optional = []string{"ADDED", "REMOVED", "SINCE", "CHANGE"}
	if wide {
		t.heading = append(t.heading, "MESSAGE")
	}
	for _, s := range statuses {
		row := append(placementCells(s.Placement), s.stateCell(), cell{text: wantedText(s.Wanted)}, s.selectedCell(),
			cell{text: cmp.Or(s.condition(v1alpha1.PlacementConditionSatisfied).Reason, none)})
		row = append(row, s.changeCells(now)...)
		if wide {
			row = append(row, cell{text: cmp.Or(s.message(), none)})
		}
		t.add(row...)
	}
	return t
}

// message is about the first state, and others that may need a user.
func (s *placementStatus) message() string {
	texts := []string{s.Why}
	for _, state := range s.states[1:] {
		if row, _ := state.Name.Row(); row.Severity != changes.SeverityInfo {
			texts = append(texts, state.Message)
		}
	}
	return strings.Join(texts, "; ")
}

// placementCells are the cells of NAMESPACE/NAME.
func placementCells(placement string) []cell {
	namespace, name, _ := strings.Cut(placement, "/")
	return []cell{{text: namespace}, {text: name}}
}

// stateCell lists the states. Satisfied is left out beside others: not to be so is a state, too.
func (s *placementStatus) stateCell() cell {
	var words []string
	c := cell{}
	for _, name := range s.States {
		if row, _ := name.Row(); row.Severity == changes.SeverityError {
			c.colour = red
		}
		if name != changes.StateSatisfied || len(s.States) == 1 {
			words = append(words, string(name))
		}
	}
	c.text = strings.Join(words, ",")
	return c
}

// stopped returns why a change in progress makes none: Suspended or ProgressDeadlineExceeded; empty
// for others.
func (s *placementStatus) stopped() string {
	if progressing := s.condition(v1alpha1.PlacementConditionDecisionProgressing); progressing.Status == metav1.ConditionFalse {
		return progressing.Reason
	}
	return ""
}

// changeCells are the cells of the open change, phase, added, removed and age, or else the age of
// the most urgent state.
func (s *placementStatus) changeCells(now time.Time) []cell {
	if s.Change != nil {
		left := cmp.Or(s.Change.Remaining, &berthv1alpha1.RemainingClusters{})
		return []cell{
			{text: cmp.Or(s.stopped(), s.Change.Phase, "Created")}, doneCell(s.Change, s.Change.AddedCount, left.Added), doneCell(s.Change, s.Change.RemovedCount, left.Removed),
			{text: duration.HumanDuration(now.Sub(s.Change.Time))},
		}
	}
	pending, since := s.condition(v1alpha1.PlacementConditionDecisionPending), none
	if !s.Since.IsZero() {
		since = duration.HumanDuration(now.Sub(s.Since))
	}
	return []cell{{text: cmp.Or(pending.Reason, none)}, {text: none}, {text: none}, {text: since}}
}

// doneCell counts the clusters that a change adds or removes; of one in steps, such as 1/10, also
// how many of them are done.
func doneCell(change *changes.View, all, left int32) cell {
	if change.Remaining == nil || all == 0 {
		return cell{text: fmt.Sprint(all)}
	}
	return cell{text: fmt.Sprintf("%d/%d", all-left, all)}
}

// condition returns the condition of a type; empty if there is none.
func (s *placementStatus) condition(kind string) simulator.Condition {
	if c := s.Conditions.Get(kind); c != nil {
		return *c
	}
	return simulator.Condition{}
}

func wantedText(wanted *int32) string {
	if wanted == nil {
		return "all"
	}
	return fmt.Sprint(*wanted)
}

// healthy is true for a condition that says only that the configuration is valid.
func healthy(c simulator.Condition) bool {
	return c.Type == v1alpha1.PlacementConditionMisconfigured && c.Status == metav1.ConditionFalse
}
