package lifecycle

import (
	"context"
	"encoding/json"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ApprovalName is the plugin's name.
const ApprovalName = "Approval"

// Approval is a Permit plugin that holds every change of a Placement, the first publication too,
// while a DisruptionPolicy that selects it requires approval, until the PlacementChange is
// approved. The policy says how long a change waits (approvalTimeoutSeconds). Clusters that the
// namespace may not use any more leave without approval.
type Approval struct{}

// NewApproval is the plugin's factory.
func NewApproval(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return Approval{}, err
}

// defaultTimeout is how long a change waits for people.
const defaultTimeout = 7 * 24 * time.Hour

// Name implements framework.Plugin.
func (Approval) Name() string { return ApprovalName }

// Permit implements framework.PermitPlugin.
func (Approval) Permit(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	policies := state.Snapshot().Subject.Policies
	if len(policies) == 0 || p.Revoked || p.Approved {
		return nil, 0
	}
	policy := changes.PolicyOf(pl, policies)
	if !policy.ApprovalRequired {
		return nil, 0
	}
	return framework.NewStatus(framework.Wait, "DisruptionPolicy "+policy.ApprovalBy+" requires approval"), policy.ApprovalTimeout
}
