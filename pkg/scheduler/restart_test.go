package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestDamageMovesNothing: what another client does to the pages changes neither the selection nor
// the reasons for it, whether a controller runs meanwhile or not.
func TestDamageMovesNothing(t *testing.T) {
	steady := ask().Number(1).Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerSteady, 1)
	onlyOld := func(d *desk, name string) {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Taint("full", "", v1alpha1.TaintEffectNoSelectIfNew).Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
	lists := func(names ...string) func(*v1alpha1.PlacementDecision) bool {
		return func(page *v1alpha1.PlacementDecision) bool {
			page.Status.Decisions = nil
			for _, name := range names {
				page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
			}
			return true
		}
	}
	deleted := func(*v1alpha1.PlacementDecision) bool { return false }
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		before    func(*desk)
		damage    func(*v1alpha1.PlacementDecision) bool
		want      string
	}{
		"a page is deleted, and Steady keeps the cluster":   {placement: steady, before: func(d *desk) { d.add("b") }, damage: deleted, want: "c1"},
		"another cluster is listed, and Steady stays":       {placement: steady, before: func(d *desk) { d.add("b") }, damage: lists("b"), want: "c1"},
		"a cluster that only old Placements keep is listed": {placement: ask(), before: func(d *desk) { onlyOld(d, "c2") }, damage: lists("c1", "c2"), want: "c1"},
		"a cluster that only old Placements keep is removed": {
			placement: ask(), before: func(d *desk) { d.add("c2"); d.attemptUntilStable(); onlyOld(d, "c2") }, damage: lists("c1"), want: "c1 c2",
		},
		"such a page is deleted": {
			placement: ask(), before: func(d *desk) { d.add("c2"); d.attemptUntilStable(); onlyOld(d, "c2") }, damage: deleted, want: "c1 c2",
		},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", name, restarts), func(t *testing.T) {
				d := newDesk(t, tc.placement, "c1")
				d.attemptUntilStable()
				tc.before(d)
				d.attemptUntilStable()
				records := len(d.records)
				d.meddle("p-decision-1", tc.damage)
				if restarts {
					d.restart()
				}
				d.attemptUntilStable()
				d.expect("p-decision-1: " + tc.want + " |  | ")
				if len(d.records) != records {
					t.Errorf("%d records, want %d", len(d.records), records)
				}
			})
		}
	}
}

// crowd is a hub in memory with several Placements in one namespace. All clusters are in one set.
type crowd struct {
	t         *testing.T
	pages     *memoryPages
	objects   []*v1alpha1.Placement
	clusters  []fixture.ClusterBuilder
	inv       *inventory.Inventory
	scheduler *scheduler.Scheduler
	// requests says that the namespace has a SelectionPolicy with requests, so that the inventory
	// reads what is published at the start.
	requests bool
}

// start starts a controller, which decides all Placements.
func (f *crowd) start() {
	f.t.Helper()
	f.inv = inventory.New(inventory.Options{})
	handle := &framework.Handle{Pages: f.pages, Assume: f.inv.AssumePage}
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), handle)
	if err != nil {
		f.t.Fatal(err)
	}
	f.scheduler = scheduler.New(profiles, nil)
	f.scheduler.StorePublished, f.scheduler.StoreClaim = f.inv.SetPublished, f.inv.StoreClaim
	f.inv.Update(fixture.Set("s1"))
	f.inv.Update(fixture.Binding("ns", "s1"))
	for _, c := range f.clusters {
		f.inv.Update(c.Obj())
	}
	for _, pl := range f.objects {
		f.inv.Update(pl.DeepCopy())
	}
	for _, page := range f.pages.pages {
		f.inv.Update(page.DeepCopy())
	}
	if f.requests {
		f.inv.Update(dependencies["requests"]("other", ""))
	}
	f.inv.Started()
	f.pages.writes = nil
	for _, pl := range f.objects {
		f.attempt(pl.Name)
	}
}

func (f *crowd) attempt(name string) *scheduler.Attempt {
	f.t.Helper()
	key := inventory.Key{Namespace: "ns", Name: name}
	a := f.scheduler.Attempt(context.Background(), "ns", func() *framework.Snapshot { return f.inv.Snapshot(key, fixture.Now, nil) })
	if !a.Err.IsSuccess() {
		f.t.Fatal(a.Err.Err())
	}
	f.inv.ClearCause(a.Snapshot)
	f.inv.Settle(a.Snapshot, a.Proof())
	return a
}

func (f *crowd) place(pl *v1alpha1.Placement) {
	f.objects = append(f.objects, pl)
	f.inv.Update(pl.DeepCopy())
	f.attempt(pl.Name)
}

