package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEditsAreVoluntaryAfterAFailure: as TestEditsOfClustersThatLeaveAlready, "after a missing
// policy", with one failed attempt before the restart.
func TestEditsAreVoluntaryAfterAFailure(t *testing.T) {
	for name, fail := range map[string]func(d *desk){
		"no failure":   func(*desk) {},
		"Permit fails": func(d *desk) { d.fore.answer = framework.AsStatus(errHubDown); d.tryAndReport(); d.fore.answer = nil },
		"before the decision": func(d *desk) {
			d.preScorer.answer = framework.AsStatus(errHubDown)
			d.tryAndReport()
			d.preScorer.answer = nil
		},
		"the attempt must wait": func(d *desk) {
			a := d.scheduler.RemoveRevoked(d.t.Context(), key.Namespace, d.snapshot)
			d.recordAfter(a)
			report.SetConditions(a, &d.placement.Status.Conditions)
			d.inv.Update(d.placement.DeepCopy())
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.preScorer = &preScorer{bare: bare{"preScorer"}}
			d.restart()
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "team", Operator: v1alpha1.TolerationOpExists}}
			})
			d.steps()
			d.taintAt("a", "team", d.now)
			d.steps()
			d.later(60)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			d.placement.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "none"}
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.Tolerations = nil })
			d.steps()
			d.later(60)
			d.edit(func(pl *v1alpha1.Placement) { delete(pl.Annotations, v1alpha1.SelectionPolicyAnnotation) })
			fail(d)
			d.restart()
			d.steps()
			if got := d.names(); got != "a b c" {
				t.Errorf("suspended, and published %s: %+v", got, d.condition(v1alpha1.PlacementConditionDecisionProgressing))
			}
		})
	}
}

// TestTaintBeforeTheFirstDecision: a cluster whose toleration an edit removed leaves as the
// policies allow if it was tainted before the first decision after the edit.
func TestTaintBeforeTheFirstDecision(t *testing.T) {
	for _, tainted := range []string{"before the edit", "before the decision"} {
		t.Run(tainted, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "team", Operator: v1alpha1.TolerationOpExists}}
			})
			d.steps()
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			if tainted == "before the edit" {
				d.taintAt("a", "team", d.now)
				d.steps()
				d.later(60)
			}
			d.placement.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "none"}
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.Tolerations = nil })
			d.steps()
			d.later(60)
			if tainted == "before the decision" {
				d.taintAt("a", "team", d.now)
				d.steps()
				d.later(60)
			}
			d.edit(func(pl *v1alpha1.Placement) { delete(pl.Annotations, v1alpha1.SelectionPolicyAnnotation) })
			d.steps()
			if got := d.names(); got != "a b c" {
				t.Errorf("suspended, and published %s", got)
			}
		})
	}
}

// TestForcedBeforeAnInterruptedRecord: a removal that was forced stays so after an edit, also if
// the controller stopped before it wrote the first status of the record that says so.
func TestForcedBeforeAnInterruptedRecord(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
	d.tier("gold", "x")
	d.tier("silver", "c")
	d.steps()
	d.pages.refuse = func(string) error { return errRefused }
	d.taintAt("a", "team", d.now)
	d.try()
	record := d.newest().DeepCopy()
	if got := strings.Join(record.Spec.Forced, " "); got != "a" {
		t.Fatalf("the removal of %q is forced: %s", got, d.state())
	}
	record.Status = berthv1alpha1.PlacementChangeStatus{}
	if err := d.write(record); err != nil {
		t.Fatal(err)
	}
	d.restart()
	d.pages.refuse = nil
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "other", Operator: v1alpha1.TolerationOpExists}}
	})
	d.steps()
	if got := d.names(); got != "b c" {
		t.Errorf("published %s: %s", got, d.state())
	}
}

// TestRecordOfAForcedRemoval: the record of a forced removal alone says nothing of an edit whose
// change is not published, however the removal came about.
func TestRecordOfAForcedRemoval(t *testing.T) {
	for name, tc := range map[string]struct{ before, after func(d *desk) }{
		"its own change": {func(d *desk) {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
			})
			d.now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		}, func(*desk) {}},
		"without the record of the change": {func(d *desk) {
			d.refuseRecords = func(r *berthv1alpha1.PlacementChange) error {
				if r.Status.Phase == berthv1alpha1.PhasePublished {
					return nil
				}
				return errHubDown
			}
		}, func(d *desk) { d.refuseRecords = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			tc.before(d)
			d.tier("gold", "x")
			d.number(2, "eve")
			d.tier("silver", "a")
			d.remove("b")
			a, _ := d.try()
			if _, change, ok := a.History(); ok && d.records["p-2"] == nil {
				t.Logf("%+v", change)
				d.recordAfter(a)
			}
			record := d.records["p-2"]
			if record == nil || strings.Join(record.Spec.Removed, " ") != "b" {
				t.Fatalf("%s: %+v", d.state(), record)
			}
			if s := record.Spec; s.PlacementGeneration != 1 || s.Before != "" || s.By != "" {
				t.Errorf("only b was removed, and the record has generation %d, cause %q, before %q, by %q", s.PlacementGeneration, s.Cause, s.Before, s.By)
			}
			tc.after(d)
		})
	}
}

