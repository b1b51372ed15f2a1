package explore

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

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
		message := c.Message
		if c.Reason == v1alpha1.ReasonMisconfigured {
			message = changes.MistakeText(message)
		}
		all = append(all, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: message, Text: text, Since: c.LastTransitionTime.Time, Bad: bad(c),
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
