package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRecordWithoutStatusEndsUndecided: an open record whose first status write failed ends, as a
// held one does, once the Placement is misconfigured: what is reserved for it is given back.
func TestRecordWithoutStatusEndsUndecided(t *testing.T) {
	for _, phase := range []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseHeld, ""} {
		t.Run("phase "+string(phase), func(t *testing.T) {
			f := newFleetAtRest(t, true, nil, nil)
			f.store(fixture.Placement("ns", "p0").Number(1).Obj())
			f.run(20)
			f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
			for name, record := range f.records {
				if record.Status.Phase == berthv1alpha1.PhaseHeld && phase == "" {
					record = record.DeepCopy()
					record.Status = berthv1alpha1.PlacementChangeStatus{}
					f.records[name] = record
				}
			}
			f.start()
			pl := fixture.Placement("ns", "p0").Number(2).Generation(3).Obj()
			pl.Spec.PrioritizerPolicy.Mode = "Fuzzy"
			f.store(pl)
			f.store(fixture.Placement("ns", "p1").Number(1).Predicate(clusters("c2")).Obj())
			f.run(20)
			if got := strings.Join(f.inv.Subject(p1).LastNames(), " "); got != "c2" {
				t.Errorf("p1 has %q, outcome of p0 %s", got, f.outcomes[p0])
			}
		})
	}
}

// TestFailedBindKeepsOpenReservation: a change that would supersede the held one is permitted, but
// its page cannot be written. The held change is still open, so it keeps what it reserved.
func TestFailedBindKeepsOpenReservation(t *testing.T) {
	down := false
	f := newFleetAtRest(t, true, nil, func(string) error {
		if down {
			return errRefused
		}
		return nil
	})
	f.store(fixture.Placement("ns", "p0").Number(1).Obj())
	f.run(20)
	f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
	down = true
	f.store(fixture.Placement("ns", "p0").Number(1).Generation(3).Predicate(clusters("c3")).Obj())
	f.attempt(p0)
	down = false
	open := 0
	for _, record := range f.records {
		if record.Status.Phase == berthv1alpha1.PhaseHeld {
			open++
		}
	}
	f.store(fixture.Placement("ns", "p1").Number(1).Predicate(clusters("c2")).Obj())
	f.attempt(p1)
	if got := f.inv.Subject(p1).LastNames(); open > 0 && len(got) > 0 {
		t.Errorf("%d held records, p0 %s, and p1 has %q", open, f.outcomes[p0], got)
	}
}

// TestRevokedThatStaysEndsNothing: while nothing is decided, a removal of a revoked cluster that is
// not permitted leaves the change in progress.
func TestRevokedThatStaysEndsNothing(t *testing.T) {
	for name, answer := range map[string]*framework.Status{
		"waits":  framework.NewStatus(framework.Pending, "a fact is missing"),
		"denied": framework.NewStatus(framework.Unschedulable, "no"),
		// Its hold has no time, so it ends at once.
		"expires": framework.NewStatus(framework.Wait, "not yet"),
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 600 })
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			if d.held() == "" || d.condition(v1alpha1.PlacementConditionDecisionProgressing) == nil {
				t.Fatal(d.whole())
			}
			revision, before := d.revision(), d.published()
			phase := d.phase(revision)
			d.x.ofRevoked = answer
			d.leaveSet("c")
			a := d.scheduler.RemoveRevoked(t.Context(), key.Namespace, d.snapshot)
			d.recordAfter(a)
			if got := d.phase(revision); d.published() == before && got != phase {
				t.Errorf("outcome %s, nothing is published (%s), and change %s was %s and is %s: %s", a.Outcome, d.published(), revision, phase, got, d.records["p-"+revision].Status.Message)
			}
		})
	}
}

