package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/report"
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
			if got := d.attempt().Proof() != nil; got != tt.want {
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
		if d.attempt().Proof() != nil {
			t.Fatal("attempts can be skipped while a change is held")
		}
	}
}

// TestSettlesNotWithEndedReservations: a change in steps ends because its target becomes what is
// published, and its record is deleted. The attempt ends the reservation of y, which its Snapshot
// still counts as a decision of the Placement.
func TestSettlesNotWithEndedReservations(t *testing.T) {
	p := ask().Predicate(fixture.MatchLabel("tier", "gold")).Number(3).Mode(v1alpha1.PrioritizerPolicyModeExact).
		Prioritizer(v1alpha1.PrioritizerBalance, 1).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1)
	d := newDesk(t, p)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.MaxSurge, spec.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
	})
	set := func(name, tier string, memory int) {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", tier).Allocatable("memory", fmt.Sprint(memory, "M")).Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
	memory := map[string]int{"a": 60, "b": 50, "c": 0, "x": 60, "y": 60, "z": 100}
	for _, name := range []string{"a", "b", "c"} {
		set(name, "gold", memory[name])
	}
	d.now = fixture.Now.AddDate(-1, 0, 0)
	d.attemptUntilStable()
	d.now = fixture.Now
	// x and y replace a and b in steps, until b, c and x are published, and y is reserved.
	set("a", "silver", 60)
	set("b", "silver", 50)
	set("x", "gold", 60)
	set("y", "gold", 60)
	for range 2 {
		d.attempt()
	}
	if got := d.published(); got != "p-decision-1: b c x" {
		t.Fatal(got)
	}
	// Now b qualifies again and y does not: what is published stays. z, which another Placement
	// has, qualifies, too. A user deletes the open record.
	set("b", "gold", 50)
	set("y", "iron", 60)
	set("z", "gold", 100)
	other := func(page string, names ...string) {
		d.inv.Update(fixture.Page("others", page).Of("other").Lists(names...).Obj())
	}
	other("one", "z")
	open := d.newest()
	delete(d.records, open.Name)
	d.inv.Delete(open.DeepCopy())
	attempt := func() []string {
		a := d.scheduler.Attempt(context.Background(), key.Namespace, d.snapshot)
		if !a.Err.IsSuccess() {
			t.Fatal(a.Err.Err())
		}
		pl := d.placement.DeepCopy()
		report.SetConditions(a, &pl.Status.Conditions)
		d.placement = pl
		d.inv.AssumePlacement(pl.DeepCopy())
		d.inv.Settle(a.Snapshot, a.Proof())
		return a.Target.Clusters
	}
	before := attempt()
	other("two", "y")
	other("three", "y")
	affected := d.inv.Update(fixture.Cluster("b").Set("s1").Label("tier", "gold").Allocatable("memory", "53M").Obj())
	after := d.scheduler.Decide(context.Background(), d.snapshot()).Target.Clusters
	if len(affected) == 0 && !slices.Equal(before, after) {
		t.Errorf("the attempt is skipped, but the target changes from %v to %v", before, after)
	}
}
