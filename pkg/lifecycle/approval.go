package lifecycle

import (
	"context"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ApprovalName is the plugin's name.
const ApprovalName = "Approval"

// Approval holds every change of a Placement, also the first publication, until a user approves its
// PlacementChange, while a DisruptionPolicy requires approval. The hold expires after
// approvalTimeoutSeconds of the policy.
//
// The removal of clusters whose sets are no longer bound to the namespace needs no approval.
type Approval struct{}

// defaultTimeout is the default time until a held change expires.
const defaultTimeout = 7 * 24 * time.Hour

// Name implements framework.Plugin.
func (Approval) Name() string { return ApprovalName }

// Permit implements framework.PermitPlugin.
func (Approval) Permit(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	policies := state.Snapshot().Subject.DisruptionPolicies
	if len(policies) == 0 || p.Kind == framework.RevokedRemoval || p.Approved {
		return nil, 0
	}
	policy := changes.PolicyOf(policies)
	if !policy.ApprovalRequired {
		return nil, 0
	}
	return framework.NewStatus(framework.Wait, "DisruptionPolicy "+policy.ApprovalBy+" requires approval"), policy.ApprovalTimeout
}
