package plan

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// permitter is a Permit plugin that answers as it is set.
type permitter struct {
	status  *framework.Status
	timeout time.Duration
}

func (*permitter) Name() string { return "x" }

func (p *permitter) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	return p.status, p.timeout
}

func permitting(status *framework.Status, timeout time.Duration) *plugins.Profile {
	return &plugins.Profile{Permit: []framework.PermitPlugin{&permitter{status, timeout}}}
}

// answered are the records and the answers for the change of revision 2 to cluster a.
type answered struct {
	phase    berthv1alpha1.ChangePhase // of the record; none if empty
	approved bool
	rejected string // by a plugin
}

func (s *answered) plan(t *testing.T, profile *plugins.Profile) *Plan {
	t.Helper()
	last := lastOf()
	last.Revision = 1
	d := selecting(last)
	d.Profile = profile
	if s.phase != "" {
		record := recordOf(2, s.phase, "a")
		if s.approved {
			record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved}
		}
		d.Snapshot.Subject.Records = []*berthv1alpha1.PlacementChange{record}
	}
	if s.rejected != "" {
		d.Snapshot.Answers = framework.Answers{Revision: 2, From: emptyDigest, Digest: framework.DigestOf([]string{"a"}), Generation: 2, Rejected: s.rejected}
	}
	return madeOf(t, d)
}

// TestPermit combines the answers of plugins and of users.
func TestPermit(t *testing.T) {
	const rejected, expired, held = berthv1alpha1.PhaseRejected, berthv1alpha1.PhaseExpired, berthv1alpha1.PhaseHeld
	waits := framework.NewStatus(framework.Wait, "why")
	for name, tc := range map[string]struct {
		answered
		waits *framework.Status
		until time.Duration
		want  Outcome
	}{
		"nothing holds it":                          {want: Published},
		"a plugin holds it":                         {waits: waits, until: time.Hour, want: Held},
		"its time is over":                          {waits: waits, want: Expired},
		"it was rejected":                           {answered: answered{phase: rejected}, want: Rejected},
		"it has expired, and a plugin holds it":     {answered: answered{phase: expired}, waits: waits, until: time.Hour, want: Expired},
		"it has expired, and no plugin holds it":    {answered: answered{phase: expired}, want: Published},
		"it was rejected, then approved":            {answered: answered{phase: rejected, approved: true}, want: Published},
		"it is approved, and a plugin holds it":     {answered: answered{phase: rejected, approved: true}, waits: waits, until: time.Hour, want: Held},
		"it is approved, and its time is over":      {answered: answered{phase: rejected, approved: true}, waits: waits, want: Held},
		"a plugin rejected it":                      {answered: answered{rejected: "x: no"}, waits: waits, until: time.Hour, want: Rejected},
		"a plugin rejected it, but a user approved": {answered: answered{phase: held, approved: true, rejected: "x: no"}, want: Published},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.plan(t, permitting(tc.waits, tc.until))
			if p.Outcome != tc.want || p.Change.Approved != tc.approved || p.Change.Revision != 2 {
				t.Errorf("got %s of revision %d, approved: %t", p.Outcome, p.Change.Revision, p.Change.Approved)
			}
			if tc.want != Held {
				return
			}
			want, next := []berthv1alpha1.ChangeHold{{Plugin: "x", Reason: "why"}}, time.Time{}
			if !tc.approved {
				next = fixture.Now.Add(tc.until)
				want[0].Until = &metav1.Time{Time: next}
			}
			if diff := cmp.Diff(want, p.Holds); diff != "" || !p.State.Requeue().Equal(next) {
				t.Errorf("the next attempt is at %v; holds (-want +got):\n%s", p.State.Requeue(), diff)
			}
		})
	}
}

func TestDeniedOrWaiting(t *testing.T) {
	pending, denied := framework.NewStatus(framework.Pending, "why"), framework.NewStatus(framework.Unschedulable, "no")
	const rejected = berthv1alpha1.PhaseRejected
	for name, tc := range map[string]struct {
		answered
		status *framework.Status
		want   Outcome
		reason string
	}{
		"pending":                             {status: pending, want: Waiting, reason: "x: why"},
		"denied":                              {status: denied, want: Denied, reason: "x: no"},
		"pending, but it was rejected before": {answered: answered{phase: rejected}, status: pending, want: Rejected},
		"pending, rejected, then approved":    {answered: answered{phase: rejected, approved: true}, status: pending, want: Waiting, reason: "x: why"},
	} {
		t.Run(name, func(t *testing.T) {
			for point, profile := range map[string]*plugins.Profile{
				"Permit": permitting(tc.status, 0), "Reserve": {Reserve: []framework.ReservePlugin{&reserver{name: "x", status: tc.status}}},
			} {
				if p := tc.plan(t, profile); p.Outcome != tc.want || p.Reason != tc.reason {
					t.Errorf("%s: got %s, %s", point, p.Outcome, p.Reason)
				}
			}
		})
	}
}
