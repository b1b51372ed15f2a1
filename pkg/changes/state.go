package changes

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// StateName is the word for a state of a Placement.
type StateName string

// Names of the rows of StateTable.
const (
	StateMisconfigured StateName = "misconfigured"
	StateShort         StateName = "short"
	StateStuck         StateName = "stuck"
	StateHeld          StateName = "held"
	StateUndecided     StateName = "undecided"
	StateMoving        StateName = "moving"
	StateRejected      StateName = "rejected"
	StateSuspended     StateName = "suspended"
	StatePinned        StateName = "pinned"
	StateBackup        StateName = "backup"
	StateDisabled      StateName = "disabled"
	StateTerminating   StateName = "terminating"
	StateSatisfied     StateName = "satisfied"
)

// Severity is whether a state needs a user.
type Severity string

// Severities: the Placement lacks what it asks for, a user may have to act, and neither.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// StateRow is what is known about a state.
type StateRow struct {
	Name StateName
	// Sign is the mark of the state on the page of berth explore.
	Sign string
	// Text completes the sentence "The Placement …".
	Text     string
	Severity Severity
	// Exit is the exit code of kubectl placement status if it is the most urgent state.
	Exit int
	// Ends is true if status --watch waits for the end of the state.
	Ends bool
}

// StateTable has the states of Placements, the most urgent first. Commands, the page, the metrics
// and the docs have all words from here.
var StateTable = []StateRow{
	{StateMisconfigured, "✕", "has a mistake in its spec and keeps its published clusters", SeverityError, 4, false},
	{StateShort, "!", "has fewer clusters than it asks for, or violates a constraint", SeverityError, 5, false},
	{StateStuck, "■", "has a change in steps that exceeded its deadline", SeverityError, 3, true},
	{StateHeld, "Ⅱ", "has a change that waits for an approval or another condition", SeverityWarning, 3, true},
	{StateUndecided, "…", "has a spec that the controller has not decided", SeverityWarning, 3, true},
	{StateMoving, "→", "has a change that is published in steps", SeverityInfo, 3, true},
	{StateRejected, "⊘", "has a change that was rejected, denied or not approved in time", SeverityInfo, 0, false},
	{StateSuspended, "∥", "is suspended by a DisruptionPolicy", SeverityInfo, 0, false},
	{StatePinned, "∗", "is pinned to a revision", SeverityInfo, 0, false},
	{StateBackup, "↓", "does not use the first tier of its SelectionPolicy", SeverityInfo, 0, false},
	{StateDisabled, "∅", "is disabled by its annotation", SeverityInfo, 0, false},
	{StateTerminating, "†", "is being deleted", SeverityInfo, 0, false},
	{StateSatisfied, "✓", "has the clusters that it asks for", SeverityInfo, 0, false},
}

// Row returns the row of a state. Its order is the index in StateTable.
func (s StateName) Row() (row StateRow, order int) {
	order = slices.IndexFunc(StateTable, func(row StateRow) bool { return row.Name == s })
	return StateTable[order], order
}

// State is a state that a Placement is in.
type State struct {
	Name StateName
	// Message says why, in one sentence.
	Message string
	// Since is when the state began; zero if that is not known.
	Since time.Time
}

// Numbers of the clusters of a Placement. Wanted is nil for all clusters that qualify. Unavailable
// are the selected ones that are known to be unavailable.
type Numbers struct {
	Selected, Unavailable int
	Wanted                *int32
}

// Urgency returns the order of a Placement among others by its states; the lowest is the most
// urgent. One that is short, or has unavailable clusters, is the more urgent the fewer available
// clusters it has of those that it wants, and less urgent than a stuck one if it has most of them.
func Urgency(states []State, n Numbers) float64 {
	urgency := float64(len(StateTable))
	if n.Unavailable > 0 {
		urgency = shortUrgency(n)
	}
	for _, state := range states {
		_, order := state.Name.Row()
		at := float64(order)
		if state.Name == StateShort {
			at = shortUrgency(n)
		}
		urgency = min(urgency, at)
	}
	return urgency
}

// NeedsUser reports whether Placements of an urgency may need a user.
func NeedsUser(urgency float64) bool {
	return urgency < float64(slices.IndexFunc(StateTable, func(row StateRow) bool { return row.Severity == SeverityInfo }))
}

