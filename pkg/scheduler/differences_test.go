package scheduler_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// fails is a request of a plugin that failed.
var fails = framework.AsStatus(errors.New("a request failed"))

// keeps counts the names that are published.
func (d *desk) keeps(names ...string) (n int) {
	for _, name := range names {
		if slices.Contains(strings.Fields(d.names()), name) {
			n++
		}
	}
	return n
}

// TestExpiredAndThenRejected: a change that has expired and is then rejected is Rejected, and is
// not published without an approval once no plugin holds it any more.
func TestExpiredAndThenRejected(t *testing.T) {
	for _, expired := range []bool{false, true} {
		d := newDesk(t, ask(), "c1")
		d.attemptUntilStable()
		d.require()
		d.add("c2")
		d.attemptUntilStable()
		if expired {
			d.later(8 * 24 * 3600)
			d.attemptUntilStable()
		}
		d.answer("2", berthv1alpha1.Rejected)
		d.attemptUntilStable()
		if got := d.phase("2"); got != berthv1alpha1.PhaseRejected || d.pending() != "False/Rejected" {
			t.Errorf("expired before %t: the rejected change is %s, and the condition is %s: %s", expired, got, d.pending(), d.message())
		}
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" })
		d.attemptUntilStable()
		if got := d.published(); got != "p-decision-1: c1" {
			t.Errorf("expired before %t: ann rejected change 2, and published is %s", expired, got)
		}
	}
}

// TestFloorAfterAForcedRemoval: a change that supersedes one in progress has the same floor, also
// if a lost cluster leaves in between, as a change of its own.
func TestFloorAfterAForcedRemoval(t *testing.T) {
	for _, alone := range []bool{false, true} {
		d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.MinAvailable, spec.MaxUnavailable = new(intstr.FromInt32(2)), new(intstr.FromInt32(3))
		})
		d.tier("silver", "a", "b", "c")
		d.tier("gold", "x", "y", "z")
		d.steps()
		if c := d.condition(v1alpha1.PlacementConditionDecisionProgressing); c == nil || c.Reason != v1alpha1.ReasonMinAvailable {
			t.Fatal(d.whole(), c)
		}
		if alone {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
		}
		d.tier("gold", "u")
		d.remove("x")
		for range 5 {
			d.attemptUntilStable()
			d.later(60)
		}
		if kept := d.keeps("a", "b", "c"); kept < 2 {
			t.Errorf("removal alone %t: nobody approved a change, minAvailable is 2, and of a, b and c %d are published: %s", alone, kept, d.names())
		}
	}
}

// TestFloorOfAnEndedChange: once the selected clusters are those that are published, the change is
// over: the next one has a floor of its own, also if the change had ended before.
func TestFloorOfAnEndedChange(t *testing.T) {
	for name, end := range map[string]func(d *desk){
		"in progress": func(*desk) {},
		"denied": func(d *desk) {
			d.fore.answer = refuses
			d.tier("gold", "u")
			d.attemptUntilStable()
			d.fore.answer = nil
			d.tier("silver", "u")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinAvailable, spec.MaxUnavailable = new(intstr.FromString("50%")), new(intstr.FromInt32(3))
			})
			d.tier("gold", "d")
			d.attemptUntilStable()
			d.tier("silver", "a", "b", "c")
			d.attemptUntilStable()
			d.expect("p-decision-1: c d | [d] | ")
			d.later(1)
			end(d)
			d.tier("gold", "c")
			d.attemptUntilStable()
			if got := d.phase("3"); got != berthv1alpha1.PhaseSuperseded {
				t.Fatalf("change 3 is %s: %s", got, d.state())
			}
			d.later(30 * 24 * 3600)
			d.tier("silver", "c")
			d.attemptUntilStable()
			if got := d.names(); got != "d" {
				t.Errorf("half of c and d may leave, and published is %s: %+v", got, d.condition(v1alpha1.PlacementConditionDecisionProgressing))
			}
		})
	}
}

