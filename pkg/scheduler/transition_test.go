package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// govern gives the Placement a policy, or changes it.
func (d *desk) govern(change func(spec *berthv1alpha1.DisruptionPolicySpec)) {
	if d.policy == nil {
		d.policy = &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "careful"}, Spec: berthv1alpha1.DisruptionPolicySpec{
			PlacementSelector: &metav1.LabelSelector{},
		}}
	}
	change(&d.policy.Spec)
	d.policy = d.policy.DeepCopy()
	d.pages.version++
	d.policy.ResourceVersion = fmt.Sprint(d.pages.version)
	d.inv.Update(d.policy.DeepCopy())
}

// steps runs attempts as long as another one is due, and returns what is published after each.
func (d *desk) steps() string {
	d.t.Helper()
	var all []string
	for range 20 {
		a := d.attempt()
		text := strings.TrimPrefix(d.published(), "p-decision-1: ")
		if c := d.condition(v1alpha1.PlacementConditionDecisionProgressing); c != nil {
			text += " (" + string(c.Status) + " " + c.Reason + ": " + c.Message + ")"
		}
		all = append(all, text)
		if at := a.State.Requeue(); at.IsZero() || at.After(d.now) {
			return strings.Join(all, "\n")
		}
	}
	d.t.Fatal("it does not settle")
	return ""
}

