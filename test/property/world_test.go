package property

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// world is the content of an API server. It has few names, so that objects often interact, and are
// deleted and created again.
type world struct {
	objects map[string]client.Object
	version int
}

func newWorld() *world { return &world{objects: map[string]client.Object{}} }

// event is one change of the world.
type event struct {
	object  client.Object
	deleted bool
}

func idOf(o client.Object) string { return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()) }

func (w *world) all() []client.Object {
	var all []client.Object
	for _, id := range slices.Sorted(maps.Keys(w.objects)) {
		all = append(all, w.objects[id])
	}
	return all
}

// put stores an object as an API server does: a new object gets a UID, every write a version, and a
// new spec of a Placement a generation.
func (w *world) put(o client.Object) event {
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	if old := w.objects[idOf(o)]; old != nil {
		o.SetUID(old.GetUID())
		o.SetGeneration(old.GetGeneration() + 1)
	} else {
		o.SetUID(types.UID("uid-" + strconv.Itoa(w.version)))
		o.SetGeneration(1)
	}
	w.objects[idOf(o)] = o
	return event{object: o}
}

// remove deletes an object.
func (w *world) remove(o client.Object) event {
	delete(w.objects, idOf(o))
	return event{object: o, deleted: true}
}

var (
	clusterNames   = []string{"c1", "c2", "c3", "c4", "c5", "c6"}
	setNames       = []string{"s1", "s2", "s3"}
	namespaceNames = []string{"n1", "n2"}
	placementNames = []string{"p1", "p2", "p3"}
	pageNames      = []string{"p1-decision-1", "p1-decision-2", "p2-decision-1", "odd"}
	scoreNames     = []string{"r1", "r2"}
	values         = []string{"x", "y"}
	// decidedNames are the cluster names that a page may have.
	decidedNames = append([]string{"gone1", "gone2"}, clusterNames...)
)

func oneOf[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// pick returns an index below n.
func pick(t *rapid.T, n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }

// drawOrder returns an order of n items, from one seed.
func drawOrder(t *rapid.T, n int) []int {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Perm(n)
}

func drawCluster(t *rapid.T) *v1alpha1.ManagedCluster {
	b := fixture.Cluster(oneOf(t, "cluster", clusterNames...))
	if s := oneOf(t, "set", append(setNames, "")...); s != "" {
		b = b.Set(s)
	}
	for _, key := range []string{"a", "zone"} {
		if v := oneOf(t, "label "+key, append(values, "")...); v != "" {
			b = b.Label(key, v)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "claims") {
		b = b.Claim("k", oneOf(t, "claim", values...))
	}
	for range oneOf(t, "taints", 0, 0, 0, 1, 2) {
		b = b.TaintAt(oneOf(t, "taint", "t", "t", v1alpha1.DrainTaint), oneOf(t, "taint value", values...), oneOf(t, "effect", v1alpha1.TaintEffectNoSelect,
			v1alpha1.TaintEffectNoSelectIfNew, v1alpha1.TaintEffectPreferNoSelect), fixture.At(oneOf(t, "added", -100, -10)))
	}
	if m := oneOf(t, "memory", "", "60M", "80M", "80000Ki", "81920000", "100M"); m != "" {
		b = b.OnlyAllocatable("memory", m)
		if rapid.Bool().Draw(t, "capacity") {
			b = b.Capacity("memory", m)
		}
	}
	if c := oneOf(t, "cpu", "", "2", "4"); c != "" {
		b = b.Allocatable("cpu", c)
	}
	if rapid.Bool().Draw(t, "heartbeat") {
		b = b.Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, fixture.At(-rapid.IntRange(0, 3).Draw(t, "beat")))
	}
	if oneOf(t, "deleting", false, false, false, true) {
		b = b.Deleting()
	}
	c := b.Obj()
	if oneOf(t, "finalizer", false, false, true) {
		c.Finalizers = []string{"f"}
	}
	return c
}

func drawSet(t *rapid.T) *v1alpha1.ManagedClusterSet {
	name := oneOf(t, "set", setNames...)
	switch oneOf(t, "selector", "exclusive", "exclusive", "labels", "all", "absent", "broken", "unknown") {
	case "labels":
		return fixture.SelectorSet(name, &metav1.LabelSelector{MatchLabels: map[string]string{"a": oneOf(t, "a", values...)}})
	case "all":
		return fixture.SelectorSet(name, &metav1.LabelSelector{})
	case "absent":
		return fixture.SelectorSet(name, nil)
	case "broken":
		return fixture.SelectorSet(name, &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
		})
	case "unknown":
		set := fixture.Set(name)
		set.Spec.ClusterSelector.SelectorType = "Other"
		return set
	}
	return fixture.Set(name)
}

