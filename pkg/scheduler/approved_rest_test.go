package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRestThatWaitsIsNotSuperseded: an approved change whose rest, without a revoked cluster,
// waits for a Reserve plugin is not superseded before the record under which it goes on exists.
func TestRestThatWaitsIsNotSuperseded(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.fore.answer = awaits
	d.leaveSet("c")
	before := d.published()
	a := d.attempt()
	if got := d.phase("2"); d.published() == before && got != berthv1alpha1.PhaseProgressing {
		t.Errorf("outcome %s, nothing is published, record 3 exists %t, and the approved change is %s: %s", a.Outcome, d.records["p-3"] != nil, got, d.records["p-2"].Status.Message)
	}
	d.fore.answer = nil
	d.attemptUntilStable()
	if got := d.pending(); got == "True/Held" {
		t.Errorf("what was approved must be approved again: %s", d.state())
	}
}

// TestRestOfAChangeWhileTheTargetWaits: one failed, or delayed, request of a Reserve plugin does
// not end an approved change in progress whose next target is not stable yet.
func TestRestOfAChangeWhileTheTargetWaits(t *testing.T) {
	for name, answer := range map[string]*framework.Status{
		"fails": framework.AsStatus(errHubDown), "waits": awaits,
	} {
		t.Run(name, func(t *testing.T) {
			r := &picky{bare: bare{"picky"}}
			d := approvedInProgress(t, nothing, r)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
			r.of = func(p *framework.Proposal) *framework.Status {
				if len(p.Removed) == 2 {
					return answer
				}
				return nil
			}
			d.tier("gold", "a")
			a, _ := d.try()
			if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
				t.Errorf("outcome %s (%s), and the approved change is %s: %s", a.Outcome, a.Reason, got, d.records["p-2"].Status.Message)
			}
		})
	}
}

// TestRevokedBesideARestThatWaits: revoked clusters leave beside an approved change in progress
// whose rest waits, or fails once, in Reserve.
func TestRevokedBesideARestThatWaits(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"nothing else":  func(*desk) {},
		"Reserve waits": func(d *desk) { d.fore.answer = awaits },
		"Reserve fails": func(d *desk) { d.fore.answer = framework.AsStatus(errHubDown) },
	} {
		t.Run(name, func(t *testing.T) {
			d := approvedInProgress(t, nothing)
			then(d)
			d.leaveSet("c")
			_, _ = d.try()
			d.fore.answer = nil
			d.attemptUntilStable()
			if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
				t.Errorf("the approved change does not go on: %s; change 2 is %s: %s", d.state(), d.phase("2"), d.records["p-2"].Status.Message)
			}
		})
	}
}

// TestRevokedRemovalIsRetried: a removal of revoked clusters for which a Permit plugin fails, or
// waits without a time, is asked about again soon, whatever else the Placement waits for.
func TestRevokedRemovalIsRetried(t *testing.T) {
	for name, answer := range map[string]*framework.Status{"fails": framework.AsStatus(errHubDown), "waits": awaits} {
		t.Run("beside a suspended rest, "+name, func(t *testing.T) {
			d := approvedInProgress(t, nothing)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			d.attemptUntilStable()
			d.x.ofRevoked = answer
			d.leaveSet("c")
			a, failure := d.try()
			if at := a.State.NextAttempt(); failure.IsSuccess() && (at.IsZero() || at.After(d.now.Add(10*time.Second))) {
				t.Errorf("the attempt succeeds, c is still published (%s), and the next attempt is at %s", d.published(), at)
			}
		})
		t.Run("beside a held change, "+name, func(t *testing.T) {
			d, _ := holdingC3(t)
			d.x.ofRevoked = answer
			d.leaveSet("c1")
			a, failure := d.try()
			if at := a.State.NextAttempt(); failure.IsSuccess() && (at.IsZero() || at.After(d.now.Add(10*time.Second))) {
				t.Errorf("the attempt succeeds, c1 is still published (%s), and the next attempt is at %s", d.published(), at)
			}
		})
	}
}

// TestProgressingWhileReserveWaits: a change in progress whose next step waits for a Reserve
// plugin is still in progress.
func TestProgressingWhileReserveWaits(t *testing.T) {
	for name, answer := range map[string]*framework.Status{
		"waits": awaits, "fails": framework.AsStatus(errHubDown), "waits, then fails": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := approvedInProgress(t, nothing)
			if d.fore.answer = answer; answer == nil {
				d.fore.answer = awaits
				d.tryAndReport()
				d.fore.answer = framework.AsStatus(errHubDown)
			}
			d.tryAndReport()
			if d.phase("2") == berthv1alpha1.PhaseProgressing && d.condition(v1alpha1.PlacementConditionDecisionProgressing) == nil {
				t.Errorf("change 2 is in progress, and the conditions say %q", d.aboutChange())
			}
		})
	}
}