func (d *desk) tier(tier string, names ...string) {
	for _, name := range names {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", tier).Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
}

// taint adds a NoSelect taint.
func (d *desk) taint(name, key string) {
	d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", "gold").Taint(key, "", v1alpha1.TaintEffectNoSelect).Obj()
	d.inv.Update(d.clusters[name].DeepCopy())
}

// evict has a valid PlacementEviction remove a cluster.
func (d *desk) evict(name string) {
	d.inv.Update(fixture.Eviction("ns", "evict-"+name, "p", name).Valid(metav1.ConditionTrue).Obj())
}

// governed is a desk whose Placement wants clusters of tier gold: a, b and c have been published
// for a year.
func governed(t *testing.T, number int32, change func(spec *berthv1alpha1.DisruptionPolicySpec)) *desk {
	t.Helper()
	p := ask().Predicate(fixture.MatchLabel("tier", "gold"))
	if number > 0 {
		p = p.Number(number)
	}
	d := newDesk(t, p)
	d.govern(change)
	d.tier("gold", "a", "b", "c")
	d.now = fixture.Now.AddDate(-1, 0, 0)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | ")
	d.now = fixture.Now
	return d
}

func nothing(*berthv1alpha1.DisruptionPolicySpec) {}

// TestRollingUpdate: the clusters that are published after each step of a change.
func TestRollingUpdate(t *testing.T) {
	swap := func(d *desk) { d.tier("silver", "a", "b"); d.tier("gold", "x", "y") }
	for name, tc := range map[string]struct {
		number int32
		policy func(spec *berthv1alpha1.DisruptionPolicySpec)
		change func(d *desk)
		want   []string
	}{
		"by default one more is published, and none is missing": {3, nothing, swap, []string{
			"a b c x (True RollingUpdate: 1 of 2 added, 0 of 2 removed)",
			"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)",
			"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)",
			"c x y",
		}},
		"a larger surge takes fewer steps": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = new(intstr.FromString("50%")) }, swap, []string{
			"a b c x y (True RollingUpdate: 2 of 2 added, 0 of 2 removed)", "c x y",
		}},
		"without a surge one is missing": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.MaxSurge, spec.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
		}, swap, []string{
			"b c (True RollingUpdate: 0 of 2 added, 1 of 2 removed)",
			"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)",
			"c x (True RollingUpdate: 1 of 2 added, 2 of 2 removed)",
			"c x y",
		}},
		"numberOfClusters absent": {0, nothing, swap, []string{
			"a b c x (True RollingUpdate: 1 of 2 added, 0 of 2 removed)",
			"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)",
			"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)",
			"c x y",
		}},
		"numberOfClusters absent, and none is added": {0, nothing, func(d *desk) { d.tier("silver", "a", "b") }, []string{"c"}},
		"without a replacement a cluster stays": {3, nothing, func(d *desk) { d.tier("silver", "a") }, []string{
			"a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; no other cluster is selected to replace those to remove: " +
				"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)",
		}},
		"a deleted cluster leaves at once": {3, nothing, func(d *desk) { d.remove("a") }, []string{"b c"}},
		"and the others follow": {3, nothing, func(d *desk) { swap(d); d.remove("a") }, []string{
			"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)", "c x y",
		}},
		"a drained cluster is replaced first": {3, nothing, func(d *desk) { d.tier("gold", "x"); d.taint("a", v1alpha1.DrainTaint) }, []string{
			"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)", "b c x",
		}},
		"a drained cluster without a replacement stays": {0, nothing, func(d *desk) { d.taint("a", v1alpha1.DrainTaint) }, []string{
			"a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; without numberOfClusters, no cluster replaces those to remove: " +
				"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)",
		}},
		"one of two drained clusters may leave": {0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) }, func(d *desk) {
			d.taint("a", v1alpha1.DrainTaint)
			d.taint("b", v1alpha1.DrainTaint)
		}, []string{
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed)",
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed; without numberOfClusters, no cluster replaces those to remove: " +
				"2 of 3 desired clusters must be published and ready, maxUnavailable is 1; with 2 the next one leaves)",
		}},
		"an evicted cluster is replaced first": {3, nothing, func(d *desk) { d.tier("gold", "x"); d.evict("a") }, []string{
			"a b c x (True RollingUpdate: 1 of 1 added, 0 of 1 removed)", "b c x",
		}},
		"an evicted cluster without a replacement stays": {3, nothing, func(d *desk) { d.evict("a") }, []string{
			"a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; no other cluster is selected to replace those to remove: " +
				"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)",
		}},
		"numberOfClusters absent, an evicted cluster stays": {0, nothing, func(d *desk) { d.evict("a") }, []string{
			"a b c (True RollingUpdate: 0 of 0 added, 0 of 1 removed; without numberOfClusters, no cluster replaces those to remove: " +
				"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves)",
		}},
		"an evicted and a drained cluster, one of which may leave": {0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) }, func(d *desk) {
			d.evict("b")
			d.taint("a", v1alpha1.DrainTaint)
		}, []string{
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed)",
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed; without numberOfClusters, no cluster replaces those to remove: " +
				"2 of 3 desired clusters must be published and ready, maxUnavailable is 1; with 2 the next one leaves)",
		}},
		"an evicted cluster leaves before one that no longer matches": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) }, func(d *desk) {
			d.evict("b")
			d.tier("silver", "a")
		}, []string{
			"a c (True RollingUpdate: 0 of 0 added, 1 of 2 removed)",
			"a c (True RollingUpdate: 0 of 0 added, 1 of 2 removed; no other cluster is selected to replace those to remove: " +
				"2 of 3 desired clusters must be published and ready, maxUnavailable is 1; with 2 the next one leaves)",
		}},
		"an evicted cluster that is deleted leaves at once":    {3, nothing, func(d *desk) { d.evict("a"); d.remove("a") }, []string{"b c"}},
		"an evicted cluster with another taint leaves at once": {3, nothing, func(d *desk) { d.evict("a"); d.taint("a", "gone") }, []string{"b c"}},
		"suspended: an evicted cluster stays": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }, func(d *desk) { d.evict("a") }, []string{
			"a b c (False Suspended: 0 of 0 added, 0 of 1 removed; suspended by DisruptionPolicy careful)",
		}},
		"another taint removes at once": {3, nothing, func(d *desk) { d.taint("a", "gone"); d.taint("b", v1alpha1.DrainTaint) }, []string{
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed)",
			"b c (True RollingUpdate: 0 of 0 added, 1 of 2 removed; no other cluster is selected to replace those to remove: " +
				"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 2 the next one leaves)",
		}},
		"a smaller number takes effect at once": {3, nothing, func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
		}, []string{"a"}},
		"suspended: nothing is published": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }, swap, []string{
			"a b c (False Suspended: 0 of 2 added, 0 of 2 removed; suspended by DisruptionPolicy careful)",
		}},
		"suspended: a deleted cluster leaves": {3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }, func(d *desk) { swap(d); d.remove("a") }, []string{
			"b c (False Suspended: 0 of 2 added, 1 of 2 removed; suspended by DisruptionPolicy careful)",
			"b c (False Suspended: 0 of 2 added, 1 of 2 removed; suspended by DisruptionPolicy careful)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, tc.number, nothing)
			d.govern(tc.policy)
			tc.change(d)
			if got := d.steps(); got != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestEvictionEnds: the cluster is selected again when the exclusion ends, or the eviction is
// deleted.
func TestEvictionEnds(t *testing.T) {
	d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.ProgressDeadlineSeconds = 86400 })
	d.tier("gold", "x")
	d.evict("a")
	d.attemptUntilStable()
	d.expect("p-decision-1: b c x |  | ")
	d.tier("silver", "x")
	executed := fixture.Eviction("ns", "evict-a", "p", "a").Executed(d.now).Obj()
	d.inv.Update(executed)
	if at := d.attempt().State.NextAttempt(); !at.Equal(d.now.Add(time.Hour)) {
		t.Errorf("the next attempt is at %s", at)
	}
	d.attemptUntilStable()
	d.expect("p-decision-1: b c x | [b c] | ")
	d.now = d.now.Add(time.Hour)
	d.inv.ClearCause(d.snapshot())
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | ")
	records := d.snapshot().Subject.Records
	if cause := records[len(records)-1].Spec.Cause; cause != "PlacementEviction evict-a: ended" {
		t.Errorf("the cause is %q", cause)
	}

	d.evict("b")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [a c] | ")
	d.inv.Delete(fixture.Eviction("ns", "evict-b", "p", "b").Obj())
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | ")
}

