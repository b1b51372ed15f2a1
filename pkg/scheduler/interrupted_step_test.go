package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// interruptedStep is a desk of 250 clusters whose change adds x, y and z, and has written only the
// first of its pages.
func interruptedStep(t *testing.T) (d *desk, pool func(value string, names ...string)) {
	t.Helper()
	d, pool = deskOf250(t)
	pool("out", "c000", "c120", "c220")
	pool("in", "x", "y", "z")
	d.interruptAfter(1)
	if !listsAny(d, "x", "y", "z") {
		t.Fatal("nothing came")
	}
	return d, pool
}

// deskOf250 is a desk whose Placement has 250 clusters, on three pages. pool lets clusters qualify,
// or not.
func deskOf250(t *testing.T) (d *desk, pool func(value string, names ...string)) {
	t.Helper()
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	d = newDesk(t, ask().Predicate(fixture.MatchLabel("pool", "in")), names...)
	d.preScorer = &preScorer{bare: bare{"preScorer"}}
	d.restart()
	pool = func(value string, names ...string) {
		for _, name := range names {
			d.clusters[name] = fixture.Cluster(name).Set("s1").Label("pool", value).Obj()
			d.inv.Update(d.clusters[name].DeepCopy())
		}
	}
	pool("in", names...)
	d.attemptUntilStable()
	return d, pool
}

// interruptAfter makes an attempt whose writes are refused after the first ones. It reports whether
// any was.
func (d *desk) interruptAfter(most int) bool {
	writes := 0
	d.pages.refuse = func(string) error {
		if writes++; writes > most {
			return errRefused
		}
		return nil
	}
	_, _ = d.try()
	d.pages.refuse = nil
	return writes > most
}

// TestInterruptedStepStays: an attempt that decides nothing for now does not undo what an
// interrupted step has published, however many of them run.
func TestInterruptedStepStays(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"a plugin fails before the decision": func(d *desk) {
			d.preScorer.answer = framework.AsStatus(errors.New("broken"))
			_, _ = d.try()
		},
		"the attempt must wait": func(d *desk) {
			d.recordAfter(d.scheduler.RemoveRevoked(d.t.Context(), key.Namespace, d.snapshot))
		},
		"Permit fails": func(d *desk) {
			d.y.answer = framework.AsStatus(errors.New("broken"))
			_, _ = d.try()
		},
		"Permit waits": func(d *desk) {
			d.y.answer = awaits
			_, _ = d.try()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := interruptedStep(t)
			for n := range 3 {
				then(d)
				if !listsAny(d, "x", "y", "z") {
					t.Errorf("attempt %d takes back the cluster that came", n+1)
				}
			}
			d.y.answer, d.preScorer.answer = nil, nil
			d.attemptUntilStable()
			if !listsAny(d, "x") || listsAny(d, "c000") {
				t.Error("the change is not complete")
			}
		})
	}
}

// TestInterruptedStepIsPublished: what an interrupted step has published is the published decision,
// from which the next change begins, and its record says what came and left.
func TestInterruptedStepIsPublished(t *testing.T) {
	longer := func(d *desk) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(200)
		})
	}
	damage := func(d *desk) {
		d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool {
			page.Status.Decisions = slices.DeleteFunc(page.Status.Decisions, func(c v1alpha1.ClusterDecision) bool { return c.ClusterName == "c005" })
			return true
		})
	}
	for name, before := range map[string]func(d *desk){"as published": func(*desk) {}, "other groups": longer, "edited pages": damage} {
		for i := range 8 {
			hasRecord, answer, come := i&1 > 0, []*framework.Status{holds, awaits}[i>>1&1], [][]string{{"a001"}, {"a001", "x", "z"}}[i>>2]
			for n := 1; ; n++ {
				d, pool := deskOf250(t)
				pool("out", "c000", "c120", "c220")
				pool("in", come...)
				if hasRecord {
					d.y.answer = holds
					d.attemptUntilStable()
					d.y.answer = nil
				}
				before(d)
				whole := d.snapshot().Subject.Last.Digest
				if !d.interruptAfter(n) {
					break
				}
				d.y.answer = answer
				checkInterrupted(t, fmt.Sprintf("%s, record %t, %d come, then %s, %d writes", name, hasRecord, len(come), answer.Code(), n), d, whole, come)
			}
		}
	}
}

