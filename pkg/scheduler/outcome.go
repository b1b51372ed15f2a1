package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// Outcome says how an attempt ended.
type Outcome string

// The outcomes of attempts.
const (
	// Unchanged: the selected clusters are those published last.
	Unchanged Outcome = "Unchanged"
	// Undecided: no clusters were selected, and the published decision stays.
	Undecided Outcome = "Undecided"
	// Published: the change was permitted and published.
	Published Outcome = "Published"
	// Progressing: the change was permitted and is published in steps.
	Progressing Outcome = "Progressing"
	// Held: a Permit plugin returned Wait.
	Held Outcome = v1alpha1.ReasonHeld
	// Waiting: a Reserve or Permit plugin returned Pending. The attempt is repeated soon.
	Waiting Outcome = v1alpha1.ReasonWaiting
	// Denied: a plugin denies the change. The plugin is asked again in the next attempt.
	Denied Outcome = v1alpha1.ReasonDenied
	// Rejected: a user or a plugin rejected the change.
	Rejected Outcome = v1alpha1.ReasonRejected
	// Expired: the change was not approved in time.
	Expired Outcome = v1alpha1.ReasonExpired
	// Failed: a step failed; the attempt is repeated with backoff.
	Failed Outcome = "Failed"
)

// Effects are what an outcome means for the Placement and for the record of the change.
type Effects struct {
	// Pending is the status of the condition DecisionPending, whose reason is the outcome. Empty
	// removes the condition.
	Pending metav1.ConditionStatus
	// Keep leaves the condition and the record as they are, as long as the change is so, too.
	Keep bool
	// Event is the reason of a Warning event; empty if there is none.
	Event string
	// Phase is that of the change's record; empty if the change gets none.
	Phase berthv1alpha1.ChangePhase
	// Supersedes is true if open records of other changes are Superseded; those of this change,
	// too, if Ends.
	Supersedes, Ends bool
	// RetryAfter is when the attempt is repeated, unless a plugin asked for another time; 0 for
	// never.
	RetryAfter time.Duration
}

// pendingInterval is the time until the next attempt after a plugin returned Pending without
// RequeueAt.
const pendingInterval = 10 * time.Second

// effects maps each outcome to its effects. The outcome is also a metric label.
var effects = map[Outcome]Effects{
	Unchanged:   {Supersedes: true, Ends: true},
	Undecided:   {Keep: true},
	Published:   {Phase: berthv1alpha1.PhasePublished, Supersedes: true},
	Progressing: {Phase: berthv1alpha1.PhaseProgressing, Supersedes: true},
	Held:        {Pending: metav1.ConditionTrue, Event: "DecisionHeld", Phase: berthv1alpha1.PhaseHeld, Supersedes: true},
	Waiting:     {Pending: metav1.ConditionTrue, RetryAfter: pendingInterval, Supersedes: true},
	Denied:      {Pending: metav1.ConditionFalse, Event: "DecisionDenied", Supersedes: true, Ends: true},
	Rejected:    {Pending: metav1.ConditionFalse, Event: "DecisionRejected", Phase: berthv1alpha1.PhaseRejected, Supersedes: true},
	Expired:     {Pending: metav1.ConditionFalse, Event: "DecisionExpired", Phase: berthv1alpha1.PhaseExpired, Supersedes: true},
	Failed:      {Keep: true},
}

// Effects are those of the attempt's outcome.
func (a *Attempt) Effects() Effects { return effects[a.Outcome] }

// pending reports whether the published clusters differ from the selected ones.
func (a *Attempt) pending() bool { return a.Effects().Pending != "" || a.partial || a.progress != nil }

// maxNamed is the maximum number of added, and of removed, clusters that a message names.
const maxNamed = 10

// describe returns the revision of the change and the clusters that it adds and removes.
func (a *Attempt) describe() string {
	return fmt.Sprintf("Change %d (%s, %s)", a.Change.Revision, named(a.Change.Added, "added"), named(a.Change.Removed, "removed"))
}