// TestDrainAndOtherChanges: clusters that come and go while clusters are drained supersede the
// change. That does not start the budget again, not even if history keeps few records.
func TestDrainAndOtherChanges(t *testing.T) {
	d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.MaxUnavailable, spec.HistoryLimit = new(intstr.FromInt32(1)), 1
	})
	d.tier("gold", "d", "e")
	d.attemptUntilStable()
	for _, name := range []string{"a", "b", "c", "d"} {
		d.taint(name, v1alpha1.DrainTaint)
	}
	d.attemptUntilStable()
	d.expect("p-decision-1: b c d e | [e] | ")
	d.tier("gold", "f")
	d.attemptUntilStable()
	d.expect("p-decision-1: b c d e f | [e f] | ")
	for range 5 {
		d.restart()
		d.tier("silver", "f")
		d.attemptUntilStable()
		d.expect("p-decision-1: c d e f | [e] | ")
		d.restart()
		d.tier("gold", "f")
		d.attemptUntilStable()
		d.expect("p-decision-1: c d e f | [e f] | ")
	}
	d.tier("gold", "a", "b", "c", "d")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c d e f |  | ")
}

// TestDeniedAfterACrash: a change that is denied after a crash between its page and its record says
// how much of it was made.
func TestDeniedAfterACrash(t *testing.T) {
	d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
	d.taint("a", v1alpha1.DrainTaint)
	d.taint("b", v1alpha1.DrainTaint)
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	d.restart()
	d.fore.answer = refuses
	d.attempt()
	if left := d.records["p-2"].Status.Remaining; left.Added != 0 || left.Removed != 1 {
		t.Errorf("left: %+v", left)
	}
}

// TestDrainAndACrash: after a crash between the page and the status of the record, too.
func TestDrainAndACrash(t *testing.T) {
	d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
	d.taint("a", v1alpha1.DrainTaint)
	d.taint("b", v1alpha1.DrainTaint)
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	d.expect("p-decision-1: b c | [c] | ")
	d.restart()
	d.tier("gold", "f")
	d.attemptUntilStable()
	d.expect("p-decision-1: b c f | [c f] | ")
	if left := d.records["p-2"].Status.Remaining; left.Added != 0 || left.Removed != 1 {
		t.Errorf("left: %+v", left)
	}
	d.restart()
	d.tier("silver", "f")
	d.attemptUntilStable()
	d.expect("p-decision-1: c f | [c] | ")
}

// TestRollingUpdateRecord: the change has one record, which is written before the first step.
func TestRollingUpdateRecord(t *testing.T) {
	d := governed(t, 3, nothing)
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	expect := func(want string) {
		t.Helper()
		record := d.records["p-2"]
		got := fmt.Sprintf("%s %v %v", record.Status.Phase, record.Spec.Added, record.Spec.Removed)
		if left := record.Status.Remaining; left != nil {
			got += fmt.Sprintf(" left %d %d", left.Added, left.Removed)
		}
		if got != want {
			t.Errorf("record: %s, want %s", got, want)
		}
	}
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	if _, failure := d.try(); failure.IsSuccess() {
		t.Error("a step was published without a record")
	}
	d.expect("p-decision-1: a b c |  | ")
	d.refuseRecords = nil
	d.attempt()
	expect("Progressing [x y] [a b] left 1 2")
	for range 2 {
		d.restart()
		d.attempt()
	}
	expect("Progressing [x y] [a b] left 0 1")
	d.restart()
	d.attempt()
	expect("Published [x y] [a b]")
	if len(d.records) != 2 {
		t.Errorf("%d records", len(d.records))
	}
}

