package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// apps reads readiness from the source "apps".
func apps(spec *berthv1alpha1.DisruptionPolicySpec) {
	spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "apps"}
}

// app stores an application of a cluster in the Placement's namespace.
func (d *desk) app(cluster string, ready bool) {
	d.inv.SetReadiness("apps", inventory.ReadyObject{Key: inventory.Key{Namespace: "ns", Name: cluster}, Cluster: cluster, Ready: ready})
}

// ready stores which clusters have a ready application and which have one that is not ready.
func (d *desk) ready(ready, unready string) {
	var objects []inventory.ReadyObject
	for name := range strings.FieldsSeq(ready) {
		objects = append(objects, inventory.ReadyObject{Key: inventory.Key{Namespace: "ns", Name: name}, Cluster: name, Ready: true})
	}
	for name := range strings.FieldsSeq(unready) {
		objects = append(objects, inventory.ReadyObject{Key: inventory.Key{Namespace: "ns", Name: name}, Cluster: name})
	}
	d.inv.ReplaceReadiness("apps", objects, nil)
}

// TestReadiness: what is published in each step, computed by hand from the rule of the rolling
// update. Each step of a case changes the readiness, and then attempts run.
func TestReadiness(t *testing.T) {
	swap := func(d *desk) { d.tier("silver", "a"); d.tier("gold", "x") }
	waiting := "clusters to remove stay until they are replaced: 3 of 3 desired clusters must be published and ready, maxUnavailable is 0)"
	type step struct {
		change func(d *desk)
		want   string
	}
	for name, tc := range map[string]struct {
		policy func(spec *berthv1alpha1.DisruptionPolicySpec)
		change func(d *desk)
		steps  []step
	}{
		"a replacement without an object": {apps, swap, []step{
			{func(d *desk) { d.ready("a b c", "") }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (apps: no object matches); " + waiting},
			{func(d *desk) { d.app("x", false) }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (apps: 0 of 1 objects ready); " + waiting},
			{func(d *desk) { d.app("x", true) }, "b c x"},
		}},
		"another one becomes unready": {apps, swap, []step{
			{func(d *desk) { d.ready("a b c x", "") }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\nb c x"},
			{func(d *desk) { d.app("b", false); d.tier("silver", "c"); d.tier("gold", "y") },
				"b c x y (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
					"b c x y (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for b (apps: 0 of 1 objects ready), y (apps: no object matches); " + waiting},
			{func(d *desk) { d.app("y", true) }, "b c x y (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for b (apps: 0 of 1 objects ready); " + waiting},
			{func(d *desk) { d.app("b", true) }, "b x y"},
		}},
		"an unready cluster leaves first": {apps, func(d *desk) { d.tier("silver", "a", "b"); d.tier("gold", "x", "y") }, []step{
			{func(d *desk) { d.ready("b c x y", "a") }, "a b c x (True RollingUpdate: 1 of 2 added, 0 of 2 removed)\n" +
				"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)\n" +
				"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)\nc x y"},
		}},
		"an unrelated unready cluster holds no unready one back": {apps, swap, []step{
			{func(d *desk) { d.ready("c x", "a b") }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\nb c x"},
		}},
		"a smaller number and unready clusters": {apps, func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) })
		}, []step{
			{func(d *desk) { d.ready("a", "b c") }, "a b"},
		}},
		"a source that cannot be read": {apps, swap, []step{
			{func(d *desk) { d.ready("a b c x", ""); d.inv.FailReadiness("apps", "the hub does not serve it") },
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
					"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for b, c, x (apps: the hub does not serve it); " + waiting},
			{func(d *desk) { d.ready("a b c x", "") }, "b c x"},
		}},
		"minReadySeconds": {func(spec *berthv1alpha1.DisruptionPolicySpec) { apps(spec); spec.MinReadySeconds = 30 }, swap, []step{
			{func(d *desk) { d.ready("a b c x", "") }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (ready since 2026-01-01T00:00:00Z, minReadySeconds is 30); " + waiting},
			{func(d *desk) { d.later(29) }, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (ready since 2026-01-01T00:00:00Z, minReadySeconds is 30); " + waiting},
			{func(d *desk) { d.later(1) }, "b c x"},
		}},
		"minReadySeconds starts again": {func(spec *berthv1alpha1.DisruptionPolicySpec) { apps(spec); spec.MinReadySeconds = 30 }, swap, []step{
			{func(d *desk) {
				d.ready("a b c x", "")
				d.attempt()
				d.attempt()
				d.later(29)
				d.app("x", false)
				d.attempt()
				d.app("x", true)
			},
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (ready since 2026-01-01T00:00:29Z, minReadySeconds is 30); " + waiting},
			{func(d *desk) { d.restart(); d.ready("a b c x", ""); d.later(30) },
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (ready since 2026-01-01T00:00:59Z, minReadySeconds is 30); " + waiting},
			{func(d *desk) { d.later(30) }, "b c x"},
		}},
		"minReadySeconds without a source": {func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 5 }, swap, []step{
			{func(d *desk) { d.attempt(); d.attempt(); d.later(5) }, "b c x"},
		}},
		"the deadline pauses": {func(spec *berthv1alpha1.DisruptionPolicySpec) { apps(spec); spec.ProgressDeadlineSeconds = 60 }, swap, []step{
			{func(d *desk) { d.ready("a b c", "x"); d.attempt(); d.attempt(); d.later(60) },
				"a b c x (False ProgressDeadlineExceeded: 1 of 1 added, 0 of 1 removed; no progress since 2026-01-01T00:00:00Z; waiting for x (apps: 0 of 1 objects ready); " + waiting},
			{func(d *desk) { d.app("x", true) }, "b c x"},
		}},
		"the change continues at the deadline": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			apps(spec)
			spec.ProgressDeadlineSeconds, spec.OnDeadline = 60, berthv1alpha1.DeadlineContinue
		}, swap, []step{
			{func(d *desk) { d.ready("a b c", "x"); d.attempt(); d.attempt(); d.later(59) },
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (apps: 0 of 1 objects ready); " + waiting},
			{func(d *desk) { d.later(1) }, "b c x"},
		}},
		"a newly ready cluster is progress": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			apps(spec)
			spec.ProgressDeadlineSeconds, spec.MaxSurge = 60, new(intstr.FromInt32(2))
		}, func(d *desk) { d.tier("silver", "a", "b"); d.tier("gold", "x", "y") }, []step{
			{func(d *desk) {
				d.ready("a b", "c x y")
				d.attempt()
				d.attempt()
				d.later(59)
				d.app("x", true)
				d.attempt()
				d.later(59)
			}, "a b c x y (True RollingUpdate: 2 of 2 added, 0 of 2 removed; waiting for c, y (apps: 0 of 1 objects ready); " + waiting},
			{func(d *desk) { d.later(1) }, "a b c x y (False ProgressDeadlineExceeded: 2 of 2 added, 0 of 2 removed; no progress since 2026-01-01T00:00:59Z; " +
				"waiting for c, y (apps: 0 of 1 objects ready); " + waiting},
		}},
		"the clusters' own condition": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "cluster", Selector: &metav1.LabelSelector{}}
		}, func(d *desk) {
			d.available("b", "c")
			swap(d)
			d.clusters["a"] = fixture.Cluster("a").Set("s1").Label("tier", "silver").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Time{}).Obj()
			d.inv.Update(d.clusters["a"].DeepCopy())
		}, []step{
			{func(*desk) {}, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for x (cluster: it has no condition Available); " + waiting},
			{func(d *desk) { d.available("x") }, "b c x"},
		}},
		"nothing is known of any cluster": {func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "cluster"}
		}, swap, []step{
			{func(*desk) {}, "a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)\n" +
				"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed; waiting for b, c, x (cluster: it has no condition Available); " + waiting},
			{func(d *desk) { d.available("b", "c", "x") }, "b c x"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.govern(tc.policy)
			d.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			tc.change(d)
			for i, step := range tc.steps {
				step.change(d)
				if got := d.steps(); got != step.want {
					t.Errorf("step %d: got\n%s\nwant\n%s", i, got, step.want)
				}
			}
		})
	}
}

