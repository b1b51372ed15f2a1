package scheduler_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestPagesAreRepairedWhileNothingCanBeDecided: while an attempt fails, the last decision stays
// published, also where another client changes or deletes its pages.
func TestPagesAreRepairedWhileNothingCanBeDecided(t *testing.T) {
	damages := map[string]func(*v1alpha1.PlacementDecision) bool{
		"a page is deleted": func(*v1alpha1.PlacementDecision) bool { return false },
		"a page is emptied": func(page *v1alpha1.PlacementDecision) bool { page.Status.Decisions = nil; return true },
		"a name is added": func(page *v1alpha1.PlacementDecision) bool {
			page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c9"})
			return true
		},
	}
	failures := map[string]func(d *desk){
		"misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		},
		"its profile does not exist": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"} })
		},
	}
	for damaged, damage := range damages {
		for failed, fail := range failures {
			t.Run(damaged+", "+failed, func(t *testing.T) {
				d := newDesk(t, ask(), "c1", "c2")
				d.attemptUntilStable()
				fail(d)
				d.attempt()
				d.expect("p-decision-1: c1 c2 |  | ")
				d.meddle("p-decision-1", damage)
				d.attempt()
				d.expect("p-decision-1: c1 c2 |  | ")
				d.pages.writes = nil
				d.attempt()
				if len(d.pages.writes) > 0 {
					t.Errorf("repaired pages were written again: %q", d.pages.writes)
				}
			})
		}
	}
}

// TestNoEmptyPageReplacesAForgottenAnswer: the status says that clusters were published, the pages
// are gone, and nothing can be decided: consumers see no page rather than an empty answer.
func TestNoEmptyPageReplacesAForgottenAnswer(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.placement.Status.NumberOfSelectedClusters = 1
	d.placement.Status.DecisionGroups = []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 1}}
	d.placement.Spec.PrioritizerPolicy.Mode = "Fuzzy"
	delete(d.pages.pages, inventory.Key{Namespace: "ns", Name: "p-decision-1"})
	clear(d.records)
	d.restart()
	d.attemptUntilStable()
	d.expect(" |  | ")
}

// TestGroupsStayWhileTheirStrategyIsInvalid: readers of a decision group do not miss a cluster that
// stays, though nothing says any more how clusters are divided into groups.
func TestGroupsStayWhileTheirStrategyIsInvalid(t *testing.T) {
	p := ask().Obj()
	canary := v1alpha1.DecisionGroup{GroupName: "canary"}
	canary.ClusterSelector.LabelSelector.MatchLabels = map[string]string{"ring": "canary"}
	p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{canary}
	for name, change := range map[string]func(d *desk){
		"a cluster has to leave": func(d *desk) { d.leaveSet("c4") },
		"a page is deleted": func(d *desk) {
			d.meddle("p-decision-3", func(*v1alpha1.PlacementDecision) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2", "c3", "c4")
			d.placement.Spec = *p.Spec.DeepCopy()
			d.placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(2)
			d.clusters["c1"].Labels["ring"] = "canary"
			d.restart()
			d.attemptUntilStable()
			before := d.groups()
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("many")
			})
			d.attemptUntilStable()
			change(d)
			d.attemptUntilStable()
			if name == "a cluster has to leave" {
				delete(before, "c4")
			}
			if diff := cmp.Diff(before, d.groups()); diff != "" {
				t.Errorf("groups by cluster (-before +after):\n%s", diff)
			}
		})
	}
}

// groups are the decision groups by cluster: "canary 0".
func (d *desk) groups() map[string]string {
	groups := map[string]string{}
	for _, page := range d.pages.pages {
		for _, e := range page.Status.Decisions {
			groups[e.ClusterName] = page.Labels[v1alpha1.DecisionGroupNameLabel] + " " + page.Labels[v1alpha1.DecisionGroupIndexLabel]
		}
	}
	return groups
}

// TestClustersThatAreGoneAreHeld: clusters that are deleted from the hub, or are being deleted, are
// no lost right: what needs approval waits for it.
func TestClustersThatAreGoneAreHeld(t *testing.T) {
	for name, lose := range map[string]func(*desk){
		"deleted":       func(d *desk) { d.remove("c1") },
		"being deleted": func(d *desk) { d.terminate("c1") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.require()
			d.attemptUntilStable()
			lose(d)
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 | [c2] | True/Held")
		})
	}
}

// TestErrorsOfForcedRemovalsAreReported: a plugin that fails on a forced removal fails the attempt,
// which is repeated.
func TestErrorsOfForcedRemovalsAreReported(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
	d.leaveSet("c1")
	d.x.answer = framework.AsStatus(errors.New("unreachable"))
	if _, failure := d.try(); failure.IsSuccess() {
		t.Error("the attempt succeeded")
	}
	d.expect("p-decision-1: c1 c2 |  | ")
	d.x.answer = nil
	d.attemptUntilStable()
	d.expect("p-decision-1: c2 |  | ")
}

// TestQueueConditionEndsWithQueues: where no queues are configured, no condition mentions them.
func TestQueueConditionEndsWithQueues(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	v1alpha1.SetCondition(&d.placement.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionQueueAdmitted, Status: metav1.ConditionTrue, Reason: "Placed", Message: "queue root.a",
	})
	d.inv.Update(d.placement.DeepCopy())
	d.attemptUntilStable()
	if c := d.condition(v1alpha1.PlacementConditionQueueAdmitted); c != nil {
		t.Errorf("still there: %+v", c)
	}
}
