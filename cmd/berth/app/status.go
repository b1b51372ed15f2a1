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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// watchInterval is how often status --watch, drain --wait and evict read the hub.
const watchInterval = time.Second

type statusOptions struct {
	hub    placementFlags
	watch  bool
	output string
}

func newStatusCommand() *cobra.Command {
	o := statusOptions{}
	cmd := &cobra.Command{
		Use:   "status " + placementUse,
		Short: "Show whether Placements are satisfied, and what their open changes wait for",
		Long: `Show whether Placements are satisfied, and what their open changes wait for.

Without a name it lists all Placements of the namespace, those with problems first: misconfigured, not satisfied, not decided, with an open
change. ` + placementHelp + `With --watch it prints again after
each change, until no change is open. Needs permission to get or list placements, and to list placementchanges.

Exit codes: 0 no change is open, 3 a change is open or the controller has not decided the newest spec, 1 failure, 2 wrong usage.`,
		Example: `  berth status web -n shop
  berth status -A
  berth status placement/web -n shop --watch`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
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
	// Done is true if no change is open and the controller has decided the newest spec.
	Done     bool  `json:"done"`
	Selected int32 `json:"selected"`
	// Wanted is numberOfClusters; nil for all clusters that qualify.
	Wanted     *int32               `json:"wanted,omitempty"`
	Conditions simulator.Conditions `json:"conditions"`
	// Undecided is true if the controller has not decided the newest spec.
	Undecided bool        `json:"undecided,omitempty"`
	Change    *changeView `json:"change,omitempty"`
}

func (o *statusOptions) run(ctx context.Context, args []string, out io.Writer) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	var shown []*placementStatus
	for {
		statuses, err := o.read(ctx, hub, namespace, args)
		if err != nil {
			return err
		}
		if shown == nil || !slices.EqualFunc(shown, statuses, sameStatus) {
			if err := o.print(out, statuses, len(args) == 1); err != nil {
				return err
			}
			shown = statuses
		}
		switch {
		case !slices.ContainsFunc(statuses, func(s *placementStatus) bool { return !s.Done }):
			return nil
		case !o.watch:
			return errChanges
		}
		select {
		case <-ctx.Done():
			return errChanges
		case <-time.After(watchInterval):
		}
	}
}

func (o *statusOptions) read(ctx context.Context, hub client.Client, namespace string, args []string) ([]*placementStatus, error) {
	refs, err := o.hub.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return nil, err
	}
	statuses := make([]*placementStatus, 0, len(refs))
	for _, ref := range refs {
		pl, history, err := actions.ReadHistory(ctx, hub, ref.NamespacedName)
		if err != nil && !errors.Is(err, actions.ErrNoRecords) {
			return nil, err
		}
		statuses = append(statuses, statusOf(pl, history))
	}
	slices.SortStableFunc(statuses, func(a, b *placementStatus) int { return cmp.Compare(a.urgency(), b.urgency()) })
	return statuses, nil
}

// urgency orders Placements: misconfigured ones come first, then those that are not satisfied,
// those that are not decided, those with an open change, and all others.
func (s *placementStatus) urgency() int {
	satisfied := s.condition(v1alpha1.PlacementConditionSatisfied)
	switch {
	case satisfied.Reason == v1alpha1.ReasonMisconfigured:
		return 0
	case satisfied.Status == metav1.ConditionFalse:
		return 1
	case s.Undecided:
		return 2
	case !s.Done:
		return 3
	}
	return 4
}

// statusOf returns the status of a Placement with its records.
func statusOf(pl *v1alpha1.Placement, history changes.History) *placementStatus {
	s := &placementStatus{
		Placement: client.ObjectKeyFromObject(pl).String(), Selected: pl.Status.NumberOfSelectedClusters, Wanted: pl.Spec.NumberOfClusters,
		Conditions: simulator.Conditions{},
	}
	for _, c := range pl.Status.Conditions {
		s.Conditions = append(s.Conditions, simulator.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	if record := history.Open(); record != nil {
		s.Change = viewOf(record).withClusters(record)
	}
	satisfied := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	s.Undecided = framework.WhyNotDecided(pl) == "" && (satisfied == nil || satisfied.ObservedGeneration != 0 && satisfied.ObservedGeneration != pl.Generation)
	pending := meta.IsStatusConditionTrue(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	s.Done = s.Change == nil && !s.Undecided && !pending
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
	return a.Placement == b.Placement && a.Done == b.Done && a.Selected == b.Selected && a.Undecided == b.Undecided &&
		slices.Equal(a.Conditions, b.Conditions) && revision(a) == revision(b)
}

func (o *statusOptions) print(out io.Writer, statuses []*placementStatus, one bool) error {
	if o.output == "json" || o.output == "yaml" {
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
	if s.Undecided {
		say(out, "  The controller has not decided the newest spec yet.\n")
	}
	if s.Change == nil {
		return say(out, "  No change is open.\n")
	}
	return s.Change.print(out, wide)
}

// statusTable has a line for each Placement. The wide form adds messages.
func statusTable(statuses []*placementStatus, wide bool, now time.Time) *table {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "WANTED", "SELECTED", "SATISFIED", "REASON", "CHANGE", "ADDED", "REMOVED", "SINCE"}}
	if wide {
		t.heading = append(t.heading, "MESSAGE")
	}
	for _, s := range statuses {
		namespace, name, _ := strings.Cut(s.Placement, "/")
		satisfied := s.condition(v1alpha1.PlacementConditionSatisfied)
		state := cell{text: cmp.Or(string(satisfied.Status), "Unknown")}
		if satisfied.Status == metav1.ConditionFalse {
			state.colour = red
		}
		row := []cell{{text: namespace}, {text: name}, {text: wantedText(s.Wanted)}, {text: fmt.Sprint(s.Selected)}, state, {text: cmp.Or(satisfied.Reason, none)}}
		row = append(row, s.changeCells(now)...)
		if wide {
			row = append(row, cell{text: cmp.Or(satisfied.Message, none)})
		}
		t.add(row...)
	}
	return t
}

// stopped returns why a change in progress makes none: Suspended or ProgressDeadlineExceeded; empty
// for others.
func (s *placementStatus) stopped() string {
	if progressing := s.condition(v1alpha1.PlacementConditionDecisionProgressing); progressing.Status == metav1.ConditionFalse {
		return progressing.Reason
	}
	return ""
}

// changeCells are the cells of the open change: phase, added, removed and age.
func (s *placementStatus) changeCells(now time.Time) []cell {
	pending := s.condition(v1alpha1.PlacementConditionDecisionPending)
	switch {
	case s.Change != nil:
		return []cell{
			{text: cmp.Or(s.stopped(), s.Change.Phase, "Created")}, {text: fmt.Sprint(s.Change.AddedCount)}, {text: fmt.Sprint(s.Change.RemovedCount)},
			{text: duration.HumanDuration(now.Sub(s.Change.Time))},
		}
	case s.Undecided:
		return []cell{{text: "Undecided"}, {text: none}, {text: none}, {text: none}}
	case pending.Status == metav1.ConditionTrue:
		return []cell{{text: pending.Reason}, {text: none}, {text: none}, {text: none}}
	}
	return []cell{{text: none}, {text: none}, {text: none}, {text: none}}
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
