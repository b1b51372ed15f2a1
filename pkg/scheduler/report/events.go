package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Event is an event regarding the Placement.
type Event struct {
	Type, Reason, Action, Note string
	// Related is the page as the write returned it.
	Related *v1alpha1.PlacementDecision
}

// scoreUpdate is the reason of the event with the scores.
const scoreUpdate = "ScoreUpdate"

// Writes returns one event per successful write of the attempt's step, in order, and one event with
// the scores. It returns nil if the same clusters were published before.
func Writes(a *scheduler.Attempt) []Event { return writes(a, a.Step.Writes) }

func writes(a *scheduler.Attempt, writes []framework.PageWrite) []Event {
	if !a.Step.Result.Changed {
		return nil
	}
	var events []Event
	var changed *v1alpha1.PlacementDecision
	for _, w := range writes {
		if w.Created && !isPlaceholder(a, w.Page) {
			events = append(events, pageEvent(a, "DecisionCreate", "DecisionCreated", "created", w.Page))
		}
		switch {
		case w.Deleted:
			events = append(events, pageEvent(a, "DecisionDelete", "DecisionDeleted", "deleted", w.Page))
			if changed == nil && w.DecisionsChanged {
				changed = w.Page
			}
		case w.DecisionsChanged && (!w.Created || len(w.Page.Status.Decisions) > 0):
			update := pageEvent(a, "DecisionUpdate", "DecisionUpdated", "updated", w.Page)
			addWarnings(&update, a.State.Warnings())
			events = append(events, update)
			changed = w.Page
		}
	}
	if changed == nil {
		return events
	}
	if scores := cmp.Or(a.KeptScores(), a.ScoreNote()); scores != "" {
		events = append(events, Event{Type: corev1.EventTypeNormal, Reason: scoreUpdate, Action: "ScoreUpdated", Note: scores, Related: changed})
	}
	return events
}

// FoundWrites returns the events about writes whose responses were lost. One with the scores is
// among them unless an earlier write of the step already had it.
func FoundWrites(a *scheduler.Attempt) []Event {
	events := writes(a, a.FoundWrites())
	isScores := func(e Event) bool { return e.Reason == scoreUpdate }
	if slices.ContainsFunc(writes(a, a.WrittenBefore()), isScores) {
		events = slices.DeleteFunc(events, isScores)
	}
	return events
}

// isPlaceholder is true for the empty page of a Placement that was never decided.
func isPlaceholder(a *scheduler.Attempt, page *v1alpha1.PlacementDecision) bool {
	return len(page.Status.Decisions) == 0 && a.Snapshot.Subject.Last == nil && (a.Failure != nil || a.Step.Kind == framework.Republication)
}

func pageEvent(a *scheduler.Attempt, reason, action, done string, page *v1alpha1.PlacementDecision) Event {
	pl := a.Snapshot.Subject.Placement
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Related: page,
		Note: fmt.Sprintf("Decision %s is %s with placement %s in namespace %s", page.Name, done, pl.Name, pl.Namespace)}
}

// addWarnings turns the event into a Warning with the warnings of plugins, if there are any.
func addWarnings(e *Event, warnings []framework.Warning) {
	if len(warnings) == 0 {
		return
	}
	texts := make([]string, len(warnings))
	for i, w := range warnings {
		texts[i] = fmt.Sprintf("%s in plugin %s", w.Message, w.Plugin)
	}
	e.Type = corev1.EventTypeWarning
	e.Note = CutNote(e.Note + ": " + strings.Join(texts, "; "))
}

// CutNote shortens a note to the API's maximum of 1,024 bytes, at a whole character, and removes
// invalid UTF-8.
func CutNote(note string) string {
	if len(note) <= decide.MaxNote {
		return strings.ToValidUTF8(note, "")
	}
	return strings.ToValidUTF8(note[:decide.MaxNote-len("......")], "") + "......"
}

// OutcomeEvent returns the event for the outcome; nil if it has none.
func OutcomeEvent(a *scheduler.Attempt) *Event {
	reason := a.Effects().Event
	if reason == "" {
		return nil
	}
	return &Event{Type: corev1.EventTypeWarning, Reason: reason, Action: "DecisionPending", Note: CutNote(a.Message())}
}

// Misconfigured returns the event for a Placement that became misconfigured, or for another
// reason than its status says; nil otherwise.
func Misconfigured(a *scheduler.Attempt) *Event {
	now := a.MisconfiguredCondition()
	before := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, now.Type)
	if now.Status != metav1.ConditionTrue || before != nil && before.Status == now.Status && before.Message == v1alpha1.CutMessage(now.Message) {
		return nil
	}
	return &Event{Type: corev1.EventTypeWarning, Reason: now.Reason, Action: "Validate", Note: CutNote(now.Message)}
}

// Stuck returns the event for a change whose progress deadline has just passed; nil otherwise.
func Stuck(a *scheduler.Attempt) *Event {
	if a.Progress == nil || a.Progress.StuckSince.IsZero() {
		return nil
	}
	before := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, v1alpha1.PlacementConditionDecisionProgressing)
	if before != nil && before.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		return nil
	}
	return &Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonProgressDeadlineExceeded, Action: "PublishStep",
		Note: CutNote(fmt.Sprintf("Change %d: %s", a.Change.Revision, a.Progress)),
	}
}

// Plugins returns the events for plugins that panicked, also without effect on the outcome,
// and for one that keeps the Placement from being decided.
func Plugins(a *scheduler.Attempt) []Event {
	var all []Event
	for _, status := range a.Panicked() {
		all = append(all, Event{Type: corev1.EventTypeWarning, Reason: "PluginPanicked", Action: status.Plugin(), Note: CutNote(status.Err().Error())})
	}
	if refusal := a.Refusal(); refusal != nil {
		all = append(all, Event{Type: corev1.EventTypeWarning, Reason: "PlacementRefused", Action: refusal.Plugin(), Note: CutNote(refusal.Err().Error())})
	}
	return all
}

// IsNewOutcome reports whether the outcome was not reported before: the attempt wrote it to the
// record or, without a record, the condition has another reason.
func IsNewOutcome(a *scheduler.Attempt) bool {
	if before := a.Record(); a.Effects().Phase != "" && (a.Recorded() || before != nil) {
		return a.Recorded() && (before == nil || before.Status.Phase != a.Effects().Phase)
	}
	c := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	return c == nil || c.Reason != string(a.Outcome)
}
