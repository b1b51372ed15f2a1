package scheduler_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func atLeast(available string) func(*berthv1alpha1.DisruptionPolicySpec) {
	return func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinAvailable = new(intstr.Parse(available)) }
}

// names are the published clusters.
func (d *desk) names() string {
	_, text, _ := strings.Cut(d.published(), ": ")
	return text
}

// TestMinAvailable: an agent loses a label on all clusters of a Placement without numberOfClusters.
func TestMinAvailable(t *testing.T) {
	const text = "0 of 0 added, 1 of 3 removed; minAvailable of DisruptionPolicy careful: 2 of the 3 clusters that were published when the change began " +
		"must stay published. To approve it: kubectl placement approve placementchange/p-2 -n ns)"
	waits := "b c (False MinAvailable: " + text
	lose := func(d *desk) { d.tier("silver", "a", "b", "c") }
	start := func(t *testing.T) *desk {
		d := governed(t, 0, atLeast("50%"))
		lose(d)
		if got, want := d.steps(), "b c (True RollingUpdate: 0 of 0 added, 1 of 3 removed)\n"+waits; got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		return d
	}
	for name, tc := range map[string]struct {
		change func(d *desk)
		want   string
	}{
		"nothing changes": {func(*desk) {}, waits},
		"a restart":       {func(d *desk) { d.restart() }, waits},
		"the floor is lowered": {func(d *desk) { d.govern(atLeast("1")) }, "c (True RollingUpdate: 0 of 0 added, 2 of 3 removed)\n" +
			"c (False MinAvailable: " + strings.NewReplacer("1 of 3", "2 of 3", "2 of the 3", "1 of the 3").Replace(text)},
		"the floor is removed":         {func(d *desk) { d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinAvailable = nil }) }, "p-decision-1:"},
		"the change is approved":       {func(d *desk) { d.approve("2") }, "p-decision-1:"},
		"approved, and a restart":      {func(d *desk) { d.approve("2"); d.restart() }, "p-decision-1:"},
		"a forced removal is not held": {func(d *desk) { d.remove("b") }, "c (True RollingUpdate: 0 of 0 added, 2 of 3 removed)\n" + "c (False MinAvailable: " + strings.Replace(text, "1 of 3", "2 of 3", 1)},
		"the label is back":            {func(d *desk) { d.tier("gold", "a", "b", "c") }, "a b c"},
		"superseded: the floor stays":  {func(d *desk) { d.tier("gold", "b") }, "b c (False MinAvailable: " + strings.NewReplacer("1 of 3", "0 of 1", "p-2", "p-3").Replace(text)},
		"superseded, and a restart":    {func(d *desk) { d.tier("gold", "b"); d.attempt(); d.restart() }, "b c (False MinAvailable: " + strings.NewReplacer("1 of 3", "0 of 1", "p-2", "p-3").Replace(text)},
		"an edit, too":                 {func(d *desk) { d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(0)) }) }, "b c (False MinAvailable: " + strings.NewReplacer("1 of 3", "0 of 2", "p-2", "p-3").Replace(text)},
		"the policy is deleted":        {func(d *desk) { d.inv.Delete(d.policy.DeepCopy()) }, "p-decision-1:"},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			tc.change(d)
			if got := d.steps(); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// TestMinAvailableRecord: the record says what the change waits for, and its approval is used once.
func TestMinAvailableRecord(t *testing.T) {
	d := governed(t, 0, atLeast("2"))
	d.tier("silver", "a", "b", "c")
	d.steps()
	record := d.records["p-2"]
	if !record.NeedsApproval() || record.Status.Holds[0].Plugin != "Movement" || !strings.HasPrefix(record.Status.Holds[0].Reason, "minAvailable of DisruptionPolicy careful") {
		t.Fatalf("status: %+v", record.Status)
	}
	d.approve("2")
	d.steps()
	if d.phase("2") != berthv1alpha1.PhasePublished || len(d.records["p-2"].Status.Holds) > 0 {
		t.Errorf("status: %+v", d.records["p-2"].Status)
	}
	d.tier("gold", "a", "b", "c")
	d.steps()
	d.tier("silver", "a", "b", "c")
	if got := d.steps(); !strings.HasPrefix(got, "b c (") {
		t.Errorf("the next change: %s", got)
	}
}

// taintAt adds a NoSelect taint at a time.
func (d *desk) taintAt(name, key string, at time.Time) {
	d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", "gold").TaintAt(key, "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(at)).Obj()
	d.inv.Update(d.clusters[name].DeepCopy())
}

