package lifecycle

import (
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestApproval(t *testing.T) {
	within := func(policy *berthv1alpha1.DisruptionPolicy, seconds int64) *berthv1alpha1.DisruptionPolicy {
		policy.Spec.ApprovalTimeoutSeconds = seconds
		return policy
	}
	required := func(name string) *berthv1alpha1.DisruptionPolicy { return fixture.ApprovalPolicy("ns", name, "p") }
	optional := required("a")
	optional.Spec.Approval = ""
	tests := map[string]struct {
		policies    []*berthv1alpha1.DisruptionPolicy
		proposal    framework.Proposal
		want        string
		wantTimeout time.Duration
	}{
		"no policy":                       {},
		"a policy without approval":       {policies: []*berthv1alpha1.DisruptionPolicy{optional}},
		"required":                        {policies: []*berthv1alpha1.DisruptionPolicy{required("b")}, want: "b", wantTimeout: 7 * 24 * time.Hour},
		"required, with a timeout":        {policies: []*berthv1alpha1.DisruptionPolicy{within(required("b"), 60)}, want: "b", wantTimeout: time.Minute},
		"required by one of two":          {policies: []*berthv1alpha1.DisruptionPolicy{optional, required("b")}, want: "b", wantTimeout: 7 * 24 * time.Hour},
		"the shorter timeout of two":      {policies: []*berthv1alpha1.DisruptionPolicy{within(required("b"), 90), within(required("c"), 60)}, want: "b", wantTimeout: time.Minute},
		"approved":                        {policies: []*berthv1alpha1.DisruptionPolicy{required("b")}, proposal: framework.Proposal{Approved: true}},
		"only revoked clusters":           {policies: []*berthv1alpha1.DisruptionPolicy{required("b")}, proposal: framework.Proposal{Kind: framework.RevokedRemoval}},
		"held before, and still required": {policies: []*berthv1alpha1.DisruptionPolicy{required("b")}, proposal: framework.Proposal{HeldBy: map[string]time.Time{ApprovalName: start}}, want: "b", wantTimeout: 7 * 24 * time.Hour},
		"held before, and no longer":      {policies: []*berthv1alpha1.DisruptionPolicy{optional}, proposal: framework.Proposal{HeldBy: map[string]time.Time{ApprovalName: start}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("ns", "p").Obj()
			state := framework.NewCycleState(&framework.Snapshot{Now: start, Subject: &framework.Subject{Placement: pl, DisruptionPolicies: tc.policies}})
			status, timeout := Approval{}.Permit(t.Context(), state, pl, &tc.proposal)
			wantCode, want := framework.Success, ""
			if tc.want != "" {
				wantCode, want = framework.Wait, "DisruptionPolicy "+tc.want+" requires approval"
			}
			if status.Code() != wantCode || status.Reason() != want || timeout != tc.wantTimeout {
				t.Errorf("got %s %q for %s, want %s %q for %s", status.Code(), status.Reason(), timeout, wantCode, want, tc.wantTimeout)
			}
		})
	}
}
