package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// The tests of this file fail: each shows where the engine differs from the sentence that its
// comment names.

// needsApproval has the policy require approval, and new clusters be ready for ten minutes.
func needsApproval(spec *berthv1alpha1.DisruptionPolicySpec) {
	spec.Approval, spec.MinReadySeconds = berthv1alpha1.ApprovalRequired, 600
}

// approvedInProgress is a desk whose approved change 2 replaces a and b by x and y, and has
// published x.
func approvedInProgress(t *testing.T, change func(spec *berthv1alpha1.DisruptionPolicySpec), more ...framework.Plugin) *desk {
	t.Helper()
	d := governed(t, 0, nothing)
	d.more = more
	d.restart()
	d.attemptUntilStable()
	d.govern(needsApproval)
	d.govern(change)
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.attempt()
	d.approve("2")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c x | [c x y] | ")
	if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
		t.Fatalf("change 2 is %s", got)
	}
	return d
}

// picky is a Reserve plugin whose answer depends on the change.
type picky struct {
	bare
	of func(p *framework.Proposal) *framework.Status
}

func (r *picky) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if r.of == nil {
		return nil
	}
	return r.of(p)
}

func (r *picky) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

// TestReadingMinReadyAfterALostResponse: the response to the write that adds x is lost, and the
// next attempt, which reads the page, publishes nothing else.
//
// Violates changes.md 3: "an added cluster counts as ready after it has been listed and ready for"
// minReadySeconds; law 9.
func TestReadingMinReadyAfterALostResponse(t *testing.T) {
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

// TestReadingMinReadyWhileDisabled: x becomes not ready, and ready again, while its Placement is
// disabled.
//
// Violates changes.md 3: "an added cluster counts as ready after it has been listed and ready for"
// minReadySeconds; law 9.
func TestReadingMinReadyWhileDisabled(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		d := governed(t, 3, nothing)
		d.ready("a b c x", "")
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			apps(spec)
			spec.MinReadySeconds = 600
		})
		d.attemptUntilStable()
		d.tier("silver", "a")
		d.tier("gold", "x")
		d.attemptUntilStable()
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

// mover is a Transition plugin that answers as it is set.
type mover struct {
	bare
	answer *framework.Transition
}

func (m *mover) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	return m.answer, nil
}

// TestReadingDeadlineAfterAFailedWrite: the status of the record that says when the last step was
// published cannot be written. The deadline counts from that step all the same.
//
// Violates law 9 and changes.md 3: progressDeadlineSeconds is "this time without a step or a newly
// ready cluster".
func TestReadingDeadlineAfterAFailedWrite(t *testing.T) {
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

// TestReadingUnreadPagesKeepQuota: the response to a write is lost, and the page cannot be read in
// the next attempt either.
//
// Violates engine.md 2 ("so an approval never fails because somebody else took the quota") and law
// 5: the clusters are published, and others may take their quota.
func TestReadingUnreadPagesKeepQuota(t *testing.T) {
	d := newDesk(t, ask(), "a", "b")
	d.queue = &framework.QueueAdmission{Admitted: true, Limit: 2}
	used := 0
	d.scheduler.StoreQuota = func(_ *framework.Subject, clusters int) { used = clusters }
	d.pages.lost = true
	for n := range 3 {
		_, _ = d.try()
		if used != 2 {
			t.Errorf("after attempt %d the page is %s, and the quota in use is %d, want 2", n+1, d.published(), used)
		}
	}
}

// ledger is a Reserve plugin that remembers for what it reserved last.
type ledger struct {
	bare
	reserved []string
}

func (l *ledger) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	l.reserved = p.Added
	return nil
}

func (l *ledger) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	l.reserved = nil
}

// TestReadingRevokedKeepsPluginsReservation: nothing is decided, and the removal of a revoked
// cluster is not permitted. The held change stays open.
//
// Violates engine.md 2: "a change that is Held or Waiting keeps its claim, and Unreserve gives it
// back when the change ends", architecture.md: "also when an attempt fails or decides nothing".
func TestReadingRevokedKeepsPluginsReservation(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		l := &ledger{bare: bare{"ledger"}}
		d := newDesk(t, ask(), "c1", "c2")
		d.more = []framework.Plugin{l}
		d.restart()
		d.attemptUntilStable()
		d.require()
		d.add("c3")
		d.attemptUntilStable()
		d.x.ofRevoked = refuses
		if revoked {
			d.leaveSet("c1")
		}
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "missing"}
		})
		_, _ = d.try()
		if got := strings.Join(l.reserved, " "); d.phase("2") == berthv1alpha1.PhaseHeld && got != "c3" {
			t.Errorf("revoked %t: change 2 is Held, and reserved is %q", revoked, got)
		}
	}
}