// TestReplaceFirst: an unreachable cluster stays until it is replaced.
func TestReplaceFirst(t *testing.T) {
	replaceFirst := func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.UnavailableClusters = berthv1alpha1.UnavailableReplaceFirst
	}
	for name, tc := range map[string]struct {
		number int32
		policy func(*berthv1alpha1.DisruptionPolicySpec)
		change func(d *desk)
		want   string
	}{
		"Remove":             {3, nothing, func(d *desk) { d.tier("gold", "x") }, "b c x"},
		"with a replacement": {3, replaceFirst, func(d *desk) { d.tier("gold", "x") }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\nb c x"},
		"without one": {3, replaceFirst, func(*desk) {}, "a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; no other cluster is selected to replace those to remove: " +
			"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)"},
		"without numberOfClusters": {0, replaceFirst, func(*desk) {}, "a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; without numberOfClusters, no cluster replaces those to remove: " +
			"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)"},
		"suspended": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { replaceFirst(spec); spec.Suspend = true }, func(d *desk) { d.tier("gold", "x") },
			"a b c (False Suspended: 0 of 1 added, 0 of 1 removed; suspended by DisruptionPolicy careful)"},
		"not ready, and replaced": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { replaceFirst(spec); apps(spec) }, func(d *desk) { d.ready("b c", "a"); d.tier("gold", "x") },
			"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\nb c x"},
		"it is back": {3, replaceFirst, func(d *desk) { d.steps(); d.tier("gold", "a") }, "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, tc.number, nothing)
			d.govern(tc.policy)
			d.taint("a", v1alpha1.ManagedClusterTaintUnreachable)
			tc.change(d)
			if got := d.steps(); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// TestEditsAreVoluntary: an edit that removes a toleration removes the cluster as the policies
// allow, now or when a shorter toleration ends. A taint that the last published generation did not
// tolerate either removes it at once.
func TestEditsAreVoluntary(t *testing.T) {
	tolerate := func(d *desk, key string) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.Tolerations = append(pl.Spec.Tolerations, v1alpha1.Toleration{Key: key, Operator: v1alpha1.TolerationOpExists})
		})
	}
	untolerate := func(d *desk) { d.edit(func(pl *v1alpha1.Placement) { pl.Spec.Tolerations = nil }) }
	shorten := func(d *desk, seconds int64) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "team", Operator: v1alpha1.TolerationOpExists, TolerationSeconds: &seconds}}
		})
	}
	shorter := func(d *desk) { shorten(d, 90) } // 60 s of which have passed
	later := func(d *desk) { d.later(60) }
	for name, tc := range map[string]struct {
		policy func(spec *berthv1alpha1.DisruptionPolicySpec)
		steps  []func(d *desk)
		want   string
	}{
		"the toleration is removed":          {nil, []func(*desk){untolerate}, "a b c"},
		"and the controller restarts":        {nil, []func(*desk){untolerate, (*desk).restart}, "a b c"},
		"before the restart":                 {nil, []func(*desk){(*desk).restart, untolerate}, "a b c"},
		"edited while it is down":            {nil, []func(*desk){func(d *desk) { untolerate(d); d.restart() }}, "a b c"},
		"tainted while it is down":           {nil, []func(*desk){func(d *desk) { d.taintAt("b", "broken", d.now); d.restart() }}, "a c"},
		"both while it is down":              {nil, []func(*desk){func(d *desk) { d.taintAt("b", "broken", d.now); tolerate(d, "other"); d.restart() }}, "a b c"},
		"then another edit":                  {nil, []func(*desk){untolerate, later, func(d *desk) { tolerate(d, "other") }}, "a b c"},
		"then another edit, and a restart":   {nil, []func(*desk){untolerate, later, func(d *desk) { tolerate(d, "other") }, (*desk).restart}, "a b c"},
		"then a taint comes":                 {nil, []func(*desk){untolerate, later, func(d *desk) { d.taintAt("b", "broken", d.now) }}, "a c"},
		"then a restart, then a taint":       {nil, []func(*desk){untolerate, later, (*desk).restart, func(d *desk) { d.taintAt("b", "broken", d.now) }}, "a c"},
		"then a taint while it is down":      {nil, []func(*desk){untolerate, later, func(d *desk) { d.taintAt("b", "broken", d.now); d.restart() }}, "a c"},
		"then the same cluster gets another": {nil, []func(*desk){untolerate, later, func(d *desk) { d.taintAt("a", "broken", d.now) }}, "b c"},
		"an edit of something else":          {nil, []func(*desk){func(d *desk) { tolerate(d, "other") }, later, func(d *desk) { d.taintAt("b", "broken", d.now) }}, "a c"},
		"and a restart":                      {nil, []func(*desk){func(d *desk) { tolerate(d, "other") }, later, func(d *desk) { d.restart(); d.taintAt("b", "broken", d.now) }}, "a c"},
		"no edit":                            {nil, []func(*desk){func(d *desk) { d.taintAt("b", "broken", d.now) }}, "a c"},
		"a toleration is shortened":          {nil, []func(*desk){shorter, later}, "a b c"},
		"to a time that has passed":          {nil, []func(*desk){func(d *desk) { shorten(d, 30) }}, "a b c"},
		"to nothing":                         {nil, []func(*desk){func(d *desk) { shorten(d, 0) }}, "a b c"},
		"shortened, and a restart":           {nil, []func(*desk){shorter, (*desk).restart, later}, "a b c"},
		"shortened, a restart at the end":    {nil, []func(*desk){shorter, func(d *desk) { d.later(60); d.restart() }}, "a b c"},
		"shortened, and an edit":             {nil, []func(*desk){shorter, func(d *desk) { tolerate(d, "other") }, later}, "a b c"},
		"shortened, and an edit after it":    {nil, []func(*desk){shorter, later, func(d *desk) { tolerate(d, "other") }, (*desk).restart}, "a b c"},
		"shortened, then a taint comes":      {nil, []func(*desk){shorter, later, func(d *desk) { d.taintAt("b", "team", d.now) }, later, later}, "a c"},
		"a removal and its withdrawal":       {nil, []func(*desk){untolerate, func(d *desk) { tolerate(d, "team") }, later, func(d *desk) { d.taintAt("a", "team", d.now) }, later, untolerate}, "a b c"},
		"shortened in such edits":            {nil, []func(*desk){untolerate, func(d *desk) { tolerate(d, "team") }, later, func(d *desk) { d.taintAt("a", "team", d.now) }, shorter, later, later}, "a b c"},
		"closed windows": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 3 1 1 *", Duration: "1m"}}
		}, []func(*desk){untolerate}, "a b c"},
		"closed windows, and a forced removal alone": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 3 1 1 *", Duration: "1m"}}
		}, []func(*desk){untolerate, later, func(d *desk) { d.remove("b") }, later, (*desk).restart}, "a c"},
		"held by approval": {func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired },
			[]func(*desk){untolerate, later, func(d *desk) {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
				d.approve(d.revision())
			}}, "a b c"},
		"a forced one is held by approval, then an edit": {func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired },
			[]func(*desk){func(d *desk) { d.taintAt("b", "broken", d.now) }, later, func(d *desk) { tolerate(d, "other") }, func(d *desk) {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
				d.approve(d.revision())
			}}, "a c"},
		"and a restart before": {func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired },
			[]func(*desk){func(d *desk) { d.taintAt("b", "broken", d.now) }, later, func(d *desk) { tolerate(d, "other") }, (*desk).restart, func(d *desk) {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
				d.approve(d.revision())
			}}, "a c"},
		"in steps": {nothing, []func(*desk){func(d *desk) { d.tier("gold", "x"); untolerate(d) }}, "b c x"},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			tolerate(d, "team")
			d.later(60)
			d.taintAt("a", "team", d.now)
			d.steps()
			d.later(60)
			if tc.policy == nil {
				tc.policy = func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }
			}
			d.govern(tc.policy)
			for _, step := range tc.steps {
				step(d)
				d.steps()
			}
			if got := d.names(); got != tc.want {
				t.Errorf("published %s, want %s: %+v", got, tc.want, d.condition(v1alpha1.PlacementConditionDecisionProgressing))
			}
		})
	}
}

