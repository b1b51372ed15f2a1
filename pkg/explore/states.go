package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// StatesOf returns the states of a Placement, the most urgent first, with a sentence about that one
// and the time since it began, if it is known.
func StatesOf(pl *v1alpha1.Placement, history changes.History, policies []*berthv1alpha1.DisruptionPolicy) (states []string, message string, since time.Time) {
	add := func(state, text string, at time.Time) {
		if len(states) == 0 {
			message, since = text, at
		}
		states = append(states, state)
	}
	satisfied := conditionOf(pl, v1alpha1.PlacementConditionSatisfied)
	misconfigured, skipped := satisfied.Reason == v1alpha1.ReasonMisconfigured, framework.WhyNotDecided(pl)
	surplus := hasEnough(pl, satisfied)
	switch {
	case misconfigured:
		add(StateMisconfigured, satisfied.Message, satisfied.LastTransitionTime.Time)
	case satisfied.Status == metav1.ConditionFalse && skipped == "" && !surplus:
		add(StateShort, satisfied.Message, satisfied.LastTransitionTime.Time)
	}
	addChange(pl, history, add)
	if surplus && len(states) == 0 {
		add(StateHeld, satisfied.Message, satisfied.LastTransitionTime.Time)
	}
	if why := frozen(pl, policies, skipped); why != "" {
		add(StateFrozen, why, time.Time{})
	}
	switch {
	case skipped != "":
	case satisfied.Type == "" || satisfied.ObservedGeneration != 0 && satisfied.ObservedGeneration != pl.Generation:
		add(StateUndecided, "The controller has not decided the newest spec yet.", pl.CreationTimestamp.Time)
	case satisfied.Status == metav1.ConditionTrue && !misconfigured:
		add(StateSatisfied, satisfied.Message, satisfied.LastTransitionTime.Time)
	}
	return states, message, since
}

// hasEnough reports whether a Placement that is not satisfied has at least as many clusters as it
// wants, and only awaits a change.
func hasEnough(pl *v1alpha1.Placement, satisfied metav1.Condition) bool {
	wanted := pl.Spec.NumberOfClusters
	return framework.WhyNotDecided(pl) == "" && satisfied.Reason == v1alpha1.ReasonDecisionPending && wanted != nil && pl.Status.NumberOfSelectedClusters >= *wanted
}

// addChange adds the states of the open change.
func addChange(pl *v1alpha1.Placement, history changes.History, add func(state, text string, at time.Time)) {
	progressing := conditionOf(pl, v1alpha1.PlacementConditionDecisionProgressing)
	pending := conditionOf(pl, v1alpha1.PlacementConditionDecisionPending)
	if progressing.Status == metav1.ConditionFalse && progressing.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		add(StateStuck, progressing.Message, progressing.LastTransitionTime.Time)
	}
	open := history.Open()
	switch {
	case pending.Status == metav1.ConditionTrue:
		add(StateHeld, pending.Message, pending.LastTransitionTime.Time)
	case progressing.Reason == v1alpha1.ReasonMinAvailable:
		add(StateHeld, progressing.Message, progressing.LastTransitionTime.Time)
	case open != nil && open.Status.Phase == berthv1alpha1.PhaseProgressing:
		add(StateMoving, progressing.Message, changedAt(open))
	}
}

// conditionOf returns a condition of a Placement; empty if it is not set.
func conditionOf(pl *v1alpha1.Placement, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(pl.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// frozen returns why no change of a Placement is published; empty if changes are.
func frozen(pl *v1alpha1.Placement, policies []*berthv1alpha1.DisruptionPolicy, skipped string) string {
	var suspended []string
	for _, policy := range policies {
		if policy.Spec.Suspend {
			suspended = append(suspended, policy.Name)
		}
	}
	revision, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]
	switch {
	case skipped != "":
		return fmt.Sprintf("The Placement is %s: Berth leaves it and its decision alone.", skipped)
	case len(suspended) > 0:
		slices.Sort(suspended)
		return "Suspended by DisruptionPolicy " + strings.Join(suspended, ", ") + "."
	case pinned:
		return fmt.Sprintf("Pinned to revision %s.", revision)
	}
	return ""
}

// Words for conditions: the subject and, by status, what it says.
var conditionWords = map[string]struct{ subject, yes, no string }{
	v1alpha1.PlacementConditionSatisfied:           {"Clusters", "as many as wanted", "not as many as wanted"},
	v1alpha1.PlacementConditionMisconfigured:       {"Configuration", "mistake", "ok"},
	v1alpha1.PlacementConditionDecisionPending:     {"Change", "waiting", "none waits"},
	v1alpha1.PlacementConditionDecisionProgressing: {"Change in steps", "in progress", "stopped"},
	v1alpha1.PlacementConditionDecisionEdited:      {"Other writers", "edit the decision", "none"},
	v1alpha1.PlacementConditionResilient:           {"Resilience", "every domain can be lost", "some domains cannot be lost"},
	v1alpha1.PlacementConditionQueueAdmitted:       {"Queue", "admitted", "not admitted"},
	v1alpha1.ManagedClusterConditionAvailable:      {"Availability", "available", "not available"},
	"ManagedClusterJoined":                         {"Joined", "yes", "no"},
	"HubAcceptedManagedCluster":                    {"Accepted by the hub", "yes", "no"},
}

// conditionsInWords returns conditions with those first that are a problem.
func conditionsInWords(conditions []metav1.Condition) []Condition {
	all := []Condition{}
	for _, c := range conditions {
		words, known := conditionWords[c.Type]
		text := c.Type + ": " + strings.ToLower(string(c.Status))
		if known {
			text = words.subject + ": " + map[metav1.ConditionStatus]string{metav1.ConditionTrue: words.yes, metav1.ConditionFalse: words.no, metav1.ConditionUnknown: "unknown"}[c.Status]
		}
		all = append(all, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Text: text, Since: c.LastTransitionTime.Time, Bad: bad(c),
		})
	}
	slices.SortStableFunc(all, func(a, b Condition) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	return all
}

// bad reports whether a condition is a problem. True is good, except in these.
func bad(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.PlacementConditionMisconfigured, v1alpha1.PlacementConditionDecisionPending, v1alpha1.PlacementConditionDecisionEdited:
		return c.Status == metav1.ConditionTrue
	case v1alpha1.PlacementConditionDecisionProgressing:
		return c.Status == metav1.ConditionFalse
	}
	return c.Status != metav1.ConditionTrue
}