// TestBudgetAfterAForcedRemoval: a drained cluster that left counts as unavailable until the change
// is complete, also if a lost cluster leaves in between, as a change of its own.
func TestBudgetAfterAForcedRemoval(t *testing.T) {
	for _, alone := range []bool{false, true} {
		d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
		d.tier("gold", "d", "e")
		d.attemptUntilStable()
		d.taint("a", v1alpha1.DrainTaint)
		d.taint("b", v1alpha1.DrainTaint)
		d.attemptUntilStable()
		d.expect("p-decision-1: b c d e | [c d e] | ")
		if alone {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
		}
		d.remove("e")
		for range 5 {
			d.attemptUntilStable()
			d.later(60)
		}
		if d.keeps("a", "b") < 1 {
			t.Errorf("removal alone %t: maxUnavailable is 1, a and b are drained, and both left: %s", alone, d.names())
		}
	}
}

// TestRevokedBesideCounts: BlastRadius permits two removals within an hour. The removal of a
// revoked cluster is one too many while a change that removes two is in progress, as after it.
func TestRevokedBesideCounts(t *testing.T) {
	for _, arguments := range []string{`{"maxRemoved": 2, "window": "1h", "settle": "0s"}`, `{"fleetMaxRemoved": 2, "window": "1h", "settle": "0s"}`} {
		for _, complete := range []bool{true, false} {
			d := governedWith(t, map[string]string{"BlastRadius": arguments}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds, spec.MaxUnavailable, spec.MaxSurge = 60, new(intstr.FromInt32(1)), new(intstr.FromInt32(1))
			})
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			for range 5 {
				if complete {
					d.later(61)
					d.attemptUntilStable()
				}
			}
			d.tier("gold", "z")
			d.leaveSet("c")
			for range 10 {
				d.attemptUntilStable()
				d.later(61)
			}
			if kept := d.keeps("a", "b", "c"); kept < 1 {
				t.Errorf("%s, complete %t: a, b and c left within %s without an approval: %s", arguments, complete, d.now.Sub(fixture.Now), d.state())
			}
		}
	}
}

// TestPagesEditedWhileDown: a page from which another client removed a cluster while no controller
// ran is restored, and the change in progress goes on.
func TestPagesEditedWhileDown(t *testing.T) {
	for _, inProgress := range []bool{false, true} {
		d := approvedInProgress(t, nothing)
		if !inProgress {
			for range 30 {
				d.attemptUntilStable()
				d.later(100)
			}
			d.expect("p-decision-1: c x y |  | ")
		}
		before := d.published()
		for _, page := range d.pages.pages {
			page.Status.Decisions = slices.DeleteFunc(page.Status.Decisions, func(e v1alpha1.ClusterDecision) bool { return e.ClusterName == "c" })
		}
		d.restart()
		d.attemptUntilStable()
		if got := d.published(); got != before || d.phase("2") == berthv1alpha1.PhaseSuperseded {
			t.Errorf("in progress %t: published was %s, and is %s; change 2 is %s: %s", inProgress, before, got, d.phase("2"), d.state())
		}
	}
}

// TestHoldWithoutTimeRests: a Permit plugin holds a change for no time. The change expires, and the
// Placement rests.
func TestHoldWithoutTimeRests(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.add("c2")
	d.x.answer, d.x.timeout = holds, 0
	for range 50 {
		if at := d.attempt().State.NextAttempt(); at.IsZero() || at.After(d.now) {
			return
		}
	}
	t.Errorf("50 attempts, and no end: %s, %d records", d.state(), len(d.records))
}

// TestGroupsOfALengthWhileMoving: while a change is published in steps, group lengths are those of
// its target, and a leaving cluster does not count: no cluster changes its group.
func TestGroupsOfALengthWhileMoving(t *testing.T) {
	for name, length := range map[string]intstr.IntOrString{"number": intstr.FromInt32(1), "percentage": intstr.FromString("33%")} {
		for _, leaves := range []string{"a", "b", "c"} {
			t.Run(name+", "+leaves+" leaves", func(t *testing.T) {
				d := governed(t, 3, nothing)
				d.edit(func(pl *v1alpha1.Placement) { pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = length })
				d.attemptUntilStable()
				before := d.groupsByCluster()
				d.tier("silver", leaves)
				d.tier("gold", "x")
				for range 4 {
					d.attempt()
					now := d.groupsByCluster()
					for cluster, group := range now {
						if was, known := before[cluster]; known && was != group {
							t.Errorf("%s moves from group %s to %s", cluster, was, group)
						}
					}
					before = now
				}
			})
		}
	}
}