// TestEditsOfClustersThatLeaveAlready: the removal of a toleration is voluntary also for a cluster
// that left, or was to leave, for another reason before.
func TestEditsOfClustersThatLeaveAlready(t *testing.T) {
	suspend := func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }
	stabilize := func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 3600 }
	tolerate := func(keys ...string) func(d *desk) {
		return func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Tolerations = nil
				for _, key := range keys {
					pl.Spec.Tolerations = append(pl.Spec.Tolerations, v1alpha1.Toleration{Key: key, Operator: v1alpha1.TolerationOpExists})
				}
			})
		}
	}
	// set gives a the first taint at the start, and the others now.
	set := func(tier string, keys ...string) func(d *desk) {
		return func(d *desk) {
			b := fixture.Cluster("a").Set("s1").Label("tier", tier)
			for i, key := range keys {
				at := fixture.Now
				if i > 0 {
					at = d.now
				}
				b = b.TaintAt(key, "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(at))
			}
			d.clusters["a"] = b.Obj()
			d.inv.Update(d.clusters["a"].DeepCopy())
		}
	}
	later := func(d *desk) { d.later(60) }
	removeB := func(d *desk) { d.remove("b") }
	for name, tc := range map[string]struct {
		policy    func(spec *berthv1alpha1.DisruptionPolicySpec)
		tolerated []string
		steps     []func(d *desk)
		want      string
	}{
		"it left for no other reason":  {suspend, []string{"team"}, []func(*desk){tolerate()}, "a b c"},
		"it does not match any more":   {suspend, []string{"team"}, []func(*desk){set("silver", "team"), later, tolerate()}, "a b c"},
		"it did not match for a while": {suspend, []string{"team"}, []func(*desk){set("silver", "team"), later, set("gold", "team"), later, tolerate()}, "a b c"},
		"an edit was undone": {suspend, []string{"team", "x"}, []func(*desk){
			tolerate("x"), later, tolerate("team", "x"), later, set("gold", "team", "x"), later, tolerate("team"),
		}, "a b c"},
		"after a forced removal alone, stabilizing":        {stabilize, []string{"team"}, []func(*desk){tolerate(), later, (*desk).restart, removeB}, "a c"},
		"after a forced removal alone, then restart":       {stabilize, []string{"team"}, []func(*desk){tolerate(), later, removeB, (*desk).restart}, "a c"},
		"edited with a forced removal alone, then restart": {stabilize, []string{"team"}, []func(*desk){func(d *desk) { tolerate()(d); removeB(d); d.attempt(); d.restart() }}, "a c"},
		"after a missing policy": {suspend, []string{"team"}, []func(*desk){
			func(d *desk) {
				d.placement.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "none"}
				tolerate()(d)
			},
			later, (*desk).restart, func(d *desk) {
				d.edit(func(pl *v1alpha1.Placement) { delete(pl.Annotations, v1alpha1.SelectionPolicyAnnotation) })
			},
		}, "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			tolerate(tc.tolerated...)(d)
			d.steps()
			set("gold", "team")(d)
			d.steps()
			d.later(60)
			d.govern(tc.policy)
			for _, step := range tc.steps {
				step(d)
				d.steps()
			}
			if got := d.names(); got != tc.want {
				t.Errorf("published %s, want %s: %+v", got, tc.want, d.condition(v1alpha1.PlacementConditionDecisionProgressing))
			}
		})
	}
}