// newCrowd has eight Placements spread over four clusters, and six more that need one of them.
func newCrowd(t *testing.T, requests bool, b func(string) fixture.PlacementBuilder) *crowd {
	f := &crowd{t: t, requests: requests, pages: &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}}}
	for i := range 4 {
		f.clusters = append(f.clusters, fixture.Cluster(fmt.Sprint("c", i)).Set("s1").Label("name", fmt.Sprint("c", i)))
	}
	f.start()
	for i := range 8 {
		f.place(b(fmt.Sprint("p", i)).Number(1).Obj())
	}
	for i := range 6 {
		f.place(fixture.Placement("ns", fmt.Sprint("q", i)).Predicate(fixture.MatchLabel("name", "c0")).Obj())
	}
	return f
}

// TestAStartMovesNothing: counts have drifted since the Placements were decided, but the first
// attempts of a new process publish nothing. What happens then is decided as always.
func TestAStartMovesNothing(t *testing.T) {
	for name, b := range map[string]func(string) fixture.PlacementBuilder{
		"default": func(name string) fixture.PlacementBuilder { return fixture.Placement("ns", name) },
		"Balance counts three times": func(name string) fixture.PlacementBuilder {
			return fixture.Placement("ns", name).Prioritizer(v1alpha1.PrioritizerBalance, 3)
		},
		"Balance prefers busy clusters": func(name string) fixture.PlacementBuilder {
			return fixture.Placement("ns", name).Prioritizer(v1alpha1.PrioritizerBalance, -3).Prioritizer(v1alpha1.PrioritizerSteady, 1)
		},
	} {
		for _, requests := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", requests ", requests), func(t *testing.T) {
				f := newCrowd(t, requests, b)
				for range 3 {
					f.start()
					if len(f.pages.writes) > 0 {
						t.Fatalf("written: %q", f.pages.writes)
					}
				}
			})
		}
	}
}

// TestAStartKeepsScores: published scores and their order stay, too.
func TestAStartKeepsScores(t *testing.T) {
	for _, requests := range []bool{false, true} {
		t.Run(fmt.Sprint("requests ", requests), func(t *testing.T) {
			f := newCrowd(t, requests, func(name string) fixture.PlacementBuilder { return fixture.Placement("ns", name) })
			pl := fixture.Placement("ns", "sorted").Number(3).Obj()
			pl.Spec.SortBy = v1alpha1.SortByScore
			f.place(pl)
			for i := range 5 {
				f.place(fixture.Placement("ns", fmt.Sprint("r", i)).Predicate(fixture.MatchLabel("name", fmt.Sprint("c", i%3+1))).Obj())
			}
			f.start()
			if len(f.pages.writes) > 0 {
				t.Fatalf("written: %q", f.pages.writes)
			}
			f.inv.Update(f.clusters[0].Taint("t", "", v1alpha1.TaintEffectNoSelectIfNew).Obj())
			f.attempt("sorted")
			if !slices.Equal(f.pages.writes, []string{"update sorted-decision-1"}) {
				t.Errorf("after an event: %q", f.pages.writes)
			}
		})
	}
}

// TestAfterAStart: an event that affects a Placement after its first attempt ends the grace of the
// start, one before or during that attempt does not, nor does a repetition.
func TestAfterAStart(t *testing.T) {
	for _, requests := range []bool{false, true} {
		t.Run(fmt.Sprint("requests ", requests), func(t *testing.T) {
			b := func(name string) fixture.PlacementBuilder {
				return fixture.Placement("ns", name).Prioritizer(v1alpha1.PrioritizerBalance, 3)
			}
			f := newCrowd(t, requests, b)
			f.start()
			// moves returns the Placements that leave the crowded cluster with the next attempt.
			moves := func() (moved []string) {
				f.pages.writes = nil
				for i := range 8 {
					f.attempt(fmt.Sprint("p", i))
				}
				return slices.Clone(f.pages.writes)
			}
			if moved := moves(); len(moved) > 0 {
				t.Errorf("repeated: %q", moved)
			}
			if a := f.attempt("p0"); a.Proof() != nil {
				t.Error("the attempt after a start proves that later ones change nothing")
			}
			f.inv.Update(f.clusters[3].Label("other", "x").Obj())
			if moved := moves(); len(moved) > 0 {
				t.Errorf("after an event that affects nobody: %q", moved)
			}
			f.inv.Update(f.clusters[3].Taint("t", "", v1alpha1.TaintEffectNoSelectIfNew).Obj())
			if moved := moves(); len(moved) == 0 {
				t.Error("an event is not decided with the counts of now")
			}
		})
	}
}
