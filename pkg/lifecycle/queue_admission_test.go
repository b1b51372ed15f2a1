package lifecycle

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestQueueAdmissionPreEnqueue(t *testing.T) {
	retry := fixture.Now.Add(time.Minute)
	tests := map[string]struct {
		queue       *framework.QueueAdmission
		wantCode    framework.Code
		wantReason  string
		wantRequeue time.Time
	}{
		"no queues":    {},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true, Message: "m", RetryAt: retry}},
		"not admitted": {queue: &framework.QueueAdmission{Message: "m"}, wantCode: framework.Unschedulable, wantReason: "m"},
		"not admitted for a while": {queue: &framework.QueueAdmission{Message: "m", RetryAt: retry},
			wantCode: framework.Unschedulable, wantReason: "m", wantRequeue: retry},
		"rejected": {queue: &framework.QueueAdmission{Message: "m", Rejected: true}, wantCode: framework.UnschedulableAndUnresolvable, wantReason: "m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Queue: tc.queue})
			status := QueueAdmission{}.PreEnqueue(t.Context(), state, nil)
			if status.Code() != tc.wantCode || status.Reason() != tc.wantReason || !state.Requeue().Equal(tc.wantRequeue) {
				t.Errorf("got %s %q, again at %v", status.Code(), status.Reason(), state.Requeue())
			}
		})
	}
}

// TestAdmissionThatIsCheckedAgain: attempts are skipped as long as a Placement stays admitted.
func TestAdmissionThatIsCheckedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		queue *framework.QueueAdmission
		want  bool
	}{
		"no queues":    {want: true},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true}, want: true},
		"for a while":  {queue: &framework.QueueAdmission{Admitted: true, RetryAt: fixture.Now}},
		"not admitted": {queue: &framework.QueueAdmission{}},
	} {
		t.Run(name, func(t *testing.T) {
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Queue: tc.queue})
			if _, got := (QueueAdmission{}).Recheck(state); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