// checkInterrupted has the change after an interrupted step wait: the pages list what is published,
// and the records lead to it. Then the change is completed.
func checkInterrupted(t *testing.T, name string, d *desk, before string, come []string) {
	t.Helper()
	for range 3 {
		_, _ = d.try()
	}
	subject := d.snapshot().Subject
	listed, _ := framework.Listed(subject.OwnPages())
	last, records := subject.Last, changes.History(subject.Records)
	if !slices.Equal(last.Names, listed) || last.Damaged(subject) {
		t.Errorf("%s: published are %d clusters, on the pages %d; damaged: %t", name, len(last.Names), len(listed), last.Damaged(subject))
	}
	if want := max(0, len(last.Names)-250); last.Digest != before && last.Extra != want {
		t.Errorf("%s: of %d clusters %d are more than before and after the change, want %d", name, len(last.Names), last.Extra, want)
	}
	if published := records.Newest(berthv1alpha1.PhasePublished); last.Digest != before && records.Newest(berthv1alpha1.PhaseProgressing) == nil &&
		(published == nil || published.Spec.To != last.Digest) && records.Newest(berthv1alpha1.PhaseSuperseded) == nil {
		t.Errorf("%s: no record leads to what is published", name)
	}
	edited := subject.Edited()
	if d.restart(); d.snapshot().Subject.Edited() != edited {
		t.Errorf("%s: after a restart, the spec was edited since: %t, before: %t", name, !edited, edited)
	}
	d.y.answer = nil
	d.attemptUntilStable()
	if listsAny(d, "c000", "c120", "c220") || len(d.snapshot().Subject.LastNames()) != 247+len(come) || !listsAny(d, "c005") {
		t.Errorf("%s: the change is not complete", name)
	}
	subject = d.snapshot().Subject
	if open := changes.History(subject.Records).Open(); open != nil {
		t.Errorf("%s: record %s stays %s", name, open.Name, open.Status.Phase)
	}
	if subject.Edited() || subject.Last.Extra != 0 {
		t.Errorf("%s: the edit is published: %t; more clusters than the change leads to: %d", name, !subject.Edited(), subject.Last.Extra)
	}
}

// TestInterruptedStepStaysBeside: nor does one that cannot write the record of the next change.
func TestInterruptedStepStaysBeside(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"the record of the next step cannot be written": func(d *desk) {
			d.govern(nothing)
			d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
			d.tryAndReport()
			d.refuseRecords = nil
			d.inv.Delete(d.policy)
		},
		"PreBind fails for the next step": func(d *desk) {
			d.fore.ofPreBind = framework.AsStatus(errHubDown)
			d.tryAndReport()
			d.fore.ofPreBind = nil
		},
		"a plugin waits before the decision": func(d *desk) {
			d.preScorer.answer = awaits
			d.tryAndReport()
			d.preScorer.answer = nil
		},
		"the window has closed": func(d *desk) {
			d.y.answer = holds
			d.tryAndReport()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := interruptedStep(t)
			then(d)
			if !listsAny(d, "x", "y", "z") {
				t.Errorf("the cluster that came is gone: %s", d.pending())
			}
		})
	}
}

// TestInterruptedStepStaysBesideARevokedCluster: nor does the removal of a revoked cluster.
func TestInterruptedStepStaysBesideARevokedCluster(t *testing.T) {
	for name, then := range map[string]func(d *desk){
		"Permit fails":                       func(d *desk) { d.y.answer, d.y.ofRevoked = fails, framework.NewStatus(framework.Success, "") },
		"Permit waits":                       func(d *desk) { d.y.answer, d.y.ofRevoked = awaits, framework.NewStatus(framework.Success, "") },
		"a plugin fails before the decision": func(d *desk) { d.preScorer.answer = fails },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := interruptedStep(t)
			then(d)
			d.leaveSet("c001")
			for range 3 {
				_, _ = d.try()
				if listsAny(d, "c001") || !listsAny(d, "x", "y", "z") {
					t.Errorf("the revoked cluster stays: %t; the one that came stays: %t", listsAny(d, "c001"), listsAny(d, "x", "y", "z"))
				}
			}
			d.y.answer, d.preScorer.answer = nil, nil
			d.attemptUntilStable()
			if !listsAny(d, "x") || listsAny(d, "c000") {
				t.Error("the change is not complete")
			}
		})
	}
}

// TestLostStepStays: nor does an attempt that fails in Permit, if the response to the first page
// was lost and the page could not be read at once.
func TestLostStepStays(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
			d, pool := interruptedStep(t)
			if lost {
				d.attemptUntilStable()
				pool("out", "c001", "c121", "c221", "x", "y", "z")
				pool("in", "u", "v", "w")
				d.loseResponses()
				if !listsAny(d, "u", "v", "w") {
					t.Fatal("nothing came")
				}
				d.decideAgain()
			}
			d.y.answer = framework.AsStatus(errors.New("broken"))
			_, _ = d.try()
			if !lost && !listsAny(d, "x", "y", "z") || lost && !listsAny(d, "u", "v", "w") {
				t.Error("the cluster that came is gone")
			}
		})
	}
}

