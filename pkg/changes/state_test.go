package changes

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func TestStates(t *testing.T) {
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: reason, LastTransitionTime: fixture.At(7)}
	}
	satisfied := condition(v1alpha1.PlacementConditionSatisfied, "True", v1alpha1.ReasonAllDecisionsScheduled)
	short := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonNotAllDecisionsScheduled)
	wrong := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonMisconfigured)
	wrong.Message = "Predicate:spec.predicates[0] is a mistake"
	surplus := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonDecisionPending)
	old := satisfied
	old.ObservedGeneration = 1
	held := condition(v1alpha1.PlacementConditionDecisionPending, "True", v1alpha1.ReasonHeld)
	expired := condition(v1alpha1.PlacementConditionDecisionPending, "False", v1alpha1.ReasonExpired)
	rolling := condition(v1alpha1.PlacementConditionDecisionProgressing, "True", v1alpha1.ReasonRollingUpdate)
	late := condition(v1alpha1.PlacementConditionDecisionProgressing, "False", v1alpha1.ReasonProgressDeadlineExceeded)
	spread := condition(v1alpha1.PlacementConditionSatisfied, "False", v1alpha1.ReasonSpreadUnsatisfiable)
	unknown := condition(v1alpha1.PlacementConditionSatisfied, "Unknown", "Other")
	rejected := condition(v1alpha1.PlacementConditionDecisionPending, "False", v1alpha1.ReasonRejected)
	paused := condition(v1alpha1.PlacementConditionDecisionProgressing, "False", v1alpha1.ReasonSuspended)
	leaving := History{{
		Spec: berthv1alpha1.PlacementChangeSpec{RemovedCount: 2}, Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseHeld},
	}}
	lost := History{{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: fixture.At(9)}, Spec: berthv1alpha1.PlacementChangeSpec{AddedCount: 1, RemovedCount: 2},
		Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished},
	}}
	limited := condition(v1alpha1.PlacementConditionDecisionProgressing, "False", v1alpha1.ReasonMinAvailable)
	progressing := History{{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: fixture.At(9)}, Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseProgressing},
	}}
	suspended := []*berthv1alpha1.DisruptionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "stop"}, Spec: berthv1alpha1.DisruptionPolicySpec{Suspend: true}}}
	frozen := suspended[0].DeepCopy()
	frozen.Name, frozen.Annotations = "p-suspend", map[string]string{berthv1alpha1.CommentAnnotation: "a migration", berthv1alpha1.EditedByAnnotation: "2026-01-01T12:00:00Z ann"}
	for name, tc := range map[string]struct {
		annotation, value string
		conditions        []metav1.Condition
		history           History
		policies          []*berthv1alpha1.DisruptionPolicy
		want, message     string
		since             int
		wanted            *int32
		selected          int32
		tiers             []berthv1alpha1.SelectionTierStatus
	}{
		"satisfied":          {conditions: []metav1.Condition{satisfied}, want: "[satisfied]", message: v1alpha1.ReasonAllDecisionsScheduled, since: 7},
		"new":                {want: "[undecided]", message: "The controller has not decided the newest spec yet.", since: -1},
		"edited":             {conditions: []metav1.Condition{old}, want: "[undecided]", message: "The controller has not decided the newest spec yet.", since: -1},
		"short":              {conditions: []metav1.Condition{short}, want: "[short]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"short, lost more":   {conditions: []metav1.Condition{short}, history: lost, want: "[short]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 9},
		"wrong":              {conditions: []metav1.Condition{wrong}, want: "[misconfigured]", message: "Predicate: spec.predicates[0] is a mistake", since: 7},
		"held":               {conditions: []metav1.Condition{satisfied, held}, want: "[held satisfied]", message: v1alpha1.ReasonHeld, since: 7},
		"short and held":     {conditions: []metav1.Condition{short, held}, want: "[short held]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"more than wanted":   {conditions: []metav1.Condition{surplus, held}, wanted: new(int32(0)), want: "[held]", message: v1alpha1.ReasonHeld, since: 7},
		"more, and expired":  {conditions: []metav1.Condition{surplus, expired}, wanted: new(int32(0)), want: "[rejected]", message: v1alpha1.ReasonExpired, since: 7},
		"more, and moving":   {conditions: []metav1.Condition{surplus, rolling}, history: progressing, wanted: new(int32(16)), selected: 18, want: "[moving]", message: v1alpha1.ReasonRollingUpdate, since: 9},
		"more, and stuck":    {conditions: []metav1.Condition{short, late}, history: progressing, wanted: new(int32(16)), selected: 18, want: "[stuck moving]", message: v1alpha1.ReasonProgressDeadlineExceeded, since: 7},
		"more, not spread":   {conditions: []metav1.Condition{spread}, wanted: new(int32(16)), selected: 18, want: "[short]", message: v1alpha1.ReasonSpreadUnsatisfiable, since: 7},
		"all, some to leave": {conditions: []metav1.Condition{surplus, held}, history: leaving, want: "[held]", message: v1alpha1.ReasonHeld, since: 7},
		"unknown":            {conditions: []metav1.Condition{unknown}, want: "[undecided]", message: "Other", since: 7},
		"more are awaited":   {conditions: []metav1.Condition{surplus, held}, wanted: new(int32(1)), want: "[short held]", message: v1alpha1.ReasonDecisionPending, since: 7},
		"expired":            {conditions: []metav1.Condition{satisfied, expired}, want: "[rejected satisfied]", message: v1alpha1.ReasonExpired, since: 7},
		"rejected":           {conditions: []metav1.Condition{satisfied, rejected}, want: "[rejected satisfied]", message: v1alpha1.ReasonRejected, since: 7},
		"moving":             {conditions: []metav1.Condition{satisfied, rolling}, history: progressing, want: "[moving satisfied]", message: v1alpha1.ReasonRollingUpdate, since: 9},
		"moving, no record":  {conditions: []metav1.Condition{satisfied, rolling}, want: "[moving satisfied]", message: v1alpha1.ReasonRollingUpdate, since: 7},
		"stuck":              {conditions: []metav1.Condition{short, late}, history: progressing, want: "[short stuck moving]", message: v1alpha1.ReasonNotAllDecisionsScheduled, since: 7},
		"below minAvailable": {conditions: []metav1.Condition{satisfied, limited}, history: progressing, want: "[held satisfied]", message: v1alpha1.ReasonMinAvailable, since: 7},
		"suspended":          {conditions: []metav1.Condition{satisfied}, policies: suspended, want: "[suspended satisfied]", message: "Suspended by DisruptionPolicy stop.", since: -1},
		"suspended by two": {conditions: []metav1.Condition{satisfied}, policies: append(suspended, frozen), want: "[suspended satisfied]",
			message: "Suspended by DisruptionPolicy p-suspend by ann (a migration), stop. To resume: kubectl placement resume p -n ns", since: -1},
		"change suspended": {conditions: []metav1.Condition{satisfied, paused}, history: progressing, want: "[moving suspended satisfied]", message: v1alpha1.ReasonSuspended, since: 9},
		"pinned":           {annotation: berthv1alpha1.PinnedRevisionAnnotation, value: "4", conditions: []metav1.Condition{satisfied}, want: "[pinned satisfied]", message: "Pinned to revision 4. To unpin: kubectl placement unpin p -n ns", since: -1},
		"pinned and held":  {annotation: berthv1alpha1.PinnedRevisionAnnotation, value: "4", conditions: []metav1.Condition{satisfied, held}, want: "[held pinned satisfied]", message: v1alpha1.ReasonHeld, since: 7},
		"second tier": {
			conditions: []metav1.Condition{satisfied}, tiers: []berthv1alpha1.SelectionTierStatus{{Name: "near"}, {Name: "far", Used: true}},
			want: "[backup satisfied]", message: "Uses the tier far instead of near, as SelectionPolicy s allows.", since: -1,
		},
		"both tiers":         {conditions: []metav1.Condition{satisfied}, tiers: []berthv1alpha1.SelectionTierStatus{{Name: "near", Used: true}, {Name: "far", Used: true}}, want: "[satisfied]", message: v1alpha1.ReasonAllDecisionsScheduled, since: 7},
		"disabled":           {annotation: v1alpha1.PlacementDisableAnnotation, value: "true", conditions: []metav1.Condition{short}, want: "[disabled]", message: "The Placement is disabled: Berth leaves it and its decision alone.", since: -1},
		"wrong and disabled": {annotation: v1alpha1.PlacementDisableAnnotation, value: "true", conditions: []metav1.Condition{wrong}, want: "[misconfigured disabled]", message: "Predicate: spec.predicates[0] is a mistake", since: 7},
	} {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("ns", "p").Generation(2).Annotation(tc.annotation, tc.value).Obj()
			pl.Status.Conditions, pl.CreationTimestamp = tc.conditions, metav1.Time{}
			pl.Spec.NumberOfClusters = tc.wanted
			pl.Status.NumberOfSelectedClusters = tc.selected
			in := StateInput{Placement: pl, History: tc.history, DisruptionPolicies: tc.policies}
			if tc.tiers != nil {
				in.SelectionPolicies = []*berthv1alpha1.SelectionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Status: berthv1alpha1.SelectionPolicyStatus{Tiers: tc.tiers}}}
			}
			all := in.States()
			var states []StateName
			for _, state := range all {
				states = append(states, state.Name)
			}
			message, since := all[0].Message, all[0].Since
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

