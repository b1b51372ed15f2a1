package scheduler_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// TestSupersededIsWrittenOnce: a held change that supersedes another ends that record once, with
// the state that it was read in.
func TestSupersededIsWrittenOnce(t *testing.T) {
	d := holding(t)
	d.add("c3")
	writes := map[string]int{}
	d.refuseRecords = func(record *berthv1alpha1.PlacementChange) error {
		writes[record.Name+" "+string(record.Status.Phase)]++
		return nil
	}
	d.attemptUntilStable()
	if writes["p-2 Superseded"] != 1 || writes["p-3 Held"] != 1 || len(writes) != 2 {
		t.Errorf("writes %v", writes)
	}
}

// TestApprovedLateButHeld: a change that expired and is approved then, but that another plugin
// still holds, is held under its own revision.
func TestApprovedLateButHeld(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	revision := d.revision()
	d.now = d.now.Add(8 * 24 * time.Hour)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Expired")
	d.y.answer = holds
	d.approve(revision)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
	if d.revision() != revision || d.records["p-"+revision].Status.CompletionTime != nil {
		t.Errorf("the record is %+v", d.newest().Status)
	}
	d.y.answer = nil
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 |  | ")
}

// TestExpiredRecordListsHolds: the record of a change that expired lists the plugins that held it
// at that time.
func TestExpiredRecordListsHolds(t *testing.T) {
	d := holding(t)
	d.y.answer = holds
	d.now = d.now.Add(time.Hour)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Expired")
	var plugins []string
	for _, hold := range d.newest().Status.Holds {
		plugins = append(plugins, hold.Plugin)
	}
	if diff := cmp.Diff([]string{"x", "y"}, plugins); diff != "" {
		t.Errorf("holds (-want +got):\n%s", diff)
	}
}

// TestPermittedChangeIsCompleted: a change whose record says that it was permitted goes on after a
// crash between its pages, without asking Permit again.
func TestPermittedChangeIsCompleted(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	revision := d.revision()
	d.approve(revision)
	d.pages.refuse = func(string) error { return errRefused }
	if _, failure := d.try(); failure.IsSuccess() {
		t.Fatal("it was published")
	}
	if d.records["p-"+revision].Status.PermittedTime == nil {
		t.Error("the record does not say that the change was permitted")
	}
	d.pages.refuse = nil
	d.x.answer = refuses
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 |  | ")
	if got := d.phase(revision); got != berthv1alpha1.PhasePublished {
		t.Errorf("the phase is %s", got)
	}
}

// TestLostStatusOfARecord: a record whose last status write was lost is completed once its target
// is what is published.
func TestLostStatusOfARecord(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	revision := d.revision()
	d.approve(revision)
	// The attempt publishes; what follows is lost.
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	if got := d.phase(revision); got != berthv1alpha1.PhaseHeld {
		t.Fatalf("the phase is %s", got)
	}
	d.restart()
	a := d.attemptUntilStable()
	if a.Outcome != plan.Unchanged || d.phase(revision) != berthv1alpha1.PhasePublished {
		t.Errorf("the outcome is %s, the phase %s", a.Outcome, d.phase(revision))
	}
}

// TestRevisions: they count published changes, and a restart goes on from the pages and records.
func TestRevisions(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.add("c2")
	d.attemptUntilStable()
	d.restart()
	d.add("c3")
	d.attemptUntilStable()
	for name, cause := range map[string]string{"p-1": "start", "p-2": "start", "p-3": "start"} {
		record := d.records[name]
		if record == nil || record.Status.Phase != berthv1alpha1.PhasePublished || record.Spec.Cause != cause {
			t.Errorf("%s is %+v", name, record)
		}
	}
	if len(d.records) != 3 {
		t.Errorf("%d records", len(d.records))
	}
	page := d.pages.pages[pageKey("p-decision-1")]
	if got := page.Annotations[berthv1alpha1.RevisionAnnotation]; got != "3" {
		t.Errorf("the page carries revision %q", got)
	}
}

// TestApprovalIsUsedOnce: an approval of a change that was rejected permits it once. When the same
// change comes again later, it needs another approval.
func TestApprovalIsUsedOnce(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	rejected := d.revision()
	d.answer(rejected, berthv1alpha1.Rejected)
	d.attemptUntilStable()
	// Another change is held meanwhile, so that the record is not the newest one.
	d.add("c3")
	d.attemptUntilStable()
	d.remove("c3")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Rejected")
	d.approve(rejected)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 |  | ")
	// It is undone, with an approval of its own, and comes again.
	d.remove("c2")
	d.attemptUntilStable()
	d.approve(d.revision())
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | ")
	d.add("c2")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
}

// TestPermittedChangeIsNoEdit: after a crash between the pages of a permitted change and its
// record, the set before it is not restored as if a client had edited the pages, also where pages
// carry no revision.
func TestPermittedChangeIsNoEdit(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	d.approve(d.revision())
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	for _, page := range d.pages.pages {
		delete(page.Annotations, berthv1alpha1.RevisionAnnotation)
	}
	delete(d.clusters, "c2")
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 c2 | [c1] | True/Held")
}

// TestRepairDoesNotWaitForTheRecord: edited pages are repaired although the record of a held change
// cannot be written.
func TestRepairDoesNotWaitForTheRecord(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer = holds
	d.add("c2")
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool { page.Status.Decisions = nil; return true })
	if _, failure := d.try(); failure.IsSuccess() {
		t.Error("the record was written")
	}
	d.expect("p-decision-1: c1 |  | ")
}

// TestRevisionAfterAnUnwrittenRecord: a held change whose record could not be written uses up no
// revision, and an answer to it is not one to the next change.
func TestRevisionAfterAnUnwrittenRecord(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer = holds
	d.add("c2")
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errHubDown }
	if _, failure := d.try(); failure.IsSuccess() {
		t.Fatal("the record was written")
	}
	d.allow("x", true)
	d.refuseRecords = nil
	d.add("c3")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2 c3] | True/Held")
	if got := d.revision(); got != "2" {
		t.Errorf("the revision is %s", got)
	}
}

// TestHeldChangeAfterAForcedRemoval: forced removals supersede the held change, also after a crash
// that loses their record. Revisions on pages never become lower.
func TestHeldChangeAfterAForcedRemoval(t *testing.T) {
	d := governed(t, 3, nothing)
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	d.tier("silver", "a", "b")
	d.tier("gold", "x")
	d.attemptUntilStable()
	d.expect("p-decision-1: a b c | [c x] | True/Held")
	d.remove("b")
	d.tryWithoutStatus()
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: a c | [c x] | True/Held")
	if got, phase := d.revision(), d.phase("2"); got != "4" || phase != berthv1alpha1.PhaseSuperseded {
		t.Errorf("revision %s is held, revision 2 is %s", got, phase)
	}
}
