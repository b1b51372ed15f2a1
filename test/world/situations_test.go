package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// situations are several steps in a row, which single steps seldom bring about. Only some worlds
// have them, so that those with the other seeds stay as they are.
var situations = map[string]func(a *actor){
	"loss in steps": lossInSteps, "records refused": recordsRefused, "forced and edited": forcedAndEdited, "gate": shutGate,
	"clocks": setClocks, "back and forth": backAndForth,
}

// hasSituations reports whether a world has situations.
func hasSituations(seed uint64) bool { return seed%4 == 3 }

// withSituations adds situations to the steps of a world.
func withSituations(seed uint64, steps []step) []step {
	random := rand.New(rand.NewPCG(seed, 3))
	names := []string{"loss in steps", "loss in steps", "records refused", "forced and edited", "gate", "clocks", "back and forth"}
	for range 2 + random.IntN(4) {
		what := names[random.IntN(len(names))]
		s := step{time.Duration(random.Int64N(int64(time.Minute))), what, random.Uint64()}
		steps = slices.Insert(steps, random.IntN(len(steps)+1), s)
	}
	return steps
}

// wait waits for a random time.
func (a *actor) wait(longest time.Duration) {
	time.Sleep(time.Duration(a.random.Int64N(int64(longest))))
}

// govern replaces the DisruptionPolicy.
func (a *actor) govern(what string, spec berthv1alpha1.DisruptionPolicySpec) {
	p := disruptionPolicy()
	exists := a.hub.Get(a.ctx, client.ObjectKeyFromObject(p), p) == nil
	p.Spec = spec
	p.Spec.PlacementSelector = &metav1.LabelSelector{}
	var err error
	if exists {
		err = a.hub.Update(a.ctx, p)
	} else {
		err = a.hub.Create(a.ctx, p)
	}
	a.say("DisruptionPolicy: %s: %v", what, err)
}

// restoreFleet creates the clusters that are missing, and makes all usable.
func (a *actor) restoreFleet() {
	for _, name := range []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"} {
		c := fixture.Cluster(name).Set("s1").Label("tier", pick(a, "gold", "silver", "silver")).Obj()
		if a.hub.Create(a.ctx, c.DeepCopy()) == nil || a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
			continue
		}
		c.Spec.Taints = nil
		metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.ClusterSetLabel, "s1")
		_ = a.hub.Update(a.ctx, c)
	}
	a.say("all clusters are there, in set s1 and without a taint")
}

// publishedOf returns a cluster that a Placement has published; empty if there is none.
func (a *actor) publishedOf(placement string) string {
	page := a.pageOf(placement)
	if page == nil || len(page.Status.Decisions) == 0 {
		return ""
	}
	return page.Status.Decisions[a.random.IntN(len(page.Status.Decisions))].ClusterName
}

// lossInSteps replaces the clusters of a Placement one after the other, and meanwhile takes some
// from it.
func lossInSteps(a *actor) {
	a.restoreFleet()
	a.govern("changes are made in steps", berthv1alpha1.DisruptionPolicySpec{
		MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(int32(a.random.IntN(2)))), MinReadySeconds: pick[int32](a, 30, 60),
	})
	name := a.placement()
	number, wait := int32(2+a.random.IntN(3)), 5*time.Minute
	for _, tier := range []string{"gold", "silver"} {
		pl := fixture.Placement("team", name).Obj()
		if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
			return
		}
		pl.Spec.NumberOfClusters = &number
		pl.Spec.Predicates = fixture.Placement("", "").Predicate(fixture.MatchLabel("tier", tier)).Obj().Spec.Predicates
		a.say("Placement %s selects %d clusters of tier %s: %v", name, number, tier, a.hub.Update(a.ctx, pl))
		a.wait(wait)
		wait = 2 * time.Minute
	}
	for range 1 + a.random.IntN(2) {
		a.lose(a.publishedOf(name))
		a.wait(time.Minute)
	}
}

// lose takes a cluster from the namespace.
func (a *actor) lose(name string) {
	c := fixture.Cluster(name).Obj()
	if name == "" || a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
		return
	}
	switch a.random.IntN(4) {
	case 0:
		a.say("cluster %s is deleted: %v", name, a.hub.Delete(a.ctx, c))
	case 1:
		a.taint(c)
	default:
		metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.ClusterSetLabel, "s2")
		a.say("cluster %s leaves set s1: %v", name, a.hub.Update(a.ctx, c))
	}
}

func (a *actor) taint(c *v1alpha1.ManagedCluster) {
	c.Spec.Taints = []v1alpha1.Taint{{Key: "broken", Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(time.Now())}}
	a.say("cluster %s is broken: %v", c.Name, a.hub.Update(a.ctx, c))
}

// recordsRefused lets the server refuse records for longer than changes wait for an approval.
func recordsRefused(a *actor) {
	a.govern("changes wait for an approval, not for long", berthv1alpha1.DisruptionPolicySpec{
		Approval: berthv1alpha1.ApprovalRequired, ApprovalTimeoutSeconds: pick[int64](a, 5, 20, 60),
	})
	a.wait(10 * time.Second)
	a.refusedUntil = time.Now().Add(30*time.Second + time.Duration(a.random.Int64N(int64(90*time.Second))))
	a.faults["records refused"]++
	a.say("records are refused until %s", a.refusedUntil.UTC().Format("15:04:05"))
	a.editPlacement("numberOfClusters", func(pl *v1alpha1.Placement) string {
		pl.Spec.NumberOfClusters = new(int32(1 + a.random.IntN(5)))
		return strconv.Itoa(int(*pl.Spec.NumberOfClusters))
	})
	a.wait(2 * time.Minute)
}

