package explore

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// TestUpdates applies the updates of random changes to the first state, as the page does: the
// result is the last state.
func TestUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := newTestHub(t, small())
		state := hub.fleet()
		page := func(lists ...string) *v1alpha1.PlacementDecision {
			return fixture.Page("ns", "two-decision-1").Of("two").OwnedBy("two").Lists(lists...).Obj()
		}
		two := fixture.Placement("ns", "two").Number(2).Obj()
		for step, change := range []func() (old, object client.Object){
			func() (client.Object, client.Object) { return nil, fixture.Cluster("c9").Set("s").Obj() },
			func() (client.Object, client.Object) { return nil, page("c1", "c2") },
			func() (client.Object, client.Object) { return page("c1", "c2"), page("c2", "ghost") },
			func() (client.Object, client.Object) { return page("c2", "ghost"), nil },
			func() (client.Object, client.Object) {
				return fixture.Cluster("c1").Set("s").Obj(), fixture.Cluster("c1").Set("t").Label("x", "y").Obj()
			},
			func() (client.Object, client.Object) { return nil, fixture.Set("t") },
			func() (client.Object, client.Object) { return nil, fixture.Binding("ns", "t") },
			func() (client.Object, client.Object) { return nil, fixture.ApprovalPolicy("ns", "more", "two") },
			func() (client.Object, client.Object) { return fixture.Cluster("c2").Set("s").Obj(), nil },
			func() (client.Object, client.Object) { return two, nil },
			func() (client.Object, client.Object) { return nil, two },
		} {
			version := state.Version
			if old, object := change(); object != nil {
				hub.update(hub.run, old, object)
			} else {
				hub.remove(hub.run, old)
			}
			time.Sleep(2 * flushInterval)
			updates, _, ok := hub.since(version)
			if !ok {
				t.Fatalf("%d: no updates since %d", step, version)
			}
			for _, u := range updates {
				apply(state, &u)
			}
			if got := hub.fleet(); !reflect.DeepEqual(rowsOf(state), rowsOf(got)) {
				t.Fatalf("%d: the page has\n%v\nthe hub\n%v", step, rowsOf(state), rowsOf(got))
			}
			if updates, _, ok := hub.since(state.Version); !ok || len(updates) > 0 {
				t.Errorf("%d: %d more updates", step, len(updates))
			}
		}
		hub.restart()
		if _, _, ok := hub.since(state.Version); ok {
			t.Error("after a restart the page need not read the whole state")
		}
	})
}

func rowsOf(f *Fleet) []string {
	var rows []string
	for _, c := range f.Clusters {
		rows = append(rows, fmt.Sprintf("%+v", c))
	}
	for i := range f.Placements {
		p := f.Placements[i]
		p.Wanted, p.Change = nil, nil
		rows = append(rows, fmt.Sprintf("%+v", p))
	}
	return append(rows, fmt.Sprint(f.Rows, f.Hub.State))
}

func apply(f *Fleet, u *Update) {
	f.Version, f.Rows, f.Hub = u.Version, u.Rows, u.Hub
	f.Clusters = slices.DeleteFunc(f.Clusters, func(c ClusterRow) bool {
		return slices.Contains(u.GoneClusters, c.Name) || slices.ContainsFunc(u.Clusters, func(n ClusterRow) bool { return n.Name == c.Name })
	})
	f.Clusters = append(f.Clusters, u.Clusters...)
	slices.SortFunc(f.Clusters, func(a, b ClusterRow) int { return cmp.Compare(a.Name, b.Name) })
	f.Placements = slices.DeleteFunc(f.Placements, func(p PlacementRow) bool {
		return slices.Contains(u.GonePlacements, p.Placement) || slices.ContainsFunc(u.Placements, func(n PlacementRow) bool { return n.Placement == p.Placement })
	})
	f.Placements = append(f.Placements, u.Placements...)
	slices.SortFunc(f.Placements, func(a, b PlacementRow) int { return cmp.Compare(a.Placement, b.Placement) })
}

// TestSynced: a page can tell a hub without objects from one that was not read.
func TestSynced(t *testing.T) {
	hub, err := NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hub.setState(Lost, "no connection")
	if hub.fleet().Hub.Synced {
		t.Error("synced before it was read")
	}
	if err := hub.Fill(nil); err != nil {
		t.Fatal(err)
	}
	if !hub.fleet().Hub.Synced {
		t.Error("not synced after it was read")
	}
	hub.setState(Lost, "no connection")
	if !hub.fleet().Hub.Synced {
		t.Error("not synced any more, although its state is still known")
	}
}

// TestPublishedPages: the rows count published pages only, when they are listed and when a watch
// reports them.
func TestPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("ns", "p", "c1") {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := 0
				if tc.Published {
					want = 1
				}
				check := func(hub *LiveWorld, want int) {
					t.Helper()
					time.Sleep(2 * flushInterval)
					f := hub.fleet()
					if f.Clusters[0].Decisions != want || f.Placements[0].Selected != want {
						t.Errorf("%d decisions on the cluster, %d clusters selected, want %d", f.Clusters[0].Decisions, f.Placements[0].Selected, want)
					}
				}
				objects := simulator.Objects{fixture.Cluster("c1").Obj(), fixture.Placement("ns", "p").Obj()}
				check(newTestHub(t, append(objects, tc.Page)), want)
				hub := newTestHub(t, objects)
				hub.update(hub.run, nil, tc.Page)
				check(hub, want)
				again := fixture.Placement("ns", "p").Obj()
				again.UID = "again"
				hub.remove(hub.run, objects[1])
				hub.update(hub.run, nil, again)
				if name == "controlled by the Placement" {
					want = 0
				}
				check(hub, want)
				hub.remove(hub.run, tc.Page)
				check(hub, 0)
			})
		})
	}
}