// TestRollingUpdateWithoutRecord: a deleted cluster leaves even if no record can be written. The
// rest of the change waits for the record.
func TestRollingUpdateWithoutRecord(t *testing.T) {
	d := governed(t, 3, nothing)
	d.tier("silver", "a")
	d.tier("gold", "x", "y")
	d.remove("b")
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	for range 2 {
		if _, failure := d.try(); failure.IsSuccess() {
			t.Error("the attempt succeeded without a record")
		}
		if got := d.published(); got != "p-decision-1: a c" {
			t.Errorf("published %q", got)
		}
	}
	d.refuseRecords = nil
	if got := d.steps(); !strings.HasSuffix(got, "\nc x y") {
		t.Errorf("got\n%s", got)
	}
}

// TestRollingUpdateAndApproval: one approval covers all steps of the change, and no other change.
func TestRollingUpdateAndApproval(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [c x y] | True/Held")
	d.approve("2")
	d.attempt()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	d.tier("silver", "c")
	d.tier("gold", "z")
	d.attemptUntilStable()
	d.expect("p-decision-1: c x y | [x y z] | True/Held")
	if phase := d.phase("2"); phase != berthv1alpha1.PhasePublished {
		t.Errorf("revision 2 is %s", phase)
	}
	d.approve("3")
	if got := d.steps(); !strings.HasSuffix(got, "\nx y z") {
		t.Errorf("got\n%s", got)
	}
}

// TestChangeInProgressGoesOn: a new target supersedes a change in progress only if it contradicts
// the rest of that, or if the rest does not get on. Otherwise it is the next change, with its own
// approval.
func TestChangeInProgressGoesOn(t *testing.T) {
	joins := func(d *desk) { d.tier("gold", "z") }
	for name, tc := range map[string]struct {
		number int32
		change func(d *desk)
		// want is what happens at once, phase that of the first change then. end and endPhase are
		// when all is ready.
		want     string
		phase    berthv1alpha1.ChangePhase
		end      string
		endPhase berthv1alpha1.ChangePhase
	}{
		"a cluster joins": {0, joins, "a b c x | [c x y] | ", berthv1alpha1.PhaseProgressing, "c x y | [c x y z] | True/Held", berthv1alpha1.PhasePublished},
		"an edit that selects the same": {3, func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = v1alpha1.PrioritizerPolicyModeExact })
		}, "a b c x | [c x y] | ", berthv1alpha1.PhaseProgressing, "c x y |  | ", berthv1alpha1.PhasePublished},
		"one that leaves is selected again":            {0, func(d *desk) { d.tier("gold", "a") }, "a b c x | [a c x y] | True/Held", berthv1alpha1.PhaseSuperseded, "a b c x | [a c x y] | True/Held", berthv1alpha1.PhaseSuperseded},
		"one to add no longer qualifies":               {0, func(d *desk) { d.tier("silver", "y") }, "a b c x | [c x] | True/Held", berthv1alpha1.PhaseSuperseded, "a b c x | [c x] | True/Held", berthv1alpha1.PhaseSuperseded},
		"no progress before the deadline":              {0, func(d *desk) { d.app("x", false); d.attempt(); d.later(601); joins(d) }, "a b c x | [c x y z] | True/Held", berthv1alpha1.PhaseSuperseded, "a b c x | [c x y z] | True/Held", berthv1alpha1.PhaseSuperseded},
		"one that stays is deleted":                    {0, func(d *desk) { d.remove("c") }, "a b c x | [x y] | True/Held", berthv1alpha1.PhaseSuperseded, "a b c x | [x y] | True/Held", berthv1alpha1.PhaseSuperseded},
		"the set of one that stays is no longer bound": {0, func(d *desk) { d.leaveSet("c") }, "a b x | [x y] | ", berthv1alpha1.PhaseSuperseded, "x y |  | ", berthv1alpha1.PhaseSuperseded},
		"a policy that suspends it": {0, func(d *desk) {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			joins(d)
		}, "a b c x | [c x y] | ", berthv1alpha1.PhaseProgressing, "a b c x | [c x y] | ", berthv1alpha1.PhaseProgressing},
		"a quota without room for the rest": {0, func(d *desk) {
			d.inv.Delete(d.policy)
			d.queue = &framework.QueueAdmission{Admitted: true, Limit: 2}
			d.tier("silver", "c")
		}, "x y |  | ", berthv1alpha1.PhaseSuperseded, "x y |  | ", berthv1alpha1.PhaseSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, tc.number, nothing)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.Approval, spec.MinReadySeconds = berthv1alpha1.ApprovalRequired, 60
				apps(spec)
			})
			d.ready("a b c x y z", "")
			d.beginApproved()
			tc.change(d)
			d.attemptUntilStable()
			d.expect("p-decision-1: " + tc.want)
			if got := d.phase("2"); got != tc.phase {
				t.Errorf("the first change is %s, want %s", got, tc.phase)
			}
			for range 4 {
				d.later(60)
				d.attemptUntilStable()
			}
			if got := d.phase("2"); got != tc.endPhase {
				t.Errorf("at the end the first change is %s, want %s", got, tc.endPhase)
			}
			d.expect("p-decision-1: " + tc.end)
		})
	}
}

