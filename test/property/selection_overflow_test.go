package property

import (
	"flag"
	"testing"
	"time"

	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestOverflowOverTime lets the clusters of a Placement whose tiers are filled in order fail and
// come back, also while the controller restarts and while writes fail, and compares each decision
// with the model: no cluster of an earlier tier that left is taken again too early, and none waits
// that no other can replace.
func TestOverflowOverTime(t *testing.T) {
	stats := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newSelectionWorld(t, stats)
		w.update(fixture.Placement("n1", "p1").Number(rapid.Int32Range(1, 4).Draw(t, "number")).Obj())
		for _, name := range clusterNames {
			w.update(overflowCluster(name, oneOf(t, "tier", "x", "y", ""), false))
		}
		w.update(w.drawOverflow())
		w.decideAffected()
		for range rapid.IntRange(5, 25).Draw(t, "changes") {
			switch oneOf(t, "change", "cluster", "cluster", "cluster", "cluster", "time", "time", "policy", "other") {
			case "cluster":
				w.update(overflowCluster(oneOf(t, "cluster", clusterNames...), oneOf(t, "tier", "x", "x", "y", ""), oneOf(t, "fails", false, true)))
			case "time":
				w.pass(oneOf(t, "time", time.Second, 30*time.Second, time.Minute, 5*time.Minute))
			case "policy":
				w.update(w.overflowAgain())
			case "other":
				w.change()
				w.update(w.overflowAgain())
			}
			w.decideAffected()
			w.checkQuiet()
		}
	})
	t.Logf("%v", stats)
	if flag.Lookup("rapid.checks").Value.String() == flag.Lookup("rapid.checks").DefValue && stats["delayed clusters"] == 0 {
		t.Error("no delayed clusters")
	}
}

// overflowCluster has the label of a tier and passes all filters, or fails.
func overflowCluster(name, tier string, fails bool) *v1alpha1.ManagedCluster {
	b := fixture.Cluster(name).Set("s1").Label("a", tier)
	if fails {
		b = b.Taint("t", "", v1alpha1.TaintEffectNoSelect)
	}
	return b.Obj()
}

// drawOverflow is a policy with up to three tiers that are filled in order.
func (w *selectionWorld) drawOverflow() *berthv1alpha1.SelectionPolicy {
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: objectMeta("n1", "s1")}
	policy.Spec.Placement, policy.Spec.TierMode = "p1", berthv1alpha1.TierOverflow
	policy.Spec.FailbackAfterSeconds = oneOf(w.t, "failback", nil, new(int64(-1)), new(int64(0)), new(int64(60)), new(int64(60)))
	for _, value := range oneOf(w.t, "tiers", []string{"x", "y", ""}, []string{"x", "y"}, []string{"y", "x", ""}, []string{"x"}) {
		tier := berthv1alpha1.SelectionTier{Name: "rest"}
		if value != "" {
			tier.Name, tier.ClusterSelector.LabelSelector.MatchLabels = value, map[string]string{"a": value}
		}
		policy.Spec.Tiers = append(policy.Spec.Tiers, tier)
	}
	if at := oneOf(w.t, "requested", 0, 0, 0, -time.Minute, time.Minute); at != 0 {
		policy.Annotations = map[string]string{berthv1alpha1.FailbackRequestedAnnotation: w.now.Add(at).Format(time.RFC3339)}
	}
	return policy
}

// overflowAgain is another policy in place of the present one, if it still exists.
func (w *selectionWorld) overflowAgain() *berthv1alpha1.SelectionPolicy {
	policy := w.drawOverflow()
	if old, ok := w.objects[idOf(policy)].(*berthv1alpha1.SelectionPolicy); ok {
		policy.Status = old.Status
	}
	return policy
}