// TestRevokedWhileReserveWaits: a cluster is revoked while a Reserve plugin lets the rest of an
// approved change wait. As long as nothing is published, the change goes on.
func TestRevokedWhileReserveWaits(t *testing.T) {
	d := approvedInProgress(t, nothing)
	before := d.published()
	d.fore.answer = awaits
	d.leaveSet("c")
	a := d.attempt()
	if got := d.phase("2"); d.published() == before && got != berthv1alpha1.PhaseProgressing {
		t.Errorf("outcome %s, nothing is published, and the approved change is %s: %s", a.Outcome, got, d.records["p-2"].Status.Message)
	}
	d.fore.answer = nil
	d.attemptUntilStable()
	if got := d.pending(); got != "" {
		t.Errorf("the rest needs another approval: %s", d.state())
	}
}

// TestRestBesideGoesOn: while the next change waits for the stabilization window, a Reserve plugin
// that waits, or whose request fails once, does not end the approved change in progress.
func TestRestBesideGoesOn(t *testing.T) {
	for name, answer := range map[string]*framework.Status{"fails": fails, "waits": awaits} {
		t.Run(name, func(t *testing.T) {
			r := &picky{bare: bare{"picky"}}
			d := approvedInProgress(t, nothing, r)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
			r.of = func(p *framework.Proposal) *framework.Status {
				if slices.Contains(p.Removed, "a") { // The rest; the next change keeps a.
					return answer
				}
				return nil
			}
			d.tier("gold", "a")
			a, _ := d.try()
			if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
				t.Errorf("outcome %s, and the approved change is %s: %s", a.Outcome, got, d.records["p-2"].Status.Message)
			}
		})
	}
}

// TestRejectedWhileNothingIsDecided: a rejection, or else the deadline, ends a held change and
// gives back what it reserves, also while nothing is decided or a plugin fails.
func TestRejectedWhileNothingIsDecided(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"held":           func(*desk) {},
		"not admitted":   func(d *desk) { d.queue = &framework.QueueAdmission{Reason: "QueueFull", Message: "full", Limit: -1} },
		"a plugin waits": func(d *desk) { d.preScorer.answer = awaits },
		"a plugin fails": func(d *desk) { d.preScorer.answer = fails },
		"Permit waits":   func(d *desk) { d.y.answer = awaits },
		"Permit fails":   func(d *desk) { d.y.answer = fails },
	} {
		t.Run(name, func(t *testing.T) {
			d, count := holdingC3(t)
			d.preScorer = &preScorer{bare: bare{"prescorer"}}
			d.restart()
			d.attemptUntilStable()
			then(d)
			d.answer("2", berthv1alpha1.Rejected)
			for range 20 {
				_, _ = d.try()
				d.later(24 * 3600)
			}
			if got := d.phase("2"); got == berthv1alpha1.PhaseHeld {
				t.Errorf("20 days after the rejection change 2 is %s, c3 counts %d, and the condition is %s: %s", got, count(), d.pending(), d.message())
			}
		})
	}
}

// TestHeldChangeExpiresWhileAttemptsFail: a held change ends at its deadline, also if each attempt
// since then fails.
func TestHeldChangeExpiresWhileAttemptsFail(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"Permit of the same change": func(d *desk) { d.y.answer = fails },
		"Permit of another change": func(d *desk) {
			d.add("c4")
			d.y.answer = fails
		},
		"before a decision": func(d *desk) { d.preScorer.answer = fails },
	} {
		t.Run(name, func(t *testing.T) {
			d, count := holdingC3(t)
			d.preScorer = &preScorer{bare: bare{"prescorer"}}
			d.restart()
			d.attemptUntilStable()
			then(d)
			for range 20 {
				d.later(24 * 3600)
				_, _ = d.try()
			}
			if got := d.phase("2"); got == berthv1alpha1.PhaseHeld {
				t.Errorf("after 20 days change 2 is %s until %s, and c3 counts %d", got, d.records["p-2"].Status.Holds[0].Until, count())
			}
		})
	}
}