// TestRecordOfTheRest: the record under which a change in progress goes on says nothing of an edit
// made since, which the next change follows.
func TestRecordOfTheRest(t *testing.T) {
	d := governed(t, 0, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 60; apps(spec) })
	d.ready("a b c x y", "")
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	d.number(3, "eve")
	d.attemptUntilStable()
	d.leaveSet("c")
	d.attemptUntilStable()
	was, is := d.records["p-2"].Spec, d.records["p-3"].Spec
	if was.Cause != is.Cause || was.Before != is.Before || was.By != is.By || was.PlacementGeneration != is.PlacementGeneration {
		t.Errorf("got cause %q, before %q, by %q, generation %d; want %q, %q, %q, %d",
			is.Cause, is.Before, is.By, is.PlacementGeneration, was.Cause, was.Before, was.By, was.PlacementGeneration)
	}
}

// TestRollingUpdateSatisfied: while a change progresses, Satisfied describes what is published.
func TestRollingUpdateSatisfied(t *testing.T) {
	d := governed(t, 3, nothing)
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attempt()
	c := d.condition(v1alpha1.PlacementConditionSatisfied)
	want := "False DecisionPending Clusters published: 4, wanted: 3, no longer qualified: 1, awaited: the removal of 1; see condition DecisionProgressing"
	if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d.attemptUntilStable()
	if c := d.condition(v1alpha1.PlacementConditionSatisfied); c.Status != metav1.ConditionTrue {
		t.Errorf("at the end: %+v", c)
	}
}

// TestProgressDeadline: a change without a step is reported once, and goes on when it can.
func TestProgressDeadline(t *testing.T) {
	d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.ProgressDeadlineSeconds = 60 })
	d.tier("silver", "a")
	a := d.attempt()
	if got, want := a.State.Requeue(), d.now.Add(time.Minute); !got.IsZero() && !got.Equal(want) {
		t.Errorf("the next attempt is at %s, want %s", got, want)
	}
	expect := func(want string, wantEvent bool) {
		t.Helper()
		a := d.attempt()
		c := d.condition(v1alpha1.PlacementConditionDecisionProgressing)
		if got := string(c.Status) + " " + c.Reason; got != want {
			t.Errorf("the condition is %s, want %s", got, want)
		}
		if event := report.Stuck(a); (event != nil) != wantEvent {
			t.Errorf("the event is %v", event)
		}
	}
	d.now = d.now.Add(59 * time.Second)
	expect("True RollingUpdate", false)
	d.restart()
	d.now = d.now.Add(time.Second)
	a = d.tryWithoutStatus()
	if event := report.Stuck(a); event == nil || !strings.Contains(event.Note, "Change 2: 0 of 0 added, 0 of 1 removed; no progress since 2") {
		t.Errorf("the event is %+v", event)
	}
	expect("False ProgressDeadlineExceeded", true)
	expect("False ProgressDeadlineExceeded", false)
	d.tier("gold", "x")
	if got := d.steps(); !strings.HasSuffix(got, "\nb c x") {
		t.Errorf("got\n%s", got)
	}
}

