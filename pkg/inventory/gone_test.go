package inventory_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestAssumePlacement: the response to a status write that arrives after the watch reported the
// deletion does not restore the Placement.
func TestAssumePlacement(t *testing.T) {
	key := inventory.Key{Namespace: "n", Name: "p"}
	at := func(uid, version string, selected int32) *v1alpha1.Placement {
		pl := fixture.Placement("n", "p").Obj()
		pl.UID, pl.ResourceVersion, pl.Status.NumberOfSelectedClusters = "", version, selected
		pl.ResourceVersion, pl.Status.NumberOfSelectedClusters = version, selected
		pl.UID = "first"
		if uid != "" {
			pl.UID = "second"
		}
		return pl
	}
	edited := at("", "12", 1)
	edited.Generation = 2
	tests := map[string]struct {
		before func(*inventory.Inventory)
		write  *v1alpha1.Placement
		// want is the version that is known afterwards; empty for none.
		want string
	}{
		"ahead of its echo":    {write: at("", "11", 1), want: "11"},
		"behind its echo":      {before: func(inv *inventory.Inventory) { inv.Update(at("", "11", 1)) }, write: at("", "11", 1), want: "11"},
		"behind a later write": {before: func(inv *inventory.Inventory) { inv.Update(at("", "13", 2)) }, write: at("", "11", 1), want: "13"},
		"behind the deletion":  {before: func(inv *inventory.Inventory) { inv.Delete(at("", "10", 0)) }, write: at("", "11", 1)},
		"behind the next life": {before: func(inv *inventory.Inventory) { inv.Delete(at("", "10", 0)); inv.Update(at("2", "12", 0)) }, write: at("", "11", 1), want: "12"},
		"an unprocessed edit":  {write: edited, want: "10"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(at("", "10", 0))
			if tc.before != nil {
				tc.before(inv)
			}
			inv.AssumePlacement(tc.write)
			got := ""
			if pl := inv.Placement(key); pl != nil {
				got = pl.ResourceVersion
			}
			if got != tc.want {
				t.Errorf("known is version %q, want %q", got, tc.want)
			}
			if len(inv.Placements()) > 0 != (tc.want != "") {
				t.Errorf("Placements: %v", inv.Placements())
			}
		})
	}
}

// TestDeletedPageStaysGone: a watch that was interrupted reports the deletion of a page with the
// last version that it saw. The response to a later write may arrive after that.
func TestDeletedPageStaysGone(t *testing.T) {
	inv := fullInventory()
	before := fixture.Page("n", "plain-decision-1").UID("1").Of("plain").OwnedBy("plain").Version("8").Lists("c1")
	inv.Update(before.Obj())
	written := before.Version("20").Lists("c2").Obj()
	end := inv.Announce(written, false)
	inv.Delete(before.Version("8").Obj())
	inv.AssumePage(written, false)
	end()
	if got := published(inv, "plain"); len(got) > 0 {
		t.Errorf("a deleted page publishes %v", got)
	}
	inv.Update(fixture.Page("n", "plain-decision-1").UID("2").Of("plain").OwnedBy("plain").Version("30").Lists("c2").Obj())
	if diff := cmp.Diff([]string{"c2"}, published(inv, "plain")); diff != "" {
		t.Errorf("the next page of that name (-want +got):\n%s", diff)
	}
}

// published returns the clusters on the pages of a Placement.
func published(inv *inventory.Inventory, placement string) []string {
	var names []string
	for _, page := range inv.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil).Subject.Pages {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	return names
}

// TestPageThatIsBeingDeleted: a page with a finalizer counts as deleted as soon as its deletion is
// accepted, except that its name stays in use.
func TestPageThatIsBeingDeleted(t *testing.T) {
	key := inventory.Key{Namespace: "n", Name: "plain"}
	page := fixture.Page("n", "plain-decision-2").UID("1").Of("plain").OwnedBy("plain").Version("8").Lists("c1").Obj()
	page.Finalizers = []string{"example.com/slow"}
	deleting := page.DeepCopy()
	deleted := fixture.At(0)
	deleting.ResourceVersion, deleting.DeletionTimestamp = "9", &deleted
	tests := map[string]struct {
		deletion     func(*inventory.Inventory) []inventory.Key
		wantAffected []string
	}{
		"by Berth": {deletion: func(inv *inventory.Inventory) []inventory.Key {
			end := inv.Announce(page, true)
			defer end()
			inv.AssumePage(page, true)
			return inv.Update(deleting.DeepCopy())
		}},
		"by Berth, whose watch is first": {deletion: func(inv *inventory.Inventory) []inventory.Key {
			end := inv.Announce(page, true)
			defer end()
			defer inv.AssumePage(page, true)
			return inv.Update(deleting.DeepCopy())
		}},
		"by Berth, whose watch is late": {deletion: func(inv *inventory.Inventory) []inventory.Key {
			end := inv.Announce(page, true)
			inv.AssumePage(page, true)
			end()
			return inv.Update(deleting.DeepCopy())
		}},
		"by another": {deletion: func(inv *inventory.Inventory) []inventory.Key { return inv.Update(deleting.DeepCopy()) }, wantAffected: []string{"n/plain"}},
		"found after its answer was lost": {deletion: func(inv *inventory.Inventory) []inventory.Key {
			inv.AssumePage(deleting.DeepCopy(), false)
			return nil
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("n", "plain").Obj())
			inv.Update(fixture.Cluster("c1").Obj())
			inv.Update(page.DeepCopy())
			if diff := cmp.Diff(tc.wantAffected, names(tc.deletion(inv))); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
			check := func(when string, taken bool) {
				subject := inv.Snapshot(key, fixture.Now, nil).Subject
				if got := published(inv, "plain"); len(got) > 0 || subject.LastClusters.Len() > 0 || subject.Entries.Clusters.Len() > 0 {
					t.Errorf("%s: published are %v, %d clusters, %d entries", when, got, subject.LastClusters.Len(), subject.Entries.Clusters.Len())
				}
				if slices.Contains(subject.Taken, page.Name) != taken {
					t.Errorf("%s: the name is taken: %t", when, !taken)
				}
				if n := inv.Snapshot(key, fixture.Now, nil).Counts.Max(&framework.Entries{}); n > 0 {
					t.Errorf("%s: Balance counts %d", when, n)
				}
			}
			check("while it has a finalizer", true)
			inv.Delete(deleting)
			check("when it is gone", false)
			inv.Update(page.DeepCopy())
		})
	}
}
