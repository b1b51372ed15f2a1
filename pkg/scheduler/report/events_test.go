package report_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestIsNewOutcome: an outcome with a record is new when the record is written, another one when
// the condition has another reason.
func TestIsNewOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome          plan.Outcome
		record, recorded bool
		condition        string
		want             bool
	}{
		"held, and recorded":                        {outcome: plan.Held, record: true, recorded: true, condition: "Held", want: true},
		"held, as recorded before":                  {outcome: plan.Held, record: true},
		"held, without a record":                    {outcome: plan.Held, want: true},
		"held without a record, as reported before": {outcome: plan.Held, condition: "Held"},
		"denied":                             {outcome: plan.Denied, record: true, want: true},
		"denied, another record was written": {outcome: plan.Denied, record: true, recorded: true, condition: "Denied"},
		"denied, and held before":            {outcome: plan.Denied, condition: "Held", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("ns", "p").Obj()
			if tc.condition != "" {
				pl.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionDecisionPending, Reason: tc.condition}}
			}
			a := &scheduler.Attempt{Plan: &plan.Plan{
				Decision: &decide.Decision{Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: pl}}},
				Outcome:  tc.outcome, Change: &plan.Move{Proposal: &framework.Proposal{Revision: 2}},
			}}
			if tc.record {
				a.Change.Open = &berthv1alpha1.PlacementChange{Spec: berthv1alpha1.PlacementChangeSpec{Revision: 2}}
			}
			if tc.recorded {
				a.SetRecorded()
			}
			if got := report.IsNewOutcome(a); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