// TestDisabledGivesBackRemovals: what is left of a change in progress does not count for limits on
// removals while its Placement is disabled, also after a restart.
func TestDisabledGivesBackRemovals(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 2, "window": "1h", "settle": "0s"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds = 600
			})
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			// A first removal, so that the change counts as in progress after a restart.
			d.later(601)
			d.attemptUntilStable()
			if d.condition(v1alpha1.PlacementConditionDecisionProgressing) == nil {
				t.Fatal(d.whole())
			}
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			})
			if restart {
				d.restart()
			}
			if a := d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot); a != nil {
				t.Fatal("it is decided")
			}
			attempt := d.other("gold")
			for range 5 {
				attempt(3)
			}
			d.now = d.now.Add(time.Second)
			if got := attempt(2); got == plan.Held {
				t.Errorf("one removal of another Placement is %s", got)
			}
		})
	}
}

// other adds a Placement of the clusters of a tier. The returned function makes an attempt for it
// with a numberOfClusters.
func (d *desk) other(tier string) (attempt func(number int32) plan.Outcome) {
	q := fixture.Placement("ns", "q").Predicate(fixture.MatchLabel("tier", tier)).Obj()
	q.UID = "q"
	return func(number int32) plan.Outcome {
		d.t.Helper()
		if before := q.Spec.NumberOfClusters; before == nil || *before != number {
			q = q.DeepCopy()
			q.Generation, q.Spec.NumberOfClusters = q.Generation+1, &number
			d.inv.Update(q)
		}
		a := d.scheduler.Attempt(d.t.Context(), "ns", func() *framework.Snapshot {
			return d.inv.Snapshot(inventory.Key{Namespace: "ns", Name: "q"}, d.now, nil)
		})
		if !a.Err.IsSuccess() {
			d.t.Fatal(a.Err.Err())
		}
		return a.Outcome
	}
}

// TestOpenChangeCounts: a permitted change that goes on counts for limits on removals, also after a
// step that would have superseded it could not be published, and while its Placement, disabled for
// a while, cannot be decided yet.
func TestOpenChangeCounts(t *testing.T) {
	for name, interrupt := range map[string]func(d *desk){
		"nothing": func(*desk) {},
		"a superseding step fails": func(d *desk) {
			d.pages.refuse = func(string) error { return errRefused }
			d.later(601)
			d.tier("silver", "y") // The rest of the change in progress adds it.
			d.tier("gold", "z")
			if a, failure := d.try(); failure.IsSuccess() || a.Step == nil || a.Change.Revision != 3 {
				d.t.Fatalf("the outcome is %s of change %d, %v", a.Outcome, a.Change.Revision, failure)
			}
			d.pages.refuse = nil
		},
		"disabled for a while": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			})
			d.scheduler.Attempt(d.t.Context(), key.Namespace, d.snapshot)
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })
			d.x.answer = framework.AsStatus(errHubDown)
			d.attempt()
			d.x.answer = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 2, "window": "1h", "settle": "0s"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds = 600
			})
			d.add("s1")
			d.add("s2")
			d.tier("steel", "s1", "s2")
			attempt := d.other("steel")
			attempt(2)
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			if d.condition(v1alpha1.PlacementConditionDecisionProgressing) == nil {
				t.Fatal(d.whole())
			}
			interrupt(d)
			if got := attempt(1); got != plan.Held {
				t.Errorf("a third removal, of another Placement, is %s: %s", got, d.whole())
			}
		})
	}
}

// TestEnabledAgainKeepsReservation: a Placement is enabled again with its change still open; while
// its first attempts fail, the change keeps what it reserves.
func TestEnabledAgainKeepsReservation(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint("disabled ", disabled, ", restart ", restart), func(t *testing.T) {
				f := newFleetAtRest(t, true, nil, nil)
				f.store(fixture.Placement("ns", "p0").Number(1).Obj())
				f.run(20)
				next := fixture.Placement("ns", "p0").Number(2).Generation(2)
				f.hold(next)
				if disabled {
					pl := next.Obj().DeepCopy()
					pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
					f.store(pl)
					f.attempt(p0)
					if restart {
						f.start()
						f.attempt(p0)
					}
					pl = pl.DeepCopy()
					pl.Annotations = nil
					f.store(pl)
				} else if restart {
					f.start()
				}
				f.failAttempt(p0)
				if got := f.publishP1(); len(got) > 0 {
					t.Errorf("p0 is %s with a held change, and p1 has %q", f.outcomes[p0], got)
				}
			})
		}
	}
}