func shortUrgency(n Numbers) float64 {
	available, wanted := float64(n.Selected-n.Unavailable), float64(n.Selected)
	if n.Wanted != nil {
		wanted = float64(*n.Wanted)
	}
	share := 1.0
	if available < wanted || available == 0 {
		share = available / max(wanted, 1)
	}
	_, order := StateShort.Row()
	if share >= 0.5 {
		_, order = StateStuck.Row()
	}
	return float64(order) + share/2
}

// StateInput is what the states of a Placement depend on. What is not known may be left out.
type StateInput struct {
	Placement *v1alpha1.Placement
	History   History
	// DisruptionPolicies are those that select the Placement, SelectionPolicies those that name
	// it.
	DisruptionPolicies []*berthv1alpha1.DisruptionPolicy
	SelectionPolicies  []*berthv1alpha1.SelectionPolicy
}

// States returns the states of a Placement, the most urgent first. It is never empty.
func (in StateInput) States() []State {
	var states []State
	add := func(name StateName, message string, since time.Time) {
		states = append(states, State{name, message, since})
	}
	pl := in.Placement
	satisfied := conditionOf(pl, v1alpha1.PlacementConditionSatisfied)
	misconfigured, leftAlone, enough := satisfied.Reason == v1alpha1.ReasonMisconfigured, in.leftAlone(add), in.hasEnough(satisfied)
	switch {
	case misconfigured:
		add(StateMisconfigured, MistakeText(satisfied.Message), satisfied.LastTransitionTime.Time)
	case satisfied.Status == metav1.ConditionFalse && !leftAlone && !enough:
		add(StateShort, satisfied.Message, in.lastLoss(satisfied.LastTransitionTime.Time))
	}
	in.addChange(add)
	if enough && !leftAlone && len(states) == 0 {
		add(StateHeld, satisfied.Message, satisfied.LastTransitionTime.Time)
	}
	in.addStops(add)
	switch {
	case leftAlone:
	case undecided(pl, satisfied):
		add(StateUndecided, "The controller has not decided the newest spec yet.", pl.CreationTimestamp.Time)
	case satisfied.Status == metav1.ConditionTrue && !misconfigured:
		add(StateSatisfied, satisfied.Message, satisfied.LastTransitionTime.Time)
	case len(states) == 0:
		// Only another program writes Unknown.
		add(StateUndecided, satisfied.Message, satisfied.LastTransitionTime.Time)
	}
	slices.SortStableFunc(states, func(a, b State) int {
		_, first := a.Name.Row()
		_, second := b.Name.Row()
		return cmp.Compare(first, second)
	})
	return states
}

// afterPlugin is the end of the name of a plugin before a mistake.
var afterPlugin = regexp.MustCompile(`^([A-Z][A-Za-z]*):(\S)`)

// MistakeText returns the message of a condition with the reason Misconfigured for people: it has
// no space after the name of the plugin.
func MistakeText(message string) string { return afterPlugin.ReplaceAllString(message, "$1: $2") }

// leftAlone adds the state of a Placement that Berth does not decide, and returns whether it has.
func (in StateInput) leftAlone(add func(StateName, string, time.Time)) bool {
	switch pl := in.Placement; {
	case !pl.DeletionTimestamp.IsZero():
		add(StateTerminating, "The Placement is being deleted: Berth leaves it and its decision alone.", pl.DeletionTimestamp.Time)
	case pl.IsDisabled():
		disabled := conditionOf(pl, v1alpha1.PlacementConditionSchedulingDisabled)
		add(StateDisabled, "The Placement is disabled: Berth leaves it and its decision alone.", disabled.LastTransitionTime.Time)
	default:
		return false
	}
	return true
}

func undecided(pl *v1alpha1.Placement, satisfied metav1.Condition) bool {
	return satisfied.Type == "" || satisfied.ObservedGeneration != 0 && satisfied.ObservedGeneration != pl.Generation
}

// lastLoss returns when a Placement that is short last lost more clusters than it got, if that was
// after it became short.
func (in StateInput) lastLoss(short time.Time) time.Time {
	for _, record := range slices.Backward(in.History) {
		if at := Began(record); record.Status.Phase == berthv1alpha1.PhasePublished && record.Spec.RemovedCount > record.Spec.AddedCount && at.After(short) {
			return at
		}
	}
	return short
}