// TestProgressingSaysWhatItWaitsFor: while a change is in progress, the condition says so, also if
// an earlier process wrote none, and what the change waits for.
func TestProgressingSaysWhatItWaitsFor(t *testing.T) {
	const progress = "1 of 2 added, 0 of 2 removed"
	for name, tc := range map[string]struct {
		then func(d *desk)
		want string
	}{
		"Reserve waits":  {func(d *desk) { d.fore.answer = awaits }, "True/WaitingTrue/RollingUpdate: " + progress + "; waiting for fore: a fact"},
		"Reserve fails":  {func(d *desk) { d.fore.answer = fails }, "True/RollingUpdate: " + progress},
		"PreScore waits": {func(d *desk) { d.preScorer.answer = awaits }, "True/WaitingFalse/Undecided: " + progress + "; it does not go on: preScorer: a fact"},
		"PreScore fails": {func(d *desk) { d.preScorer.answer = fails }, "False/Undecided: " + progress + "; it does not go on: preScorer: a request failed"},
	} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", known ", known), func(t *testing.T) {
				d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
				d.preScorer = &preScorer{bare: bare{"preScorer"}}
				d.restart()
				if !known {
					d.placement.Status.Conditions = nil
					d.inv.Update(d.placement.DeepCopy())
				}
				tc.then(d)
				d.tryAndReport()
				got, stays := d.aboutChange(), known && name == "Reserve fails"
				if got != tc.want && (!stays || !strings.HasPrefix(got, tc.want)) {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		}
	}
}

// TestRecordOfTheRestIsWhole: the record under which the rest of a change goes on, without a
// revoked cluster, leads to the clusters that it names, also if one of them does not qualify now.
func TestRecordOfTheRestIsWhole(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.tier("silver", "y")
	d.leaveSet("c")
	d.attempt()
	record := d.records["p-3"]
	if record == nil || record.Status.Phase != berthv1alpha1.PhaseProgressing {
		t.Fatal(d.state())
	}
	if _, err := changes.Target(record, strings.Fields(d.names())); err != nil {
		t.Errorf("%v: added %v, removed %v", err, record.Spec.Added, record.Spec.Removed)
	}
}

// TestRevokedBesideAnAttemptThatFails: a revoked cluster leaves at once, and the approved change in
// progress goes on, also if the attempt fails, waits or decides nothing.
func TestRevokedBesideAnAttemptThatFails(t *testing.T) {
	ofOthers := func(d *desk, answer *framework.Status) func() {
		r := d.more[0].(*picky)
		r.of = func(p *framework.Proposal) *framework.Status {
			if p.Kind == framework.RevokedRemoval {
				return nil
			}
			return answer
		}
		return func() { r.of = nil }
	}
	for name, attempt := range map[string]func(d *desk){
		"Reserve waits": func(d *desk) {
			defer ofOthers(d, awaits)()
			_, _ = d.try()
		},
		"Reserve fails": func(d *desk) {
			defer ofOthers(d, fails)()
			_, _ = d.try()
		},
		"Transition fails": func(d *desk) {
			d.fore.ofTransition = fails
			_, _ = d.try()
			d.fore.ofTransition = nil
		},
		"PreScore fails": func(d *desk) {
			d.preScorer.answer = fails
			_, _ = d.try()
			d.preScorer.answer = nil
		},
		"it must wait": func(d *desk) {
			d.recordAfter(d.scheduler.RemoveRevoked(t.Context(), key.Namespace, d.snapshot))
		},
	} {
		for _, revoked := range []string{"a", "c"} {
			t.Run(name+", "+revoked, func(t *testing.T) {
				d := approvedInProgress(t, nothing, &picky{bare: bare{"picky"}})
				d.preScorer = &preScorer{bare: bare{"preScorer"}}
				d.restart()
				d.leaveSet(revoked)
				attempt(d)
				if d.keeps(revoked) > 0 {
					t.Errorf("%s is still published", revoked)
				}
				if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing || changes.ApprovalOf(got) == nil {
					t.Errorf("the approved change does not go on: %s; change 2 is %s: %s", d.state(), d.phase("2"), d.records["p-2"].Status.Message)
				}
				for range 5 {
					d.attemptUntilStable()
					d.later(700)
				}
				if d.keeps("x", "y") != 2 || d.keeps("a", "b") > 0 {
					t.Errorf("the approved change is not complete: %s", d.state())
				}
			})
		}
	}
}

// TestRestWaitsNoLongerThanItsDeadline: the rest is superseded if it has waited for
// progressDeadlineSeconds, also for a Reserve plugin.
func TestRestWaitsNoLongerThanItsDeadline(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		r := &picky{bare: bare{"picky"}}
		d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval, spec.MinReadySeconds = "", 3600 }, r)
		if reserve {
			r.of = func(p *framework.Proposal) *framework.Status {
				if !slices.Contains(p.Added, "z") {
					return awaits
				}
				return nil
			}
		}
		d.tier("gold", "z")
		for range 50 {
			_, _ = d.try()
			d.later(100)
		}
		if got := d.phase("2"); got == berthv1alpha1.PhaseProgressing {
			t.Errorf("Reserve waits %t: after %s, the rest is %s: %s", reserve, d.now.Sub(fixture.Now), got, d.aboutChange())
		}
	}
}

// TestForcedRemovalDoesNotWaitForReserve: an approval covers all steps of a change: a cluster that
// it removes and that is deleted leaves at once, also while a Reserve plugin lets the rest wait.
func TestForcedRemovalDoesNotWaitForReserve(t *testing.T) {
	for _, waits := range []bool{false, true} {
		d := approvedInProgress(t, nothing)
		if waits {
			d.fore.answer = awaits
		}
		d.remove("a")
		d.attempt()
		if d.keeps("a") > 0 {
			t.Errorf("Reserve waits %t: a is deleted, its removal is approved, and it stays: %s", waits, d.whole())
		}
	}
}