// TestRejectionIsRecorded: a user rejects a held change, and a cluster is revoked before the next
// attempt. The record ends as Rejected, not as Superseded.
func TestRejectionIsRecorded(t *testing.T) {
	for _, revoke := range []bool{false, true} {
		t.Run(fmt.Sprint("revoke ", revoke), func(t *testing.T) {
			d := newDesk(t, ask(), "a", "b")
			d.attemptUntilStable()
			d.require()
			d.add("c")
			d.attempt()
			revision := d.revision()
			d.answer(revision, berthv1alpha1.Rejected)
			if revoke {
				d.leaveSet("b")
			}
			d.attempt()
			if got := d.phase(revision); got != berthv1alpha1.PhaseRejected {
				t.Errorf("the rejected change is %s: %s", got, d.records["p-"+revision].Status.Message)
			}
			d.attemptUntilStable()
			t.Log(d.state())
		})
	}
}

// TestRevokedThatWaitsKeepsApproval: BlastRadius lets the removal of a revoked cluster wait until
// it has stayed the same. An attempt that fails meanwhile does not end the approved change in
// progress.
func TestRevokedThatWaitsKeepsApproval(t *testing.T) {
	d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 10, "window": "1h", "settle": "30s"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.MinReadySeconds = 600
	})
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	for range 5 {
		d.attempt()
		d.later(31)
	}
	revision := d.revision()
	d.approve(revision)
	d.attemptUntilStable()
	if d.phase(revision) != berthv1alpha1.PhaseProgressing {
		t.Fatal(d.whole())
	}
	before := d.published()
	d.leaveSet("c")
	a := d.scheduler.RemoveRevoked(t.Context(), key.Namespace, d.snapshot)
	d.recordAfter(a)
	if got := d.phase(revision); d.published() == before && got != berthv1alpha1.PhaseProgressing {
		t.Errorf("outcome %s (%s), nothing is published, and the approved change is %s", a.Outcome, a.Reason, got)
	}
	d.later(31)
	d.attemptUntilStable()
	t.Log(d.state())
}

// TestRevokedBesideWithSettle: the rest of an approved change goes on beside the removal of a
// revoked cluster, also if BlastRadius lets removals wait until they have stayed the same.
func TestRevokedBesideWithSettle(t *testing.T) {
	for _, settle := range []string{"0s", "30s"} {
		t.Run(settle, func(t *testing.T) {
			d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 10, "window": "1h", "settle": "` + settle + `"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds = 600
			})
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y", "z")
			for range 5 {
				d.attempt()
				d.later(31)
			}
			d.approve(d.revision())
			d.attemptUntilStable()
			d.leaveSet("c")
			d.later(31)
			d.attempt()
			d.later(31)
			d.attempt()
			if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
				t.Errorf("the approved change does not go on: %s", d.whole())
			}
		})
	}
}