// shutGate edits a Placement whose gate is shut, and opens it in half of the cases.
func shutGate(a *actor) {
	name := a.placement()
	edit := func(gate string) {
		pl := fixture.Placement("team", name).Obj()
		if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
			return
		}
		pl.Spec.NumberOfClusters = new(int32(1 + a.random.IntN(5)))
		metav1.SetMetaDataLabel(&pl.ObjectMeta, "gate", gate)
		a.say("the gate of Placement %s is %s, and it selects %d clusters: %v", name, gate, *pl.Spec.NumberOfClusters, a.hub.Update(a.ctx, pl))
	}
	edit("shut")
	a.wait(5 * time.Minute)
	if a.random.IntN(2) == 0 {
		edit("open")
	}
}

// forcedAndEdited edits a Placement while it waits for an approval to lose a broken cluster.
func forcedAndEdited(a *actor) {
	a.restoreFleet()
	a.govern("changes wait for an approval", berthv1alpha1.DisruptionPolicySpec{Approval: berthv1alpha1.ApprovalRequired})
	a.wait(time.Minute)
	name := a.placement()
	c := fixture.Cluster(a.publishedOf(name)).Obj()
	if c.Name == "" || a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
		return
	}
	a.taint(c)
	a.wait(time.Minute)
	pl := fixture.Placement("team", name).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
		return
	}
	pl.Spec.NumberOfClusters = new(int32(1 + a.random.IntN(5)))
	a.say("Placement %s: numberOfClusters becomes %d: %v", name, *pl.Spec.NumberOfClusters, a.hub.Update(a.ctx, pl))
	a.wait(time.Minute)
}

// setClocks sets the clocks of both replicas so that a toleration ends, and then right again.
func setClocks(a *actor) {
	if a.limited {
		return // The window of a limit has the time of the clock.
	}
	a.endAccidents()
	a.restoreFleet()
	_ = a.hub.Delete(a.ctx, disruptionPolicy())
	pl := fixture.Placement("team", a.placement()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
		return
	}
	const off = 2 * time.Hour
	pl.Spec.NumberOfClusters = nil
	pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "broken", Operator: v1alpha1.TolerationOpExists, TolerationSeconds: new(int64(off.Seconds() / 2))}}
	a.say("Placement %s tolerates broken clusters for %s: %v", pl.Name, off/2, a.hub.Update(a.ctx, pl))
	c := fixture.Cluster(a.cluster()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
		return
	}
	a.taint(c)
	time.Sleep(convergence)
	for _, wrong := range []time.Duration{off, 0} {
		for _, replica := range []string{"one", "two"} {
			a.setClock(replica, wrong)
		}
		a.faults["clock set"]++
		a.say("the clocks of both replicas are wrong by %s", wrong)
		time.Sleep(convergence)
		if difference := a.difference(a.ctx, time.Now().Add(wrong)); difference != "" {
			a.laws.breaks("a clock that is set is not noticed: %s", difference)
		}
	}
}

// convergence is how long a decision takes that nothing delays.
const convergence = 2 * time.Minute

// backAndForth lets two clusters change places between two decision groups, again and again, while
// writes of pages are lost and take effect later.
func backAndForth(a *actor) {
	a.endAccidents() // A write of a replica that froze before may remove a cluster that stays.
	a.restoreFleet()
	pl := fixture.Placement("team", a.placement()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
		return
	}
	for _, policy := range []client.Object{disruptionPolicy(), selectionPolicy(pl.Name)} {
		_ = a.hub.Delete(a.ctx, policy)
	}
	pl.Spec = v1alpha1.PlacementSpec{}
	tiers := []string{"gold", "silver"}
	for _, tier := range tiers {
		pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = append(pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups, v1alpha1.DecisionGroup{
			GroupName: tier, ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}},
		})
	}
	a.say("Placement %s has groups by tier: %v", pl.Name, a.hub.Update(a.ctx, pl))
	time.Sleep(convergence)
	if all := a.laws.union(pl.Name); len(all) == 8 && a.difference(a.ctx, time.Now()) == "" {
		a.laws.staying = map[string]map[string]bool{pl.Name: all}
		defer func() { a.laws.staying = nil }()
	}
	a.latePagesEnd = time.Now().Add(time.Minute)
	a.say("writes of pages are late until %s", a.latePagesEnd.UTC().Format("15:04:05"))
	first := a.random.IntN(8)
	for i := range 16 {
		for k, name := range []string{fmt.Sprint("c", first), fmt.Sprint("c", (first+1)%8)} {
			c := fixture.Cluster(name).Obj()
			if a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) == nil {
				metav1.SetMetaDataLabel(&c.ObjectMeta, "tier", tiers[(i+k)%2])
				a.say("cluster %s: tier becomes %s: %v", name, tiers[(i+k)%2], a.hub.Update(a.ctx, c))
			}
		}
		a.wait(pick(a, time.Second, 10*time.Second))
	}
	time.Sleep(time.Until(a.latePagesEnd) + longestLate)
}
