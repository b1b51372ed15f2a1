package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// Disabled is the only condition that Berth writes to a Placement that its annotation
// disables.
func Disabled(pl *v1alpha1.Placement) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.PlacementConditionSchedulingDisabled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDisabledByAnnotation,
		Message:            fmt.Sprintf("The annotation %s is \"true\": the published decision stays as it is", v1alpha1.PlacementDisableAnnotation),
		ObservedGeneration: pl.Generation,
	}
}

// satisfiedBeforeChange is the Satisfied condition while a change is pending. It describes what is
// published: it is True if the published clusters are what the spec asks for, so only which ones
// changes. target is the condition of the selected clusters.
func satisfiedBeforeChange(a *scheduler.Attempt, target metav1.Condition) metav1.Condition {
	names := a.Listed()
	var chosen []int
	for i, c := range a.Feasible {
		if _, listed := slices.BinarySearch(names, c.Name); listed {
			chosen = append(chosen, i)
		}
	}
	wanted, unqualified := len(a.Selected)+a.Shortfall.Missing, len(names)-len(chosen)
	c := a.Choices()
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
		condition.Message += fmt.Sprintf(", awaited: the removal of %d", len(changes.Minus(names, a.Target.Clusters)))
	}
	other := v1alpha1.PlacementConditionDecisionPending
	if a.Progress != nil {
		other = v1alpha1.PlacementConditionDecisionProgressing
	}
	condition.Message += "; see condition " + other
	if target.Status != metav1.ConditionTrue {
		condition.Message += ". After the change: " + target.Message
	}
	return condition
}

// satisfiedNow returns the condition PlacementSatisfied of what is published. target is that of the
// selected clusters.
func satisfiedNow(a *scheduler.Attempt, target metav1.Condition, before []metav1.Condition) metav1.Condition {
	if a.Target != nil && a.DiffersFromTarget() {
		target = satisfiedBeforeChange(a, target)
	}
	if a.Publication() == plan.ForcedOnly || a.Failure != nil && !framework.SaysUndecided(&target) {
		if c := meta.FindStatusCondition(before, target.Type); c != nil {
			// After a restart it tells for which spec the published clusters were selected.
			target.ObservedGeneration = generationIn(c)
		}
	}
	return target
}

// generationIn returns the generation of what is published, as PlacementSatisfied says; 0 if it is
// another one.
func generationIn(satisfied *metav1.Condition) int64 {
	if framework.SaysUndecided(satisfied) {
		return 0
	}
	return satisfied.ObservedGeneration
}

// SetConditions updates the Placement's conditions.
func SetConditions(a *scheduler.Attempt, conditions *[]metav1.Condition) {
	for _, c := range a.Conditions() {
		if c.Type == v1alpha1.PlacementConditionSatisfied {
			c = satisfiedNow(a, c, *conditions)
		}
		v1alpha1.SetCondition(conditions, c)
	}
	meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionSchedulingDisabled)
	if a.Snapshot.Queue == nil {
		// Queues were disabled after the condition was written.
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionQueueAdmitted)
	}
	setProgressing(a, conditions)
	a.RemoveUnreported(conditions)
	switch effects := a.Effects(); {
	case a.Outcome == plan.Undecided && a.UndecidedWaiting() && !isStillHeld(a, *conditions):
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionPending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaiting,
			Message: v1alpha1.CutMessage("The published decision stays: " + a.Failure.Err().Error()), ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		})
	case effects.Keep:
		keepDecisionPending(a, conditions)
	case a.Publication() == plan.ForcedOnly:
	case effects.DecisionPending == "":
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending)
	default:
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionPending, Status: effects.DecisionPending, Reason: string(a.Outcome), Message: a.Message(),
			ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		})
	}
}

// setProgressing updates the condition DecisionProgressing.
func setProgressing(a *scheduler.Attempt, conditions *[]metav1.Condition) {
	switch {
	case a.Progress != nil:
		c := metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionProgressing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingUpdate,
			Message: a.Progress.String(), ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		}
		switch {
		case a.Progress.Paused != "":
			c.Status, c.Reason = metav1.ConditionFalse, a.Progress.Paused
		case !a.Progress.StuckSince.IsZero():
			c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded
		}
		v1alpha1.SetCondition(conditions, c)
	case a.Effects().Keep || a.Outcome == plan.Waiting:
		keepProgressing(a, conditions)
	case a.Publication() != plan.ForcedOnly:
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionProgressing)
	}
}

// SetFailed updates the conditions of a Placement whose decision could not be published.
// a is nil if the failure came before an attempt.
func SetFailed(a *scheduler.Attempt, conditions *[]metav1.Condition, generation int64, failure error) {
	published := generation
	if c := meta.FindStatusCondition(*conditions, v1alpha1.PlacementConditionSatisfied); c != nil {
		// After a restart it tells whether the pages are those of the spec (Subject.Edited).
		published = generationIn(c)
	}
	v1alpha1.SetCondition(conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionSatisfied, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotAllDecisionsScheduled,
		Message: failure.Error(), ObservedGeneration: published,
	})
	if a != nil {
		keepDecisionPending(a, conditions)
		keepProgressing(a, conditions)
	}
}