// tryWithoutStatus is an attempt whose status is not written.
func (d *desk) tryWithoutStatus() *scheduler.Attempt {
	return d.scheduler.Attempt(context.Background(), key.Namespace, d.snapshot)
}

// TestNewTargetWhileProgressing: with a stabilization window, the change in progress goes on while
// a new target waits, without clusters that no longer qualify.
func TestNewTargetWhileProgressing(t *testing.T) {
	careful := func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 }
	waits := "; change 3 follows: it waits for Stabilization: a target that stays the same until "
	for name, tc := range map[string]struct {
		change func(d *desk)
		want   []string
		// wantRecord is the phase of the change in progress afterwards.
		wantRecord berthv1alpha1.ChangePhase
		// wantEnd is what is published when the window is over.
		wantEnd string
	}{
		"a better cluster joins": {
			func(d *desk) { d.tier("silver", "c"); d.tier("gold", "z") }, []string{
				"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed; change 3 follows)",
				"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed; change 3 follows)",
				"c x y (True RollingUpdate: 2 of 2 added, 2 of 2 removed; change 3 follows)",
				"c x y",
			}, berthv1alpha1.PhasePublished, "x y z",
		},
		"a cluster to add no longer qualifies": {
			func(d *desk) { d.tier("silver", "y"); d.tier("gold", "z") }, []string{
				"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed" + waits + "2026-01-01T00:02:00Z)",
				"b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed; no other cluster is selected to replace those to remove: " +
					"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves; change 3 follows: it waits for Stabilization: a target that stays the same until 2026-01-01T00:02:00Z)",
			}, berthv1alpha1.PhaseProgressing, "c x z",
		},
		"a deleted cluster leaves beside it": {
			func(d *desk) { d.remove("c"); d.tier("gold", "z") }, []string{
				"a b x y (True RollingUpdate: 1 of 1 added, 1 of 3 removed; change 4 follows)",
				"b x y (True RollingUpdate: 1 of 1 added, 2 of 3 removed; change 4 follows)",
				"b x y (True RollingUpdate: 1 of 1 added, 2 of 3 removed; no other cluster is selected to replace those to remove: " +
					"3 of 3 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves; change 4 follows: it waits for Stabilization: a target that stays the same until 2026-01-01T00:02:00Z)",
			}, berthv1alpha1.PhaseSuperseded, "x y z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			d.govern(careful)
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			d.expect("p-decision-1: a b c |  | True/Waiting")
			d.later(60)
			d.attempt()
			d.expect("p-decision-1: a b c x | [c x y] | ")
			tc.change(d)
			if got := d.steps(); got != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(tc.want, "\n"))
			}
			if phase := d.phase("2"); phase != tc.wantRecord {
				t.Errorf("revision 2 is %s, want %s", phase, tc.wantRecord)
			}
			d.later(60)
			if got := d.steps(); !strings.HasSuffix("\n"+got, "\n"+tc.wantEnd) {
				t.Errorf("at the end\n%s\nwant %s", got, tc.wantEnd)
			}
		})
	}
}

// pin pins the Placement to a revision; an empty one removes the pin.
func (d *desk) pin(revision string) {
	d.placement = d.placement.DeepCopy()
	d.placement.Annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: revision}
	if revision == "" {
		d.placement.Annotations = nil
	}
	d.inv.Update(d.placement.DeepCopy())
}

