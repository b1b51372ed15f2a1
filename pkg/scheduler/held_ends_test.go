package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestHoldWithoutTime: a fleet whose plugin holds a change for no time comes to rest.
func TestHoldWithoutTime(t *testing.T) {
	f := newFleetAtRest(t, false, framework.NewStatus(framework.Wait, "not yet"), nil)
	f.gate.timeout = 0
	f.store(fixture.Placement("ns", "p0").Number(1).Obj())
	if n := f.run(60); n == 60 {
		t.Errorf("%d attempts, and no end: %v, records %v", n, f.outcomes, f.records)
	}
}

// TestRejectionWhileUndecided: a held change that a user rejects ends, as it would at its
// deadline, also while nothing is decided or Permit fails.
func TestRejectionWhileUndecided(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"decided": func(*desk) {},
		"not admitted": func(d *desk) {
			d.queue = &framework.QueueAdmission{Reason: "NoRuleMatched", Message: "no rule", Limit: -1}
		},
		"policy missing": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "tiers"}
			})
		},
		"Permit fails": func(d *desk) { d.y.answer = framework.AsStatus(errors.New("broken")) },
		"Permit waits": func(d *desk) { d.y.answer = awaits },
	} {
		for _, rejects := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", rejected ", rejects), func(t *testing.T) {
				d, count := holdingC3(t)
				if rejects {
					d.refuseIt()
				}
				then(d)
				for range 20 {
					d.later(24 * 3600)
					d.tryAndReport()
				}
				if got := d.phase("2"); got == berthv1alpha1.PhaseHeld && (rejects || name != "decided") {
					t.Errorf("after 20 days change 2 is %s, c3 counts %d, and the condition is %s: %s", got, count(), d.pending(), d.message())
				}
			})
		}
	}
}

// TestHeldChangeExpiresWhilePluginsFail: the deadline of a held change passes also while a plugin
// fails before the decision, as while Permit fails.
func TestHeldChangeExpiresWhilePluginsFail(t *testing.T) {
	for name, fail := range map[string]func(d *desk){
		"Permit":   func(d *desk) { d.y.answer = framework.AsStatus(errors.New("broken")) },
		"PreScore": func(d *desk) { d.preScorer.answer = framework.AsStatus(errors.New("broken")) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.preScorer = &preScorer{bare: bare{"preScorer"}}
			d.restart()
			d.attemptUntilStable()
			d.require()
			d.add("c3")
			d.attemptUntilStable()
			fail(d)
			for range 20 {
				d.later(24 * 3600)
				d.tryAndReport()
			}
			if got := d.phase("2"); got != berthv1alpha1.PhaseExpired {
				t.Errorf("after 20 days change 2 is %s: %s", got, d.message())
			}
		})
	}
}

// TestReservationWhilePreScoreWaits: a change that waits, or whose record could not be written,
// keeps its claim when an attempt decides nothing because a plugin waits for a fact.
func TestReservationWhilePreScoreWaits(t *testing.T) {
	for name, answer := range map[string]*framework.Status{
		"fails": framework.AsStatus(errHubDown), "waits": awaits,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.preScorer = &preScorer{bare: bare{"preScorer"}}
			d.restart()
			d.attemptUntilStable()
			d.x.answer = awaits
			d.add("c3")
			d.attempt()
			count := func() int32 { s := d.snapshot(); return s.Counts.ByIndex.Get(s.Cluster("c3").Index) }
			if count() != 1 {
				t.Fatal(count())
			}
			d.preScorer.answer = answer
			a, _ := d.try()
			if a.Outcome != plan.Undecided {
				t.Fatal(a.Outcome)
			}
			if got := count(); got != 1 {
				t.Errorf("the change waits, and c3 counts %d", got)
			}
		})
	}
}

