package lifecycle

import (
	"strings"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func windowsAt(schedules ...string) *berthv1alpha1.DisruptionPolicy {
	policy := &berthv1alpha1.DisruptionPolicy{}
	policy.Name = "night"
	for _, schedule := range schedules {
		policy.Spec.Windows = append(policy.Spec.Windows, berthv1alpha1.RecurringWindow{Schedule: schedule, Duration: "2h"})
	}
	return policy
}

// TestPolicyWindow: when a change may begin. It is Saturday, 1 August 2026, 12:00 UTC.
func TestPolicyWindow(t *testing.T) {
	for name, tc := range map[string]struct {
		policies []*berthv1alpha1.DisruptionPolicy
		forced   bool
		// want is the time of the next opening or a part of the reason; empty if the change is
		// permitted.
		want string
	}{
		"no windows":                      {policies: []*berthv1alpha1.DisruptionPolicy{{}}},
		"inside":                          {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 11 * * *")}},
		"just opened":                     {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 12 * * *")}},
		"just closed":                     {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 10 * * *")}, want: "2026-08-02T10:00:00Z"},
		"outside":                         {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 22 * * *")}, want: "2026-08-01T22:00:00Z"},
		"the earlier of two windows":      {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 22 * * *", "0 20 * * *")}, want: "2026-08-01T20:00:00Z"},
		"two policies, one open":          {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 11 * * *"), windowsAt("0 22 * * *")}, want: "never"},
		"two policies, both open later":   {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 20 * * *"), windowsAt("0 21 * * *")}, want: "2026-08-01T21:00:00Z"},
		"two policies, both open on days": {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 21 * * 1-5"), windowsAt("0 20 * * 3")}, want: "2026-08-05T21:00:00Z"},
		"forced removals":                 {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 22 * * *")}, forced: true},
		"an invalid window":               {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 11 * * *", "61 * * * *")}, want: "DisruptionPolicy night: spec.windows[1].schedule: parsing"},
		"a window that opens too rarely":  {policies: []*berthv1alpha1.DisruptionPolicy{windowsAt("0 0 29 2 6")}, want: "DisruptionPolicies"},
	} {
		t.Run(name, func(t *testing.T) {
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Policies: tc.policies}})
			status, timeout := PolicyWindow{}.Permit(t.Context(), state, nil, &framework.Proposal{Forced: tc.forced, Approved: true})
			want := tc.want
			if want == "never" {
				want = "are not open at the same time"
			}
			if (status.Code() == framework.Wait) != (want != "") || !strings.Contains(status.Reason(), want) {
				t.Errorf("%v %q, want %q", status.Code(), status.Reason(), want)
			}
			opening, err := time.Parse(time.RFC3339, tc.want)
			if err == nil && (!state.Requeue().Equal(opening) || timeout != opening.Add(openingSlack).Sub(fixture.Now)) {
				t.Errorf("the next attempt is at %s, the hold ends after %s", state.Requeue(), timeout)
			}
		})
	}
}
