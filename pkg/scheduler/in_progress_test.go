package scheduler_test

import (
	"context"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// needsApproval has the policy require approval, and new clusters be ready for ten minutes.
func needsApproval(spec *berthv1alpha1.DisruptionPolicySpec) {
	spec.Approval, spec.MinReadySeconds = berthv1alpha1.ApprovalRequired, 600
}

// approvedInProgress is a desk whose approved change 2 replaces a and b by x and y, and has
// published x.
func approvedInProgress(t *testing.T, change func(spec *berthv1alpha1.DisruptionPolicySpec), more ...framework.Plugin) *desk {
	t.Helper()
	d := governed(t, 0, nothing)
	d.more = more
	d.restart()
	d.attemptUntilStable()
	d.govern(needsApproval)
	d.govern(change)
	d.beginApproved()
	if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
		t.Fatalf("change 2 is %s", got)
	}
	return d
}

// beginApproved approves change 2, which replaces a and b by x and y, and publishes its first step.
func (d *desk) beginApproved() {
	d.t.Helper()
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	d.approve("2")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [c x y] | ")
}

// picky is a Reserve plugin whose answer depends on the change.
type picky struct {
	bare
	of func(p *framework.Proposal) *framework.Status
}

func (r *picky) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if r.of == nil {
		return nil
	}
	return r.of(p)
}

func (r *picky) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

// mover is a Transition plugin that answers as it is set.
type mover struct {
	bare
	answer *framework.Transition
}

func (m *mover) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	return m.answer, nil
}