// TestConditionOfAChangeThatExpiredUndecided: the condition of a held change that expires while
// nothing is decided does not say that it is held.
func TestConditionOfAChangeThatExpiredUndecided(t *testing.T) {
	d, _ := holdingC3(t)
	d.queue = &framework.QueueAdmission{Reason: "NoRuleMatched", Message: "no rule", Limit: -1}
	d.later(8 * 24 * 3600)
	for range 3 {
		d.tryAndReport()
	}
	if got := d.phase("2"); got != berthv1alpha1.PhaseExpired {
		t.Fatal(got)
	}
	if got := d.pending(); got == "True/Held" {
		t.Errorf("the change has expired, and the condition is %s: %s", got, d.message())
	}
	if got := d.heldChanges.List(); len(got) > 0 {
		t.Errorf("plugins see it as held: %v", got)
	}
}

// TestConditionOfARejectionWithoutPages: once the record says that a change was rejected or has
// expired, the condition does not say that it is held, also if pages cannot be written.
func TestConditionOfARejectionWithoutPages(t *testing.T) {
	for name, end := range map[string]func(d *desk){
		"rejected": (*desk).refuseIt,
		"expired":  func(d *desk) { d.later(8 * 24 * 3600) },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := holdingC3(t)
			end(d)
			d.meddle("p-decision-1", func(*v1alpha1.PlacementDecision) bool { return false })
			d.pages.refuse = func(string) error { return errRefused }
			for n := range 3 {
				d.tryAndReport()
				if got := d.pending(); d.phase("2") != berthv1alpha1.PhaseHeld && got == "True/Held" {
					t.Errorf("attempt %d: change 2 is %s, and the condition is %s: %s", n+1, d.phase("2"), got, d.message())
				}
			}
		})
	}
}

// TestNewEventOfAHold: the event about a held change is sent once, also if what the plugin says
// of it changes.
func TestNewEventOfAHold(t *testing.T) {
	d := holding(t)
	d.x.answer = framework.NewStatus(framework.Wait, "not yet, 2 of 3")
	if a := d.attempt(); report.IsNewOutcome(a) {
		t.Error("the hold is announced again")
	}
}

// TestAnswersWithoutRecords: without records, an answer of a plugin and a deadline stay while the
// process runs.
func TestAnswersWithoutRecords(t *testing.T) {
	held := func(t *testing.T) *desk {
		d := newDesk(t, ask(), "c1")
		d.scheduler.WriteRecordsBefore = nil
		d.attempt()
		d.records = map[string]*berthv1alpha1.PlacementChange{}
		d.add("c2")
		d.x.answer = holds
		d.attempt()
		if d.pending() != "True/Held" {
			t.Fatal(d.state())
		}
		return d
	}
	t.Run("the answer, after a plugin waited", func(t *testing.T) {
		d := held(t)
		d.allow("x", true)
		d.y.answer = awaits
		d.attempt()
		d.y.answer = nil
		d.attempt()
		if got := d.published(); got != "p-decision-1: c1 c2" {
			t.Errorf("x allowed the change, and it is %s", d.pending())
		}
	})
	t.Run("a change that has expired", func(t *testing.T) {
		d := held(t)
		d.later(3600)
		for range 3 {
			d.attempt()
			if got := d.pending(); got != "False/Expired" {
				t.Errorf("the change is %s: %s", got, d.message())
			}
			d.allow("x", false)
			if list := d.heldChanges.List(); len(list) > 0 {
				t.Errorf("listed as held: %+v", list)
			}
			d.later(3600)
		}
		d.add("c3")
		d.attempt()
		if got := d.pending(); got != "True/Held" {
			t.Errorf("another change is %s: %s", got, d.message())
		}
	})
	t.Run("the deadline, after a plugin waited", func(t *testing.T) {
		d := held(t)
		d.later(1800)
		d.y.answer = awaits
		d.attempt()
		d.y.answer = nil
		a := d.attempt()
		if got := a.Holds[0].Until.Time; !got.Equal(fixture.Now.Add(time.Hour)) {
			t.Errorf("the hold of an hour began at %s, and ends at %s", fixture.Now, got)
		}
	})
}