func (d *desk) later(seconds int) { d.now = d.now.Add(time.Duration(seconds) * time.Second) }

// available sets the condition Available of clusters of tier gold.
func (d *desk) available(names ...string) {
	for _, name := range names {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", "gold").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Time{}).Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
}

// TestPolicyWindows: a change begins in a window of the policy, and is completed after it has
// closed. Forced removals do not wait.
func TestPolicyWindows(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		apps(spec)
		spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	d.ready("a b c x y", "")
	d.now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [b c x] | True/Held")
	d.approve("2")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [b c x] | True/Held")
	d.remove("b")
	d.attemptUntilStable()
	d.expect("p-decision-1: a c | [c x] | True/Held")
	d.now = time.Date(2026, 1, 1, 22, 0, 0, 0, time.UTC)
	d.app("x", false)
	d.attempt()
	d.expect("p-decision-1: a c x | [c x] | ")
	d.now = d.now.Add(2 * time.Hour)
	d.attemptUntilStable()
	d.expect("p-decision-1: a c x | [c x] | ")
	d.tier("gold", "y")
	d.attemptUntilStable()
	d.expect("p-decision-1: a c x | [c x] | ")
	d.app("x", true)
	d.now = d.now.Add(22 * time.Hour)
	d.attemptUntilStable()
	d.expect("p-decision-1: c x y |  | ")
}

// TestNewTargetOutsideTheWindow: a change that has begun in a window of the policy is completed
// before the change to a new target opens, also if that then needs an approval.
func TestNewTargetOutsideTheWindow(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	d.now = time.Date(2026, 1, 1, 22, 0, 0, 0, time.UTC)
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attempt()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	d.now = d.now.Add(time.Hour)
	d.tier("silver", "c")
	d.tier("gold", "z")
	want := "b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed; change 3 follows)" +
		"\nb c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed; change 3 follows)" +
		"\nc x y (True RollingUpdate: 2 of 2 added, 2 of 2 removed; change 3 follows)" +
		"\nc x y"
	if got := d.steps(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	d.expect("p-decision-1: c x y | [x y z] | True/Held")
	d.now = d.now.Add(23 * time.Hour)
	d.attempt()
	d.expect("p-decision-1: c x y z | [x y z] | ")
	d.now = d.now.Add(time.Hour)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
	d.tier("gold", "a")
	d.tier("silver", "x")
	d.attemptUntilStable()
	d.expect("p-decision-1: x y z | [a y z] | True/Held")
}

// TestPolicyWindowsDoNotExpire: a change waits for the next window if no controller ran in one, or
// if the windows were changed.
func TestPolicyWindowsDoNotExpire(t *testing.T) {
	for name, miss := range map[string]func(d *desk, schedule func(string)){
		"a missed window":  func(d *desk, _ func(string)) { d.restart() },
		"a changed window": func(_ *desk, schedule func(string)) { schedule("0 20 * * *") },
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			schedule := func(schedule string) {
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
					spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: schedule, Duration: "1h"}}
				})
			}
			schedule("0 22 * * *")
			d.now = time.Date(2026, 1, 1, 21, 30, 0, 0, time.UTC)
			d.tier("silver", "a")
			d.tier("gold", "x")
			d.attemptUntilStable()
			d.expect("p-decision-1: a b c | [b c x] | True/Held")
			miss(d, schedule)
			d.now = time.Date(2026, 1, 1, 23, 30, 0, 0, time.UTC)
			d.attemptUntilStable()
			d.expect("p-decision-1: a b c | [b c x] | True/Held")
			d.now = time.Date(2026, 1, 2, 22, 0, 0, 0, time.UTC)
			schedule("0 22 * * *")
			d.attemptUntilStable()
			d.expect("p-decision-1: b c x |  | ")
		})
	}
}

