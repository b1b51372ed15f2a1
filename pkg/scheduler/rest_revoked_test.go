package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// TestRefusedRecordOfTheRest: the record of the rest without a revoked cluster cannot be written
// once, also after its removal had to wait, and later again for another one. The rest goes on with
// the same approval.
func TestRefusedRecordOfTheRest(t *testing.T) {
	for _, refused := range []bool{false, true} {
		d := approvedInProgress(t, nothing)
		for _, cluster := range []string{"c", "x"} {
			d.x.ofRevoked = awaits
			d.leaveSet(cluster)
			for range 3 {
				d.attempt()
				d.later(60)
			}
			d.x.ofRevoked = nil
			if refused {
				d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
				d.tryAndReport()
				d.refuseRecords = nil
			}
			d.attemptUntilStable()
			if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
				t.Errorf("%s, refused %t: the approved change does not go on: %s; change 2 is %s", cluster, refused, d.whole(), d.phase("2"))
			}
		}
	}
}

// TestRecordOfTheRestStaysRefused: a revoked cluster does not stay because the record of the rest
// without it is refused for long, also if BlastRadius lets its removal wait until it has stayed the
// same.
func TestRecordOfTheRestStaysRefused(t *testing.T) {
	for _, settle := range []string{"0s", "30s"} {
		d := settling(t, settle)
		d.leaveSet("c")
		d.refuseRecords = func(record *berthv1alpha1.PlacementChange) error {
			if record.ResourceVersion != "" {
				return nil
			}
			return errHubDown
		}
		for range 5 {
			d.tryAndReport()
			d.later(31)
		}
		if got := d.published(); slices.Contains(strings.Fields(got), "c") {
			t.Errorf("settle %s: the revoked cluster is published: %s", settle, got)
		}
	}
}

// TestRefusedBeforeDisabled: that a record was refused before a Placement was disabled does not
// count when it is decided again.
func TestRefusedBeforeDisabled(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.leaveSet("c")
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	d.tryAndReport()
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	})
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	d.later(120)
	d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })
	d.tryAndReport()
	d.refuseRecords = nil
	d.attemptUntilStable()
	if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
		t.Errorf("the approved change does not go on: %s; change 2 is %s", d.whole(), d.phase("2"))
	}
}

// TestLostRecordOfTheRest: as TestRefusedRecordOfTheRest, but the record was written, and only the
// response was lost.
func TestLostRecordOfTheRest(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.leaveSet("c")
	d.refuseRecords = func(record *berthv1alpha1.PlacementChange) error {
		d.refuseRecords = nil
		if err := d.write(record.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		return errHubDown
	}
	a, _ := d.try()
	d.recordAfter(a) // The controller writes the history of what was published without records.
	d.attemptUntilStable()
	if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
		t.Errorf("the approved change does not go on: %s; change 2 is %s, 3 is %s", d.state(), d.phase("2"), d.phase("3"))
	}
}

// TestProgressIsNeverNegative: what the message counts as added is never negative.
func TestProgressIsNeverNegative(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.tier("silver", "y")
	d.leaveSet("c")
	a := d.attempt()
	if a.Progress == nil {
		t.Fatal(d.whole())
	}
	if strings.HasPrefix(a.Progress.String(), "-") {
		t.Errorf("%s", a.Progress)
	}
}

// TestCountsWhileARevokedRemovalIsHeld: BlastRadius counts the whole change in progress until it
// ends, also after the removal of a revoked cluster was held while nothing was decided.
func TestCountsWhileARevokedRemovalIsHeld(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"nothing happens":        func(*desk) {},
		"undecided":              func(d *desk) { d.preScorer.answer = fails },
		"undecided, revoked":     func(d *desk) { d.preScorer.answer = fails; d.leaveSet("c") },
		"Reserve waits":          func(d *desk) { d.fore.answer = awaits },
		"Reserve waits, revoked": func(d *desk) { d.fore.answer = awaits; d.leaveSet("c") },
		"Reserve fails, revoked": func(d *desk) { d.fore.answer = fails; d.leaveSet("c") },
		"RemoveRevoked":          func(d *desk) { d.leaveSet("c") },
		"undecided, with another profile": func(d *desk) {
			d.preScorer.answer = fails
			other := *d.scheduler.Profiles[config.DefaultProfile]
			other.Name = "other"
			d.scheduler.Profiles["other"] = &other
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "other"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 2, "window": "1h", "settle": "0s"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds = 600
			})
			d.preScorer = &preScorer{bare: bare{"preScorer"}}
			d.restart()
			d.tier("bronze", "q1", "q2", "q3")
			attempt := d.other("bronze")
			d.attemptUntilStable()
			for range 5 {
				attempt(3)
			}
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			if d.condition(v1alpha1.PlacementConditionDecisionProgressing) == nil {
				t.Fatal(d.whole())
			}
			then(d)
			if name == "RemoveRevoked" {
				d.recordAfter(d.scheduler.RemoveRevoked(t.Context(), key.Namespace, d.snapshot))
			} else {
				_, _ = d.try()
			}
			d.preScorer.answer, d.fore.answer = nil, nil
			if got := attempt(2); got != plan.Held {
				t.Errorf("2 removals of p are counted, 2 are permitted, and one of q is %s; p: %s", got, d.whole())
			}
		})
	}
}

// TestClaimBesideTheRestThatWaits: a change that waits keeps its claim, also if the rest waits,
// too, and the removal of a revoked cluster is denied.
func TestClaimBesideTheRestThatWaits(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		r := &picky{bare: bare{"picky"}}
		d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" }, r)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
		r.of = func(p *framework.Proposal) *framework.Status {
			if slices.Contains(p.Removed, "a") {
				return awaits
			}
			return nil
		}
		d.tier("gold", "a", "z")
		if revoked {
			d.x.ofRevoked = refuses
			d.leaveSet("c")
		}
		a := d.attempt()
		s := d.snapshot()
		if n := s.Counts.ByIndex.Get(s.Cluster("z").Index); n != 1 {
			t.Errorf("revoked %t: outcome %s, and z counts %d", revoked, a.Outcome, n)
		}
	}
}
