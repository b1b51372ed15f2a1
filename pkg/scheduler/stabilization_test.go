package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestStabilizationWindow: a change begins once its target stayed the same for the window; clusters
// that cannot stay leave at once.
func TestStabilizationWindow(t *testing.T) {
	const window = 2 * time.Second
	type step struct {
		after time.Duration
		do    func(d *desk)
		want  string
	}
	nothing := func(*desk) {}
	taint := func(d *desk, effect v1alpha1.TaintEffect) {
		d.clusters["c1"] = fixture.Cluster("c1").Set("s1").Taint("t", "", effect).Obj()
		d.inv.Update(d.clusters["c1"].DeepCopy())
	}
	tests := map[string][]step{
		"the first publication": {
			{0, nothing, "p-decision-1: |  | True/Waiting"},
			{window - 1, nothing, "p-decision-1: |  | True/Waiting"},
			{1, nothing, "p-decision-1: c1 c2 |  | "},
		},
		"each new target starts the window again": {
			{0, func(d *desk) { d.add("c3") }, "p-decision-1: |  | True/Waiting"},
			{time.Second, func(d *desk) { d.add("c4") }, "p-decision-1: |  | True/Waiting"},
			{window - 1, nothing, "p-decision-1: |  | True/Waiting"},
			{1, nothing, "p-decision-1: c1 c2 c3 c4 |  | "},
		},
		"a deleted cluster leaves at once, and the rest follows": {
			{0, nothing, "p-decision-1: |  | True/Waiting"},
			{window, nothing, "p-decision-1: c1 c2 |  | "},
			{0, func(d *desk) { d.add("c3"); d.remove("c1") }, "p-decision-1: c2 |  | True/Waiting"},
			{window, nothing, "p-decision-1: c2 c3 |  | "},
		},
		"so does one with a taint that is not tolerated": {
			{0, nothing, "p-decision-1: |  | True/Waiting"},
			{window, nothing, "p-decision-1: c1 c2 |  | "},
			{0, func(d *desk) { d.add("c3"); taint(d, v1alpha1.TaintEffectNoSelect) }, "p-decision-1: c2 |  | True/Waiting"},
		},
		"one that no longer matches waits": {
			{0, nothing, "p-decision-1: |  | True/Waiting"},
			{window, nothing, "p-decision-1: c1 c2 |  | "},
			{0, func(d *desk) {
				d.edit(func(pl *v1alpha1.Placement) {
					pl.Spec.Predicates = ask().Predicate(fixture.MatchCEL("managedCluster.metadata.name != 'c1'")).Obj().Spec.Predicates
				})
			}, "p-decision-1: c1 c2 |  | True/Waiting"},
			{window, nothing, "p-decision-1: c2 |  | "},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.arguments = map[string]string{"Stabilization": `{"stabilizationWindowSeconds": 2}`}
			d.restart()
			for i, s := range steps {
				d.now = d.now.Add(s.after)
				s.do(d)
				d.attemptUntilStable()
				d.expect(s.want)
				if t.Failed() {
					t.Fatalf("after step %d", i)
				}
			}
		})
	}
}

// TestStabilizationDelaysTheEnd: an approved change in progress goes on until the selected clusters
// were the published ones for the window, as it does before it is superseded.
func TestStabilizationDelaysTheEnd(t *testing.T) {
	for name, next := range map[string]func(d *desk){
		"the published clusters": func(d *desk) { d.tier("gold", "a", "b"); d.tier("silver", "y") },
		"other clusters":         func(d *desk) { d.tier("gold", "a", "b"); d.tier("silver", "x", "y") },
	} {
		for _, stays := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", for the window ", stays), func(t *testing.T) {
				d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
				next(d)
				d.attemptUntilStable()
				d.later(59)
				d.attemptUntilStable()
				if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
					t.Fatalf("after 59 seconds change 2 is %s: %s", got, d.records["p-2"].Status.Message)
				}
				c := d.condition(v1alpha1.PlacementConditionDecisionProgressing)
				if c == nil || !strings.Contains(c.Message, "Stabilization: a target that stays the same until") {
					t.Errorf("the condition is %+v", c)
				}
				if !stays {
					d.tier("silver", "a", "b")
					d.tier("gold", "x", "y")
				}
				d.later(1)
				d.attemptUntilStable()
				if got := d.phase("2"); (got == berthv1alpha1.PhaseProgressing) == stays {
					t.Errorf("change 2 is %s: %s", got, d.state())
				}
			})
		}
	}
}