// TestMinReadyAfterAnotherChange: minReadySeconds apply to what a change added that a new one
// supersedes.
func TestMinReadyAfterAnotherChange(t *testing.T) {
	d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { apps(spec); spec.MinReadySeconds = 30 })
	d.ready("a b c x", "")
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attempt()
	d.expect("p-decision-1: a b c x | [b c x] | ")
	d.attempt()
	d.later(20)
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "other"}} })
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [b c x] | ")
	d.later(9)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [b c x] | ")
	d.later(1)
	d.attemptUntilStable()
	d.expect("p-decision-1: b c x |  | ")
}

// TestMinReadyAfterAFinishedChange: minReadySeconds apply to what the last change added, also after
// a restart and after an edit of the policy. A cluster that was published long ago is ready.
func TestMinReadyAfterAFinishedChange(t *testing.T) {
	for name, tc := range map[string]struct {
		// between happens between the two changes.
		between func(d *desk)
		// wait is how long the second change waits for x.
		wait int
	}{
		"at once":           {nothingElse, 30},
		"after a while":     {func(d *desk) { d.later(20); d.attempt() }, 10},
		"after long enough": {func(d *desk) { d.later(30) }, 0},
		"after a restart":   {func(d *desk) { d.later(10); d.restart(); d.ready("a b c x y", "") }, 30},
		"less than a second later, and a restart": {func(d *desk) { d.later(30); d.restart(); d.ready("a b c x y", "") }, 30},
		"after long enough and a restart":         {func(d *desk) { d.later(31); d.restart(); d.ready("a b c x y", "") }, 0},
		"it was not ready before a restart": {func(d *desk) {
			d.later(100)
			d.app("x", false)
			d.restart()
			d.ready("a b c y", "x")
			d.attempt()
			d.app("x", true)
		}, 30},
		"it was not ready meanwhile": {func(d *desk) {
			d.later(100)
			d.app("x", false)
			d.attempt()
			d.app("x", true)
		}, 30},
		"another cluster was not ready meanwhile": {func(d *desk) {
			d.later(100)
			d.app("b", false)
			d.attempt()
			d.app("b", true)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, apps)
			d.ready("a b c x y", "")
			d.tier("silver", "a")
			d.tier("gold", "x")
			d.attemptUntilStable()
			d.expect("p-decision-1: b c x |  | ")
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds, spec.MaxUnavailable, spec.MaxSurge = 30, new(intstr.FromInt32(1)), new(intstr.FromInt32(0))
			})
			tc.between(d)
			// x counts as not ready, so b cannot leave.
			d.tier("silver", "b", "c")
			d.tier("gold", "y", "z")
			if tc.wait > 0 {
				d.attempt()
				d.expect("p-decision-1: b c x | [x y z] | ")
				d.later(tc.wait - 1)
				d.attempt()
				d.expect("p-decision-1: b c x | [x y z] | ")
				d.later(1)
			}
			d.attempt()
			d.expect("p-decision-1: c x | [x y z] | ")
		})
	}
}

