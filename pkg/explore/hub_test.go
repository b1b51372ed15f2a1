package explore

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
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
	hub, err := NewHub(simulator.Options{})
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
				check := func(hub *Hub, want int) {
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

// slowEngine decides when it is released, and says of which Placement it began to decide.
type slowEngine struct {
	decider
	skipped string
	began   chan types.NamespacedName
	release chan struct{}
}

func (e *slowEngine) attempt(ctx context.Context, key types.NamespacedName, _ func(*scheduler.Attempt)) (string, error) {
	e.began <- key
	select {
	case <-e.release:
		return e.skipped, nil
	case <-ctx.Done():
		return e.skipped, ctx.Err()
	}
}

// TestColumnsAreDecidedWithoutTheLock: while columns of costly Placements are decided, the Hub goes
// on, and a column of another namespace waits for one of them only. One that takes too long says
// so.
func TestColumnsAreDecidedWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := NewHub(simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		objects := simulator.Objects{fixture.Cluster("c1").Obj(), fixture.Placement("shop", "web").Obj()}
		var costly []string
		for i := range 30 {
			name := fmt.Sprint("p", i)
			objects, costly = append(objects, fixture.Placement("costly", name).Obj()), append(costly, "costly/"+name)
		}
		if err := hub.Fill(objects); err != nil {
			t.Fatal(err)
		}
		engine := &slowEngine{began: make(chan types.NamespacedName, 100), release: make(chan struct{})}
		hub.limit(scope{known: true}, engine)
		answers := make(chan *Columns, 2)
		ask := func(placements ...string) {
			c, err := columns(t.Context(), hub, placements)
			if err != nil {
				t.Error(err)
			}
			answers <- c
		}
		go ask(costly...)
		synctest.Wait()
		go ask("shop/web")
		synctest.Wait()
		if got := len(hub.fleet().Placements); got != 31 {
			t.Errorf("%d Placements", got)
		}
		hub.update(hub.run, nil, fixture.Placement("shop", "new").Obj())
		if got := (<-engine.began).String(); got != "costly/p0" {
			t.Errorf("%s begins", got)
		}
		engine.release <- struct{}{}
		if got := (<-engine.began).String(); got != "shop/web" {
			t.Errorf("%s is next", got)
		}
		engine.release <- struct{}{}
		if c := <-answers; len(c.Columns) != 1 || c.Columns[0].Note != "" {
			t.Errorf("the answer is %+v", c)
		}
		c := <-answers // each of the others takes longer than it may
		if len(c.Columns) != 30 || c.Columns[0].Note != "" || c.Columns[29].Note != "It takes more than 1s to decide the Placement." {
			t.Errorf("the answer is %+v", c)
		}
	})
}

// TestColumnsAreDecidedAgain: what changes while a column is decided is not lost.
func TestColumnsAreDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := NewHub(simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pl := fixture.Placement("shop", "web").Obj()
		if err := hub.Fill(simulator.Objects{fixture.Cluster("c1").Obj(), pl}); err != nil {
			t.Fatal(err)
		}
		engine := &slowEngine{began: make(chan types.NamespacedName, 100), release: make(chan struct{})}
		hub.limit(scope{known: true}, engine)
		answer := make(chan *Columns, 1)
		go func() {
			c, _ := columns(t.Context(), hub, []string{"shop/web"})
			answer <- c
		}()
		<-engine.began
		hub.update(hub.run, nil, fixture.Cluster("c0").Obj())
		hub.flush() // Now the cells have another order.
		close(engine.release)
		if c := <-answer; c.Rows != hub.fleet().Rows || len(c.Columns[0].Cells) != 2 {
			t.Errorf("the answer is %+v", c)
		}
		if len(engine.began) != 1 {
			t.Errorf("decided again %d times", len(engine.began))
		}
		changed := pl.DeepCopy()
		changed.Generation = 7
		engine.release = make(chan struct{})
		hub.update(hub.run, pl, changed)
		<-engine.began
		go func() {
			c, _ := columns(t.Context(), hub, []string{"shop/web"})
			answer <- c
		}()
		<-engine.began
		changed = changed.DeepCopy()
		changed.Generation = 8
		hub.update(hub.run, changed, changed)
		close(engine.release)
		<-answer
		if _, kept := hub.world.columns[types.NamespacedName{Namespace: "shop", Name: "web"}]; kept {
			t.Error("a column of an earlier state is kept")
		}
	})
}

// TestStreamsAreCounted: a viewer has a page open for each stream.
func TestStreamsAreCounted(t *testing.T) {
	v := &Viewer{}
	v.streams.Store(maxStreams)
	w := httptest.NewRecorder()
	streamOf(w, httptest.NewRequest(http.MethodGet, "/api/events?since=0", http.NoBody), v, nil)
	if w.Code != http.StatusTooManyRequests || v.streams.Load() != maxStreams {
		t.Errorf("got %d, %d streams", w.Code, v.streams.Load())
	}
}