// TestStateTable: each state has one row, and severe states come first.
func TestStateTable(t *testing.T) {
	order := map[Severity]int{SeverityError: 0, SeverityWarning: 1, SeverityInfo: 2}
	signs := map[string]bool{}
	for i, row := range StateTable {
		if _, at := row.Name.Row(); at != i {
			t.Errorf("%s has rows %d and %d", row.Name, at, i)
		}
		if i > 0 && order[row.Severity] < order[StateTable[i-1].Severity] {
			t.Errorf("%s, %s, comes after a less severe state", row.Name, row.Severity)
		}
		if signs[row.Sign] || row.Text == "" || row.Ends && row.Exit == 0 || row.Severity == SeverityError && row.Exit == 0 {
			t.Errorf("the row is not complete: %+v", row)
		}
		signs[row.Sign] = true
	}
}

func TestUrgency(t *testing.T) {
	type placement struct {
		name             string
		selected, wanted int32 // wanted is 0 for all
		states           []StateName
		unavailable      int
	}
	want := []placement{
		{"misconfigured", 0, 1, []StateName{StateMisconfigured}, 0},
		{"none of 1", 0, 1, []StateName{StateShort}, 0},
		{"held, all 2 unavailable", 2, 2, []StateName{StateHeld, StateSatisfied}, 2},
		{"none of all", 0, 0, []StateName{StateShort}, 0},
		{"5 of 20", 5, 20, []StateName{StateShort}, 0},
		{"held, 7 of 10 unavailable", 10, 10, []StateName{StateHeld}, 7},
		{"8 of 20", 8, 20, []StateName{StateShort, StateHeld}, 0},
		{"stuck", 3, 3, []StateName{StateStuck, StateSatisfied}, 0},
		{"stuck with 12 of 20", 12, 20, []StateName{StateShort, StateStuck}, 0},
		{"12 of 20", 12, 20, []StateName{StateShort}, 0},
		{"satisfied, 1 of all 10 unavailable", 10, 0, []StateName{StateSatisfied}, 1},
		{"constraint of all", 24, 0, []StateName{StateShort}, 0},
		{"held", 3, 3, []StateName{StateHeld}, 0},
		{"satisfied", 3, 3, []StateName{StateSatisfied}, 0},
	}
	before := -1.0
	for _, p := range want {
		states, wanted := make([]State, len(p.states)), &p.wanted
		for i, name := range p.states {
			states[i].Name = name
		}
		if p.wanted == 0 {
			wanted = nil
		}
		if severe := p.unavailable > 0 || p.states[0] != StateSatisfied; NeedsUser(Urgency(states, Numbers{Selected: int(p.selected), Unavailable: p.unavailable, Wanted: wanted})) != severe {
			t.Errorf("%s needs a user: want %t", p.name, severe)
		}
		got := Urgency(states, Numbers{Selected: int(p.selected), Unavailable: p.unavailable, Wanted: wanted})
		if got < before {
			t.Errorf("%s has urgency %v, the one before it %v", p.name, got, before)
		}
		before = got
	}
}
