package inventory_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

var qKey = inventory.Key{Namespace: "n", Name: "q"}

// plainFleet is an inventory of three clusters and the Placements watched, p and q.
func plainFleet() *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	for _, name := range []string{"watched", "p", "q"} {
		inv.Update(fixture.Placement("n", name).Obj())
	}
	for i := range 3 {
		inv.Update(fixture.Cluster(fmt.Sprintf("c%d", i)).Obj())
	}
	return inv
}

func pPage(number int, version string, clusters ...string) *v1alpha1.PlacementDecision {
	name := fmt.Sprintf("p-decision-%d", number)
	page := fixture.Page("n", name).UID(name).Of("p").OwnedBy("p").Version(version).Lists(clusters...).Obj()
	page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "1"}
	return page
}

// TestPagesCountWhenTheyArrive: also if a Snapshot was taken before.
func TestPagesCountWhenTheyArrive(t *testing.T) {
	for _, looked := range []bool{false, true} {
		inv := plainFleet()
		inv.Started()
		if looked {
			inv.Snapshot(qKey, fixture.Now, nil)
		}
		inv.Update(pPage(1, "9", "c0"))
		if got := counts(inv)["c0"]; got != 1 {
			t.Errorf("a Snapshot before: %t: %d decisions on c0, want 1", looked, got)
		}
	}
}

// TestReplayCountsAlike: an inventory with the same inputs has the same counts.
func TestReplayCountsAlike(t *testing.T) {
	var inputs []inventory.Input
	inv := inventory.New(inventory.Options{OnInput: func(in inventory.Input) { inputs = append(inputs, in) }})
	for _, name := range []string{"watched", "p", "q"} {
		inv.Update(fixture.Placement("n", name).Obj())
	}
	inv.Update(fixture.Cluster("c0").Obj())
	inv.Started()
	inv.Snapshot(qKey, fixture.Now, nil) // an attempt of q, or a View, which no replay repeats
	inv.Update(pPage(1, "9", "c0"))
	want := counts(inv)
	snapshot := inv.Snapshot(watched, fixture.Now, nil)
	if snapshot.Input != inputs[len(inputs)-1].Number {
		t.Errorf("the Snapshot has input %d of %d", snapshot.Input, inputs[len(inputs)-1].Number)
	}
	replayed := inventory.New(inventory.Options{})
	for _, in := range inputs {
		replayed.Apply(in)
	}
	if diff := cmp.Diff(want, counts(replayed)); diff != "" {
		t.Errorf("decisions (-recorded +replayed):\n%s", diff)
	}
}

// TestWorkOfAPageOfOthers: an event of one page of a Placement whose pages others write changes as
// many counts as the page changes.
func TestWorkOfAPageOfOthers(t *testing.T) {
	const clusters = 3000
	for name, follows := range map[string]bool{"disabled": false, "follows": true} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{Follows: follows})
			pl := fixture.Placement("n", "p").Obj()
			if !follows {
				pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			}
			inv.Update(pl)
			inv.Update(fixture.Placement("n", "q").Obj())
			var all []string
			for i := range clusters {
				all = append(all, fmt.Sprintf("c%04d", i))
			}
			for n := 0; n*100 < clusters; n++ {
				inv.Update(pPage(n+1, fmt.Sprint(100+n), all[n*100:(n+1)*100]...))
			}
			inv.Started()
			before := inv.Snapshot(qKey, fixture.Now, nil).Counts.Changes
			inv.Update(pPage(1, "1000", append(slices.Clone(all[:99]), "other")...))
			if n := inv.Snapshot(qKey, fixture.Now, nil).Counts.Changes - before; n > 200 {
				t.Errorf("one cluster of a page changed: %d counts change", n)
			}
			before = inv.Snapshot(qKey, fixture.Now, nil).Counts.Changes
			same := pPage(1, "1001", append(slices.Clone(all[:99]), "other")...)
			same.Annotations["touched"] = "now"
			inv.Update(same)
			if n := inv.Snapshot(qKey, fixture.Now, nil).Counts.Changes - before; n > 0 {
				t.Errorf("nothing changed: %d counts change", n)
			}
		})
	}
}

// TestPagesOfOthersAreReadAfterAnEdit: an edit of a Placement between two reads does not hide that
// another client has deleted its page.
func TestPagesOfOthersAreReadAfterAnEdit(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	disabled := fixture.Placement("n", "p").Obj()
	disabled.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	page := pPage(1, "9", "c0")
	inv.Update(disabled)
	inv.Update(page)
	inv.Started()
	key := inventory.Key{Namespace: "n", Name: "p"}
	if names := inv.Subject(key).LastNames(); len(names) != 1 {
		t.Fatalf("published are %v", names)
	}
	inv.Delete(page)
	edited := disabled.DeepCopy()
	edited.Generation++
	inv.Update(edited)
	if names := inv.Subject(key).LastNames(); len(names) > 0 {
		t.Errorf("published are %v", names)
	}
}

// unlabelled is a page without label that Placement p controls.
func unlabelled(number, version int, clusters ...string) *v1alpha1.PlacementDecision {
	name := fmt.Sprintf("x-%d", number)
	return fixture.Page("n", name).UID(name).OwnedBy("p").Version(fmt.Sprint(version)).Lists(clusters...).Obj()
}

// TestCountOfPagesWithoutLabel: what pages without label list counts once for their Placement,
// together with what it has published, until the last of them is gone.
func TestCountOfPagesWithoutLabel(t *testing.T) {
	inv := plainFleet()
	inv.Started()
	check := func(after string, c0, c1 int32) {
		t.Helper()
		if got := counts(inv); got["c0"] != c0 || got["c1"] != c1 {
			t.Errorf("after %s: %v, want %d and %d", after, got, c0, c1)
		}
	}
	inv.Update(unlabelled(1, 1, "c0"))
	inv.Update(unlabelled(2, 2, "c0", "c1"))
	check("two pages", 1, 1)
	inv.Update(pPage(1, "3", "c0"))
	check("a page with label", 1, 1)
	inv.Delete(unlabelled(2, 2))
	check("the deletion of the second page", 1, 0)
	inv.Delete(pPage(1, "3"))
	inv.Subject(inventory.Key{Namespace: "n", Name: "p"})
	check("the deletion of the page with label", 1, 0)
	inv.Update(unlabelled(3, 4, "c1"))
	inv.Delete(fixture.Placement("n", "p").Obj())
	check("the deletion of the Placement", 1, 1)
	inv.Update(fixture.Placement("n", "p").Obj())
	check("its creation", 1, 1)
	inv.Delete(unlabelled(1, 1))
	check("the deletion of the first page", 0, 1)
}
