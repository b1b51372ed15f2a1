package scheduler_test

import (
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// TestLateApproval: the record of a published change names its approver, also if the approval was
// given to an earlier record of the same change.
func TestLateApproval(t *testing.T) {
	rejected := func(d *desk) { d.answer("2", berthv1alpha1.Rejected) }
	expired := func(d *desk) { d.later(8 * 24 * 3600) }
	for name, tc := range map[string]struct {
		end func(d *desk)
		// between: another change is held meanwhile, so that the record is not the newest one.
		between bool
		// window: a window holds the change after the approval.
		window bool
		// steps: the change is published in steps.
		steps bool
	}{
		"rejected":                                 {end: rejected},
		"expired":                                  {end: expired},
		"rejected, not the newest":                 {end: rejected, between: true},
		"expired, not the newest":                  {end: expired, between: true},
		"rejected, then a window":                  {end: rejected, window: true},
		"expired, then a window":                   {end: expired, window: true},
		"rejected, not the newest, then a window":  {end: rejected, between: true, window: true},
		"expired, not the newest, in steps":        {end: expired, between: true, steps: true},
		"expired, not the newest, window in steps": {end: expired, between: true, window: true, steps: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			d.require()
			d.add("c2")
			d.attemptUntilStable()
			tc.end(d)
			d.attemptUntilStable()
			if tc.between {
				d.add("c3")
				d.attemptUntilStable()
				d.remove("c3")
				d.attemptUntilStable()
			}
			if tc.window {
				d.y.answer = holds
			}
			if tc.steps {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			}
			d.approve("2")
			d.attemptUntilStable()
			d.y.answer = nil
			d.attemptUntilStable()
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = false })
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			approvers := 0
			for _, record := range d.records {
				if approval := changes.ApprovalOf(record); record.Status.Phase == berthv1alpha1.PhasePublished && record.Spec.Revision > 1 {
					if approval == nil || approval.By != "ann" || approval.Decision != berthv1alpha1.Approved {
						t.Errorf("%s has the approval %v", record.Name, approval)
					}
					approvers++
				}
			}
			if approvers != 1 {
				t.Errorf("%d published records", approvers)
			}
		})
	}
}

// TestApprovalAtTheTimeout: an approval that is given at the time of the timeout counts, whether
// the record says already that the change has expired, or the write of that is refused.
func TestApprovalAtTheTimeout(t *testing.T) {
	for _, first := range []string{"the approval", "the timeout"} {
		t.Run(first, func(t *testing.T) {
			d := newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			d.require()
			d.add("c2")
			d.attemptUntilStable()
			d.later(7 * 24 * 3600)
			approved := false
			d.refuseRecords = func(record *berthv1alpha1.PlacementChange) error {
				if !approved && first == "the approval" {
					approved = true
					d.approve("2")
				}
				return nil
			}
			d.try()
			if !approved {
				d.approve("2")
			}
			d.now = d.now.Add(time.Second)
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			if approval := changes.ApprovalOf(d.records["p-2"]); approval == nil || approval.By != "ann" {
				t.Errorf("the record has the approval %v", approval)
			}
		})
	}
}

// TestRejectedAfterALateApproval: the answer to the open record counts, not an earlier approval of
// the same change.
func TestRejectedAfterALateApproval(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	d.answer("2", berthv1alpha1.Rejected)
	d.attemptUntilStable()
	d.add("c3")
	d.attemptUntilStable()
	d.remove("c3")
	d.attemptUntilStable()
	d.y.answer = holds
	d.approve("2")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
	d.answer(d.revision(), berthv1alpha1.Rejected)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Rejected")
	d.y.answer = nil
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Rejected")
}

// TestLateApprovalPassesMinAvailable: an approval that was given to an earlier record of the same
// change ends the floor for all steps.
func TestLateApprovalPassesMinAvailable(t *testing.T) {
	for _, between := range []bool{false, true} {
		d := governed(t, 3, nothing)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			atLeast("50%")(spec)
			spec.Approval = berthv1alpha1.ApprovalRequired
		})
		d.tier("silver", "a", "b", "c")
		d.tier("gold", "x", "y", "z")
		d.attemptUntilStable()
		d.answer("2", berthv1alpha1.Rejected)
		d.attemptUntilStable()
		if between {
			d.tier("gold", "c")
			d.attemptUntilStable()
			d.tier("silver", "c")
			d.attemptUntilStable()
		}
		d.approve("2")
		d.steps()
		if got := d.names(); got != "x y z" {
			t.Errorf("between %t: published %s: %+v", between, got, d.condition("DecisionProgressing"))
		}
	}
}

// TestRejectionOutlivesDenial: a change that was rejected before a plugin denies it stays rejected,
// and is not published once the plugins permit it.
func TestRejectionOutlivesDenial(t *testing.T) {
	for name, deny := range map[string]func(d *desk){
		"in Permit":  func(d *desk) { d.y.answer = refuses },
		"in Reserve": func(d *desk) { d.fore.answer = refuses },
	} {
		for who, reject := range map[string]func(d *desk){
			"a user": func(d *desk) { d.refuseIt() }, "a plugin": func(d *desk) { d.reject("x") },
		} {
			t.Run(who+", "+name, func(t *testing.T) {
				d := holding(t)
				reject(d)
				deny(d)
				d.attemptUntilStable()
				d.expect("p-decision-1: c1 |  | False/Rejected")
				d.x.answer, d.y.answer, d.fore.answer = nil, nil, nil
				d.attemptUntilStable()
				d.expect("p-decision-1: c1 |  | False/Rejected")
			})
		}
	}
}

// TestLateApprovalOutlivesHolds: an approval that came late stays when the hold of another plugin
// expires.
func TestLateApprovalOutlivesHolds(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"nothing happens":      func(*desk) {},
		"the hold expires":     func(d *desk) { d.now = d.now.Add(2 * time.Hour) },
		"Permit waits so long": func(d *desk) { d.y.answer, d.now = awaits, d.now.Add(2*time.Hour) },
		"after a crash": func(d *desk) {
			// The record was created, and its first status was not written.
			record := d.records["p-4"].DeepCopy()
			record.Status = berthv1alpha1.PlacementChangeStatus{}
			early := d.records["p-2"].DeepCopy()
			early.Status.Phase = berthv1alpha1.PhaseRejected
			for _, r := range []*berthv1alpha1.PlacementChange{record, early} {
				if err := d.write(r); err != nil {
					d.t.Fatal(err)
				}
			}
			d.restart()
			d.x.answer = holds
			d.attemptUntilStable()
			d.now = d.now.Add(2 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.require()
			d.add("c3")
			d.attemptUntilStable()
			d.refuseIt()
			d.attemptUntilStable()
			d.add("c4")
			d.attemptUntilStable()
			d.remove("c4")
			d.attemptUntilStable()
			d.x.answer = holds
			d.approve("2")
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 | [c1 c2 c3] | True/Held")
			then(d)
			d.attemptUntilStable()
			d.x.answer, d.y.answer = nil, nil
			d.attemptUntilStable()
			if got := d.published(); got != "p-decision-1: c1 c2 c3" {
				t.Errorf("the change is approved, no plugin holds it any more, and published is %s", d.state())
			}
			if got := d.phase("2"); got != berthv1alpha1.PhaseSuperseded {
				t.Errorf("the record whose approval was used is %s", got)
			}
		})
	}
}