// settling returns a desk with a change in progress, where BlastRadius lets removals wait until
// they have stayed the same for a time.
func settling(t *testing.T, settle string) *desk {
	t.Helper()
	d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 10, "window": "1h", "settle": "` + settle + `"}`}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.MinReadySeconds = 600
	})
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y", "z")
	for range 5 {
		d.attempt()
		d.later(31)
	}
	return d
}

// TestDeletedBesideWithSettle: the rest of a change goes on beside the removal of a deleted
// cluster, also if BlastRadius lets removals wait until they have stayed the same. If the record of
// the rest is refused, the cluster leaves all the same.
func TestDeletedBesideWithSettle(t *testing.T) {
	for _, settle := range []string{"0s", "30s"} {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprint(settle, ", refused ", refused), func(t *testing.T) {
				d := settling(t, settle)
				if refused {
					d.refuseRecords = func(record *berthv1alpha1.PlacementChange) error {
						if record.ResourceVersion != "" {
							return nil
						}
						return errors.New("no")
					}
				}
				d.remove("c")
				d.try()
				if got := d.newest(); got == nil || got.Status.Phase != berthv1alpha1.PhaseProgressing {
					t.Errorf("the change does not go on: %s", d.whole())
				}
				d.later(31)
				d.try()
				if slices.Contains(strings.Fields(d.published()), "c") {
					t.Errorf("the deleted cluster is published: %s", d.published())
				}
				if got := d.newest(); !refused && (got.Spec.Revision != 3 || !slices.Equal(got.Spec.Added, []string{"y"})) {
					t.Errorf("change %d adds %v", got.Spec.Revision, got.Spec.Added)
				}
			})
		}
	}
}

// TestRejectedRemovalIsRevoked: no answer to a record keeps a cluster whose set the platform takes
// away.
func TestRejectedRemovalIsRevoked(t *testing.T) {
	for _, rejected := range []bool{false, true} {
		d := governed(t, 0, nothing)
		d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = berthv1alpha1.ApprovalRequired })
		d.tier("silver", "a")
		d.attempt()
		if rejected {
			d.refuseIt()
		}
		d.attemptUntilStable()
		d.leaveSet("a")
		d.attemptUntilStable()
		if got := d.published(); got != "p-decision-1: b c" {
			t.Errorf("rejected before %t: a is in no bound set, and published is %s: %s", rejected, got, d.pending())
		}
	}
}

// TestStepsStayBetweenAnswers: a step adds nothing that the change does not add, removes nothing
// that it does not remove, and keeps nothing that the Placement cannot keep, whatever a plugin
// says.
func TestStepsStayBetweenAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer *framework.Transition
		want   string
	}{
		"removes a cluster of both":  {&framework.Transition{Removed: []string{"c"}}, "a b c"},
		"adds a cluster of neither":  {&framework.Transition{Added: []string{"q"}}, "a b c"},
		"keeps one that was deleted": {&framework.Transition{Why: "later"}, "b c"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mover{bare: bare{"mover"}}
			d := governed(t, 0, nothing)
			d.inv.Delete(d.policy)
			d.policy, d.more = nil, []framework.Plugin{m}
			d.restart()
			d.attemptUntilStable()
			m.answer = tc.answer
			d.tier("gold", "x")
			if name == "keeps one that was deleted" {
				d.remove("a")
			} else {
				d.tier("silver", "a")
			}
			d.attempt()
			if got := strings.TrimPrefix(d.published(), "p-decision-1: "); got != tc.want {
				t.Errorf("published %s, want %s", got, tc.want)
			}
			if got := strings.Join(d.inv.Subject(key).LastNames(), " "); got != tc.want {
				t.Errorf("stored as published: %s, want %s", got, tc.want)
			}
		})
	}
}

// failAttempt attempts a Placement while its Permit plugin fails.
func (f *fleetAtRest) failAttempt(of inventory.Key) {
	f.gate.answer = framework.AsStatus(errors.New("broken"))
	f.attempt(of)
}

// publishP1 creates p1, which selects c2, with a Permit plugin that permits, and returns what is
// published for it.
func (f *fleetAtRest) publishP1() []string {
	f.gate.answer = nil
	f.store(fixture.Placement("ns", "p1").Number(1).Predicate(clusters("c2")).Obj())
	f.attempt(p1)
	return f.inv.Subject(p1).LastNames()
}

// TestFailureKeepsWhatWaits: a change that waits keeps its claim when an attempt for it fails.
func TestFailureKeepsWhatWaits(t *testing.T) {
	for _, fails := range []bool{false, true} {
		f := newFleetAtRest(t, true, nil, nil)
		f.store(fixture.Placement("ns", "p0").Number(1).Obj())
		f.run(20)
		f.gate.answer = awaits
		f.store(fixture.Placement("ns", "p0").Number(2).Generation(2).Obj())
		f.attempt(p0)
		if fails {
			f.failAttempt(p0)
		}
		if got := f.publishP1(); len(got) > 0 {
			t.Errorf("fails %t: the change of p0 waits for the quota of two, p0 is %s, and p1 has %q", fails, f.outcomes[p0], got)
		}
	}
}

// TestFailureKeepsUnwrittenHold: so does a held change whose record could not be written.
func TestFailureKeepsUnwrittenHold(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := newDesk(t, ask(), "c1", "c2")
		d.attemptUntilStable()
		d.require()
		d.add("c3")
		d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
		_, _ = d.try()
		if fails {
			d.y.answer = framework.AsStatus(errors.New("broken"))
			_, _ = d.try()
		} else {
			_, _ = d.try()
		}
		s := d.snapshot()
		if n := s.Counts.ByIndex.Get(s.Cluster("c3").Index); n != 1 {
			t.Errorf("fails %t: c3 counts %d", fails, n)
		}
	}
}

// TestApprovedChangeGoesOn: a suspension, a Reserve plugin that waits, or a revoked cluster that
// may not leave yet does not supersede an approved change in progress.
func TestApprovedChangeGoesOn(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"suspended": func(d *desk) {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
			d.attemptUntilStable()
			d.tier("gold", "z")
		},
		"Reserve waits": func(d *desk) {
			d.fore.answer = awaits
			d.tier("gold", "z")
		},
		"the removal of a revoked cluster is denied": func(d *desk) {
			d.x.ofRevoked = refuses
			d.leaveSet("c")
		},
		"the removal of a revoked cluster is held": func(d *desk) {
			d.x.ofRevoked = holds
			d.leaveSet("c")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := approvedInProgress(t, nothing)
			then(d)
			d.attempt()
			if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
				t.Errorf("the approved change is %s: %s; now %s", got, d.records["p-2"].Status.Message, d.state())
			}
		})
	}
}

// TestHeldRevokedRemovalIsTriedAgain: the removal of a revoked cluster that is held beside the rest
// is asked about again when the hold ends, also if the rest itself waits for nothing.
func TestHeldRevokedRemovalIsTriedAgain(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
	d.attemptUntilStable()
	d.x.ofRevoked, d.x.timeout = holds, time.Hour
	d.leaveSet("c")
	if at := d.attempt().State.NextAttempt(); at.IsZero() || at.After(d.now.Add(time.Hour)) {
		t.Errorf("the next attempt is at %s, the removal is held for an hour", at)
	}
}

// TestFailedRestGoesOn: nor does one failed request of a Reserve plugin.
func TestFailedRestGoesOn(t *testing.T) {
	r := &picky{bare: bare{"picky"}}
	d := approvedInProgress(t, nothing, r)
	failed := false
	r.of = func(*framework.Proposal) *framework.Status {
		if failed {
			return nil
		}
		failed = true
		return framework.AsStatus(errors.New("a request failed"))
	}
	d.tier("gold", "z")
	_, _ = d.try()
	if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
		t.Errorf("after one failed request the approved change is %s: %s; now %s", got, d.records["p-2"].Status.Message, d.state())
	}
}

// TestWaitingKeepsItsClaim: a change that waits keeps its claim if the rest of the change in
// progress is denied.
func TestWaitingKeepsItsClaim(t *testing.T) {
	r := &picky{bare: bare{"picky"}}
	d := approvedInProgress(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" }, r)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	r.of = func(p *framework.Proposal) *framework.Status {
		if slices.Contains(p.Added, "y") && !slices.Contains(p.Added, "z") {
			return refuses
		}
		return nil
	}
	d.tier("gold", "z")
	a := d.attempt()
	s := d.snapshot()
	if n := s.Counts.ByIndex.Get(s.Cluster("z").Index); a.Outcome == plan.Waiting && n != 1 {
		t.Errorf("the change that adds z is %s, and z counts %d", a.Outcome, n)
	}
}

// TestWaitingKeepsItsClaimBesideTheRest: so does one while the rest goes on.
func TestWaitingKeepsItsClaimBesideTheRest(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.StabilizationWindowSeconds = "", 60
	})
	d.tier("silver", "y")
	d.tier("gold", "z")
	a := d.attempt()
	s := d.snapshot()
	if n := s.Counts.ByIndex.Get(s.Cluster("z").Index); a.Deferred != nil && a.Deferred.Answer == plan.Waiting && n != 1 {
		t.Errorf("the change that adds %v is %s, and z counts %d", a.Deferred.Added, a.Deferred.Answer, n)
	}
}

// TestStabilizationDelaysSuperseding: a target that has not been the same for the stabilization
// window does not supersede an approved change in progress.
func TestStabilizationDelaysSuperseding(t *testing.T) {
	d := approvedInProgress(t, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.StabilizationWindowSeconds = 60 })
	d.tier("gold", "a")
	d.attempt()
	if got := d.phase("2"); got != berthv1alpha1.PhaseProgressing {
		t.Errorf("at once, the approved change is %s: %s; now %s", got, d.records["p-2"].Status.Message, d.state())
	}
	d.later(1)
	d.tier("silver", "a")
	d.later(100)
	d.attemptUntilStable()
	t.Log(d.state())
}

// TestHeldChangeExpiresWhilePermitWaits: the deadline of a held change passes also while Permit
// waits or fails.
func TestHeldChangeExpiresWhilePermitWaits(t *testing.T) {
	for name, answer := range map[string]*framework.Status{
		"holds": nil, "Permit waits": awaits, "Permit fails": framework.AsStatus(errors.New("broken")),
	} {
		t.Run(name, func(t *testing.T) {
			d, count := holdingC3(t)
			d.y.answer = answer
			for range 20 {
				d.later(24 * 3600)
				_, _ = d.try()
			}
			if got := d.phase("2"); got == berthv1alpha1.PhaseHeld {
				t.Errorf("after 20 days change 2 is %s until %s, and c3 counts %d", got, d.records["p-2"].Status.Holds[0].Until, count())
			}
		})
	}
}

// TestPagesAreRestoredWithoutRecords: a deleted page is restored while Permit fails, or a record
// that must come before the next step cannot be written.
func TestPagesAreRestoredWithoutRecords(t *testing.T) {
	for name, fails := range map[string]func(d *desk){
		"Permit":                       func(d *desk) { d.x.answer = framework.AsStatus(errHubDown) },
		"the record of the first step": func(d *desk) { d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown } },
		"the record of the permission": func(d *desk) {
			d.x.answer = holds
			d.attemptUntilStable()
			d.x.answer = nil
			d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.tier("silver", "a")
			d.tier("gold", "x")
			fails(d)
			d.meddle("p-decision-1", func(*v1alpha1.PlacementDecision) bool { return false })
			for range 3 {
				_, _ = d.try()
			}
			if got := d.published(); got != "p-decision-1: a b c" {
				t.Errorf("published is %q", got)
			}
		})
	}
}

// TestRestoredPagesKeepTheirSpec: pages that are restored while the record of the next change
// cannot be written are still those of the spec for which they were published.
func TestRestoredPagesKeepTheirSpec(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	before := d.inv.Subject(key).Last.Generation
	d.require()
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
	d.attemptUntilStable()
	d.approve("2")
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	d.meddle("p-decision-1", func(*v1alpha1.PlacementDecision) bool { return false })
	_, _ = d.try()
	if got := d.published(); got != "p-decision-1: c1 c2" {
		t.Fatal(got)
	}
	if got := d.inv.Subject(key).Last.Generation; got != before || got == d.placement.Generation {
		t.Errorf("the pages are of generation %d, want %d; the Placement has %d", got, before, d.placement.Generation)
	}
}

// TestPagesAreRestoredThoughPreBindFails: a plugin that keeps a change from being published keeps
// no damage.
func TestPagesAreRestoredThoughPreBindFails(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.fore.ofPreBind = framework.AsStatus(errors.New("broken"))
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
	d.meddle("p-decision-1", func(*v1alpha1.PlacementDecision) bool { return false })
	_, _ = d.try()
	if got := d.published(); got != "p-decision-1: c1 c2" {
		t.Error(got)
	}
	d.fore.ofPreBind = nil
	_, _ = d.try()
	d.attemptUntilStable()
	if got := d.published(); got != "p-decision-1: c1" {
		t.Error(got)
	}
}

// TestPagesDeletedWhileDown: pages that were deleted while no controller ran are restored, and the
// change in progress goes on.
func TestPagesDeletedWhileDown(t *testing.T) {
	for _, inProgress := range []bool{false, true} {
		d := approvedInProgress(t, nothing)
		if !inProgress {
			for range 30 {
				d.attemptUntilStable()
				d.later(100)
			}
			d.expect("p-decision-1: c x y |  | ")
		}
		before := d.published()
		d.placement.Status.DecisionGroups = []v1alpha1.DecisionGroupStatus{{ClusterCount: 4}}
		delete(d.pages.pages, pageKey("p-decision-1"))
		d.restart()
		d.attemptUntilStable()
		if got := d.published(); got != before {
			t.Errorf("in progress %t: published was %s, and is %q: %s", inProgress, before, got, d.state())
		}
	}
}

// TestInterruptedStep: a change writes several pages, and the second write fails. The next attempt,
// which fails in Permit, keeps what was published, and the one after that completes the change.
func TestInterruptedStep(t *testing.T) {
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
				return errRefused
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

// TestFoundRemovalsCount: the response to the write that removes a is lost, and another target is
// selected before the page is read. BlastRadius counts the removal.
func TestFoundRemovalsCount(t *testing.T) {
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

// TestFoundApprovedRemovalsCountOnce: the response to the write of an approved change is lost, and
// the next attempt finds it published. What it removed counts once, although the Snapshot of that
// attempt still has the record open.
func TestFoundApprovedRemovalsCountOnce(t *testing.T) {
	d := governedWith(t, map[string]string{"BlastRadius": `{"fleetMaxRemoved": 2, "window": "1h", "settle": "0s"}`}, nothing)
	d.add("s1")
	d.add("s2")
	d.tier("steel", "s1", "s2")
	attempt := d.other("steel")
	attempt(2)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.MaxUnavailable = berthv1alpha1.ApprovalRequired, new(intstr.FromString("100%"))
	})
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attemptUntilStable()
	d.approve(d.revision())
	d.loseResponses()
	d.decideAgain()
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" })
	if got := attempt(1); got != plan.Published {
		t.Errorf("one removal of two is counted, and the second one, of another Placement, is %s: %s", got, d.whole())
	}
}

// TestUnreadRemovalsCount: the response to the write that removes a is lost, and the page cannot be
// read. BlastRadius counts the removal when another Placement removes a cluster.
func TestUnreadRemovalsCount(t *testing.T) {
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

// listsAny reports whether a page lists one of the clusters.
func listsAny(d *desk, names ...string) bool {
	for _, name := range names {
		if strings.Contains(strings.ReplaceAll(d.published(), ",", " ")+" ", " "+name+" ") {
			return true
		}
	}
	return false
}

// TestUnreadPagesKeepQuota: clusters on a page that cannot be read after its write keep their
// quota.
func TestUnreadPagesKeepQuota(t *testing.T) {
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