// TestEndedTolerationForces: a toleration that no edit shortened ends, also after a restart.
func TestEndedTolerationForces(t *testing.T) {
	for name, restart := range map[string]func(d *desk){"": func(*desk) {}, "a restart": (*desk).restart} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask().Number(3).Predicate(fixture.MatchLabel("tier", "gold")).Generation(1).Toleration("slow", v1alpha1.TolerationOpExists, "", "").Seconds(60))
			d.tier("gold", "a", "b", "c")
			d.steps()
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			d.later(60)
			d.taintAt("a", "slow", d.now)
			if d.steps(); d.names() != "a b c" {
				t.Fatalf("published %s", d.names())
			}
			restart(d)
			d.later(60)
			if d.steps(); d.names() != "b c" {
				t.Errorf("published %s", d.names())
			}
		})
	}
}

// TestAnotherProfileIsAnEdit: a cluster whose taint only the new profile of the Placement minds
// leaves as the policies allow.
func TestAnotherProfileIsAnEdit(t *testing.T) {
	d := governed(t, 3, nothing)
	handle := &framework.Handle{Pages: d.pages, Assume: d.inv.AssumePage, HeldChanges: d.heldChanges}
	lenient := config.Profile{Name: "lenient", Plugins: config.Plugins{MultiPoint: config.PluginSet{Disabled: []config.DisabledPlugin{{Name: "TaintToleration"}}}}}
	profiles, err := builtin.Profiles(t.Context(), &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{lenient}}, builtin.Registry(), handle)
	if err != nil {
		t.Fatal(err)
	}
	d.scheduler = scheduler.New(profiles, d.heldChanges)
	d.scheduler.StorePublished, d.scheduler.StoreClaim, d.scheduler.WriteRecordsBefore = d.inv.SetPublished, d.inv.StoreClaim, d.recordFirst
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "lenient"}
	})
	d.steps()
	d.later(60)
	d.taintAt("a", "team", d.now)
	d.steps()
	if got := d.names(); got != "a b c" {
		t.Fatalf("published %s", got)
	}
	d.later(60)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
	d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })
	d.steps()
	if got := d.names(); got != "a b c" {
		t.Errorf("published %s", got)
	}
}
