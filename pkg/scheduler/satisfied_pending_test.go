package scheduler_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSatisfiedDescribesWhatIsPublished: while a change is held, PlacementSatisfied is True only if
// the published clusters are what the current spec asks for.
func TestSatisfiedDescribesWhatIsPublished(t *testing.T) {
	const all = "True/AllDecisionsScheduled: All cluster decisions scheduled"
	number := func(n int32) func(d *desk) {
		return func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = &n })
		}
	}
	taint := func(d *desk, cluster string, effect v1alpha1.TaintEffect) {
		d.clusters[cluster] = fixture.Cluster(cluster).Set("s1").Label("zone", cluster[:1]).Taint("t", "", effect).Obj()
		d.inv.Update(d.clusters[cluster].DeepCopy())
	}
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		then      func(d *desk)
		want      string
	}{
		"more are wanted":  {ask().Number(2), number(3), "False/DecisionPending: Clusters published: 2, wanted: 3; see condition DecisionPending"},
		"fewer are wanted": {ask().Number(2), number(1), "False/DecisionPending: Clusters published: 2, wanted: 1, awaited: the removal of 1; see condition DecisionPending"},
		"none is wanted":   {ask().Number(2), number(0), "False/DecisionPending: Clusters published: 2, wanted: 0, awaited: the removal of 2; see condition DecisionPending"},
		"another is preferred, and those published still qualify": {ask().Number(2), func(d *desk) { taint(d, "a1", v1alpha1.TaintEffectPreferNoSelect) }, all},
		"another is needed, because one no longer qualifies": {ask().Number(2), func(d *desk) { taint(d, "a1", v1alpha1.TaintEffectNoSelect) },
			"False/DecisionPending: Clusters published: 2, wanted: 2, no longer qualified: 1; see condition DecisionPending"},
		"an edit asks for others": {ask().Number(2), func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Predicates = ask().Predicate(fixture.MatchCEL("managedCluster.metadata.name != 'a1'")).Obj().Spec.Predicates
			})
		}, "False/DecisionPending: Clusters published: 2, wanted: 2, no longer qualified: 1; see condition DecisionPending"},
		"all are wanted, and one is new": {ask(), func(d *desk) { d.add("c1") },
			"False/DecisionPending: Clusters published: 3, wanted: 4; see condition DecisionPending"},
		"an edit asks for spread": {ask().Number(2), func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.SpreadPolicy = ask().Spread("zone", 1, v1alpha1.DoNotSchedule).Obj().Spec.SpreadPolicy
			})
		}, "False/DecisionPending: Clusters published: 2, wanted: 2, violated: " +
			"spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1); see condition DecisionPending"},
		"an edit prefers spread": {ask().Number(2), func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.SpreadPolicy = ask().Spread("zone", 1, v1alpha1.ScheduleAnyway).Obj().Spec.SpreadPolicy
			})
		}, all},
		"the change leaves it short, too": {ask().Number(3), func(d *desk) { taint(d, "a1", v1alpha1.TaintEffectNoSelect) },
			"False/DecisionPending: Clusters published: 3, wanted: 3, no longer qualified: 1; see condition DecisionPending. " +
				"After the change: 1 cluster decisions unscheduled: of 3 candidates 1 excluded by TaintToleration"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tc.placement)
			for _, name := range []string{"a1", "a2", "b1"} {
				d.clusters[name] = fixture.Cluster(name).Set("s1").Label("zone", name[:1]).Obj()
				d.inv.Update(d.clusters[name].DeepCopy())
			}
			satisfied := func(when, want string) {
				t.Helper()
				c := d.condition(v1alpha1.PlacementConditionSatisfied)
				if got := fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message); got != want {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
				if c.ObservedGeneration != d.placement.Generation {
					t.Errorf("%s: observed generation %d of %d", when, c.ObservedGeneration, d.placement.Generation)
				}
			}
			d.attemptUntilStable()
			satisfied("before", all)
			d.x.answer = holds
			tc.then(d)
			d.attemptUntilStable()
			satisfied("held", tc.want)
		})
	}
}

// TestGroupsWhileHeld: an edit of the decision groups is published at once, also while the clusters
// wait.
func TestGroupsWhileHeld(t *testing.T) {
	d := newDesk(t, ask().Number(2), "c1", "c3")
	d.clusters["c2"] = fixture.Cluster("c2").Set("s1").Label("tier", "canary").Obj()
	d.inv.Update(d.clusters["c2"].DeepCopy())
	d.attemptUntilStable()
	d.x.answer = holds
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Spec.NumberOfClusters = new(int32(3))
		pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{{
			GroupName: "canary", ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}},
		}}
	})
	d.attemptUntilStable()
	d.expect("p-decision-1: c1, p-decision-2: c2 | [c1 c2 c3] | True/Held")
}
