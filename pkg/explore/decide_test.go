package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// slowDecider needs a signal for each decision in the namespace slow.
type slowDecider struct {
	decider
	signal chan struct{}
	begun  []string
}

type slowOne struct {
	taken
	of  *slowDecider
	key types.NamespacedName
}

func (d *slowDecider) begin(key types.NamespacedName) (taken, error) {
	t, err := d.decider.begin(key)
	d.begun = append(d.begun, key.String())
	return &slowOne{t, d, key}, err
}

func (o *slowOne) wait(ctx context.Context) {
	if o.key.Namespace == "slow" {
		select {
		case <-o.of.signal:
		case <-ctx.Done():
		}
	}
}

func (o *slowOne) attempt(ctx context.Context, visit func(*scheduler.Attempt)) (string, error) {
	o.wait(ctx)
	return o.taken.(attempter).attempt(ctx, visit)
}

func (o *slowOne) outline(ctx context.Context) (*simulator.Report, error) {
	o.wait(ctx)
	return o.taken.outline(ctx)
}

// slowFleet has 30 Placements in the namespace slow, and ordinary ones in ns.
func slowFleet() (objects simulator.Objects, slow []string) {
	objects = append(small(), fixture.Binding("slow", "s"))
	for i := range 30 {
		name := fmt.Sprintf("p%02d", i)
		objects, slow = append(objects, fixture.Placement("slow", name).Number(1).Obj()), append(slow, "slow/"+name)
	}
	return objects, slow
}

// notes returns the number of columns without a note, and of those that are being decided.
func notes(c *Columns) (decided, deciding int) {
	for _, column := range c.Columns {
		switch column.Note {
		case "":
			decided++
		case errDeciding.Error():
			deciding++
		}
	}
	return decided, deciding
}

// TestCostlyColumns: while Placements are decided that take long, the hub is followed, other
// questions are answered, and columns of other namespaces are shown. The others follow.
func TestCostlyColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, slow := slowFleet()
		hub := newTestHub(t, objects)
		defer hub.stop()
		d := &slowDecider{decider: hub.world.decider, signal: make(chan struct{})}
		hub.world.decider = d
		answers := make(chan *Columns, 2)
		ask := func(placements ...string) {
			c, err := columns(t.Context(), hub, placements)
			if err != nil {
				t.Error(err)
			}
			answers <- c
		}
		go ask(slow...)
		synctest.Wait()
		go ask("ns/two")
		synctest.Wait()
		// The column of another namespace has the first turn after the decision in progress.
		d.signal <- struct{}{}
		other := <-answers
		synctest.Wait() // The next decision has begun.
		if decided, _ := notes(other); decided != 1 || len(d.begun) != 3 || d.begun[1] != "ns/two" {
			t.Errorf("the column of another namespace is not decided: %s", d.begun)
		}
		version := hub.fleet().Version
		hub.update(hub.run, fixture.Cluster("c0").Obj(), fixture.Cluster("c0").Label("x", "y").Obj())
		time.Sleep(flushInterval)
		synctest.Wait()
		if updates, _, ok := hub.since(version); !ok || len(updates) != 1 || len(updates[0].Clusters) != 1 {
			t.Errorf("an update while columns are decided: %v %+v", ok, updates)
		}
		if decided, deciding := notes(<-answers); decided != 1 || deciding != 29 {
			t.Errorf("%d columns are decided, %d are being decided", decided, deciding)
		}
		// Those that were late follow.
		version = hub.fleet().Version
		close(d.signal)
		synctest.Wait()
		time.Sleep(flushInterval)
		synctest.Wait()
		if updates, _, _ := hub.since(version); len(updates) != 1 || len(updates[0].Columns) != 29 {
			t.Errorf("the update names the columns %+v", updates)
		}
		go ask(slow...)
		c := <-answers
		if decided, _ := notes(c); decided != 30 || len(c.Columns[0].Cells) != len(hub.world.names) {
			t.Errorf("%d columns are decided, with %d cells", decided, len(c.Columns[0].Cells))
		}
		before := len(d.begun)
		if ask(slow...); len(d.begun) != before {
			t.Error("columns that are known are decided again")
		}
	})
}

