package property

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// drawSelectionCluster returns a state of a cluster; seldom outside of the set that all use.
func (w *selectionWorld) drawSelectionCluster(name string) *v1alpha1.ManagedCluster {
	t := w.t
	b := fixture.Cluster(name).Set(oneOf(t, "set", "s1", "s1", "s1", "s1", "s2"))
	for _, key := range []string{"a", "zone"} {
		if v := oneOf(t, "label "+key, "x", "x", "y", "y", ""); v != "" {
			b = b.Label(key, v)
		}
	}
	if cpu := oneOf(t, "cpu", "2", "3", "4", "500m", ""); cpu != "" {
		b = b.Allocatable("cpu", cpu)
	}
	if gpu := oneOf(t, "gpu", "", "1", "2"); gpu != "" {
		b = b.OnlyAllocatable("gpu", gpu)
	}
	if oneOf(t, "taint", false, false, false, false, true) {
		b = b.Taint("t", "", v1alpha1.TaintEffectNoSelect)
	}
	return b.Obj()
}

func (w *selectionWorld) drawSelectionPlacement() *v1alpha1.Placement {
	t := w.t
	b := fixture.Placement(oneOf(t, "namespace", "n1", "n1", "n1", "n2", ownNamespace), oneOf(t, "placement", placementNames...))
	if rapid.IntRange(0, 3).Draw(t, "number") > 0 {
		b = b.Number(rapid.Int32Range(0, 3).Draw(t, "numberOfClusters"))
	}
	switch oneOf(t, "predicate", "", "", "", "label", "broken") {
	case "label":
		b = b.Predicate(fixture.MatchLabel("a", "x"))
	case "broken":
		b = b.Predicate(fixture.MatchLabelExpression("a", "Near"))
	}
	if oneOf(t, "spread", false, false, true) {
		b = b.Spread("zone", rapid.Int32Range(1, 2).Draw(t, "skew"), v1alpha1.DoNotSchedule)
	}
	if oneOf(t, "cpu score", false, false, true) {
		b = b.Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, oneOf(t, "weight", int32(1), 3))
	}
	pl := b.Obj()
	pl.Labels = map[string]string{"g": oneOf(t, "g", "1", "2")}
	if oneOf(t, "requires a policy", false, false, true) {
		pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "s" + pl.Name[1:]}
	}
	return pl
}

func (w *selectionWorld) drawSelector() v1alpha1.ClusterSelector {
	switch oneOf(w.t, "selector", "x", "y", "zone", "all") {
	case "x", "y":
		return v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": oneOf(w.t, "a", values...)}}}
	case "zone":
		return v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": oneOf(w.t, "zone", values...)}}}
	}
	return v1alpha1.ClusterSelector{}
}

func (w *selectionWorld) drawSelectionPolicy() *berthv1alpha1.SelectionPolicy {
	t := w.t
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: objectMeta(oneOf(t, "namespace", "n1", "n1", "n1", "n2"), oneOf(t, "policy", "s1", "s2", "s3"))}
	spec := &policy.Spec
	// Most policies have a Placement of their own.
	if spec.Placement = "p" + policy.Name[1:]; oneOf(t, "other placement", false, false, false, false, true) {
		spec.Placement = oneOf(t, "placement", placementNames...)
	}
	has := func(part string) bool { return oneOf(t, part, false, false, true) }
	if has("names") {
		// An empty list, too: it includes no cluster.
		for _, list := range []*[]string{&spec.ClusterNames.Include, &spec.ClusterNames.Exclude} {
			*list = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "c5", "c6", "ghost"}), 0, 4, rapid.ID).Draw(t, "names")
		}
	}
	if has("preferences") {
		spec.PreferenceWeight = oneOf(t, "weight", nil, new(int32(2)), new(int32(-1)))
		for range rapid.IntRange(1, 2).Draw(t, "preferences") {
			spec.Preferences = append(spec.Preferences, berthv1alpha1.Preference{Weight: oneOf(t, "preference", int32(60), -100, 100), ClusterSelector: w.drawSelector()})
		}
	}
	if oneOf(t, "requests", false, true) {
		spec.Requests = map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse(oneOf(t, "cpu", "1", "1500m", "2"))}
		if has("gpu") {
			spec.Requests["gpu"] = resource.MustParse("1")
		}
	}
	if has("tiers") {
		w.drawTiers(spec)
	}
	if has("groups") {
		w.drawGroups(spec)
	}
	if oneOf(t, "affinity", false, true) {
		spec.Affinity.With, spec.Affinity.ApartFrom = w.drawReferences("with", 0, 0, 0, 1), w.drawReferences("apart", 0, 1, 1, 2)
	}
	if has("request failback") {
		policy.Annotations = map[string]string{berthv1alpha1.FailbackRequestedAnnotation: w.now.Add(oneOf(t, "at", 0, -time.Second, time.Second, -time.Minute)).Format(time.RFC3339)}
	}
	return policy
}

func (w *selectionWorld) drawTiers(spec *berthv1alpha1.SelectionPolicySpec) {
	spec.TierMode = oneOf(w.t, "mode", "", berthv1alpha1.TierFallback, berthv1alpha1.TierOverflow)
	spec.FailbackAfterSeconds = oneOf(w.t, "failback", nil, new(int64(-1)), new(int64(0)), new(int64(60)))
	for _, name := range []string{"t1", "t2", "t3"}[:rapid.IntRange(1, 3).Draw(w.t, "tiers")] {
		spec.Tiers = append(spec.Tiers, berthv1alpha1.SelectionTier{
			Name: name, ClusterSelector: w.drawSelector(), MinClusters: oneOf(w.t, "min", nil, nil, new(int32(1)), new(int32(2))),
		})
	}
}

func (w *selectionWorld) drawGroups(spec *berthv1alpha1.SelectionPolicySpec) {
	for _, name := range []string{"g1", "g2"}[:rapid.IntRange(1, 2).Draw(w.t, "groups")] {
		g := berthv1alpha1.SelectionGroup{Name: name, ClusterSelector: w.drawSelector()}
		switch oneOf(w.t, "bounds", "count", "min", "max", "both") {
		case "count":
			g.Count = new(rapid.Int32Range(0, 2).Draw(w.t, "count"))
		case "min":
			g.Min = new(rapid.Int32Range(0, 2).Draw(w.t, "min"))
		case "max":
			g.Max = new(rapid.Int32Range(0, 2).Draw(w.t, "max"))
		case "both":
			g.Min, g.Max = new(int32(1)), new(rapid.Int32Range(0, 2).Draw(w.t, "max"))
		}
		spec.Groups = append(spec.Groups, g)
	}
}

func (w *selectionWorld) drawReferences(list string, n ...int) []berthv1alpha1.PlacementReference {
	var references []berthv1alpha1.PlacementReference
	for range oneOf(w.t, list, n...) {
		r := berthv1alpha1.PlacementReference{Placement: oneOf(w.t, "named", placementNames...)}
		if oneOf(w.t, "by label", false, false, true) {
			r = berthv1alpha1.PlacementReference{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"g": oneOf(w.t, "g", "1", "2")}}}
		}
		references = append(references, r)
	}
	return references
}
