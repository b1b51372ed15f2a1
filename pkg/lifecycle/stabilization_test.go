package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestStabilization(t *testing.T) {
	now := fixture.Now
	policy := func(seconds int64) *berthv1alpha1.DisruptionPolicy {
		return &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: berthv1alpha1.DisruptionPolicySpec{
			PlacementSelector: &metav1.LabelSelector{}, StabilizationWindowSeconds: seconds,
		}}
	}
	since := func(d time.Duration) framework.Proposal {
		return framework.Proposal{Added: []string{"a"}, Since: now.Add(-d)}
	}
	approved, forced := since(0), since(0)
	approved.Approved, forced.Kind = true, framework.ForcedRemoval
	tests := map[string]struct {
		args     string
		policies []*berthv1alpha1.DisruptionPolicy
		proposal framework.Proposal
		// want is the time of the next attempt; 0 if the change begins.
		want time.Duration
	}{
		"without a window":               {proposal: since(0)},
		"a new target":                   {args: `{"stabilizationWindowSeconds": 2}`, proposal: since(0), want: 2 * time.Second},
		"a target that stayed":           {args: `{"stabilizationWindowSeconds": 2}`, proposal: since(time.Second), want: time.Second},
		"a target that stayed as long":   {args: `{"stabilizationWindowSeconds": 2}`, proposal: since(2 * time.Second)},
		"a policy":                       {policies: []*berthv1alpha1.DisruptionPolicy{policy(3)}, proposal: since(0), want: 3 * time.Second},
		"a policy without a window":      {policies: []*berthv1alpha1.DisruptionPolicy{policy(0)}, proposal: since(0)},
		"the largest of several":         {args: `{"stabilizationWindowSeconds": 2}`, policies: []*berthv1alpha1.DisruptionPolicy{policy(1), policy(5), policy(3)}, proposal: since(0), want: 5 * time.Second},
		"the profile's is larger":        {args: `{"stabilizationWindowSeconds": 7}`, policies: []*berthv1alpha1.DisruptionPolicy{policy(5)}, proposal: since(0), want: 7 * time.Second},
		"an approved change":             {args: `{"stabilizationWindowSeconds": 2}`, proposal: approved},
		"the removal of forced clusters": {args: `{"stabilizationWindowSeconds": 2}`, proposal: forced},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewStabilization(t.Context(), json.RawMessage(tc.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			pl := fixture.Placement("ns", "p").Obj()
			state := framework.NewCycleState(&framework.Snapshot{Now: now, Subject: &framework.Subject{Placement: pl, DisruptionPolicies: tc.policies}})
			status, _ := plugin.(framework.PermitPlugin).Permit(t.Context(), state, pl, &tc.proposal)
			wantCode, wantAt := framework.Success, time.Time{}
			if tc.want > 0 {
				wantCode, wantAt = framework.Pending, now.Add(tc.want)
			}
			if status.Code() != wantCode || !state.Requeue().Equal(wantAt) {
				t.Errorf("got %s, next attempt at %s; want %s, %s", status.Code(), state.Requeue(), wantCode, wantAt)
			}
		})
	}
	for _, args := range []string{`{"stabilizationWindowSeconds": -1}`, `{"stabilizationWindowSeconds": 3601}`, `{"seconds": 1}`} {
		if _, err := NewStabilization(t.Context(), json.RawMessage(args), nil); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}
