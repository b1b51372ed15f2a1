package scheduler_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// holdingC3 returns a desk where c3 is reserved for a held change, and the number of decisions that
// count for c3.
func holdingC3(t *testing.T) (d *desk, count func() int32) {
	t.Helper()
	d = newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.require()
	d.add("c3")
	d.attemptUntilStable()
	count = func() int32 {
		s := d.snapshot()
		return s.Counts.ByIndex.Get(s.Cluster("c3").Index)
	}
	if count() != 1 {
		t.Fatal("the held change has no reservation")
	}
	return d, count
}

// TestReservationsEnd: what was reserved for a held change is given back, however the change ends.
func TestReservationsEnd(t *testing.T) {
	for name, end := range map[string]func(*desk){
		"nothing changes any more": func(d *desk) { d.leaveSet("c3") },
		"after a removal alone": func(d *desk) {
			d.leaveSet("c1")
			d.attempt()
			d.leaveSet("c3")
		},
		"after a removal alone that failed": func(d *desk) {
			d.x.ofRevoked = framework.AsStatus(errHubDown)
			d.leaveSet("c1")
			_, _ = d.try()
			d.x.ofRevoked = nil
			d.inv.Update(fixture.Cluster("c1").Set("s1").Obj())
			d.leaveSet("c3")
		},
		"it is denied, and a removal alone failed": func(d *desk) {
			d.x.answer, d.x.ofRevoked = refuses, framework.AsStatus(errHubDown)
			d.leaveSet("c1")
			_, _ = d.try()
			d.x.answer, d.x.ofRevoked = nil, nil
			d.inv.Update(fixture.Cluster("c1").Set("s1").Obj())
			d.leaveSet("c3")
		},
		"the Placement becomes misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, count := holdingC3(t)
			end(d)
			d.attemptUntilStable()
			if n := count(); n != 0 {
				t.Errorf("c3 counts %d", n)
			}
		})
	}
}

// TestFailuresKeepReservations: an attempt that fails, or decides nothing, does not end an open
// change, so what was reserved for that stays.
func TestFailuresKeepReservations(t *testing.T) {
	broken := framework.AsStatus(errHubDown)
	for name, fails := range map[string]func(*desk){
		"Permit":                     func(d *desk) { d.x.answer = broken },
		"Reserve":                    func(d *desk) { d.fore.answer = broken },
		"Reserve waits":              func(d *desk) { d.fore.answer = awaits },
		"Permit of the next change":  func(d *desk) { d.add("c4"); d.x.answer = broken },
		"Reserve of the next change": func(d *desk) { d.add("c4"); d.fore.answer = broken },
		"Permit of a removal alone": func(d *desk) {
			d.x.answer, d.x.ofRevoked = refuses, framework.AsStatus(errHubDown)
			d.leaveSet("c1")
		},
		"no decision": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "missing"}
			})
		},
		"the write of a page":          func(d *desk) { d.approve("2"); d.pages.refuse = func(string) error { return errRefused } },
		"the write of a removal alone": func(d *desk) { d.leaveSet("c1"); d.pages.refuse = func(string) error { return errRefused } },
	} {
		t.Run(name, func(t *testing.T) {
			d, count := holdingC3(t)
			fails(d)
			for range 2 {
				_, _ = d.try()
				if n := count(); n != 1 {
					t.Errorf("c3 counts %d", n)
				}
			}
			d.x.answer, d.x.ofRevoked, d.fore.answer, d.pages.refuse = nil, nil, nil, nil
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })
			d.leaveSet("c3")
			d.attemptUntilStable()
			if n := count(); n != 0 {
				t.Errorf("at the end c3 counts %d", n)
			}
		})
	}
}

// TestFailuresKeepReservationsOfSteps: neither do they end a change in progress.
func TestFailuresKeepReservationsOfSteps(t *testing.T) {
	broken := framework.AsStatus(errHubDown)
	for name, fails := range map[string]func(*desk){
		"Transition":                func(d *desk) { d.fore.ofTransition = broken },
		"Score":                     func(d *desk) { d.preScorer.answer = awaits },
		"Permit of the next change": func(d *desk) { d.tier("gold", "a"); d.x.answer = broken },
		"the record of the rest": func(d *desk) {
			d.leaveSet("c")
			d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
			d.pages.refuse = func(string) error { return errRefused }
		},
		"Transition of the next change": func(d *desk) {
			d.tier("gold", "a")
			d.fore.ofTransition = broken
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 0, nothing)
			d.arguments, d.preScorer = map[string]string{"BlastRadius": `{"maxRemoved": 3, "settle": "0s"}`}, &preScorer{bare: bare{"pre"}}
			d.restart()
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 60 })
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			d.expect("p-decision-1: a b c x | [c x y] | ")
			count := func() int32 {
				s := d.snapshot()
				return s.Counts.ByIndex.Get(s.Cluster("y").Index)
			}
			fails(d)
			for range 2 {
				_, _ = d.try()
				if n := count(); n != 1 || d.phase("2") != berthv1alpha1.PhaseProgressing {
					t.Errorf("y counts %d while the change is %s", n, d.phase("2"))
				}
			}
			d.x.answer, d.fore.ofTransition, d.preScorer.answer = nil, nil, nil
			d.refuseRecords, d.pages.refuse = nil, nil
			d.tier("gold", "a", "b")
			d.tier("silver", "x", "y")
			d.attemptUntilStable()
			if n := count(); n != 0 {
				t.Errorf("at the end y counts %d", n)
			}
		})
	}
}