func nothingElse(*desk) {}

// TestMinReadyOfANewPolicy: clusters that were published less than minReadySeconds ago are in use.
// They stay until others have replaced them, unless fewer are wanted.
func TestMinReadyOfANewPolicy(t *testing.T) {
	d := newDesk(t, ask().Number(3).Predicate(fixture.MatchLabel("tier", "gold")))
	d.tier("gold", "a", "b", "c")
	d.attemptUntilStable()
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
	d.attemptUntilStable()
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	d.later(599)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) })
	d.tier("silver", "x", "y")
	d.tier("gold", "a")
	d.attemptUntilStable()
	d.expect("p-decision-1: a c |  | ")
}

// TestStepsNeedNoRecords: the next step is the same for a simulation of the hub's objects, with and
// without the record of the change in progress.
func TestStepsNeedNoRecords(t *testing.T) {
	for name, unready := range map[string]string{"all are ready": "", "one that leaves is not": "a", "one that stays is not": "b", "an added one is not": "x", "most are not": "a b x"} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, apps)
			d.tier("silver", "a")
			d.tier("gold", "x")
			ready := func() {
				d.ready("a b c x", "")
				for cluster := range strings.FieldsSeq(unready) {
					d.app(cluster, false)
				}
			}
			ready()
			d.attempt()
			step := func() string {
				d.restart()
				ready()
				a := d.scheduler.Decide(t.Context(), d.snapshot())
				if a.Step == nil {
					return "none"
				}
				return fmt.Sprint(a.Outcome, a.Step.Clusters)
			}
			with := step()
			d.records = nil
			if without := step(); with != without {
				t.Errorf("with its record %s, without %s", with, without)
			}
		})
	}
}