// TestInterruptedStepCounts: a cluster on a page that Berth wrote counts as a decision, also if
// the rest of the step failed.
func TestInterruptedStepCounts(t *testing.T) {
	for _, name := range []string{"at once", "Permit fails", "Permit waits", "undecided"} {
		d, _ := interruptedStep(t)
		switch name {
		case "Permit fails":
			d.y.answer = fails
			_, _ = d.try()
			_, _ = d.try()
		case "Permit waits":
			d.y.answer = awaits
			_, _ = d.try()
			_, _ = d.try()
		case "undecided":
			d.preScorer.answer = fails
			_, _ = d.try()
			_, _ = d.try()
		}
		s := d.snapshot()
		for _, c := range []string{"x", "y", "z"} {
			if n := s.Counts.ByIndex.Get(s.Cluster(c).Index); listsAny(d, c) && n != 1 {
				t.Errorf("%s: %s is on a page, and counts %d", name, c, n)
			}
		}
	}
}

// TestEmptiedPageIsRestoredAfterAnInterruptedStep: a page that another client emptied is written
// again while the change is held, also if the last step was interrupted, or one of its writes
// failed. What that step added stays.
func TestEmptiedPageIsRestoredAfterAnInterruptedStep(t *testing.T) {
	for _, failed := range []string{"no write", "the only write", "the second write"} {
		var d *desk
		if failed == "the second write" {
			d, _ = interruptedStep(t)
			d.y.answer = holds
		} else {
			d = newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			d.add("c2")
			if failed == "the only write" {
				d.pages.refuse = func(string) error { return errRefused }
				_, _ = d.try()
				d.pages.refuse = nil
			}
			d.y.answer = holds
		}
		for range 3 {
			_, _ = d.try()
		}
		d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool {
			page.Status.Decisions = nil
			return true
		})
		for range 5 {
			_, _ = d.try()
			d.later(600)
		}
		kept := "c1"
		if failed == "the second write" {
			kept = "c001"
			if !listsAny(d, "x", "y", "z") {
				t.Error("what the step added is gone")
			}
		}
		if !listsAny(d, kept) {
			t.Errorf("%s failed: for %s the page stays empty: %s", failed, d.now.Sub(fixture.Now), d.pending())
		}
	}
}

// TestInterruptedRemovalsCountOnce: what an interrupted step removed, and the rest, count once for
// BlastRadius.
func TestInterruptedRemovalsCountOnce(t *testing.T) {
	for _, hasRecord := range []bool{false, true} {
		d, pool := deskOf250(t)
		d.arguments = map[string]string{"BlastRadius": `{"fleetMaxRemoved": 3, "window": "1h", "settle": "0s"}`}
		d.restart()
		d.attemptUntilStable()
		pool("out", "c000", "c120", "c220")
		if hasRecord {
			d.y.answer = holds
			d.attemptUntilStable()
			d.y.answer = nil
		}
		d.interruptAfter(1)
		if n := len(d.snapshot().Subject.LastNames()); n != 249 {
			t.Fatalf("record %t: after the first write %d clusters are published", hasRecord, n)
		}
		d.attemptUntilStable()
		if listsAny(d, "c000", "c120", "c220") {
			t.Errorf("record %t: the rest is not removed: %s", hasRecord, d.pending())
		}
		pool("out", "c001")
		if a := d.attempt(); a.Outcome != plan.Held {
			t.Errorf("record %t: the fourth removal is %s: %v", hasRecord, a.Outcome, d.scheduler.Counts())
		}
	}
}

// TestWholeStepIsNoPart: a step whose pages list all of its clusters is complete, also if something
// else failed after them.
func TestWholeStepIsNoPart(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.add("c2")
	a := d.attempt()
	if a.Step == nil || len(a.Step.Writes) == 0 {
		t.Fatal("nothing was published")
	}
	if p := a.PartOf(a.Step, []string{"c1", "c2"}); p == nil || p.Publication() != plan.Whole || p.Publish.Digest != a.Step.Digest {
		t.Errorf("the whole step is %v", p)
	}
	if p := a.PartOf(a.Step, []string{"c1"}); p != nil {
		t.Errorf("nothing of it is %s", p.Publication())
	}
}