// TestReadingFoundRemovalsCount: the response to the write that removes a is lost, and another
// target is selected before the page is read.
//
// Violates guarantees.md: removals are "counted by what is published"; changes.md 3: BlastRadius
// "counts the whole change once, when it is permitted".
func TestReadingFoundRemovalsCount(t *testing.T) {
	for _, other := range []bool{false, true} {
		d := governed(t, 0, nothing)
		d.inv.Delete(d.policy)
		d.policy, d.arguments = nil, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 1, "window": "1h", "settle": "0s"}`}
		d.restart()
		d.attemptUntilStable()
		d.tier("silver", "a")
		d.loseResponses()
		if other {
			d.tier("gold", "a")
		}
		d.decideAgain()
		d.attemptUntilStable()
		d.tier("silver", "b")
		if a := d.attempt(); a.Outcome != plan.Held {
			t.Errorf("another target %t: a and b left within the window, the limit is 1, and the second removal is %s: %s, counts %v", other, a.Outcome, d.published(), d.scheduler.Counts())
		}
	}
}

// TestReadingMinReadyAtRest: x, which the last change added, becomes not ready and ready again
// while no change is in progress. No attempt is asked for, so it counts as ready since it was
// added.
//
// Violates changes.md 3: "an added cluster counts as ready after it has been listed and ready for"
// minReadySeconds; law 9; law 3: the answer depends on whether an attempt ran in between.
func TestReadingMinReadyAtRest(t *testing.T) {
	for _, attempts := range []bool{true, false} {
		d := governed(t, 3, nothing)
		d.ready("a b c x y", "")
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			apps(spec)
			spec.MinReadySeconds = 600
		})
		d.attemptUntilStable()
		d.tier("silver", "a")
		d.tier("gold", "x")
		d.attemptUntilStable()
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

// TestReadingUnreadRemovalsCount: the response to the write that removes a is lost, and the page
// cannot be read. Another Placement removes a cluster.
//
// Violates guarantees.md: removals are "counted by what is published".
func TestReadingUnreadRemovalsCount(t *testing.T) {
	for _, lost := range []bool{false, true} {
		d := governed(t, 0, nothing)
		d.inv.Delete(d.policy)
		d.policy, d.arguments = nil, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 1, "window": "1h", "settle": "0s"}`}
		d.restart()
		d.attemptUntilStable()
		other := inventory.Key{Namespace: "ns", Name: "q"}
		q := fixture.Placement("ns", "q").Generation(1).Number(2).Obj()
		q.UID = "q"
		d.inv.Update(q.DeepCopy())
		attempt := func() plan.Outcome {
			a := d.scheduler.Attempt(t.Context(), "ns", func() *framework.Snapshot { return d.inv.Snapshot(other, d.now, nil) })
			return a.Outcome
		}
		attempt()
		d.tier("silver", "a")
		if lost {
			d.loseResponses()
		} else {
			d.attempt()
		}
		if got := d.published(); got != "p-decision-1: b c, q-decision-1: a b" {
			t.Fatal(got)
		}
		q = q.DeepCopy()
		q.Generation, q.Spec.NumberOfClusters = 2, new(int32(1))
		d.inv.Update(q)
		if got := attempt(); got != plan.Held {
			t.Errorf("lost %t: the limit is one removal, and the second one is %s: %s", lost, got, d.published())
		}
	}
}

// TestReadingHeldRemovalHasARecord: the change to the target is denied, and BlastRadius holds the
// removal of two revoked clusters alone.
//
// Violates architecture.md: "A change that is held ... has a PlacementChange": nobody can approve
// the removal.
func TestReadingHeldRemovalHasARecord(t *testing.T) {
	d := governedWith(t, map[string]string{"BlastRadius": `{"maxRemoved": 1, "settle": "0s"}`}, nothing)
	d.x.answer, d.x.ofRevoked = refuses, framework.NewStatus(framework.Success, "")
	d.leaveSet("a")
	d.leaveSet("b")
	d.tier("gold", "x", "y")
	d.attemptUntilStable()
	if d.published() == "p-decision-1: a b c" && d.newest() == nil {
		t.Errorf("a and b are revoked, their removal needs an approval, there is no record, and the condition is %s: %s", d.pending(), d.message())
	}
}

