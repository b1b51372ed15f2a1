package scheduler_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSettles lists the Placements whose attempts may be skipped after one that changed nothing.
func TestSettles(t *testing.T) {
	two := func() fixture.PlacementBuilder { return fixture.Placement("ns", "p").Number(2) }
	for name, tt := range map[string]struct {
		placement fixture.PlacementBuilder
		prepare   func(d *desk)
		want      bool
	}{
		"a number":               {placement: two(), want: true},
		"all":                    {placement: fixture.Placement("ns", "p"), want: true},
		"none":                   {placement: fixture.Placement("ns", "p").Number(0)},
		"a label":                {placement: two().Predicate(fixture.MatchLabelExpression("a", metav1.LabelSelectorOpNotIn, "x")), want: true},
		"Steady alone":           {placement: two().Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerSteady, 1), want: true},
		"no prioritizers":        {placement: two().Mode(v1alpha1.PrioritizerPolicyModeExact), want: true},
		"too many":               {placement: fixture.Placement("ns", "p").Number(9)},
		"an expression":          {placement: two().Predicate(fixture.MatchCEL("true"))},
		"scores of an add-on":    {placement: two().AddOn("r1", "v", 1)},
		"spread":                 {placement: two().Spread("zone", 1, v1alpha1.ScheduleAnyway)},
		"the Spread prioritizer": {placement: two().Spread("zone", 1, v1alpha1.ScheduleAnyway).Prioritizer(v1alpha1.PrioritizerSpread, 1)},
		"pages by score": {placement: two(), prepare: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.SortBy = v1alpha1.SortByScore })
		}},
		"groups": {placement: two(), prepare: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{{GroupName: "canary"}}
			})
		}},
		"a demoted cluster": {placement: two(), prepare: func(d *desk) {
			d.inv.Update(fixture.Cluster("a").Set("s1").Taint("t", "", v1alpha1.TaintEffectPreferNoSelect).Obj())
		}},
		"a toleration that ends": {placement: two().Toleration("t", v1alpha1.TolerationOpExists, "", "").Seconds(1000), prepare: func(d *desk) {
			d.inv.Update(fixture.Cluster("d").Set("s1").TaintAt("t", "", v1alpha1.TaintEffectNoSelect, fixture.At(-1)).Obj())
		}},
		"a taint that excludes": {placement: two(), want: true, prepare: func(d *desk) {
			d.inv.Update(fixture.Cluster("d").Set("s1").Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj())
		}},
		"an eviction": {placement: two(), prepare: func(d *desk) {
			d.inv.Update(fixture.Eviction("ns", "e", "p", "d").Valid(metav1.ConditionTrue).Obj())
		}},
		"a SelectionPolicy": {placement: two(), prepare: func(d *desk) {
			d.inv.Update(&berthv1alpha1.SelectionPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
				Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "p", ClusterNames: berthv1alpha1.ClusterNames{Exclude: []string{"d"}}},
			})
		}},
		"a policy": {placement: two(), want: true, prepare: func(d *desk) { d.require() }},
		"a policy, and a cluster that was added just now": {placement: two(), want: true, prepare: func(d *desk) {
			d.policy = budget()
			d.inv.Update(d.policy.DeepCopy())
			d.inv.Update(fixture.Cluster("a").Set("s1").Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj())
		}},
		"the same, with a readiness source": {placement: two(), prepare: func(d *desk) {
			d.policy = budget()
			d.policy.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{}
			d.inv.Update(d.policy.DeepCopy())
			d.inv.Update(fixture.Cluster("a").Set("s1").Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj())
		}},
		"a removed page": {placement: two(), prepare: func(d *desk) {
			for key, page := range d.pages.pages {
				delete(d.pages.pages, key)
				d.inv.Delete(page)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tt.placement, "a", "b", "c", "d")
			d.attemptUntilStable()
			if tt.prepare != nil {
				tt.prepare(d)
				if name != "a removed page" {
					d.attemptUntilStable()
				}
			}
			if got := d.attempt().Settled() != nil; got != tt.want {
				t.Errorf("attempts can be skipped: %t, want %t", got, tt.want)
			}
		})
	}
}

// budget is a policy that limits steps only.
func budget() *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget"}, Spec: berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}},
	}
}

// TestSettlesNotWhileHeld checks that a Placement with a held change is decided after each event.
func TestSettlesNotWhileHeld(t *testing.T) {
	d := newDesk(t, fixture.Placement("ns", "p"), "a", "b")
	d.attemptUntilStable()
	d.require()
	d.inv.Update(fixture.Cluster("c").Set("s1").Obj())
	for range 3 {
		if d.attempt().Settled() != nil {
			t.Fatal("attempts can be skipped while a change is held")
		}
	}
}