// hasEnough reports whether a Placement that is not satisfied has all clusters that it asks for and
// only awaits the removal of others.
func (in StateInput) hasEnough(satisfied metav1.Condition) bool {
	if satisfied.Status != metav1.ConditionFalse {
		return false
	}
	awaits := satisfied.Reason == v1alpha1.ReasonDecisionPending
	if !awaits && satisfied.Reason != v1alpha1.ReasonNotAllDecisionsScheduled {
		return false
	}
	if wanted := in.Placement.Spec.NumberOfClusters; wanted != nil {
		selected := in.Placement.Status.NumberOfSelectedClusters
		return selected > *wanted || awaits && selected == *wanted
	}
	open := in.History.Open()
	return awaits && open != nil && open.Spec.AddedCount == 0 && open.Spec.RemovedCount > 0
}

// addChange adds the states of the open change, or of one that was refused.
func (in StateInput) addChange(add func(StateName, string, time.Time)) {
	progressing := conditionOf(in.Placement, v1alpha1.PlacementConditionDecisionProgressing)
	pending := conditionOf(in.Placement, v1alpha1.PlacementConditionDecisionPending)
	if progressing.Status == metav1.ConditionFalse && progressing.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		add(StateStuck, progressing.Message, progressing.LastTransitionTime.Time)
	}
	open := in.History.Open()
	switch {
	case pending.Status == metav1.ConditionTrue:
		add(StateHeld, pending.Message, pending.LastTransitionTime.Time)
	case progressing.Reason == v1alpha1.ReasonMinAvailable:
		add(StateHeld, progressing.Message, progressing.LastTransitionTime.Time)
	case open != nil && open.Status.Phase == berthv1alpha1.PhaseProgressing:
		add(StateMoving, progressing.Message, Began(open))
	case progressing.Status == metav1.ConditionTrue:
		add(StateMoving, progressing.Message, progressing.LastTransitionTime.Time)
	case pending.Status == metav1.ConditionFalse:
		add(StateRejected, pending.Message, pending.LastTransitionTime.Time)
	}
}

// addStops adds why the clusters are not those that the spec alone would select.
func (in StateInput) addStops(add func(StateName, string, time.Time)) {
	progressing := conditionOf(in.Placement, v1alpha1.PlacementConditionDecisionProgressing)
	switch suspended := in.suspendedText(); {
	case suspended != "":
		add(StateSuspended, suspended, time.Time{})
	case progressing.Status == metav1.ConditionFalse && progressing.Reason == v1alpha1.ReasonSuspended:
		add(StateSuspended, progressing.Message, progressing.LastTransitionTime.Time)
	}
	if revision, pinned := in.Placement.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; pinned {
		add(StatePinned, fmt.Sprintf("Pinned to revision %s. To unpin: %s", revision, command("unpin", in.Placement)), time.Time{})
	}
	for _, policy := range in.SelectionPolicies {
		tiers := policy.Status.Tiers
		if used := slices.IndexFunc(tiers, func(t berthv1alpha1.SelectionTierStatus) bool { return t.Used }); used > 0 {
			add(StateBackup, fmt.Sprintf("Uses the tier %s instead of %s, as SelectionPolicy %s allows.", tiers[used].Name, tiers[0].Name, policy.Name), time.Time{})
		}
	}
}

// SuspendSuffix is the end of the name of the DisruptionPolicy by which the command suspend
// suspends a Placement.
const SuspendSuffix = "-suspend"

// suspendedText names the policies that suspend the Placement, who wrote them and why, and says how
// to end that; empty if there are none.
func (in StateInput) suspendedText() string {
	var suspending []string
	hint := "."
	for _, policy := range in.DisruptionPolicies {
		if !policy.Spec.Suspend {
			continue
		}
		suspending = append(suspending, policy.Name+berthv1alpha1.EditText(policy))
		if policy.Name == in.Placement.Name+SuspendSuffix {
			hint = ". To resume: " + command("resume", in.Placement)
		}
	}
	if len(suspending) == 0 {
		return ""
	}
	slices.Sort(suspending)
	return "Suspended by DisruptionPolicy " + strings.Join(suspending, ", ") + hint
}

func command(verb string, pl *v1alpha1.Placement) string {
	return fmt.Sprintf("kubectl placement %s %s -n %s", verb, pl.Name, pl.Namespace)
}

// conditionOf returns a condition of a Placement; empty if it is not set.
func conditionOf(pl *v1alpha1.Placement, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(pl.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}
