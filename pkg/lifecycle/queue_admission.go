package lifecycle

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// QueueAdmissionName is the plugin's name.
const QueueAdmissionName = "QueueAdmission"

// QueueAdmission ends attempts of a Placement until its queue admits it (PreEnqueue), and counts
// its clusters against the quotas of the queue (Reserve, Unreserve, PostBind). Without queues it
// does nothing.
type QueueAdmission struct{ handle *framework.Handle }

// NewQueueAdmission is the plugin's factory.
func NewQueueAdmission(_ context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return &QueueAdmission{handle}, err
}

// Name implements framework.Plugin.
func (*QueueAdmission) Name() string { return QueueAdmissionName }

// PreEnqueue implements framework.PreEnqueuePlugin.
func (*QueueAdmission) PreEnqueue(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) *framework.Status {
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

// Reserve counts the selected or the published clusters, whichever are more.
func (q *QueueAdmission) Reserve(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if queue := state.Snapshot().Queue; queue != nil {
		q.count(pl, max(len(p.Selected), queue.Listed))
	}
	return nil
}

// Unreserve counts the clusters that the pages list, unless some pages were written.
func (q *QueueAdmission) Unreserve(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if queue := state.Snapshot().Queue; queue != nil && len(p.Writes) == 0 {
		q.count(pl, queue.Listed)
	}
}

// PostBind counts the published clusters. While a change is published in steps, or the rest of it
// stays reserved, what Reserve counted stays.
func (q *QueueAdmission) PostBind(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if state.Snapshot().Queue != nil && !p.Partial && !p.Beside {
		q.count(pl, len(p.Selected))
	}
}

func (q *QueueAdmission) count(pl *v1alpha1.Placement, clusters int) {
	if q.handle != nil && q.handle.Quota != nil {
		q.handle.Quota(types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}, clusters)
	}
}

// Recheck implements framework.Rechecker: an admitted Placement stays admitted until its queue
// starts an attempt, or its submitter is to be checked again.
func (*QueueAdmission) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	queue := state.Snapshot().Queue
	return nil, queue == nil || queue.Admitted && queue.RetryAt.IsZero()
}
