package scheduler_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

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
		"the Placement becomes misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.require()
			d.add("c3")
			d.attemptUntilStable()
			count := func() int32 {
				s := d.snapshot()
				return s.Counts.ByIndex.Get(s.Cluster("c3").Index)
			}
			if count() != 1 {
				t.Fatal("the held change has no reservation")
			}
			end(d)
			d.attemptUntilStable()
			if n := count(); n != 0 {
				t.Errorf("c3 counts %d", n)
			}
		})
	}
}

// TestFailuresKeepReservations: an attempt that fails does not end an open change, so what was
// reserved for that stays.
func TestFailuresKeepReservations(t *testing.T) {
	broken := framework.AsStatus(errHubDown)
	for name, fails := range map[string]func(*desk){
		"Permit":                       func(d *desk) { d.x.answer = broken },
		"Reserve":                      func(d *desk) { d.fore.answer = broken },
		"Reserve waits":                func(d *desk) { d.fore.answer = awaits },
		"the write of a page":          func(d *desk) { d.approve("2"); d.pages.refuse = func(string) error { return errHubDown } },
		"the write of a removal alone": func(d *desk) { d.leaveSet("c1"); d.pages.refuse = func(string) error { return errHubDown } },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.require()
			d.add("c3")
			d.attemptUntilStable()
			count := func() int32 {
				s := d.snapshot()
				return s.Counts.ByIndex.Get(s.Cluster("c3").Index)
			}
			fails(d)
			for range 2 {
				_, _ = d.try()
				if n := count(); n != 1 {
					t.Errorf("c3 counts %d", n)
				}
			}
			d.x.answer, d.fore.answer, d.pages.refuse = nil, nil, nil
			d.leaveSet("c3")
			d.attemptUntilStable()
			if n := count(); n != 0 {
				t.Errorf("at the end c3 counts %d", n)
			}
		})
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
