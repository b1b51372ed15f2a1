package notifications

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// Event is a CloudEvent in the structured JSON format, version 1.0.
type Event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            Data   `json:"data"`

	// state is the value of States in the configuration.
	state string
}

// Data is what an event says.
type Data struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is Held, Misconfigured, DeadlineExceeded or Unsatisfied. Active is false if the
	// Placement has left the state.
	State  string `json:"state"`
	Active bool   `json:"active"`
	// Reason and Message are those of the condition; Since is when the Placement got into the
	// state.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"since"`
	// Profile selects the plugins that decide the Placement; Selected is the number of published
	// clusters.
	Profile  string `json:"profile"`
	Selected int32  `json:"selectedClusters"`
}

// stateOf returns the condition that puts a Placement into a state; nil if it is not in it.
func stateOf(state string, conditions []metav1.Condition) *metav1.Condition {
	in := func(kind string, status metav1.ConditionStatus, fits func(reason string) bool) *metav1.Condition {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == status && fits(c.Reason) {
			return c
		}
		return nil
	}
	switch state {
	case config.HeldState:
		return in(v1alpha1.PlacementConditionDecisionPending, metav1.ConditionTrue, func(reason string) bool { return reason == v1alpha1.ReasonHeld })
	case config.MisconfiguredState:
		return in(v1alpha1.PlacementConditionMisconfigured, metav1.ConditionTrue, func(string) bool { return true })
	case config.DeadlineExceededState:
		return in(v1alpha1.PlacementConditionDecisionProgressing, metav1.ConditionFalse,
			func(reason string) bool { return reason == v1alpha1.ReasonProgressDeadlineExceeded })
	}
	// The other states have events of their own.
	return in(v1alpha1.PlacementConditionSatisfied, metav1.ConditionFalse,
		func(reason string) bool {
			return reason != v1alpha1.ReasonMisconfigured && reason != v1alpha1.ReasonDecisionPending
		})
}

// Active are the states of a Placement that its events have told, with their conditions.
type Active map[string]metav1.Condition

// ActiveIn returns the states of a Placement of which nothing is known but its conditions.
func ActiveIn(conditions []metav1.Condition) Active {
	active := Active{}
	for _, state := range config.NotificationStates {
		if c := stateOf(state, conditions); c != nil {
			active[state] = *c
		}
	}
	return active
}

// Next returns the states of a Placement with a new status, and the events for those that differ.
// It does not change before.
func Next(before Active, pl *v1alpha1.Placement, status *v1alpha1.PlacementStatus, now time.Time) (active Active, events []Event) {
	active = Active{}
	conditions := status.Conditions
	add := func(state string, c *metav1.Condition, active bool) {
		e := newEvent(pl, state, c, now, active)
		e.Data.Selected = status.NumberOfSelectedClusters
		events = append(events, e)
	}
	for _, state := range config.NotificationStates {
		was, known := before[state]
		is := stateOf(state, conditions)
		switch {
		case is != nil:
			if active[state] = *is; !known {
				add(state, is, true)
			}
		case known && !ends(state, conditions):
			active[state] = was
		case known:
			add(state, &was, false)
		}
	}
	return active, events
}

// ends reports whether a state without its condition has ended. A Placement that lacks clusters
// still does so while another condition describes it.
func ends(state string, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionSatisfied)
	return state != config.UnsatisfiedState || c == nil || c.Status != metav1.ConditionFalse
}

// maxMessage is the length of a message in an event, in bytes.
const maxMessage = 4096

// newEvent returns the event about a state that begins or ends at a time.
func newEvent(pl *v1alpha1.Placement, state string, c *metav1.Condition, now time.Time, active bool) Event {
	kind := "dev.berth.placement." + strings.ToLower(state)
	if !active {
		kind += ".resolved"
	}
	profile, chosen := pl.Annotations[v1alpha1.ProfileAnnotation]
	if !chosen {
		profile = v1alpha1.DefaultProfile
	}
	return Event{
		SpecVersion: "1.0", ID: idOf(string(pl.UID), kind, c), Type: kind, DataContentType: "application/json",
		Source:  fmt.Sprintf("/apis/%s/%s/namespaces/%s/placements/%s", v1alpha1.GroupName, "v1beta1", pl.Namespace, pl.Name),
		Subject: pl.Namespace + "/" + pl.Name, Time: now.UTC().Format(time.RFC3339Nano),
		Data: Data{
			Namespace: pl.Namespace, Name: pl.Name, UID: string(pl.UID), State: state, Active: active, Reason: c.Reason, Message: v1alpha1.CutText(c.Message, maxMessage),
			Since: c.LastTransitionTime.UTC().Format(time.RFC3339), Profile: profile,
		},
		state: state,
	}
}

// idOf returns an identifier that depends only on the state, so that an event that is sent again
// has the same one.
func idOf(uid, kind string, c *metav1.Condition) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d %s", uid, kind, c.LastTransitionTime.Unix(), c.Message)
	return uid + "-" + strconv.FormatUint(h.Sum64(), 16)
}