// TestChangeThatEndsUndecided: once the record of a held change has ended although nothing was
// decided, the condition does not say that it is held, and HeldChanges does not list it.
func TestChangeThatEndsUndecided(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"expired, not admitted": func(d *desk) {
			d.queue = &framework.QueueAdmission{Reason: "QueueFull", Message: "full", Limit: -1}
			d.attemptUntilStable()
			d.later(3600)
		},
		"edited, and misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			then(d)
			for range 3 {
				d.attemptUntilStable()
			}
			if got := d.phase("2"); got == berthv1alpha1.PhaseHeld {
				t.Fatalf("change 2 is %s", got)
			}
			if got := d.pending(); got == "True/Held" {
				t.Errorf("change 2 is %s, and the condition is %s: %s", d.phase("2"), got, d.message())
			}
			if list := d.heldChanges.List(); len(list) > 0 {
				t.Errorf("change 2 is %s, and is listed as held", d.phase("2"))
			}
		})
	}
}

// TestRejectOfAnApprovedChange: a plugin that holds an approved change rejects it. If the approval
// counts more, the plugin can still allow it.
func TestRejectOfAnApprovedChange(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.x.answer = holds
	d.attemptUntilStable()
	d.approve("2")
	d.attemptUntilStable()
	d.reject("x") // It returns true.
	d.attemptUntilStable()
	if d.pending() == "True/Held" && (len(d.heldChanges.List()) == 0 || !d.heldChanges.Allow(d.placement.UID, "x")) {
		t.Errorf("x has rejected the change, which is neither rejected nor listed, and x cannot allow it: %s", d.message())
	}
}

// TestApprovedDoesNotExpire: a change that was approved, and that another plugin still holds,
// begins when that plugin permits it, however late.
func TestApprovedDoesNotExpire(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.x.answer = holds
	d.attemptUntilStable()
	d.approve("2")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
	for n := range 3 {
		d.later(2 * 3600)
		if n == 2 {
			d.restart()
		}
		d.attempt()
		d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
		const want = "Change 2 (1 added: c2, 0 removed) is held by x: not yet. It is approved"
		if record := d.records["p-2"]; d.message() != want || record.Status.Message != want || record.Status.Holds[0].Until != nil {
			t.Errorf("condition: %s\nrecord: %+v", d.message(), record.Status)
		}
	}
	d.allow("x", true)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 |  | ")
}

// TestHeldOverARestart: a held change that has been stable for the window is held after a restart,
// too, and the condition says how to approve it.
func TestHeldOverARestart(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.StabilizationWindowSeconds = berthv1alpha1.ApprovalRequired, 60
	})
	d.tier("silver", "a")
	d.attemptUntilStable()
	d.later(60)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [b c] | True/Held")
	d.restart()
	d.attemptUntilStable()
	if got := d.pending(); got != "True/Held" {
		t.Errorf("change 2 is %s, and the condition is %s: %s", d.phase("2"), got, d.message())
	}
}

// TestHintOfARejectedChange: the condition of a rejected change says how to approve it, also if
// another change was proposed when the rejection came.
func TestHintOfARejectedChange(t *testing.T) {
	for _, another := range []bool{false, true} {
		d := newDesk(t, ask(), "c1")
		d.attemptUntilStable()
		d.require()
		d.add("c2")
		d.attemptUntilStable()
		d.answer("2", berthv1alpha1.Rejected)
		if another {
			d.add("c3")
			d.attemptUntilStable()
			d.remove("c3")
		}
		d.attemptUntilStable()
		if got := d.message(); !strings.Contains(got, "kubectl placement approve placementchange/p-2 -n ns") {
			t.Errorf("another %t: %s: %s", another, d.pending(), got)
		}
	}
}

// TestLeavingClusterIsLast: with sortBy Score, a cluster that leaves keeps its last score, after
// the others.
func TestLeavingClusterIsLast(t *testing.T) {
	d := governed(t, 3, nothing)
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.SortBy = v1alpha1.SortByScore })
	d.attemptUntilStable()
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attempt()
	if got := d.published(); got != "p-decision-1: b c x a" {
		t.Errorf("a leaves, and published is %s", got)
	}
}
