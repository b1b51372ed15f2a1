package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// StabilizationName is the plugin's name.
const StabilizationName = "Stabilization"

// maxStabilization is the longest stabilization window, in seconds.
const maxStabilization = 3600

// StabilizationArgs are the arguments of Stabilization.
type StabilizationArgs struct {
	// StabilizationWindowSeconds is how long the target of a change must stay the same before the
	// change begins, in seconds, for all Placements of the profile. From 0 to 3,600; default 0.
	// The larger one of this and of stabilizationWindowSeconds of a DisruptionPolicy applies.
	StabilizationWindowSeconds int64 `json:"stabilizationWindowSeconds,omitempty"`
}

// Stabilization lets a change begin only once its target, the set of selected clusters, stayed the
// same for a time.
//
// Until then the change is Waiting. Approved changes and forced removals begin at once. The time
// starts again after a restart.
type Stabilization struct{ window time.Duration }

// NewStabilization is the plugin's factory.
func NewStabilization(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, StabilizationArgs{})
	if err != nil {
		return nil, err
	}
	if n := args.StabilizationWindowSeconds; n < 0 || n > maxStabilization {
		return nil, fmt.Errorf("stabilizationWindowSeconds: %d is not from 0 to %d", n, maxStabilization)
	}
	return Stabilization{time.Duration(args.StabilizationWindowSeconds) * time.Second}, nil
}

// Name implements framework.Plugin.
func (Stabilization) Name() string { return StabilizationName }

// Permit implements framework.PermitPlugin.
func (s Stabilization) Permit(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	policy := changes.PolicyOf(state.Snapshot().Subject.DisruptionPolicies)
	window := max(s.window, policy.Stabilization)
	// A change that a plugin holds, also before a restart, has been the same for long enough.
	if window == 0 || p.Approved || p.Kind.Forced() || len(p.HeldBy) > 0 {
		return nil, 0
	}
	stable := p.Since.Add(window)
	if !stable.After(state.Snapshot().Now) {
		return nil, 0
	}
	state.RequeueAt(stable)
	return framework.NewStatus(framework.Pending, fmt.Sprintf("a target that stays the same until %s", stable.UTC().Format(time.RFC3339))), 0
}
