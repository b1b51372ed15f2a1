package inventory_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// affinityPolicy is the policy of a Placement of its own name.
func affinityPolicy(name string, with, apartFrom []berthv1alpha1.PlacementReference) *berthv1alpha1.SelectionPolicy {
	return &berthv1alpha1.SelectionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)},
		Spec:       berthv1alpha1.SelectionPolicySpec{Placement: name, Affinity: berthv1alpha1.PlacementAffinity{With: with, ApartFrom: apartFrom}},
	}
}

func named(names ...string) []berthv1alpha1.PlacementReference {
	var references []berthv1alpha1.PlacementReference
	for _, name := range names {
		references = append(references, berthv1alpha1.PlacementReference{Placement: name})
	}
	return references
}

func databases() []berthv1alpha1.PlacementReference {
	return []berthv1alpha1.PlacementReference{{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
}

func cycleOf(inv *inventory.Inventory, name string) string {
	return inv.Snapshot(inventory.Key{Namespace: "n", Name: name}, fixture.Now, nil).Subject.AffinityCycle
}

// TestManyPlacementsApartFromEachOtherAreNoCycle: no Placement of the cycles is with another one.
func TestManyPlacementsApartFromEachOtherAreNoCycle(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	for i := range 20 {
		p := fixture.Placement("n", fmt.Sprintf("p%02d", i)).Obj()
		p.Labels = map[string]string{"app": "db"}
		inv.Update(p)
		inv.Update(affinityPolicy(p.Name, nil, databases()))
	}
	inv.Update(fixture.Placement("n", "follower").Obj())
	inv.Update(affinityPolicy("follower", named("p00"), nil))
	for _, name := range []string{"p00", "p19", "follower"} {
		if cycle := cycleOf(inv, name); cycle != "" {
			t.Errorf("%s has the cycle %q, want none", name, cycle)
		}
	}
}

// TestFollowersOfManyPlacementsApart: each Placement is apart from all others of its kind, and has
// another one with it, which is with it, too. A cycle of both would need a second way between two.
func TestFollowersOfManyPlacementsApart(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	const n = 20
	for i := range n {
		db, cache := fmt.Sprint("db", i), fmt.Sprint("cache", i)
		p := fixture.Placement("n", db).Obj()
		p.Labels = map[string]string{"app": "db"}
		inv.Update(p)
		inv.Update(fixture.Placement("n", cache).Obj())
		inv.Update(affinityPolicy(db, named(cache), databases()))
		inv.Update(affinityPolicy(cache, named(db), nil))
	}
	for i := range n {
		for _, name := range []string{fmt.Sprint("db", i), fmt.Sprint("cache", i)} {
			if cycle := cycleOf(inv, name); cycle != "" {
				t.Errorf("%s has the cycle %q, want none", name, cycle)
			}
		}
	}
	// Now there is one, in which only those apart and cache3 are.
	inv.Update(affinityPolicy("cache3", named("db3", "db4"), nil))
	for name, want := range map[string]bool{"cache3": true, "db4": true, "cache5": false} {
		if cycle := cycleOf(inv, name); (cycle != "") != want {
			t.Errorf("%s has the cycle %q, want one: %t", name, cycle, want)
		}
	}
}

// TestUnsettledCycles have an apartFrom that the other Placement does not have, or both with and
// apartFrom.
func TestUnsettledCycles(t *testing.T) {
	for name, tc := range map[string]struct {
		apartFrom [3][]string // of p0, p1 and p2
		with      [3][]string
		want      string // for p0
	}{
		"with one that is apart": {
			with: [3][]string{{"p1"}, nil, {"p0"}}, apartFrom: [3][]string{nil, {"p2"}, {"p1"}},
			want: "p0 with p1, p1 apart from p2, p2 with p0",
		},
		"with each other, and apart from the third": {with: [3][]string{{"p1"}, {"p0"}, nil}, apartFrom: [3][]string{{"p2"}, nil, {"p0"}}},
		"with the next":      {with: [3][]string{{"p1"}, {"p2"}, {"p0"}}},
		"each from the next": {apartFrom: [3][]string{{"p1"}, {"p2"}, {"p0"}}, want: "p0 apart from p1, p1 apart from p2, p2 apart from p0"},
		"one is not mutual":  {apartFrom: [3][]string{{"p1", "p2"}, {"p0", "p2"}, {"p0"}}, want: "p1 apart from p2, p2 apart from p0, p0 apart from p1"},
		"all are mutual":     {apartFrom: [3][]string{{"p1", "p2"}, {"p0", "p2"}, {"p0", "p1"}}},
		"no cycle":           {apartFrom: [3][]string{{"p1"}, {"p2"}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			for i, others := range tc.apartFrom {
				placement := fmt.Sprint("p", i)
				inv.Update(fixture.Placement("n", placement).Obj())
				inv.Update(affinityPolicy(placement, named(tc.with[i]...), named(others...)))
			}
			if got := cycleOf(inv, "p0"); got != tc.want {
				t.Errorf("the cycle is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestOneSidedAmongMutual: a forgotten name among Placements that are apart from each other
// concerns only those of the cycle, however many there are.
func TestOneSidedAmongMutual(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	const n = 14
	for i := range n {
		var others []string
		for k := range n {
			if k != i && (i != 1 || k != 12) {
				others = append(others, fmt.Sprintf("p%02d", k))
			}
		}
		if i == 0 {
			others = append(others, "outside")
		}
		name := fmt.Sprintf("p%02d", i)
		inv.Update(fixture.Placement("n", name).Obj())
		inv.Update(affinityPolicy(name, nil, named(others...)))
	}
	inv.Update(fixture.Placement("n", "outside").Obj())
	inv.Update(affinityPolicy("outside", nil, named("p00")))
	for name, want := range map[string]bool{"p12": true, "p01": true, "outside": false, "p05": false} {
		if cycle := cycleOf(inv, name); (cycle != "") != want || strings.Contains(cycle, "too many") {
			t.Errorf("%s has the cycle %q, want one: %t", name, cycle, want)
		}
	}
}

func TestManyAffinitiesByNameAreNoCycle(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	for i := range 500 {
		name := fmt.Sprintf("p%03d", i)
		inv.Update(fixture.Placement("n", name).Obj())
		inv.Update(affinityPolicy(name, named(fmt.Sprintf("p%03d", i+1)), named(fmt.Sprintf("p%03d", i+2))))
	}
	if cycle := cycleOf(inv, "p000"); cycle != "" {
		t.Errorf("the cycle is %q, want none", cycle)
	}
}

// TestAffinityThatIsNoLongerMutual: of two Placements that are apart from each other the older one
// keeps its cluster. It must leave it when the policy of the other one has no such term any more.
func TestAffinityThatIsNoLongerMutual(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Placement("n", "a").Obj())
	inv.Update(fixture.Placement("n", "b").Obj())
	inv.Update(affinityPolicy("a", nil, named("b")))
	inv.Update(affinityPolicy("b", nil, named("a")))
	inv.Update(fixture.Page("n", "a-decision-1").Of("a").OwnedBy("a").Lists("c1").Obj())
	inv.Update(fixture.Page("n", "b-decision-1").Of("b").OwnedBy("b").Lists("c1").Obj())
	inv.Started()
	inv.Update(affinityPolicy("b", nil, named("x")))
	affected := names(inv.Update(affinityPolicy("b", nil, named("a"))))
	if fmt.Sprint(affected) != "[n/a n/b]" {
		t.Errorf("affected are %v, want a and b", affected)
	}
}

// TestFirstAffinityOfALargeNamespace: the work is proportional to the Placements, not to their
// square.
func TestFirstAffinityOfALargeNamespace(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	for i := range 10_000 {
		inv.Update(fixture.Placement("n", fmt.Sprintf("p%05d", i)).Obj())
	}
	inv.Started()
	begin := time.Now()
	inv.Update(affinityPolicy("p00001", nil, named("p00002")))
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestStartWithAffinityToAll: all Placements are decided at start, so none is looked up.
func TestStartWithAffinityToAll(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	for i := range 3_000 {
		name := fmt.Sprintf("p%05d", i)
		inv.Update(fixture.Placement("n", name).Obj())
		inv.Update(affinityPolicy(name, nil, databases()))
		inv.Update(fixture.Page("n", name+"-decision-1").Of(name).OwnedBy(name).Lists(fmt.Sprintf("c%d", i%100)).Obj())
	}
	begin := time.Now()
	inv.Started()
	inv.Snapshot(inventory.Key{Namespace: "n", Name: "p00000"}, fixture.Now, nil)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
}
