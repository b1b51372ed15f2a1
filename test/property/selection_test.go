package property

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
)

// TestSelectionPolicies changes a hub with SelectionPolicies at random, decides all affected
// Placements, and compares each decision with the model of selection.md. Once none is affected, a
// decision of all Placements again must change nothing.
func TestSelectionPolicies(t *testing.T) {
	stats := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newSelectionWorld(t, stats)
		for range rapid.IntRange(3, 14).Draw(t, "changes") {
			for range oneOf(t, "events", 1, 1, 2, 4) {
				w.change()
			}
			w.decideAffected()
			w.checkQuiet()
		}
	})
	t.Logf("%v", stats)
	if flag.Lookup("rapid.checks").Value.String() != flag.Lookup("rapid.checks").DefValue {
		return
	}
	for _, what := range []string{"Published", "misconfigured", "without a required policy", "unmet", "failed writes", "quiet"} {
		if stats[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// change makes one change of users, clusters, time or the controller.
func (w *selectionWorld) change() {
	t := w.t
	switch oneOf(t, "change", "cluster", "cluster", "placement", "placement", "policy", "policy", "policy", "policy", "remove", "time", "time", "failback", "restart") {
	case "cluster":
		w.update(w.drawSelectionCluster(oneOf(t, "cluster", clusterNames...)))
	case "placement":
		w.update(w.drawSelectionPlacement())
	case "policy":
		policy := w.drawSelectionPolicy()
		if old, ok := w.objects[idOf(policy)].(*berthv1alpha1.SelectionPolicy); ok {
			policy.Status = old.Status
		}
		w.update(policy)
	case "remove":
		if o := w.removable(); o != nil {
			w.delete(o)
		}
	case "time":
		w.pass(oneOf(t, "time", time.Second, 30*time.Second, time.Minute, 5*time.Minute))
	case "failback":
		for _, o := range w.all() {
			if policy, ok := o.(*berthv1alpha1.SelectionPolicy); ok && len(policy.Spec.Tiers) > 0 {
				policy = policy.DeepCopy()
				policy.Annotations = map[string]string{berthv1alpha1.FailbackRequestedAnnotation: w.now.Format(time.RFC3339)}
				w.update(policy)
				return
			}
		}
	case "restart":
		w.log("restart")
		w.restart()
	}
}

func (w *selectionWorld) removable() client.Object {
	var all []client.Object
	for _, o := range w.all() {
		switch o.(type) {
		case *v1alpha1.ManagedCluster, *v1alpha1.Placement, *berthv1alpha1.SelectionPolicy:
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[pick(w.t, len(all))]
}

// pass lets time pass, and attempts what is due at its time.
func (w *selectionWorld) pass(d time.Duration) {
	w.decideAffected()
	w.log("%s pass", d)
	end := w.now.Add(d)
	for {
		next := end
		for _, at := range w.due {
			if at.Before(next) {
				next = at
			}
		}
		if next.After(w.now) {
			w.now = next
		}
		found := false
		for key, at := range w.due {
			if !at.After(w.now) {
				w.queue[key], found = true, true
			}
		}
		w.decideAffected()
		if !found && !w.now.Before(end) {
			return
		}
	}
}

// checkPage checks a page that is about to be written: Placements that are apart from each other
// never get a cluster in common, and no cluster is overcommitted by a Placement that joins.
func (w *selectionWorld) checkPage(page *v1alpha1.PlacementDecision) {
	key := w.deciding
	_, apart := w.affinityOf(key)
	listed := w.listed(key)
	for _, d := range page.Status.Decisions {
		w.written[d.ClusterName] = true
		if listed[d.ClusterName] || w.has[key][d.ClusterName] {
			continue
		}
		if w.lacksPolicy(key) {
			w.fail("%s gets %s without the policy that it requires", key, d.ClusterName)
		}
		for other := range apart {
			if w.listed(other)[d.ClusterName] {
				w.fail("%s joins %s on %s", key, other, d.ClusterName)
			}
		}
		cluster := w.objects[idOf(&v1alpha1.ManagedCluster{ObjectMeta: objectMeta("", d.ClusterName)})].(*v1alpha1.ManagedCluster)
		for name, sum := range w.requestsOf(key) {
			sum = sum.DeepCopy()
			for _, o := range w.all() {
				if pl, ok := o.(*v1alpha1.Placement); ok {
					other := inventory.Key{Namespace: pl.Namespace, Name: pl.Name}
					if amount := w.requestsOf(other)[name]; other != key && w.listed(other)[d.ClusterName] {
						sum.Add(amount)
					}
				}
			}
			if allocatable := cluster.Status.Allocatable[name]; sum.Cmp(allocatable) > 0 {
				w.fail("%s overcommits %s of %s: %s of %s", key, name, d.ClusterName, sum.String(), allocatable.String())
			}
		}
	}
}

// checkQuiet checks that nothing changes if all Placements are decided again, with what the
// controller remembers, and after a start with the objects in another order.
func (w *selectionWorld) checkQuiet() {
	w.stats["quiet"]++
	before := w.state()
	for _, key := range w.inv.Placements() {
		if a := w.attemptOne(key); a != nil && a.Step != nil && len(a.Step.Writes) > 0 {
			w.fail("%s was not affected, but its decision changes from %s", key, before)
		}
	}
	if after := w.state(); after != before {
		w.fail("nothing was affected, but the state changes\nfrom %s\nto   %s", before, after)
	}
	if oneOf(w.t, "start", false, false, false, true) {
		w.log("restart at a quiet point")
		w.restart()
		w.decideAffected()
		if after := w.state(); after != before {
			w.fail("a start with the objects in another order changes the state\nfrom %s\nto   %s", before, after)
		}
	}
	if len(w.queue) > 0 {
		w.fail("decisions without changes affect %v", slices.Collect(maps.Keys(w.queue)))
	}
}

// state is what readers see: conditions without messages, the status of policies, and pages. Why a
// Placement is short is as of its last attempt: another Placement that takes a cluster which this
// one could not have does not affect it.
func (w *selectionWorld) state() string {
	var state []string
	for _, o := range w.all() {
		switch o := o.(type) {
		case *v1alpha1.Placement:
			key := inventory.Key{Namespace: o.Namespace, Name: o.Name}
			satisfied := conditionOf(o.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
			for _, cause := range []string{v1alpha1.ReasonSpreadUnsatisfiable, v1alpha1.ReasonGroupUnsatisfiable, v1alpha1.ReasonNoManagedClusterMatched, v1alpha1.ReasonNotAllDecisionsScheduled} {
				satisfied = strings.Replace(satisfied, cause, "short", 1)
			}
			state = append(state, fmt.Sprint("\n  ", key, slices.Sorted(maps.Keys(w.listed(key))), satisfied,
				conditionOf(o.Status.Conditions, v1alpha1.PlacementConditionMisconfigured)))
		case *berthv1alpha1.SelectionPolicy:
			status := o.Status.DeepCopy()
			status.Unmet = slices.DeleteFunc(status.Unmet, func(u berthv1alpha1.UnmetGroup) bool { return strings.Contains(u.Relax, "maximum") })
			for i := range status.Unmet {
				status.Unmet[i].Relax = ""
			}
			for i := range status.Conditions {
				status.Conditions[i].ObservedGeneration = 0
			}
			state = append(state, "\n  "+o.Namespace+"/"+o.Name+text(status))
		}
	}
	return fmt.Sprint(state)
}
