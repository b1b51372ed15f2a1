package inventory_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// watched is the Placement whose Snapshots the tests read.
var watched = inventory.Key{Namespace: "n", Name: "watched"}

// balanced is an inventory of clusters c0, c1 and so on.
func balanced(clusters int) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Placement(watched.Namespace, watched.Name).Obj())
	for i := range clusters {
		inv.Update(fixture.Cluster(fmt.Sprintf("c%d", i)).Obj())
	}
	return inv
}

// counts returns the number of decisions on each cluster that has any, as Balance reads them.
func counts(inv *inventory.Inventory) map[string]int32 {
	got := map[string]int32{}
	fleet := inv.Snapshot(watched, fixture.Now, nil).Fleet
	for i := range fleet.Clusters.Len() {
		if c := fleet.Clusters.Get(i); c != nil && fleet.Counts.ByIndex.Get(i) != 0 {
			got[c.Name] = fleet.Counts.ByIndex.Get(i)
		}
	}
	return got
}

func TestReserve(t *testing.T) {
	p, q := inventory.Key{Namespace: "n", Name: "p"}, inventory.Key{Namespace: "n", Name: "q"}
	page := func(clusters ...string) *v1alpha1.PlacementDecision {
		return fixture.Page("n", "p-decision-1").Of("p").Lists(clusters...).Obj()
	}
	tests := map[string]struct {
		do   func(inv *inventory.Inventory)
		want map[string]int32
	}{
		"each counts once":  {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0", "c1", "c0"}) }, map[string]int32{"c0": 1, "c1": 1}},
		"of two Placements": {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0"}); inv.Claim(q, []string{"c0"}) }, map[string]int32{"c0": 2}},
		"the next one replaces it": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0", "c1"})
			inv.Claim(p, []string{"c1", "c2"})
		}, map[string]int32{"c1": 1, "c2": 1}},
		"of nothing":              {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0"}); inv.Claim(p, nil) }, map[string]int32{}},
		"given back":              {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0"}); inv.Claim(p, nil); inv.Claim(p, nil) }, map[string]int32{}},
		"another's is given back": {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0"}); inv.Claim(q, nil) }, map[string]int32{"c0": 1}},
		"a page that was written shows one": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0", "c1"})
			inv.AssumePage(page("c0"), false)
		}, map[string]int32{"c0": 1, "c1": 1}},
		"shown, and given back after a failure": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0", "c1"})
			inv.AssumePage(page("c0"), false)
			inv.Claim(p, nil)
		}, map[string]int32{"c0": 1}},
		"the watch shows one": {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0"}); inv.Update(page("c0")) }, map[string]int32{"c0": 1}},
		"shown, and gone again": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0"})
			inv.Update(page("c0"))
			inv.Delete(page("c0"))
		}, map[string]int32{}},
		"shown before":                 {func(inv *inventory.Inventory) { inv.Update(page("c0")); inv.Claim(p, []string{"c0", "c1"}) }, map[string]int32{"c0": 1, "c1": 1}},
		"another's page shows nothing": {func(inv *inventory.Inventory) { inv.Claim(q, []string{"c0"}); inv.Update(page("c0")) }, map[string]int32{"c0": 2}},
		"an unfinished page shows it": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0"})
			inv.Update(fixture.Page("n", "p-decision-1").OwnedBy("p").Lists("c0").Obj())
		}, map[string]int32{"c0": 1}},
		"the Placement is deleted": {func(inv *inventory.Inventory) {
			inv.Update(fixture.Placement("n", "p").Obj())
			inv.Claim(p, []string{"c0"})
			inv.Delete(fixture.Placement("n", "p").Obj())
		}, map[string]int32{}},
		"the cluster is deleted and comes back": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0"})
			inv.Delete(fixture.Cluster("c0").Obj())
			inv.Update(fixture.Cluster("new").Obj())
			inv.Update(fixture.Cluster("c0").Obj())
		}, map[string]int32{"c0": 1}},
		"the cluster is not there yet": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"later"})
			inv.Update(fixture.Cluster("later").Obj())
		}, map[string]int32{"later": 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := balanced(3)
			counts(inv)
			tc.do(inv)
			if diff := cmp.Diff(tc.want, counts(inv)); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCountsAreRecomputable: after any sequence of events the counts equal the decisions on pages
// plus the reserved ones.
func TestCountsAreRecomputable(t *testing.T) {
	names := []string{"c0", "c1", "c2", "c3", "stray"}
	someNames := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[string])
	somePlacement := rapid.SampledFrom([]string{"p", "q", "watched"})
	rapid.Check(t, func(t *rapid.T) {
		inv, version := balanced(4), 0
		pages, reserved := map[string]*v1alpha1.PlacementDecision{}, map[string]map[string]bool{}
		// shown are the names on a Placement's pages.
		shown := func(placement string) map[string]bool {
			all := map[string]bool{}
			for _, page := range pages {
				for _, d := range page.Status.Decisions {
					all[d.ClusterName] = all[d.ClusterName] || page.Labels[v1alpha1.PlacementLabel] == placement
				}
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				placement, clusters := somePlacement.Draw(t, "placement"), someNames.Draw(t, "clusters")
				inv.Claim(inventory.Key{Namespace: "n", Name: placement}, clusters)
				reserved[placement] = map[string]bool{}
				for _, c := range clusters {
					if !shown(placement)[c] {
						reserved[placement][c] = true
					}
				}
			},
			"unreserve": func(t *rapid.T) {
				placement := somePlacement.Draw(t, "placement")
				inv.Claim(inventory.Key{Namespace: "n", Name: placement}, nil)
				delete(reserved, placement)
			},
			"write": func(t *rapid.T) {
				placement := somePlacement.Draw(t, "placement")
				version++
				page := fixture.Page("n", fmt.Sprintf("%s-%d", placement, rapid.IntRange(1, 2).Draw(t, "page"))).Version(fmt.Sprint(version)).Lists(someNames.Draw(t, "clusters")...)
				written := page.Of(placement).Obj()
				if old := pages[written.Name]; old != nil {
					written.UID = old.UID
				} else {
					written.UID = types.UID(written.ResourceVersion)
				}
				if rapid.Bool().Draw(t, "own write") {
					inv.AssumePage(written, false)
				} else {
					inv.Update(written)
				}
				pages[written.Name] = written
				for _, d := range written.Status.Decisions {
					delete(reserved[placement], d.ClusterName)
				}
			},
			"delete": func(t *rapid.T) {
				if len(pages) == 0 {
					t.Skip("no page")
				}
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(pages))).Draw(t, "page")
				if rapid.Bool().Draw(t, "own deletion") {
					inv.AssumePage(pages[name], true)
				} else {
					inv.Delete(pages[name])
				}
				delete(pages, name)
			},
			"forget a Placement": func(t *rapid.T) {
				placement := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "placement")
				inv.Update(fixture.Placement("n", placement).Obj())
				inv.Delete(fixture.Placement("n", placement).Obj())
				delete(reserved, placement)
			},
			"a cluster goes": func(t *rapid.T) { inv.Delete(fixture.Cluster(rapid.SampledFrom(names).Draw(t, "cluster")).Obj()) },
			"": func(t *rapid.T) {
				for _, name := range names {
					inv.Update(fixture.Cluster(name).Obj())
				}
				want := map[string]int32{}
				for _, page := range pages {
					for _, d := range page.Status.Decisions {
						want[d.ClusterName]++
					}
				}
				for _, clusters := range reserved {
					for c := range clusters {
						want[c]++
					}
				}
				if diff := cmp.Diff(want, counts(inv)); diff != "" {
					t.Fatalf("decisions (-want +got):\n%s", diff)
				}
				histogram := map[int32]int32{}
				for c, n := range inv.Snapshot(watched, fixture.Now, nil).Counts.Histogram {
					if n != 0 {
						histogram[int32(c)] = n
					}
				}
				wantHistogram := map[int32]int32{}
				for n := range maps.Values(want) {
					wantHistogram[n]++
				}
				if diff := cmp.Diff(wantHistogram, histogram); diff != "" {
					t.Fatalf("names by their number of decisions (-want +got):\n%s", diff)
				}
			},
		})
	})
}

// TestOwnReservationsAreEntries: while a Placement's decision is being published, another Snapshot
// of it, such as that of an explanation, does not count the decision as that of another Placement.
func TestOwnReservationsAreEntries(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Cluster("c1").Obj())
	inv.Update(fixture.Placement("ns", "p").Obj())
	inv.Update(fixture.Placement("ns", "q").Obj())
	inv.Claim(inventory.Key{Namespace: "ns", Name: "p"}, []string{"c1"})
	for name, want := range map[string]int32{"p": 1, "q": 0} {
		s := inv.Snapshot(inventory.Key{Namespace: "ns", Name: name}, fixture.Now, nil)
		index := s.Clusters.Get(0).Index
		if got := s.Subject.Entries[index]; got != want || s.Subject.Counted.Has(index) != (want > 0) || s.Counts.ByIndex.Get(index) != 1 {
			t.Errorf("%s: %d own decisions of %d, want %d of 1", name, got, s.Counts.ByIndex.Get(index), want)
		}
	}
	inv.Claim(inventory.Key{Namespace: "ns", Name: "p"}, nil)
	if s := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil); len(s.Subject.Entries) > 0 {
		t.Errorf("after the reservation: %v", s.Subject.Entries)
	}
}