// TestReadingInterruptedStep: a change writes several pages, and the second write fails. The next
// attempt, for the same target, fails in Permit, and the one after that succeeds.
//
// Violates the first law of framework.md: "a non-success Status speaks of the attempt: keep the
// last decision", and the sense of law 2: x is published, gone and published again.
func TestReadingInterruptedStep(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var names []string
		for i := range 250 {
			names = append(names, fmt.Sprintf("c%03d", i))
		}
		d := newDesk(t, ask().Predicate(fixture.MatchLabel("pool", "in")), names...)
		pool := func(value string, names ...string) {
			for _, name := range names {
				d.clusters[name] = fixture.Cluster(name).Set("s1").Label("pool", value).Obj()
				d.inv.Update(d.clusters[name].DeepCopy())
			}
		}
		pool("in", names...)
		d.attemptUntilStable()
		pool("out", "c000", "c120", "c220")
		pool("in", "x", "y", "z")
		writes := 0
		d.pages.refuse = func(string) error {
			if writes++; writes > 1 {
				return errHubDown
			}
			return nil
		}
		_, _ = d.try()
		d.pages.refuse = nil
		came, left := listsAny(d, "x", "y", "z"), !listsAny(d, "c000") || !listsAny(d, "c120") || !listsAny(d, "c220")
		if !came {
			t.Fatalf("nothing came (left %t)", left)
		}
		if fails {
			d.y.answer = framework.AsStatus(errors.New("broken"))
		}
		_, _ = d.try()
		if !listsAny(d, "x", "y", "z") {
			t.Errorf("fails %t: the cluster that came is gone", fails)
		}
		d.y.answer = nil
		_, _ = d.try()
		d.attemptUntilStable()
		if !listsAny(d, "x") || listsAny(d, "c000") {
			t.Error("the change is not complete")
		}
	}
}

// listsAny reports whether a page lists one of the clusters.
func listsAny(d *desk, names ...string) bool {
	for _, name := range names {
		if strings.Contains(strings.ReplaceAll(d.published(), ",", " ")+" ", " "+name+" ") {
			return true
		}
	}
	return false
}

// prepares is a PreBind plugin that fails for additions.
type prepares struct{ bare }

func (prepares) PreBind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if len(p.Added) > 0 {
		return framework.AsStatus(errors.New("no credentials"))
	}
	return nil
}

// TestReadingPendingBesideTheRest: windows hold the change to the target, and the rest of the
// change in progress goes on.
//
// Violates engine.md 1: "The Plan keeps both the Move that was asked for with its Verdict (this is
// what DecisionPending describes) and the Move that is made".
func TestReadingPendingBesideTheRest(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.Windows = "", []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	d.tier("silver", "y")
	d.tier("gold", "z")
	a := d.attempt()
	if got := d.pending(); a.Deferred != nil && a.Deferred.Outcome == plan.Held && got != "True/Held" {
		t.Errorf("the change that adds %v is %s, and the condition is %q", a.Deferred.Added, a.Deferred.Outcome, got)
	}
}

// TestReadingStaleRecordClaims: a change was rejected, and the end of its record cannot be written.
//
// Violates engine.md 2: "Other Placements are told once, at the end of an event or of a cycle, and
// only if the claim differs from what it was at its beginning".
func TestReadingStaleRecordClaims(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.queue = &framework.QueueAdmission{Admitted: true, Limit: 5, Listed: 2}
	d.attemptUntilStable()
	d.require()
	d.add("c3")
	d.attemptUntilStable()
	d.refuseIt()
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	_, _ = d.try()
	var told []int
	d.scheduler.StoreQuota = func(_ *framework.Subject, clusters int) { told = append(told, clusters) }
	for range 3 {
		_, _ = d.try()
	}
	if len(told) > 0 {
		t.Errorf("the change is %s, and in three attempts the quota in use was stored as %v", d.phase("2"), told)
	}
}

// TestReadingRevokedWhilePreBindFails: a cluster is revoked, and PreBind fails for the additions of
// the same change.
//
// Violates guarantees.md: "a failure skips other work of the attempt: revoked clusters leave".
func TestReadingRevokedWhilePreBindFails(t *testing.T) {
	d := governed(t, 0, nothing)
	d.more = []framework.Plugin{prepares{bare{"prepares"}}}
	d.restart()
	d.attemptUntilStable()
	d.leaveSet("c")
	d.tier("gold", "x")
	for range 3 {
		_, _ = d.try()
	}
	if got := d.published(); got != "p-decision-1: a b" {
		t.Errorf("c is revoked, and published is %s", got)
	}
}

// TestReadingWhoHoldsTheQuota: p1 gets no cluster, because a held change of p0 has reserved the
// quota.
//
// Violates engine.md 2: "Conditions of those who wait for it name the change that holds it".
func TestReadingWhoHoldsTheQuota(t *testing.T) {
	f := newFleetAtRest(t, true, nil, nil)
	f.store(fixture.Placement("ns", "p0").Number(1).Obj())
	f.run(20)
	f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
	f.store(fixture.Placement("ns", "p1").Number(1).Predicate(clusters("c2")).Obj())
	a := f.scheduler.Attempt(t.Context(), "ns", func() *framework.Snapshot { return f.snapshot(p1) })
	if _, why := a.Satisfied(); !strings.Contains(why, "p0-2") && !strings.Contains(why, "change 2") {
		t.Errorf("the message does not name change p0-2: %s", why)
	}
}