func drawBinding(t *rapid.T) *v1alpha1.ManagedClusterSetBinding {
	b := fixture.Binding(oneOf(t, "namespace", namespaceNames...), oneOf(t, "set", setNames...))
	if oneOf(t, "mismatch", false, false, false, true) {
		b.Spec.ClusterSet = oneOf(t, "other set", setNames...)
	}
	return b
}

func drawScore(t *rapid.T) *v1alpha1.AddOnPlacementScore {
	b := fixture.Score(oneOf(t, "cluster", append(clusterNames, "c9")...), oneOf(t, "resource", scoreNames...)).
		Value("v", rapid.Int32Range(-2, 2).Draw(t, "value")*50)
	if rapid.Bool().Draw(t, "limited") {
		b = b.ValidUntil(fixture.At(oneOf(t, "until", -1, 0, 60)))
	}
	return b.Obj()
}

func drawPage(t *rapid.T) *v1alpha1.PlacementDecision {
	b := fixture.Page(oneOf(t, "namespace", namespaceNames...), oneOf(t, "page", pageNames...))
	if p := oneOf(t, "label", append(placementNames, "")...); p != "" {
		b = b.Of(p)
	}
	if p := oneOf(t, "owner", append(placementNames, "")...); p != "" {
		b = b.OwnedBy(p)
	}
	return b.Lists(rapid.SliceOfN(rapid.SampledFrom(decidedNames), 0, 4).Draw(t, "decisions")...).Obj()
}

// drawRecord returns a change of an existing Placement, or of an earlier one of its name.
func (w *world) drawRecord(t *rapid.T) *berthv1alpha1.PlacementChange {
	pl := fixture.Placement(oneOf(t, "namespace", namespaceNames...), oneOf(t, "placement", placementNames...)).Obj()
	if now := w.objects[idOf(pl)]; now != nil && oneOf(t, "current", true, true, false) {
		pl = now.(*v1alpha1.Placement)
	} else {
		pl.UID = "earlier"
	}
	drawNames := func(label string) []string {
		return changes.Sorted(rapid.SliceOfNDistinct(rapid.SampledFrom(decidedNames), 0, 3, rapid.ID).Draw(t, label))
	}
	change := changes.NewChange(drawNames("from"), drawNames("to"))
	change.Generation, change.Profile, change.Cause = oneOf(t, "generation", int64(1), 2), v1alpha1.DefaultProfile, "start"
	record := changes.NewRecord(pl, 0, oneOf(t, "revision", int64(1), 2, 3), change)
	record.Status.Phase = oneOf(t, "phase", "", berthv1alpha1.PhaseHeld, berthv1alpha1.PhaseHeld, berthv1alpha1.PhasePublished,
		berthv1alpha1.PhaseSuperseded, berthv1alpha1.PhaseRejected, berthv1alpha1.PhaseExpired, berthv1alpha1.PhaseProgressing)
	if record.Status.Phase == berthv1alpha1.PhaseProgressing {
		at := fixture.At(-100)
		record.Status.PermittedTime, record.Status.LastProgressTime = &at, &at
	}
	return record
}

// drawEviction returns an eviction. A spec is immutable, so another one is another object.
func drawEviction(t *rapid.T) *berthv1alpha1.PlacementEviction {
	cluster, placement := oneOf(t, "cluster", "c1", "c2", "gone1"), oneOf(t, "placement", placementNames...)
	e := fixture.Eviction(oneOf(t, "namespace", namespaceNames...), "e-"+cluster+oneOf(t, "eviction", "", "-2"), placement, cluster)
	switch oneOf(t, "state", "new", "invalid", "waiting", "executed", "ended") {
	case "invalid":
		e.Valid(metav1.ConditionFalse)
	case "waiting":
		e.Valid(metav1.ConditionTrue)
	case "executed":
		e.Executed(fixture.At(-oneOf(t, "ago", 1, 100)).Time)
	case "ended":
		e.Executed(fixture.At(-4000).Time)
	}
	return e.Obj()
}

