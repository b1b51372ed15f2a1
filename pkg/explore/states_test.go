package explore

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

func TestStates(t *testing.T) {
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: reason, LastTransitionTime: fixture.At(7)}
	}
	satisfied := condition(v1alpha1.PlacementConditionSatisfied, "True", v1alpha1.ReasonAllDecisionsScheduled)
	short := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonNotAllDecisionsScheduled)
	wrong := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonMisconfigured)
	surplus := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonDecisionPending)
	old := satisfied
	old.ObservedGeneration = 1
	held := condition(v1alpha1.PlacementConditionDecisionPending, "True", v1alpha1.ReasonHeld)
	expired := condition(v1alpha1.PlacementConditionDecisionPending, "False", v1alpha1.ReasonExpired)
	rolling := condition(v1alpha1.PlacementConditionDecisionProgressing, "True", v1alpha1.ReasonRollingUpdate)
	late := condition(v1alpha1.PlacementConditionDecisionProgressing, "False", v1alpha1.ReasonProgressDeadlineExceeded)
	limited := condition(v1alpha1.PlacementConditionDecisionProgressing, "False", v1alpha1.ReasonMinAvailable)
	progressing := changes.History{{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: fixture.At(9)}, Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseProgressing},
	}}
	suspended := []*berthv1alpha1.DisruptionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "stop"}, Spec: berthv1alpha1.DisruptionPolicySpec{Suspend: true}}}
	for name, tc := range map[string]struct {
		annotation, value string
		conditions        []metav1.Condition
		history           changes.History
		policies          []*berthv1alpha1.DisruptionPolicy
		want, message     string
		since             int
		wanted            *int32
	}{
		"satisfied":          {conditions: []metav1.Condition{satisfied}, want: "[satisfied]", message: v1alpha1.ReasonAllDecisionsScheduled, since: 7},
		"new":                {want: "[undecided]", message: "The controller has not decided the newest spec yet.", since: -1},
		"edited":             {conditions: []metav1.Condition{old}, want: "[undecided]", message: "The controller has not decided the newest spec yet.", since: -1},
		"short":              {conditions: []metav1.Condition{short}, want: "[short]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"wrong":              {conditions: []metav1.Condition{wrong}, want: "[misconfigured]", message: v1alpha1.ReasonMisconfigured, since: 7},
		"held":               {conditions: []metav1.Condition{satisfied, held}, want: "[held satisfied]", message: v1alpha1.ReasonHeld, since: 7},
		"short and held":     {conditions: []metav1.Condition{short, held}, want: "[short held]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"more than wanted":   {conditions: []metav1.Condition{surplus, held}, wanted: new(int32(0)), want: "[held]", message: v1alpha1.ReasonHeld, since: 7},
		"more, and expired":  {conditions: []metav1.Condition{surplus, expired}, wanted: new(int32(0)), want: "[held]", message: v1alpha1.ReasonDecisionPending, since: 7},
		"more are awaited":   {conditions: []metav1.Condition{surplus, held}, wanted: new(int32(1)), want: "[short held]", message: v1alpha1.ReasonDecisionPending, since: 7},
		"expired":            {conditions: []metav1.Condition{satisfied, expired}, want: "[satisfied]", message: v1alpha1.ReasonAllDecisionsScheduled, since: 7},
		"moving":             {conditions: []metav1.Condition{satisfied, rolling}, history: progressing, want: "[moving satisfied]", message: v1alpha1.ReasonRollingUpdate, since: 9},
		"stuck":              {conditions: []metav1.Condition{short, late}, history: progressing, want: "[short stuck moving]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"below minAvailable": {conditions: []metav1.Condition{satisfied, limited}, history: progressing, want: "[held satisfied]", message: v1alpha1.ReasonMinAvailable, since: 7},
		"suspended":          {conditions: []metav1.Condition{satisfied}, policies: suspended, want: "[frozen satisfied]", message: "Suspended by DisruptionPolicy stop.", since: -1},
		"pinned":             {berthv1alpha1.PinnedRevisionAnnotation, "4", []metav1.Condition{satisfied}, nil, nil, "[frozen satisfied]", "Pinned to revision 4.", -1, nil},
		"disabled":           {v1alpha1.PlacementDisableAnnotation, "true", []metav1.Condition{short}, nil, nil, "[frozen]", "The Placement is disabled: Berth leaves it and its decision alone.", -1, nil},
		"wrong and disabled": {v1alpha1.PlacementDisableAnnotation, "true", []metav1.Condition{wrong}, nil, nil, "[misconfigured frozen]", v1alpha1.ReasonMisconfigured, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("ns", "p").Generation(2).Annotation(tc.annotation, tc.value).Obj()
			pl.Status.Conditions, pl.CreationTimestamp = tc.conditions, metav1.Time{}
			pl.Spec.NumberOfClusters = tc.wanted
			states, message, since := StatesOf(pl, tc.history, tc.policies)
			want := time.Time{}
			if tc.since >= 0 {
				want = fixture.At(tc.since).Time
			}
			if fmt.Sprint(states) != tc.want || message != tc.message || !since.Equal(want) {
				t.Errorf("%v %q %s, want %s %q %s", states, message, since, tc.want, tc.message, want)
			}
		})
	}
}
