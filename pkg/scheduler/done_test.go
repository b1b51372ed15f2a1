package scheduler

import (
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// TestHistory: a published change without a record gets one.
func TestHistory(t *testing.T) {
	change := &framework.Proposal{Revision: 4, Added: []string{"a"}}
	for name, tc := range map[string]struct {
		outcome plan.Outcome
		err     *framework.Status
		step    *framework.Proposal
		record  bool
		want    bool
	}{
		"published":        {outcome: plan.Published, step: change, want: true},
		"held":             {outcome: plan.Held, step: change},
		"failed":           {outcome: plan.Published, step: change, err: framework.NewStatus(framework.Error, "down")},
		"no cluster":       {outcome: plan.Published, step: &framework.Proposal{Revision: 4}},
		"recorded already": {outcome: plan.Published, step: change, record: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Outcome, a.Err, a.Step, a.Change = tc.outcome, tc.err, tc.step, &plan.Move{Proposal: tc.step}
			if tc.record {
				a.Change.Open = &berthv1alpha1.PlacementChange{Spec: berthv1alpha1.PlacementChangeSpec{Revision: 4}}
			}
			revision, _, ok := a.History()
			if ok != tc.want || ok && revision != 4 {
				t.Errorf("got %t, revision %d", ok, revision)
			}
		})
	}
}