// named returns the number of names and the first of them.
func named(names []string, done string) string {
	switch {
	case len(names) == 0:
		return "0 " + done
	case len(names) > maxNamed:
		return fmt.Sprintf("%d %s: %s and %d more", len(names), done, strings.Join(names[:maxNamed], " "), len(names)-maxNamed)
	}
	return fmt.Sprintf("%d %s: %s", len(names), done, strings.Join(names, " "))
}

// Message describes the outcome, for the condition DecisionPending and the record.
func (a *Attempt) Message() string {
	if a.message != "" {
		return a.message
	}
	switch a.Outcome {
	case Progressing:
		return a.describe() + " is published in steps: " + a.progress.String()
	case Held:
		return a.describe() + " is held by " + a.holdText() + a.heldHint()
	case Waiting:
		return a.describe() + " waits for " + a.why
	case Denied:
		return a.describe() + " is denied by " + a.why
	case Rejected:
		return a.describe() + " was rejected by " + a.why + a.endedHint()
	case Expired:
		if len(a.Holds) > 0 && len(a.stillHeldBy) == len(a.Holds) {
			return a.describe() + " was not permitted in time" + a.endedHint()
		}
		return a.describe() + " was not approved in time" + a.endedHint()
	}
	return ""
}

// heldHint says how to approve a held change, if an approval helps.
func (a *Attempt) heldHint() string {
	switch {
	case a.Change.Approved:
		return ". It is approved"
	case len(a.stillHeldBy) == len(a.Holds):
		return a.approvalLimits()
	}
	return a.approvalLimits() + ". To approve it: " + a.approveCommand()
}

// endedHint says how to publish a change that was rejected or has expired.
func (a *Attempt) endedHint() string {
	return ". The published decision stays" + a.approvalLimits() + ". To publish the change, approve it: " + a.approveCommand()
}

// approvalLimits names the plugins that hold the change also after an approval.
func (a *Attempt) approvalLimits() string {
	if len(a.stillHeldBy) == 0 {
		return ""
	}
	return ". An approval does not end the hold by " + strings.Join(a.stillHeldBy, " and ")
}

// approveCommand returns the command that approves the change.
func (a *Attempt) approveCommand() string {
	pl := a.Snapshot.Subject.Placement
	name := changes.Name(pl.Name, a.Change.Revision)
	if record := a.Record(); record != nil {
		name = record.Name
	}
	return changes.AnswerCommand("approve", pl.Namespace, name)
}

func (a *Attempt) holdText() string {
	parts := make([]string, len(a.Holds))
	for i, h := range a.Holds {
		parts[i] = h.Plugin
		if h.Until != nil {
			parts[i] += " until " + h.Until.UTC().Format(time.RFC3339)
		}
		parts[i] += ": " + h.Reason
	}
	return strings.Join(parts, "; ")
}

// satisfiedWhilePending is the Satisfied condition while a change is pending. It describes what is
// published: it is True if the published clusters are what the spec asks for, so only which ones
// changes. target is the condition of the selected clusters.
func (a *Attempt) satisfiedWhilePending(target metav1.Condition) metav1.Condition {
	names := a.listed()
	var chosen []int
	for i, c := range a.Feasible {
		if _, listed := slices.BinarySearch(names, c.Name); listed {
			chosen = append(chosen, i)
		}
	}
	wanted, unqualified := len(a.Selected)+a.Shortfall.Missing, len(names)-len(chosen)
	c := a.choices()
	violated := selection.Violated(&c, &a.Demand, chosen)
	condition := target
	if target.Status == metav1.ConditionTrue && len(names) == wanted && unqualified == 0 && violated == "" {
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonDecisionPending
	condition.Message = fmt.Sprintf("Clusters published: %d, wanted: %d", len(names), wanted)
	if unqualified > 0 {
		condition.Message += fmt.Sprintf(", no longer qualified: %d", unqualified)
	}
	if violated != "" {
		condition.Message += ", violated: " + violated
	}
	if len(names) > wanted {
		leaving := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(a.Target.Clusters, name) })
		condition.Message += fmt.Sprintf(", awaited: the removal of %d", len(leaving))
	}
	other := v1alpha1.PlacementConditionDecisionPending
	if a.progress != nil {
		other = v1alpha1.PlacementConditionDecisionProgressing
	}
	condition.Message += "; see condition " + other
	if target.Status != metav1.ConditionTrue {
		condition.Message += ". After the change: " + target.Message
	}
	return condition
}

