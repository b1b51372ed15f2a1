package property

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSettledPlacementsStay decides and publishes Placements after random events, as the controller
// does. Each attempt that would be skipped runs all the same, and must not change the answer.
func TestSettledPlacementsStay(t *testing.T) {
	skipped := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := &settling{world: newWorld(), inv: inventory.New(inventory.Options{CheckSettled: true, OnSettled: func(n int) { skipped += n }}), engine: newScheduler(t, true)}
		s.begin(rt)
		for range rapid.IntRange(10, 60).Draw(rt, "events") {
			s.step(rt)
		}
	})
	if skipped < 100 {
		t.Errorf("only %d attempts would have been skipped", skipped)
	}
}

// reserving is a Placement that is never decided: its claims only change the counts.
var reserving = inventory.Key{Namespace: "others", Name: "reserving"}

// settling is an inventory whose Placements are decided when they are affected.
type settling struct {
	world  *world
	inv    *inventory.Inventory
	engine *scheduler.Scheduler
	writes int
	// waiting are affected Placements whose attempt is late.
	waiting []inventory.Key
}

// begin creates a fleet in which most Placements can be satisfied.
func (s *settling) begin(t *rapid.T) {
	s.inv.Update(fixture.Placement(reserving.Namespace, reserving.Name).Obj())
	for _, name := range setNames {
		s.feed(t, s.world.put(fixture.Set(name)))
	}
	s.feed(t, s.world.put(fixture.SelectorSet("all", &metav1.LabelSelector{})))
	for _, namespace := range namespaceNames {
		for _, set := range append(slices.Clone(setNames), "all") {
			s.feed(t, s.world.put(fixture.Binding(namespace, set)))
		}
	}
	for _, name := range clusterNames {
		s.feed(t, s.world.put(fixture.Cluster(name).Set(oneOf(t, "set", setNames...)).Label("a", oneOf(t, "a", values...)).
			Allocatable("memory", strconv.Itoa(10*rapid.IntRange(1, 9).Draw(t, "memory"))+"M").Obj()))
	}
	for _, namespace := range namespaceNames {
		for _, name := range placementNames {
			s.feed(t, s.world.put(drawPlainPlacement(t, namespace, name)))
		}
	}
}

// drawPlainPlacement returns a Placement without what keeps attempts from being skipped, in most
// cases.
func drawPlainPlacement(t *rapid.T, namespace, name string) *v1alpha1.Placement {
	if oneOf(t, "any", false, false, false, false, true) {
		pl := drawPlacement(t)
		pl.Namespace, pl.Name = namespace, name
		return pl
	}
	b := fixture.Placement(namespace, name)
	if oneOf(t, "number", true, true, false) {
		b = b.Number(rapid.Int32Range(0, 3).Draw(t, "numberOfClusters"))
	}
	if rapid.Bool().Draw(t, "predicate") {
		b = b.Predicate(oneOf(t, "match", fixture.MatchLabel("a", "x"), fixture.MatchLabelExpression("a", metav1.LabelSelectorOpNotIn, "y"),
			fixture.MatchClaim("k", metav1.LabelSelectorOpIn, "x")))
	}
	if rapid.Bool().Draw(t, "policy") {
		b = b.Mode(oneOf(t, "mode", "", v1alpha1.PrioritizerPolicyModeExact))
		for _, prioritizer := range []string{v1alpha1.PrioritizerBalance, v1alpha1.PrioritizerSteady, v1alpha1.PrioritizerResourceAllocatableMemory} {
			b = b.Prioritizer(prioritizer, rapid.Int32Range(-1, 5).Draw(t, "weight"))
		}
	}
	if oneOf(t, "tolerate", false, false, true) {
		b = b.Toleration("t", v1alpha1.TolerationOpExists, "", "")
		if rapid.Bool().Draw(t, "for a while") {
			b = b.Seconds(oneOf(t, "seconds", int64(10), 101))
		}
	}
	return b.Obj()
}

func (s *settling) step(t *rapid.T) {
	switch oneOf(t, "action", "edit", "edit", "edit", "edit", "edit", "edit", "cluster", "placement", "score", "page", "reserve", "remove", "late") {
	case "edit":
		s.edit(t)
	case "cluster":
		s.feed(t, s.world.put(drawCluster(t)))
	case "placement":
		key := drawKey(t)
		s.feed(t, s.world.put(drawPlainPlacement(t, key.Namespace, key.Name)))
	case "score":
		s.feed(t, s.world.put(drawScore(t)))
	case "page":
		// Decisions of others change the counts, without affecting any Placement here.
		page := fixture.Page("others", oneOf(t, "page", "a", "b")).Of("other").Lists(rapid.SliceOfN(rapid.SampledFrom(decidedNames), 0, 6).Draw(t, "decisions")...)
		s.feed(t, s.world.put(page.Obj()))
	case "reserve":
		s.inv.Claim(reserving, rapid.SliceOfN(rapid.SampledFrom(clusterNames), 0, 3).Draw(t, "clusters"))
	case "remove":
		if all := s.world.all(); len(all) > 0 && oneOf(t, "really", false, true) {
			s.feed(t, s.world.remove(all[pick(t, len(all))]))
		}
	case "late":
		late := s.waiting
		s.waiting = nil
		for _, key := range late {
			s.attempt(t, key)
		}
	}
}