// TestPin: a Placement has the clusters of the pinned revision that still qualify, rolled out as
// any change, until the pin is removed.
func TestPin(t *testing.T) {
	// a, b and c are revision 1, x, y and z are revision 2.
	replaced := func(t *testing.T) *desk {
		d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = new(intstr.FromString("100%")) })
		d.tier("silver", "a", "b", "c")
		d.tier("gold", "x", "y", "z")
		d.attemptUntilStable()
		d.expect("p-decision-1: x y z |  | ")
		d.tier("gold", "a", "b", "c")
		return d
	}
	t.Run("and unpin", func(t *testing.T) {
		d := replaced(t)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = nil })
		d.pin("1")
		want := []string{
			"a x y z (True RollingUpdate: 1 of 3 added, 0 of 3 removed; pinned to revision 1)",
			"a x y (True RollingUpdate: 1 of 3 added, 1 of 3 removed; pinned to revision 1)",
			"a b x y (True RollingUpdate: 2 of 3 added, 1 of 3 removed; pinned to revision 1)",
			"a b x (True RollingUpdate: 2 of 3 added, 2 of 3 removed; pinned to revision 1)",
			"a b c x (True RollingUpdate: 3 of 3 added, 2 of 3 removed; pinned to revision 1)",
			"a b c",
		}
		if got := d.steps(); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = new(intstr.FromString("100%")) })
		d.tier("silver", "a", "b", "c")
		d.restart()
		d.attemptUntilStable()
		d.expect("p-decision-1: a b c | [] | ")
		d.pin("")
		d.attemptUntilStable()
		d.expect("p-decision-1: x y z |  | ")
	})
	t.Run("without replacements", func(t *testing.T) {
		d := replaced(t)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(3)) })
		d.remove("a")
		d.pin("1")
		d.attemptUntilStable()
		d.expect("p-decision-1: b c |  | ")
		if c := d.condition(v1alpha1.PlacementConditionSatisfied); c.Message != "1 cluster decisions unscheduled; pinned to revision 1" {
			t.Errorf("the condition is %s", c.Message)
		}
	})
	t.Run("at most numberOfClusters, by rank", func(t *testing.T) {
		d := replaced(t)
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(2))
			pl.Annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: "1"}
		})
		d.attemptUntilStable()
		d.expect("p-decision-1: a b |  | ")
		verdicts := map[string]string{}
		for _, v := range d.scheduler.Explain(t.Context(), d.scheduler.Decide(t.Context(), d.snapshot()).Decision, "") {
			verdicts[v.Cluster] = v.Reason
		}
		for name, want := range map[string]string{"c": "rank 3 of 6, 2 selected", "x": "rank 4 of 6, not in pinned revision 1"} {
			if verdicts[name] != want {
				t.Errorf("%s: %q, want %q", name, verdicts[name], want)
			}
		}
	})
	t.Run("under an eviction", func(t *testing.T) {
		d := replaced(t)
		d.pin("1")
		d.attemptUntilStable()
		d.evict("a")
		d.attemptUntilStable()
		d.expect("p-decision-1: a b c | [b c] | ")
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
		d.attemptUntilStable()
		d.expect("p-decision-1: b c |  | ")
	})
	for revision, want := range map[string]string{
		"7":  "the clusters of revision 7 are not known: it has no record; possible revisions are 2, 1",
		"no": `must be the number of a revision, such as "16"`,
	} {
		t.Run("to "+revision, func(t *testing.T) {
			d := replaced(t)
			d.pin(revision)
			d.attempt()
			c := d.condition(v1alpha1.PlacementConditionMisconfigured)
			wantMessage := fmt.Sprintf("metadata.annotations[%s]: Invalid value: %q: %s", berthv1alpha1.PinnedRevisionAnnotation, revision, want)
			if c == nil || c.Status != metav1.ConditionTrue || c.Message != wantMessage {
				t.Errorf("got %v, want %s", c, wantMessage)
			}
			d.expect("p-decision-1: x y z |  | ")
			d.pin("")
			d.attemptUntilStable()
			if c := d.condition(v1alpha1.PlacementConditionMisconfigured); c.Status != metav1.ConditionFalse {
				t.Errorf("without the pin: %v", c)
			}
		})
	}
}

// TestPinBeforeTheRecord: while the record of the last change is not written, the pin waits.
func TestPinBeforeTheRecord(t *testing.T) {
	d := newDesk(t, ask().Predicate(fixture.MatchLabel("tier", "gold")))
	d.tier("gold", "a", "b")
	d.attemptUntilStable()
	first := d.records["p-1"]
	d.inv.Delete(first.DeepCopy())
	d.pin("1")
	a := d.attempt()
	if !a.Failure.IsUnfinished() || a.State.NextAttempt().IsZero() {
		t.Errorf("the attempt ended with %v", a.Failure)
	}
	d.inv.Update(first.DeepCopy())
	if a := d.attempt(); a.Failure != nil {
		t.Errorf("with the record: %v", a.Failure)
	}
}

// TestReservedWhileProgressing: the change in progress that goes on reserves its whole target, so
// that quotas count clusters that later steps add.
func TestReservedWhileProgressing(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	d.later(60)
	d.attempt()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	d.tier("silver", "c")
	d.tier("gold", "z")
	a := d.attempt()
	if got := len(a.Change.Selected); a.Outcome != plan.Progressing || got != len(a.Change.Clusters) {
		t.Errorf("%s: %d of %d clusters are reserved", a.Outcome, got, len(a.Change.Clusters))
	}
}