// TestExpiredBeforeItsRecord: a held change whose record could not be written until it expired gets
// one, which can be approved.
func TestExpiredBeforeItsRecord(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	write := d.scheduler.WriteRecordsBefore
	d.scheduler.WriteRecordsBefore = func(context.Context, *scheduler.Attempt) error { return errHubDown }
	d.x.answer, d.x.approvable = holds, true
	d.add("c2")
	d.try()
	d.scheduler.WriteRecordsBefore = write
	d.later(3600)
	d.attemptUntilStable()
	if got := d.pending(); got != "False/Expired" || d.phase("2") != berthv1alpha1.PhaseExpired {
		t.Errorf("the change is %s, and its record %q: %s", got, d.phase("2"), d.message())
	}
	d.approve("2")
	d.attemptUntilStable()
	if got := d.published(); got != "p-decision-1: c1 c2" {
		t.Errorf("approved, and published is %s: %s", got, d.message())
	}
}

// TestDeadlineOfAHoldWithoutStatus: a hold began with the first attempt also if the record could be
// created, but its status not written.
func TestDeadlineOfAHoldWithoutStatus(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	write := d.scheduler.WriteRecordsBefore
	d.scheduler.WriteRecordsBefore = func(_ context.Context, a *scheduler.Attempt) error {
		for _, record := range a.Records.Before {
			created := record.DeepCopy()
			created.Status = berthv1alpha1.PlacementChangeStatus{}
			if err := d.write(created); err != nil {
				return err
			}
		}
		return errHubDown
	}
	d.x.answer = holds
	d.add("c2")
	d.try()
	d.scheduler.WriteRecordsBefore = write
	d.later(1800)
	a := d.attempt()
	if got := a.Holds[0].Until.Time; !got.Equal(fixture.Now.Add(time.Hour)) {
		t.Errorf("the hold of an hour began at %s, and ends at %s", fixture.Now, got)
	}
}

// TestDecidedAgainAfterTheEndOfAChange: a cluster that was selected only because the open change
// adds it is not selected any more after the change was rejected.
func TestDecidedAgainAfterTheEndOfAChange(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer = holds
	d.add("c2")
	d.attemptUntilStable()
	d.clusters["c2"] = fixture.Cluster("c2").Set("s1").Taint("full", "", v1alpha1.TaintEffectNoSelectIfNew).Obj()
	d.inv.Update(d.clusters["c2"])
	d.attemptUntilStable()
	if got := d.held(); got != "[c1 c2]" {
		t.Fatalf("the open change leads to %s: %s", got, d.message())
	}
	d.answer("2", berthv1alpha1.Rejected)
	if a := d.attemptUntilStable(); a.Outcome != plan.Unchanged || d.pending() != "" {
		t.Errorf("the outcome is %s, and c2 is still wanted: %s", a.Outcome, d.pending())
	}
}

// TestHeldAfterAPluginWaited: a held change whose record is open is reported as Held while the
// Placement is misconfigured, also if a plugin waited before the decision in between.
func TestHeldAfterAPluginWaited(t *testing.T) {
	for _, waits := range []bool{false, true} {
		d := newDesk(t, ask(), "c1")
		d.preScorer = &preScorer{bare: bare{"preScorer"}}
		d.restart()
		d.attemptUntilStable()
		d.require()
		d.add("c2")
		d.attempt()
		if waits {
			d.preScorer.answer = awaits
			d.attempt()
			d.preScorer.answer = nil
		}
		d.pin("no")
		d.attempt()
		if got := d.pending(); got != "True/Held" {
			t.Errorf("waits %t: change %s is %s, and DecisionPending is %q", waits, d.revision(), d.phase(d.revision()), got)
		}
	}
}

// TestPinAfterALostRecord: a revision that cannot be computed, because the record of the last
// change was lost with the process that published it, is a mistake, and not awaited.
func TestPinAfterALostRecord(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.add("c2")
	d.attemptUntilStable()
	delete(d.records, "p-2")
	d.restart()
	d.attemptUntilStable()
	d.pin("1")
	a := d.attempt()
	if c := d.condition(v1alpha1.PlacementConditionMisconfigured); c == nil || c.Status != "True" || !a.State.Requeue().IsZero() {
		t.Errorf("Misconfigured is %+v, and the next attempt is at %s", c, a.State.Requeue())
	}
}