// TestMinReadyAfterALostResponse: the response to the write that adds x is lost, and the next
// attempt, which reads the page, publishes nothing else. minReadySeconds counts from that attempt.
func TestMinReadyAfterALostResponse(t *testing.T) {
	for _, lost := range []bool{false, true} {
		d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
		d.tier("silver", "a")
		d.tier("gold", "x")
		if lost {
			d.loseResponses()
		} else {
			d.attempt()
		}
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
		_, _ = d.try()
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = false })
		d.later(1)
		d.attemptUntilStable()
		if got := d.published(); got != "p-decision-1: a b c x" {
			t.Errorf("lost %t: x was published a second ago, minReadySeconds is 600, and published is %s", lost, got)
		}
	}
}

// replacedReady is a desk with minReadySeconds of 600, on which x has just been published beside a,
// which it replaces. Some clusters are ready.
func replacedReady(t *testing.T, ready string) *desk {
	t.Helper()
	d := governed(t, 3, nothing)
	d.ready(ready, "")
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		apps(spec)
		spec.MinReadySeconds = 600
	})
	d.attemptUntilStable()
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attemptUntilStable()
	return d
}

// TestMinReadyWhileDisabled: x becomes not ready, and ready again, while its Placement is disabled.
// No attempt sees that, so minReadySeconds counts again once the Placement is enabled.
func TestMinReadyWhileDisabled(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		d := replacedReady(t, "a b c x")
		attempt := func() { d.attemptUntilStable() }
		if disabled {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			})
			attempt = func() { d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot) }
		}
		attempt()
		d.later(300)
		d.app("x", false)
		attempt()
		d.later(290)
		d.app("x", true)
		attempt()
		if disabled {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })
			subject := d.inv.Subject(key)
			d.inv.AdoptPages(subject, subject.LastRevision())
		}
		d.later(20)
		d.attemptUntilStable()
		if got := d.published(); got != "p-decision-1: a b c x" {
			t.Errorf("disabled %t: x is ready for 20 seconds, minReadySeconds is 600, and published is %s", disabled, got)
		}
	}
}

// TestDeadlineAfterAFailedWrite: the progress deadline counts from the last step, also if the
// record's status that says so was not written.
func TestDeadlineAfterAFailedWrite(t *testing.T) {
	for _, written := range []bool{true, false} {
		d := governed(t, 3, nothing)
		d.ready("a b c", "x y")
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			apps(spec)
			spec.OnDeadline, spec.ProgressDeadlineSeconds = "Continue", 600
		})
		d.attemptUntilStable()
		d.tier("silver", "a", "b")
		d.tier("gold", "x", "y")
		d.attemptUntilStable()
		d.later(590)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = new(intstr.FromInt32(2)) })
		if written {
			d.attempt()
		} else {
			d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
		}
		if got := d.published(); got != "p-decision-1: a b c x y" {
			t.Fatal(got)
		}
		d.later(15)
		d.attempt()
		if got := d.published(); got != "p-decision-1: a b c x y" {
			t.Errorf("written %t: y was published 15 seconds ago and is not ready, the deadline is 600 seconds, and published is %s", written, got)
		}
	}
}

// TestMinReadyAtRest: x, which the last change added, becomes not ready and ready again while no
// change is in progress. minReadySeconds counts from when x is ready again.
func TestMinReadyAtRest(t *testing.T) {
	for _, attempts := range []bool{true, false} {
		d := replacedReady(t, "a b c x y")
		d.later(601)
		d.attemptUntilStable()
		d.expect("p-decision-1: b c x |  | ")
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
		d.attemptUntilStable()
		for _, ready := range []bool{false, true} {
			d.later(100)
			affected := d.inv.SetReadiness("apps", inventory.ReadyObject{Key: inventory.Key{Namespace: "ns", Name: "x"}, Cluster: "x", Ready: ready})
			if attempts || len(affected) > 0 {
				d.attemptUntilStable()
			}
		}
		d.later(10)
		d.tier("silver", "b")
		d.tier("gold", "y")
		d.attemptUntilStable()
		if got := d.published(); got != "p-decision-1: b c x y" {
			t.Errorf("attempts in between %t: of three desired clusters two must be ready for 600 seconds, x is for 10, and published is %s", attempts, got)
		}
	}
}