// TestFirstChangeGoesOn: the first change of a Placement goes on while a new target waits, although
// no page could be written yet.
func TestFirstChangeGoesOn(t *testing.T) {
	d := newDesk(t, ask().Predicate(fixture.MatchLabel("tier", "gold")))
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
	d.tier("gold", "b")
	d.pages.refuse = func(string) error { return errRefused }
	if a, failure := d.try(); failure.IsSuccess() || a.Outcome != plan.Progressing {
		t.Fatalf("the outcome is %s, %v", a.Outcome, failure)
	}
	d.pages.refuse = nil
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Suspend, spec.StabilizationWindowSeconds = false, 60
	})
	d.tier("gold", "a")
	d.attempt()
	d.expect("p-decision-1: b |  | ")
}

// TestTooManyPolicies: while more policies select a Placement than may, only forced removals are
// published, because one of the others may protect it.
func TestTooManyPolicies(t *testing.T) {
	d := governed(t, 3, nothing)
	policies := make([]*berthv1alpha1.DisruptionPolicy, 40)
	for i := range policies {
		policies[i] = &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%02d", i)}}
		policies[i].Spec.PlacementSelector = &metav1.LabelSelector{}
		d.inv.Update(policies[i])
	}
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [b c x] | ")
	got := d.condition(v1alpha1.PlacementConditionDecisionProgressing)
	const want = "41 DisruptionPolicies select the Placement, at most 32 may; until fewer do, only forced removals are published"
	if got.Reason != v1alpha1.ReasonSuspended || !strings.Contains(got.Message, want) {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	d.tier("gold", "y")
	d.remove("b")
	d.attemptUntilStable()
	d.expect("p-decision-1: a c | [c x] | ")
	for _, policy := range policies[:9] {
		d.inv.Delete(policy)
	}
	d.attemptUntilStable()
	d.expect("p-decision-1: c x y |  | ")
}

// TestBudgetOfTheChangeInProgress: while an edit of numberOfClusters waits, the change in progress
// goes on with the budget of its own number of clusters.
func TestBudgetOfTheChangeInProgress(t *testing.T) {
	for name, policy := range map[string]func(spec *berthv1alpha1.DisruptionPolicySpec){
		"windows": func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 3 1 1 *", Duration: "1m"}}
		},
		"stabilization": func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 3600 },
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
			d.tier("silver", "a", "b", "c")
			d.tier("gold", "x", "y", "z")
			d.steps()
			if got := d.names(); got != "a b c x" {
				t.Fatalf("published %s", got)
			}
			d.govern(policy)
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
			d.steps()
			for range 4 {
				d.later(601)
				d.steps()
				if got := d.names(); len(got) < 5 {
					t.Errorf("fewer than 3 clusters are published: %s", got)
				}
			}
		})
	}
}

// TestRevertedWhileProgressing: an edit is undone in the middle of its change, while the windows
// are closed. The change does not go on against the new target.
func TestRevertedWhileProgressing(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
	d.tier("silver", "a", "b", "c")
	d.tier("gold", "x", "y", "z")
	d.steps()
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 3 1 1 *", Duration: "1m"}}
	})
	d.tier("gold", "a", "b", "c")
	d.tier("silver", "x", "y", "z")
	d.steps()
	for range 4 {
		d.later(601)
		d.steps()
	}
	if got := d.names(); got != "a b c x" {
		t.Errorf("published %s", got)
	}
}

// TestRetryWhileProgressing: a change that waits for a fact is tried again also while the change in
// progress goes on, which may be stuck.
func TestRetryWhileProgressing(t *testing.T) {
	d := governed(t, 0, nothing)
	d.govern(apps)
	d.ready("a b c x y z", "")
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attempt()
	d.app("x", false)
	d.attemptUntilStable()
	d.later(601)
	d.attempt()
	d.x.answer = awaits
	d.tier("gold", "z")
	a := d.attempt()
	if a.Outcome != plan.Progressing || a.Deferred == nil {
		t.Fatalf("the outcome is %s, deferred %v", a.Outcome, a.Deferred)
	}
	if at, want := a.State.NextAttempt(), d.now.Add(decide.WaitingInterval); !at.Equal(want) {
		t.Errorf("the next attempt is at %s, want %s", at, want)
	}
}
