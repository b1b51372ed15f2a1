package lifecycle

import (
	"fmt"
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

// BenchmarkPolicyWindow: an attempt of a Placement with 20 policies, one window each.
func BenchmarkPolicyWindow(b *testing.B) {
	var policies []*berthv1alpha1.DisruptionPolicy
	for range 20 {
		policy := windowsAt("0 22 29 2 *")
		policy.Spec.Windows[0].TimeZone = "Europe/Berlin"
		policies = append(policies, policy)
	}
	subject := &framework.Subject{Placement: fixture.Placement("n", "p").Obj(), Policies: policies}
	for b.Loop() {
		state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: subject})
		if status, _ := (PolicyWindow{}).Permit(b.Context(), state, subject.Placement, &framework.Proposal{}); status.IsSuccess() {
			b.Fatal("a window is open")
		}
	}
}

// TestCompiledWindows: each attempt uses the windows that an earlier one parsed, also invalid ones.
func TestCompiledWindows(t *testing.T) {
	for _, schedule := range []string{"1 2 3 4 *", "0 0 31 2 *"} {
		policy := windowsAt(schedule)
		_, first := windowsOf(policy)
		if n := testing.AllocsPerRun(100, func() { _, _ = windowsOf(policy) }); n > 5 {
			t.Errorf("%s: %v allocations", schedule, n)
		}
		if _, again := windowsOf(policy); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("%s: %v, then %v", schedule, first, again)
		}
	}
}
