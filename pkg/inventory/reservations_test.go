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
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// watched is the Placement whose Snapshots the tests read.
var watched = inventory.Key{Namespace: "n", Name: "watched"}

// balanced is an inventory of clusters c0, c1 and so on, and of the Placements watched, p and q.
func balanced(clusters int) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	for _, name := range []string{watched.Name, "p", "q"} {
		inv.Update(fixture.Placement(watched.Namespace, name).Obj())
	}
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

// publish publishes a decision.
func publish(inv *inventory.Inventory, placement inventory.Key, clusters ...string) {
	inv.SetPublished(inv.Subject(placement), &framework.Published{Names: slices.Sorted(slices.Values(clusters))})
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
		}, map[string]int32{"c0": 1}},
		"published":            {func(inv *inventory.Inventory) { inv.Claim(p, []string{"c0", "c1"}); publish(inv, p, "c0") }, map[string]int32{"c0": 1, "c1": 1}},
		"published before":     {func(inv *inventory.Inventory) { publish(inv, p, "c0"); inv.Claim(p, []string{"c0", "c1"}) }, map[string]int32{"c0": 1, "c1": 1}},
		"published by another": {func(inv *inventory.Inventory) { inv.Claim(q, []string{"c0"}); publish(inv, p, "c0") }, map[string]int32{"c0": 2}},
		"a page is damaged": {func(inv *inventory.Inventory) {
			publish(inv, p, "c0")
			inv.Update(page("c1"))
		}, map[string]int32{"c0": 1}},
		"a page without label": {func(inv *inventory.Inventory) {
			inv.Claim(p, []string{"c0"})
			inv.Update(fixture.Page("n", "p-decision-1").OwnedBy("p").Lists("c0", "c1").Obj())
		}, map[string]int32{"c0": 1, "c1": 1}},
		"the Placement is deleted": {func(inv *inventory.Inventory) {
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

// TestCountsAreRecomputable: after any sequence of events each Placement counts once on each
// cluster that it has published or is publishing, or that a page without label lists. Pages of no
// Placement count, too.
func TestCountsAreRecomputable(t *testing.T) {
	names := []string{"c0", "c1", "c2", "c3", "stray"}
	someNames := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[string])
	somePlacement := rapid.SampledFrom([]string{"p", "q"})
	rapid.Check(t, func(t *rapid.T) {
		inv, version := balanced(4), 0
		pages, exists := map[string]*v1alpha1.PlacementDecision{}, map[string]bool{"p": true, "q": true}
		reserved, published := map[string][]string{}, map[string][]string{}
		// others removes the published clusters from the reserved ones.
		others := func(placement string) {
			reserved[placement] = slices.DeleteFunc(reserved[placement], func(name string) bool { return slices.Contains(published[placement], name) })
		}
		keyOf := func(placement string) inventory.Key { return inventory.Key{Namespace: "n", Name: placement} }
		for placement := range exists {
			publish(inv, keyOf(placement))
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				placement, clusters := somePlacement.Draw(t, "placement"), someNames.Draw(t, "clusters")
				inv.Claim(keyOf(placement), clusters)
				if exists[placement] {
					reserved[placement] = clusters
					others(placement)
				}
			},
			"unreserve": func(t *rapid.T) {
				placement := somePlacement.Draw(t, "placement")
				inv.Claim(keyOf(placement), nil)
				delete(reserved, placement)
			},
			"publish": func(t *rapid.T) {
				if placement := somePlacement.Draw(t, "placement"); exists[placement] {
					names := someNames.Draw(t, "clusters")
					publish(inv, keyOf(placement), names...)
					published[placement] = names
					others(placement)
				}
			},
			"write": func(t *rapid.T) {
				placement := somePlacement.Draw(t, "placement")
				version++
				page := fixture.Page("n", fmt.Sprintf("%s-%d", placement, rapid.IntRange(1, 2).Draw(t, "page"))).Version(fmt.Sprint(version)).Lists(someNames.Draw(t, "clusters")...)
				if page.OwnedBy(placement); rapid.Bool().Draw(t, "labelled") {
					page.Of(placement)
				}
				written := page.Obj()
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
			"delete or create a Placement": func(t *rapid.T) {
				placement := somePlacement.Draw(t, "placement")
				if exists[placement] = !exists[placement]; !exists[placement] {
					inv.Delete(fixture.Placement("n", placement).Obj())
					delete(reserved, placement)
					delete(published, placement)
					return
				}
				inv.Update(fixture.Placement("n", placement).Obj())
				publish(inv, keyOf(placement), inv.Subject(keyOf(placement)).LastNames()...)
				for _, page := range pages {
					for _, d := range page.Status.Decisions {
						if page.Labels[v1alpha1.PlacementLabel] == placement {
							published[placement] = append(published[placement], d.ClusterName)
						}
					}
				}
				others(placement)
			},
			"a cluster goes": func(t *rapid.T) { inv.Delete(fixture.Cluster(rapid.SampledFrom(names).Draw(t, "cluster")).Obj()) },
			"": func(t *rapid.T) {
				for _, name := range names {
					inv.Update(fixture.Cluster(name).Obj())
				}
				want := map[string]int32{}
				for _, placement := range []string{"p", "q"} {
					has := slices.Concat(reserved[placement], published[placement])
					for _, page := range pages {
						for _, d := range page.Status.Decisions {
							switch {
							case page.PlacementName() != placement:
							case !exists[placement]:
								want[d.ClusterName]++
							case !page.IsLabelledFor(placement):
								has = append(has, d.ClusterName)
							}
						}
					}
					slices.Sort(has)
					for _, name := range slices.Compact(has) {
						want[name]++
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
		if got := s.Subject.Entries.Of(index); got != want || s.Counts.ByIndex.Get(index) != 1 {
			t.Errorf("%s: %d own decisions of %d, want %d of 1", name, got, s.Counts.ByIndex.Get(index), want)
		}
	}
	inv.Claim(inventory.Key{Namespace: "ns", Name: "p"}, nil)
	if s := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil); s.Subject.Entries.Clusters.Len() > 0 {
		t.Errorf("after the reservation: %v", s.Subject.Entries)
	}
}
