package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// meddle has another client change a page, or delete it when change answers false.
func (d *desk) meddle(name string, change func(*v1alpha1.PlacementDecision) bool) {
	d.t.Helper()
	key := inventory.Key{Namespace: "ns", Name: name}
	page := d.pages.pages[key].DeepCopy()
	if !change(page) {
		delete(d.pages.pages, key)
		d.inv.Delete(page)
		return
	}
	page, err := d.pages.store("meddle", page)
	if err != nil {
		d.t.Fatal(err)
	}
	d.inv.Update(page)
}

// TestMeddling: external edits of pages are reverted without asking Permit, also while a change is
// pending.
func TestMeddling(t *testing.T) {
	vanish := func(*v1alpha1.PlacementDecision) bool { return false }
	empty := func(page *v1alpha1.PlacementDecision) bool {
		page.Status.Decisions = nil
		return true
	}
	stray := func(page *v1alpha1.PlacementDecision) bool {
		page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c9"})
		return true
	}
	tests := map[string]struct {
		meddle  func(*v1alpha1.PlacementDecision) bool
		page    string
		waiting bool
		want    string
	}{
		"a page vanishes":                        {meddle: vanish, want: "p-decision-1: c1 |  | "},
		"a page is emptied":                      {meddle: empty, want: "p-decision-1: c1 |  | "},
		"a name is added":                        {meddle: stray, want: "p-decision-1: c1 |  | "},
		"a page vanishes while a change waits":   {meddle: vanish, waiting: true, want: "p-decision-1: c1 | [c1 c2] | True/Held"},
		"a page is emptied while a change waits": {meddle: empty, waiting: true, want: "p-decision-1: c1 | [c1 c2] | True/Held"},
		"a name is added while a change waits":   {meddle: stray, waiting: true, want: "p-decision-1: c1 | [c1 c2] | True/Held"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			// Whatever changes the answer from here on waits.
			d.x.answer = holds
			if tc.waiting {
				d.add("c2")
				d.attemptUntilStable()
			}
			if tc.page == "" {
				tc.page = "p-decision-1"
			}
			d.meddle(tc.page, tc.meddle)
			d.attemptUntilStable()
			d.expect(tc.want)
		})
	}
}

// TestDeletedPagesAreForgotten: after a page was deleted, what is known as published is without it,
// so the next attempt finds no damage.
func TestDeletedPagesAreForgotten(t *testing.T) {
	var names []string
	for i := range v1alpha1.MaxDecisionsPerPage + 1 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	d := newDesk(t, ask(), names...)
	d.attemptUntilStable()
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
	d.attemptUntilStable()
	d.expect("p-decision-1: c000 |  | ")
	subject := d.snapshot().Subject
	if last := subject.Last; len(last.Pages) != 1 || last.Damaged(subject) {
		t.Errorf("the pages known as published are %v", last.Pages)
	}
}

// TestNobodyRemembers: after a restart the content of a page that was deleted in between is known
// from the records. Without them, consumers see no page rather than an empty decision.
func TestNobodyRemembers(t *testing.T) {
	for name, tc := range map[string]struct {
		forget bool
		want   string
	}{
		"recorded":     {want: "p-decision-1: c1 | [c1 c2] | True/Held"},
		"not recorded": {forget: true, want: " | [c1 c2] | True/Held"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			d.placement.Status.DecisionGroups = []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 1}}
			d.x.answer = holds
			d.add("c2")
			delete(d.pages.pages, inventory.Key{Namespace: "ns", Name: "p-decision-1"})
			if tc.forget {
				clear(d.records)
			}
			d.restart()
			d.attemptUntilStable()
			d.expect(tc.want)
		})
	}
}

// TestDeletedPagesAreRestored: pages that vanished while no controller ran are written again
// without asking Permit, if the answer is that of the newest record.
func TestDeletedPagesAreRestored(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.x.answer = holds
	delete(d.pages.pages, inventory.Key{Namespace: "ns", Name: "p-decision-1"})
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | ")
	if len(d.records) != 1 {
		t.Errorf("%d records, want that of the first publication alone", len(d.records))
	}
}

// TestSharedByProfiles: what a plugin has in common with its instances in other profiles.
func TestSharedByProfiles(t *testing.T) {
	handle := &framework.Handle{}
	begin := func() *int { return new(int) }
	first, second := framework.Shared(handle, "a", begin), framework.Shared(handle, "a", begin)
	if first != second {
		t.Error("two instances of a plugin have nothing in common")
	}
	if other := framework.Shared(handle, "b", begin); other == first {
		t.Error("two plugins have something in common")
	}
}

// TestRemovedClustersDoNotReturn: what a controller removed before it crashed, without a record,
// does not return, whatever the first attempt after the start says.
func TestRemovedClustersDoNotReturn(t *testing.T) {
	leave := map[string][]string{"the last page": fleetNames(200, 250), "the first page": fleetNames(0, 100), "the last page and one more": append(fleetNames(200, 250), "c000"), "all": fleetNames(0, 250)}
	for name, out := range leave {
		for answer, status := range map[string]*framework.Status{"holds": holds, "waits": awaits, "fails": fails} {
			for n := 0; crashAfter(t, fmt.Sprintf("%s, after %d writes, Permit %s", name, n, answer), out, status, func(write int) bool { return write >= n }) > n; n++ {
				crashAfter(t, fmt.Sprintf("%s, without write %d, Permit %s", name, n, answer), out, status, func(write int) bool { return write == n })
			}
		}
	}
}

// crashAfter has clusters leave in an attempt, of whose writes some are refused, and starts another
// controller, for which Permit gives that answer. It returns how many writes were tried.
func crashAfter(t *testing.T, name string, leave []string, answer *framework.Status, refused func(write int) bool) (writes int) {
	t.Helper()
	d, pool := deskOf250(t)
	pool("out", leave...)
	d.pages.refuse = func(string) error {
		if writes++; refused(writes - 1) {
			return errRefused
		}
		return nil
	}
	d.scheduler.Attempt(t.Context(), key.Namespace, d.snapshot)
	d.pages.refuse = nil
	left, _ := framework.Listed(d.snapshot().Subject.OwnPages())
	d.y.answer = answer
	d.restart()
	for range 3 {
		_, _ = d.try()
		if listed, _ := framework.Listed(d.snapshot().Subject.OwnPages()); !slices.Equal(listed, left) {
			t.Errorf("%s: %d clusters are listed, want the %d after the writes", name, len(listed), len(left))
			break
		}
	}
	return writes
}

func fleetNames(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	return names
}
