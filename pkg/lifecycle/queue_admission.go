package lifecycle

import (
	"context"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// QueueAdmissionName is the plugin's name.
const QueueAdmissionName = "QueueAdmission"

// QueueAdmission makes a Placement wait until its queue admits it; it keeps its published decision
// until then. A Placement that no queue accepts gets no cluster. Without queues the plugin does
// nothing.
type QueueAdmission struct{}

// Name implements framework.Plugin.
func (QueueAdmission) Name() string { return QueueAdmissionName }

// PreEnqueue implements framework.PreEnqueuePlugin.
func (QueueAdmission) PreEnqueue(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) *framework.Status {
	queue := state.Snapshot().Queue
	if queue == nil || queue.Admitted {
		return nil
	}
	if !queue.RetryAt.IsZero() {
		state.RequeueAt(queue.RetryAt)
	}
	if queue.Rejected {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, queue.Message)
	}
	return framework.NewStatus(framework.Unschedulable, queue.Message)
}

// Recheck implements framework.Rechecker: an admitted Placement stays admitted until its queue
// starts an attempt, or its submitter is to be checked again.
func (QueueAdmission) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	queue := state.Snapshot().Queue
	return nil, queue == nil || queue.Admitted && queue.RetryAt.IsZero()
}