// TestDroppedColumn: a column that was decided on an older state is shown until the next one.
func TestDroppedColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, _ := slowFleet()
		hub := newTestHub(t, objects)
		defer hub.stop()
		d := &slowDecider{decider: hub.world.decider, signal: make(chan struct{})}
		hub.world.decider = d
		column := func() string { return cellsOf(t, hub, "slow/p00") }
		go func() { d.signal <- struct{}{} }()
		first := column()
		hub.update(hub.run, nil, fixture.Page("slow", "p00-decision-1").Of("p00").OwnedBy("p00").Lists("c3").Obj())
		if got := column(); got != first {
			t.Errorf("until it is decided again, the column is %s, want %s", got, first)
		}
		// This change comes while it is decided, so it is decided once more.
		hub.update(hub.run, nil, fixture.Page("slow", "p00-decision-1").Of("p00").OwnedBy("p00").Lists("c2").Obj())
		close(d.signal)
		synctest.Wait()
		column()
		if got := column(); got == first || strings.Count(got, "1") != 1 {
			t.Errorf("the column is %s", got)
		}
		hub.remove(hub.run, objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetName() == "p00" })])
		if len(hub.world.columns) != 0 {
			t.Errorf("%d columns are kept of a Placement that was deleted", len(hub.world.columns))
		}
	})
}

// TestCostlyState: the columns of a state that does not change are waited for, without its lock.
func TestCostlyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, slow := slowFleet()
		s, err := simulator.New(t.Context(), objects, fixture.Now, simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &slowDecider{decider: simulated{s}, signal: make(chan struct{})}
		v := newFixedWorld(newWorld(s.Inventory(), d, time.Now))
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan *Columns, 2)
		ask := func(ctx context.Context) {
			c, err := columns(ctx, v, slow)
			if err != nil {
				t.Error(err)
			}
			answers <- c
		}
		go ask(ctx)
		synctest.Wait()
		go ask(t.Context())
		synctest.Wait()
		if err := v.use(func(*world, int64) error { return nil }); err != nil {
			t.Error(err)
		}
		// The request that began them ends. The other one goes on.
		cancel()
		<-answers
		close(d.signal)
		if decided, _ := notes(<-answers); decided != 30 {
			t.Errorf("%d columns are decided", decided)
		}
	})
}

// TestDetailsWithoutLock: details are decided without the lock, and an answer about a Placement
// that does not exist says so.
func TestDetailsWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, _ := slowFleet()
		hub := newTestHub(t, objects)
		v := NewViewer(simulator.Options{}, hub, nil, "")
		d := &slowDecider{decider: hub.world.decider, signal: make(chan struct{})}
		hub.world.decider = d
		got := make(chan error, 1)
		go func() {
			_, err := v.placement(t.Context(), hub, "slow/p01")
			got <- err
		}()
		synctest.Wait()
		hub.fleet()
		close(d.signal)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if _, err := v.placement(t.Context(), hub, "slow/none"); !errors.Is(err, errUnknown) {
			t.Errorf("of no Placement: %v", err)
		}
	})
}

// TestStreamsOfViewer: one viewer can follow the hub with a few pages only, in all namespaces
// together.
func TestStreamsOfViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, small())
		path := fmt.Sprint("api/events?since=", s.viewer.Live.fleet().Version)
		open := func() (end func(), w *httptest.ResponseRecorder) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan *httptest.ResponseRecorder, 1)
			go func() { ended <- get(s, func(r *http.Request) { *r = *r.WithContext(ctx) }, path) }()
			synctest.Wait()
			end = func() { cancel(); synctest.Wait() }
			select {
			case w = <-ended:
			default:
			}
			return end, w
		}
		var ends []func()
		for range maxStreams {
			end, w := open()
			if w != nil {
				t.Fatalf("a stream ends with %d: %s", w.Code, w.Body)
			}
			ends = append(ends, end)
		}
		const text = "8 pages of this user follow the hub already: close one of them"
		if _, w := open(); w == nil || w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || w.Body.String() != `{"error":"`+text+`"}` {
			t.Errorf("one more stream gets %+v", w)
		}
		if got := s.session(t.Context(), s.viewer).NoStream; got != text {
			t.Errorf("the session says %q", got)
		}
		ends[0]()
		end, w := open()
		if w != nil {
			t.Errorf("after one has ended, a stream gets %d: %s", w.Code, w.Body)
		}
		for _, end := range append(ends, end) {
			end()
		}
		if n := s.viewer.streams.Load(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}