// TestRecordOfAHeldRemoval: the record of a revoked removal alone says nothing of an edit whose
// change is not published, also if a plugin held it.
func TestRecordOfAHeldRemoval(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprint("held ", held), func(t *testing.T) {
			d := newDesk(t, ask().Generation(1).Number(3), "c1", "c2", "c3")
			d.inv.Started()
			d.attemptUntilStable()
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.NumberOfClusters = new(int32(2))
				pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "none", berthv1alpha1.EditedByAnnotation: "2026-01-01T12:00:00Z eve"}
			})
			d.attemptUntilStable()
			if held {
				d.x.answer = holds
			}
			d.leaveSet("c1")
			d.attemptUntilStable()
			d.x.answer = nil
			d.attemptUntilStable()
			if got := d.published(); got != "p-decision-1: c2 c3" {
				t.Fatal(got)
			}
			if s := d.records["p-2"].Spec; s.PlacementGeneration != 1 || s.Before != "" || s.By != "" {
				t.Errorf("only c1 was removed, which is revoked, and the record has generation %d, cause %q, before %q, by %q", s.PlacementGeneration, s.Cause, s.Before, s.By)
			}
		})
	}
}

// TestEditedAfterARestart: a change after an edit counts as one also if the controller was
// restarted between the edit and the first attempt.
func TestEditedAfterARestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			d := newDesk(t, ask().Generation(1).Number(2), "c1", "c2")
			d.attemptUntilStable()
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
			if restart {
				d.restart()
			}
			d.attemptUntilStable()
			if s := d.records["p-2"].Spec; !s.Edited {
				t.Errorf("edited is %t, the generation published before is %d, that of the change %d", s.Edited, s.PublishedGeneration, s.PlacementGeneration)
			}
		})
	}
}

// TestCauseAfterAFailedWrite: a change keeps its cause if its first attempt fails.
func TestCauseAfterAFailedWrite(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := newDesk(t, ask().Generation(1).Toleration("slow", v1alpha1.TolerationOpExists, "", "").Seconds(60), "a", "b")
		d.inv.Started()
		d.taintAt("a", "slow", d.now)
		d.attemptUntilStable()
		d.inv.ClearCause(d.snapshot())
		d.attempt()
		d.later(60)
		if fails {
			d.pages.refuse = func(string) error { return errRefused }
			_, _ = d.try()
			d.pages.refuse = nil
		}
		d.attemptUntilStable()
		if d.records["p-2"] == nil {
			t.Fatal(d.state())
		}
		if got := d.records["p-2"].Spec.Cause; got == "retry" {
			t.Errorf("fails %t: the cause is %q", fails, got)
		} else {
			t.Log(got)
		}
	}
}

// TestLayoutAfterALateApproval: an edited decision is laid out afresh, with as few groups as it
// needs, also if its change was rejected, and approved after a restart.
func TestLayoutAfterALateApproval(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			var names []string
			for i := range 100 {
				names = append(names, fmt.Sprintf("c%03d", i))
			}
			d := newDesk(t, ask().Generation(1))
			d.placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(20)
			d.restart()
			d.add(names...)
			d.attemptUntilStable()
			d.require()
			for i := range 100 {
				d.clusters[names[i]].Labels["pool"] = map[bool]string{true: "in", false: "out"}[i%5 == 0]
				d.inv.Update(d.clusters[names[i]].DeepCopy())
			}
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Predicates = fixture.Placement("ns", "p").Predicate(fixture.MatchLabel("pool", "in")).Obj().Spec.Predicates
			})
			d.attemptUntilStable()
			d.refuseIt()
			d.attemptUntilStable()
			if restart {
				d.restart()
				d.attemptUntilStable()
			}
			d.approve("2")
			d.attemptUntilStable()
			groups := map[string]bool{}
			for _, page := range d.own() {
				groups[page.Labels[v1alpha1.DecisionGroupIndexLabel]] = true
			}
			if len(groups) != 1 {
				t.Errorf("20 clusters are in %d groups, one has room for all", len(groups))
			}
		})
	}
}