// TestRevokedLeaveWhileTransitionFails: as they do while Permit fails.
func TestRevokedLeaveWhileTransitionFails(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.fore.ofTransition = framework.AsStatus(errHubDown)
	d.add("c3")
	d.leaveSet("c1")
	_, _ = d.try()
	if got := d.published(); got != "p-decision-1: c2" {
		t.Errorf("published %q", got)
	}
}

// TestPagesOfAFailedScore: an attempt that fails before it has scores publishes the pages that were
// edited again, and reports that without scores.
func TestPagesOfAFailedScore(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.preScorer = &preScorer{bare{"pre"}, framework.AsStatus(errHubDown)}
	d.restart()
	for _, refused := range []bool{true, false} {
		d.pages.refuse = nil
		d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool { page.Status.Decisions = nil; return true })
		if refused {
			d.pages.refuse = func(string) error { return errRefused }
		}
		a, _ := d.try()
		for _, event := range report.Writes(a) {
			if event.Reason == "ScoreUpdate" {
				t.Errorf("an event with the scores %q", event.Note)
			}
		}
	}
	if got := d.published(); got != "p-decision-1: c1 c2" {
		t.Errorf("published %q", got)
	}
}

// TestPagesAreRestoredWhilePermitFails: an error of a plugin does not leave pages as another client
// edited them.
func TestPagesAreRestoredWhilePermitFails(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.add("c3")
	d.x.answer = framework.AsStatus(errHubDown)
	d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool { page.Status.Decisions = nil; return true })
	if _, failure := d.try(); failure.IsSuccess() {
		t.Error("the attempt succeeded")
	}
	if got := d.published(); got != "p-decision-1: c1 c2" {
		t.Errorf("published %q", got)
	}
}

// TestPanicOfAHoldingPlugin: a plugin that panics when it is asked about an approval fails the
// attempt, and nothing else.
func TestPanicOfAHoldingPlugin(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer, d.x.panicsApproved = holds, true
	d.add("c2")
	if a := d.attempt(); a.Outcome != plan.Held {
		t.Errorf("the outcome is %s", a.Outcome)
	}
}

// TestHeldChangeKeepsQuota: a removal beside a held change frees nothing of its quota.
func TestHeldChangeKeepsQuota(t *testing.T) {
	f := newFleetAtRest(t, true, nil, nil)
	p0, p1 := inventory.Key{Namespace: "ns", Name: "p0"}, inventory.Key{Namespace: "ns", Name: "p1"}
	f.update(fixture.Placement("ns", "p1").Number(1).Obj())
	f.run(20)
	published := f.inv.Subject(p1).LastNames()
	f.gate.answer, f.gate.ofRevoked = framework.NewStatus(framework.Wait, "not yet"), framework.NewStatus(framework.Success, "")
	f.update(fixture.Placement("ns", "p1").Number(2).Generation(2).Obj())
	f.run(20)
	f.update(fixture.Placement("ns", "p0").Number(2).Obj())
	f.run(20)
	f.enqueue(f.inv.Update(fixture.Cluster(published[0]).Obj()))
	delete(f.due, p0)
	f.attempt(p1)
	f.run(20)
	if f.outcomes[p0] != plan.Unchanged || f.outcomes[p1] != plan.Held {
		t.Errorf("got %v, want p0 Unchanged and p1 Held", f.outcomes)
	}
}

// TestEditOutlivesRestart: an edit whose change is held over a restart still merges the groups that
// it permits to be one.
func TestEditOutlivesRestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		d := newDesk(t, ask().Generation(1), "c1", "c2", "c3", "c4")
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(2)
		})
		d.attemptUntilStable()
		d.require()
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.Predicates = make([]v1alpha1.ClusterPredicate, 1)
			pl.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "gone", Operator: metav1.LabelSelectorOpDoesNotExist}}
		})
		for _, name := range []string{"c2", "c4"} {
			d.clusters[name].Labels["gone"] = ""
			d.inv.Update(d.clusters[name].DeepCopy())
		}
		d.attemptUntilStable()
		if restart {
			d.restart()
			d.attemptUntilStable()
		}
		d.approve(d.revision())
		d.attemptUntilStable()
		for _, page := range d.own() {
			if index := page.Labels[v1alpha1.DecisionGroupIndexLabel]; index != "0" {
				t.Errorf("restart %t: page %s has the group index %s", restart, page.Name, index)
			}
		}
	}
}

// TestFailuresKeepTheDelayOfTimeouts: a failed step never shortens the delay after a timeout.
func TestFailuresKeepTheDelayOfTimeouts(t *testing.T) {
	s, _, _ := probing(t, "a", map[string]*framework.Status{"Bind a": framework.AsStatus(errHubDown)})
	clock := slowly(s, "Filter", 100*time.Millisecond)
	inv := fleet(ask().Generation(1), fixture.Cluster("1"))
	for range 5 {
		a := s.Attempt(t.Context(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		if got, want := s.AttemptDelay(inv.Placement(key)), a.State.Requeue().Sub(fixture.Now); got != want {
			t.Errorf("waits %s, want %s", got, want)
		}
		clock.Step(5 * time.Minute)
	}
}