// TestStabilizationAfterAStepToTheEnd: the window began when the selected clusters were the
// published ones, also if a step of the change in progress was published since.
func TestStabilizationAfterAStepToTheEnd(t *testing.T) {
	d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 30 })
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.tier("gold", "a", "b")
	d.tier("silver", "y")
	d.attemptUntilStable()
	for range 2 {
		d.later(30)
		d.attemptUntilStable()
	}
	d.expect("p-decision-1: a c x | [a b c x] | True/Held")
}

// TestEndWhilePermitFails: the end of a change in progress, too, is a change that an attempt which
// fails does not make.
func TestEndWhilePermitFails(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.tier("gold", "a", "b")
	d.tier("silver", "y")
	d.y.answer = fails
	if a, failure := d.try(); failure.IsSuccess() || d.phase("2") != berthv1alpha1.PhaseProgressing {
		t.Fatalf("outcome %s, change 2 is %s", a.Outcome, d.phase("2"))
	}
	if s := d.snapshot(); s.Counts.ByIndex.Get(s.Cluster("y").Index) != 1 {
		t.Error("the change in progress adds y, and does not count")
	}
	d.y.answer = nil
	d.attemptUntilStable()
	s := d.snapshot()
	if s.Counts.ByIndex.Get(s.Cluster("y").Index) != 0 || s.Subject.LastRevision() != 2 || d.phase("2") != berthv1alpha1.PhaseSuperseded {
		t.Errorf("change 2 is %s: %s", d.phase("2"), d.state())
	}
}

// TestRevokedWhileWaiting: while a change waits for the stabilization window and would then need an
// approval, clusters whose sets are no longer bound leave, and deleted ones wait for the approval.
func TestRevokedWhileWaiting(t *testing.T) {
	d := governed(t, 0, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.StabilizationWindowSeconds = berthv1alpha1.ApprovalRequired, 60
	})
	d.remove("a")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | True/Waiting")
	d.leaveSet("b")
	d.attemptUntilStable()
	d.expect("p-decision-1: a c |  | True/Waiting")
	d.later(60)
	d.attemptUntilStable()
	d.expect("p-decision-1: a c | [c] | True/Held")
}

// TestRejectedWhileWaiting: the rejection of a held change counts although a policy that was edited
// meanwhile lets the change wait for a stabilization window.
func TestRejectedWhileWaiting(t *testing.T) {
	d := governed(t, 0, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
	d.tier("gold", "x")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [a b c x] | True/Held")
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.answer("2", berthv1alpha1.Rejected)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | False/Rejected")
	if phase := d.phase("2"); phase != berthv1alpha1.PhaseRejected {
		t.Errorf("revision 2 is %s", phase)
	}
}

// TestForcedRemovalOfAnExpiredChange: forced removals of a change that expired go ahead once only
// windows of policies hold it.
func TestForcedRemovalOfAnExpiredChange(t *testing.T) {
	d := governed(t, 0, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.ApprovalTimeoutSeconds = berthv1alpha1.ApprovalRequired, 60
		spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	d.tier("silver", "a", "b")
	d.attemptUntilStable()
	d.later(60)
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | False/Expired")
	d.remove("a")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c |  | False/Expired")
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" })
	d.attemptUntilStable()
	d.expect("p-decision-1: b c | [c] | True/Held")
}