// edit changes one property of a cluster.
func (s *settling) edit(t *rapid.T) {
	if c := s.world.drawEdit(t, fixture.At(0)); c != nil {
		s.feed(t, s.world.put(c))
	}
}

// drawEdit returns a cluster with one property changed; nil if there is no such cluster. Taints may
// be new.
func (w *world) drawEdit(t *rapid.T, now metav1.Time) *v1alpha1.ManagedCluster {
	known, ok := w.objects[idOf(fixture.Cluster(oneOf(t, "cluster", clusterNames...)).Obj())].(*v1alpha1.ManagedCluster)
	if !ok {
		return nil
	}
	c := known.DeepCopy()
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	switch oneOf(t, "property", "memory", "memory", "memory", "cpu", "no memory", "label", "claim", "taint", "no taints", "set") {
	case "memory":
		setAllocatable(c, "memory", strconv.Itoa(rapid.IntRange(10, 99).Draw(t, "memory"))+"M")
	case "cpu":
		setAllocatable(c, "cpu", strconv.Itoa(rapid.IntRange(10, 99).Draw(t, "cpu")))
	case "no memory":
		c.Status.Allocatable = nil
	case "label":
		c.Labels["a"] = oneOf(t, "a", values...)
	case "claim":
		c.Status.ClusterClaims = []v1alpha1.ManagedClusterClaim{{Name: "k", Value: oneOf(t, "claim", values...)}}
	case "taint":
		c.Spec.Taints = fixture.Cluster("c").TaintAt("t", "x", oneOf(t, "effect", v1alpha1.TaintEffectNoSelect,
			v1alpha1.TaintEffectNoSelectIfNew, v1alpha1.TaintEffectPreferNoSelect), oneOf(t, "added", fixture.At(-100), now, metav1.Time{})).Obj().Spec.Taints
	case "no taints":
		c.Spec.Taints = nil
	case "set":
		c.Labels[v1alpha1.ClusterSetLabel] = oneOf(t, "set", setNames...)
	}
	return c
}

func setAllocatable(c *v1alpha1.ManagedCluster, name v1alpha1.ResourceName, amount string) {
	for _, list := range []*v1alpha1.ResourceList{&c.Status.Allocatable, &c.Status.Capacity} {
		if *list == nil {
			*list = v1alpha1.ResourceList{}
		}
		(*list)[name] = resource.MustParse(amount)
	}
}

// feed passes an event to the inventory and decides the affected Placements, some of them later.
func (s *settling) feed(t *rapid.T, e event) {
	affected := s.inv.Update
	if e.deleted {
		affected = s.inv.Delete
	}
	for _, key := range affected(e.object) {
		if oneOf(t, "late", false, false, false, true) {
			s.waiting = append(s.waiting, key)
		} else {
			s.attempt(t, key)
		}
	}
}

// attempt decides a Placement and publishes the decision. In some cases an event happens meanwhile.
func (s *settling) attempt(t *rapid.T, key inventory.Key) {
	snapshot := s.inv.Snapshot(key, fixture.Now, nil)
	if snapshot == nil {
		return
	}
	r := s.engine.Decide(context.Background(), snapshot)
	defer s.engine.Release(r.Decision)
	if r.WronglySkipped() {
		t.Fatalf("the attempt for %s would have been skipped, but decides %v after %v: %v", key, r.Target, snapshot.Subject.LastNames(), r.Failure.Err())
	}
	if oneOf(t, "meanwhile", false, false, false, false, true) {
		s.edit(t)
	}
	if r.Target == nil {
		return
	}
	plan, err := lifecycle.Plan(r.State, r.Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range plan.Writes {
		write := lifecycle.PageWriteOf(r.Snapshot.Subject.Placement, w)
		s.writes++
		write.Page.UID = types.UID(fmt.Sprintf("%s/%s", write.Page.Namespace, write.Page.Name))
		s.inv.AssumePage(write.Page, write.Deleted)
	}
	if len(plan.Writes) > 0 || r.Snapshot.Subject.Last == nil {
		s.inv.SetPublished(r.Snapshot.Subject, &framework.Published{Names: r.Target.Clusters, Digest: r.Target.Digest})
		return
	}
	s.inv.Settle(snapshot, r.Proof())
}