// keepDecisionPending keeps the condition DecisionPending after an attempt that failed, or decided
// nothing, if the change still is as it says.
func keepDecisionPending(a *scheduler.Attempt, conditions *[]metav1.Condition) {
	c := meta.FindStatusCondition(*conditions, v1alpha1.PlacementConditionDecisionPending)
	if c != nil && !isStill(a, c.Reason) {
		meta.RemoveStatusCondition(conditions, c.Type)
	}
}

// isStillHeld reports whether the stored condition says that a change is held which still is.
func isStillHeld(a *scheduler.Attempt, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending)
	return c != nil && c.Reason == v1alpha1.ReasonHeld && isStill(a, c.Reason)
}

// isStill reports whether the change is in the state of a reason of DecisionPending.
func isStill(a *scheduler.Attempt, reason string) bool {
	subject, open := a.Snapshot.Subject, a.OpenRecord()
	generation := subject.Placement.Generation
	switch {
	case changes.IsPermitted(open):
		return false
	case reason == v1alpha1.ReasonHeld && open == nil:
		// Without a record, only memory has the change.
		answers := a.Snapshot.Answers
		return answers.Revision > 0 && answers.Generation == generation &&
			!slices.ContainsFunc(subject.Records, func(r *berthv1alpha1.PlacementChange) bool { return r.Spec.Revision == answers.Revision })
	case reason == v1alpha1.ReasonHeld:
		return open.Spec.PlacementGeneration == generation || changes.OnlyForced(open)
	case reason == v1alpha1.ReasonRejected || reason == v1alpha1.ReasonExpired:
		return changes.History(subject.Records).Applies(berthv1alpha1.Digest(subject.LastNames()), generation)
	}
	return !a.UndecidedUntilEdit()
}

// keepProgressing sets the condition DecisionProgressing after an attempt without a decision, or
// that waits or failed, from the record of the change in progress, if there is one. It says what
// the change waits for. While an evaluation continues, or a step fails, a condition stays as it is.
func keepProgressing(a *scheduler.Attempt, conditions *[]metav1.Condition) {
	const kind = v1alpha1.PlacementConditionDecisionProgressing
	open := a.OpenRecord()
	if open == nil || open.Status.Phase != berthv1alpha1.PhaseProgressing {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	p := plan.Progress{Added: int(open.Spec.AddedCount), Removed: int(open.Spec.RemovedCount)}
	if left := open.Status.Remaining; left != nil {
		p.LeftAdded, p.LeftRemoved = int(left.Added), int(left.Removed)
	}
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingUpdate, ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
	}
	switch {
	case a.Outcome == plan.Waiting:
		p.Why = "waiting for " + a.Reason
	case a.Outcome == plan.Undecided && !a.Failure.IsUnfinished():
		_, why := a.Satisfied()
		if a.UndecidedWaiting() {
			why = a.Failure.Err().Error() // PlacementSatisfied may stay as it was.
		}
		c.Status, c.Reason, p.Why = metav1.ConditionFalse, v1alpha1.ReasonUndecided, "it does not go on: "+why
	case meta.FindStatusCondition(*conditions, kind) != nil:
		return
	}
	c.Message = p.String()
	v1alpha1.SetCondition(conditions, c)
}

// Moving describes the clusters of a change that is published in steps, sorted by name; nil for
// other attempts.
func Moving(a *scheduler.Attempt) []berthv1alpha1.MovingCluster {
	if a.Progress == nil {
		return nil
	}
	added, removed, since := a.Change.Added, a.Change.Removed, a.Snapshot.Now
	if open := a.Change.Open; open != nil {
		if all, gone, err := changes.Lists(open); err == nil {
			added, removed = all, gone
		}
		if changes.IsPermitted(open) {
			since = open.Status.PermittedTime.Time
		}
	}
	before, after := a.Snapshot.Subject.LastNames(), a.Listed()
	var all []berthv1alpha1.MovingCluster
	for _, name := range added {
		all = append(all, berthv1alpha1.MovingCluster{Cluster: name, State: stateOfAdded(a, name, before, after)})
	}
	for _, name := range removed {
		state := "removed"
		switch {
		case changes.Contains(after, name):
			state = "leaves since " + since.UTC().Format(time.RFC3339) + "; " + cmp.Or(a.Progress.Why, "the next step follows")
		case changes.Contains(before, name):
			state = "removed in this step"
		}
		all = append(all, berthv1alpha1.MovingCluster{Cluster: name, State: state})
	}
	slices.SortFunc(all, func(a, b berthv1alpha1.MovingCluster) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return all
}

func stateOfAdded(a *scheduler.Attempt, name string, before, after []string) string {
	switch since, ready := a.Timers.ReadySince[name]; {
	case !changes.Contains(after, name):
		return "added later"
	case !changes.Contains(before, name):
		return "added in this step"
	case a.Snapshot.NotReady[name] != "":
		return "added, not ready: " + a.Snapshot.NotReady[name]
	case ready && since.Before(a.Snapshot.Now):
		return "added, ready since " + since.UTC().Format(time.RFC3339)
	}
	return "added, ready"
}