func drawPolicy(t *rapid.T) *berthv1alpha1.DisruptionPolicy {
	policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: oneOf(t, "namespace", namespaceNames...), Name: oneOf(t, "policy", "d1", "d2"),
	}}
	switch oneOf(t, "selects", "all", "names", "nothing", "broken") {
	case "all":
		policy.Spec.PlacementSelector = &metav1.LabelSelector{}
	case "names":
		policy.Spec.Placements = []string{oneOf(t, "placement", placementNames...)}
	case "broken":
		policy.Spec.PlacementSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	}
	if rapid.Bool().Draw(t, "required") {
		policy.Spec.Approval = berthv1alpha1.ApprovalRequired
	}
	policy.Spec.Suspend = oneOf(t, "suspend", false, false, true)
	if budget := oneOf(t, "budget", "", "0", "1", "50%"); budget != "" {
		policy.Spec.MaxUnavailable = new(intstr.Parse(budget))
	}
	if budget := oneOf(t, "surge", "", "1", "100%"); budget != "" {
		policy.Spec.MaxSurge = new(intstr.Parse(budget))
	}
	return policy
}

func drawPlacement(t *rapid.T) *v1alpha1.Placement {
	b := fixture.Placement(oneOf(t, "namespace", namespaceNames...), oneOf(t, "placement", placementNames...))
	if rapid.Bool().Draw(t, "some sets") {
		b = b.Sets(oneOf(t, "set", setNames...))
	}
	if rapid.Bool().Draw(t, "number") {
		b = b.Number(rapid.Int32Range(-1, 4).Draw(t, "numberOfClusters"))
	}
	for range oneOf(t, "predicates", 0, 0, 1, 2) {
		b = b.Predicate(drawMatch(t))
	}
	if rapid.Bool().Draw(t, "policy") {
		b = b.Mode(oneOf(t, "mode", "", v1alpha1.PrioritizerPolicyModeAdditive, v1alpha1.PrioritizerPolicyModeExact))
		for range rapid.IntRange(0, 2).Draw(t, "prioritizers") {
			weight := rapid.Int32Range(-2, 2).Draw(t, "weight")
			if rapid.Bool().Draw(t, "addOn") {
				b = b.AddOn(oneOf(t, "resource", scoreNames...), "v", weight)
				continue
			}
			b = b.Prioritizer(oneOf(t, "builtIn", v1alpha1.PrioritizerBalance, v1alpha1.PrioritizerSteady,
				v1alpha1.PrioritizerResourceAllocatableCPU, v1alpha1.PrioritizerResourceAllocatableMemory,
				v1alpha1.PrioritizerSpread), weight)
		}
	}
	if rapid.Bool().Draw(t, "tolerate") {
		b = b.Toleration("t", v1alpha1.TolerationOpEqual, oneOf(t, "value", values...), "")
		if rapid.Bool().Draw(t, "for a while") {
			b = b.Seconds(oneOf(t, "seconds", int64(10), 11, 100, 101))
		}
	}
	if oneOf(t, "spread", false, false, true) {
		b = b.Spread("zone", rapid.Int32Range(1, 2).Draw(t, "skew"), oneOf(t, "unsatisfiable", v1alpha1.DoNotSchedule, v1alpha1.ScheduleAnyway))
	}
	return b.Obj()
}

func drawMatch(t *rapid.T) fixture.Match {
	switch oneOf(t, "predicate", "label", "not", "claim", "cel", "cel metadata", "cel notation", "cel score", "broken") {
	case "label":
		return fixture.MatchLabel("a", oneOf(t, "value", values...))
	case "not":
		return fixture.MatchLabelExpression("a", metav1.LabelSelectorOpNotIn, oneOf(t, "value", values...))
	case "claim":
		return fixture.MatchClaim("k", metav1.LabelSelectorOpIn, oneOf(t, "value", values...))
	case "cel":
		return fixture.MatchCEL(`managedCluster.status.conditions.size() > 0`)
	case "cel metadata":
		return fixture.MatchCEL(`has(managedCluster.metadata.finalizers) || managedCluster.metadata.uid == "uid-1"`)
	case "cel notation":
		return fixture.MatchCEL(`managedCluster.status.allocatable.memory in ["80M", "81920000"]`)
	case "cel score":
		return fixture.MatchCEL(`managedCluster.scores("r1").exists(s, s.value > 0)`)
	}
	return fixture.MatchLabelExpression("a", "Near")
}

// drawObject returns a new state of some object.
func (w *world) drawObject(t *rapid.T) client.Object {
	switch oneOf(t, "kind", "cluster", "cluster", "cluster", "set", "binding", "score", "page", "page", "record", "record", "policy",
		"eviction", "eviction", "placement", "placement") {
	case "cluster":
		return drawCluster(t)
	case "set":
		return drawSet(t)
	case "binding":
		return drawBinding(t)
	case "score":
		return drawScore(t)
	case "page":
		return drawPage(t)
	case "record":
		return w.drawRecord(t)
	case "policy":
		return drawPolicy(t)
	case "eviction":
		return drawEviction(t)
	}
	return drawPlacement(t)
}