// listed are the names of the clusters that are published while the change is pending, sorted.
func (a *Attempt) listed() []string {
	switch last := a.Snapshot.Subject.Last; {
	case a.Step != nil:
		return a.Step.Clusters
	case last != nil:
		return last.Names
	}
	names, _ := framework.Listed(a.Snapshot.Subject.OwnPages())
	return names
}

// satisfiedNow returns the condition PlacementSatisfied of what is published. target is that of the
// selected clusters.
func (a *Attempt) satisfiedNow(target metav1.Condition, before []metav1.Condition) metav1.Condition {
	if a.Target != nil && a.pending() {
		target = a.satisfiedWhilePending(target)
	}
	if a.partial || a.Outcome == Undecided && !saysUndecided(&target) {
		if c := meta.FindStatusCondition(before, target.Type); c != nil {
			// After a restart it tells for which spec the published clusters were selected.
			target.ObservedGeneration = c.ObservedGeneration
		}
	}
	return target
}

// SetConditions updates the Placement's conditions.
func (a *Attempt) SetConditions(conditions *[]metav1.Condition) {
	for _, c := range a.Conditions() {
		if c.Type == v1alpha1.PlacementConditionSatisfied {
			c = a.satisfiedNow(c, *conditions)
		}
		v1alpha1.SetCondition(conditions, c)
	}
	meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionSchedulingDisabled)
	if a.Snapshot.Queue == nil {
		// Queues were disabled after the condition was written.
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionQueueAdmitted)
	}
	a.setProgressing(conditions)
	a.removeUnreported(conditions)
	switch effects := a.Effects(); {
	case a.Outcome == Undecided && a.waits():
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionPending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaiting,
			Message: v1alpha1.CutMessage("The published decision stays: " + a.Failure.Err().Error()), ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		})
	case effects.Keep:
		a.keepPending(conditions)
	case a.partial:
	case effects.Pending == "":
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending)
	default:
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionPending, Status: effects.Pending, Reason: string(a.Outcome), Message: a.Message(),
			ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		})
	}
}

// setProgressing updates the condition DecisionProgressing.
func (a *Attempt) setProgressing(conditions *[]metav1.Condition) {
	switch {
	case a.progress != nil:
		c := metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionProgressing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingUpdate,
			Message: a.progress.String(), ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		}
		switch {
		case a.progress.paused != "":
			c.Status, c.Reason = metav1.ConditionFalse, a.progress.paused
		case !a.progress.stuckSince.IsZero():
			c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded
		}
		v1alpha1.SetCondition(conditions, c)
	case a.Effects().Keep:
		a.keepProgressing(conditions)
	case !a.partial:
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionProgressing)
	}
}

// PendingEvent returns the event for the outcome; nil if it has none.
func (a *Attempt) PendingEvent() *Event {
	reason := a.Effects().Event
	if reason == "" {
		return nil
	}
	return &Event{Type: corev1.EventTypeWarning, Reason: reason, Action: "DecisionPending", Note: CutNote(a.Message())}
}

// MisconfiguredEvent returns the event for a Placement that became misconfigured, or for another
// reason than its status says; nil otherwise.
func (a *Attempt) MisconfiguredEvent() *Event {
	now := a.misconfiguredCondition()
	before := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, now.Type)
	if now.Status != metav1.ConditionTrue || before != nil && before.Status == now.Status && before.Message == v1alpha1.CutMessage(now.Message) {
		return nil
	}
	return &Event{Type: corev1.EventTypeWarning, Reason: now.Reason, Action: "Validate", Note: CutNote(now.Message)}
}
