package lifecycle

import (
	"strings"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
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

// TestMaintenanceWindowOfPolicies: when a change may begin. It is Saturday, 1 August 2026, 12:00
// UTC.
func TestMaintenanceWindowOfPolicies(t *testing.T) {
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
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: governedBy(tc.policies...)})
			status, timeout := new(MaintenanceWindow).Permit(t.Context(), state, nil, &framework.Proposal{Kind: map[bool]framework.Kind{true: framework.ForcedRemoval}[tc.forced], Approved: true})
			want := tc.want
			if want == "never" {
				want = "they are not open within 1825 days"
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

// TestMaintenanceWindowOfBoth: the windows of the arguments and of the policies both hold a change.
// It is Saturday, 1 August 2026, 12:00 UTC.
func TestMaintenanceWindowOfBoth(t *testing.T) {
	const night, evening = "2026-08-01T22:00:00Z", "2026-08-01T20:00:00Z"
	for name, tc := range map[string]struct {
		args     string
		policy   string
		proposal framework.Proposal
		want     []string
		opening  string
	}{
		"both": {
			args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}`, policy: "0 20 * * *",
			want: []string{"the next one opens at " + night, "they are open next at " + evening}, opening: night,
		},
		"the policy's":   {args: `{"windows": [{"schedule": "0 12 * * *", "duration": "1h"}]}`, policy: "0 20 * * *", want: []string{evening}, opening: evening},
		"the arguments'": {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}`, policy: "0 12 * * *", want: []string{night}, opening: night},
		"a forced removal": {
			args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}`, policy: "0 20 * * *", proposal: framework.Proposal{Kind: framework.ForcedRemoval},
			want: []string{"the next one opens at " + night}, opening: night,
		},
		"an approved change": {
			args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}], "approvable": true}`, policy: "0 20 * * *", proposal: framework.Proposal{Approved: true},
			want: []string{evening}, opening: evening,
		},
		"removals are free, a forced one": {
			args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}], "removals": false}`, policy: "0 20 * * *", proposal: framework.Proposal{Kind: framework.ForcedRemoval},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: governedBy(windowsAt(tc.policy))})
			tc.proposal.Removed = []string{"a"}
			status, _ := newMaintenanceWindow(t, tc.args).Permit(t.Context(), state, nil, &tc.proposal)
			if (status.Code() == framework.Wait) != (tc.want != nil) || strings.Count(status.Reason(), ";") != max(2*len(tc.want)-1, 0) {
				t.Errorf("%v %q", status.Code(), status.Reason())
			}
			for _, want := range tc.want {
				if !strings.Contains(status.Reason(), want) {
					t.Errorf("%q does not have %q", status.Reason(), want)
				}
			}
			if opening, err := time.Parse(time.RFC3339, tc.opening); err == nil && !state.Requeue().Equal(opening) {
				t.Errorf("the next attempt is at %s", state.Requeue())
			}
		})
	}
}

// TestMaintenanceWindowSearchEnds: after a search without a result there is a next one.
func TestMaintenanceWindowSearchEnds(t *testing.T) {
	state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Windows: neverOpen{}}})
	status, timeout := new(MaintenanceWindow).Permit(t.Context(), state, nil, &framework.Proposal{})
	if status.Code() != framework.Wait || !strings.HasSuffix(status.Reason(), "they are not open within 0 minutes") || !state.Requeue().Equal(fixture.Now.Add(time.Hour)) ||
		timeout != time.Hour+openingSlack {
		t.Errorf("%s %q until %s, again at %s", status.Code(), status.Reason(), timeout, state.Requeue())
	}
}

// TestSearched: the time of a search is in days from two days on.
func TestSearched(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Minute: "0 minutes", 47 * time.Hour: "2820 minutes", 48 * time.Hour: "2 days"} {
		if got := searched(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

// neverOpen are windows whose search ends in the past.
type neverOpen struct{}

func (neverOpen) Opening(now time.Time) (time.Time, bool, error) {
	return now.Add(-time.Minute), false, nil
}

func governedBy(policies ...*berthv1alpha1.DisruptionPolicy) *framework.Subject {
	subject := &framework.Subject{DisruptionPolicies: policies}
	var sets []*changes.WindowSet
	for _, policy := range policies {
		sets = append(sets, changes.WindowsOfPolicy(policy))
	}
	if windows := changes.CombineWindows(sets...); windows != nil {
		subject.Windows = windows
	}
	return subject
}
