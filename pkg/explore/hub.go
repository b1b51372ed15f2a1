package explore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/turns"
)

const (
	// flushInterval is how long changes are collected before they are sent.
	flushInterval = 200 * time.Millisecond
	// maxUpdates is how many Updates are kept for clients that connect again.
	maxUpdates = 256
	// maxColumns is how many Placements an Update names; with more, all columns are read again.
	maxColumns = 200
)

// Hub is the current state of a hub, as one viewer may see it.
type Hub struct {
	options simulator.Options
	// streams is how many pages follow the Hub. gone is closed when it is not kept up to date any
	// more.
	streams atomic.Int32
	gone    chan struct{}

	mu        sync.Mutex
	world     *world
	simulator *simulator.Simulator
	// scope is what the viewer may list.
	scope scope
	state HubState
	// turns are those of the namespaces whose columns are decided. drops counts the columns that
	// were dropped: what was decided before is not kept.
	turns *turns.Turns
	drops int64
	// run counts the calls of reset: what a watch of an earlier run reports does not count.
	run int64

	// placements and clusters are the rows that were sent, changes the newest changes.
	placements map[types.NamespacedName]PlacementRow
	clusters   map[string]ClusterRow
	changes    []ChangeRow
	// dirty is what may have changed since.
	dirty dirty
	// rows is Fleet.Rows.
	rows int64
	// version is that of the last Update, updates are the last ones. wake is closed at the next.
	version int64
	updates []Update
	wake    chan struct{}
	timer   *time.Timer
}

// dirty is what the next Update has to look at.
type dirty struct {
	placements, columns    map[types.NamespacedName]bool
	clusters               map[string]bool
	names, changes, hub    bool
	allPlacements, allRows bool
}

func newDirty() dirty {
	return dirty{placements: map[types.NamespacedName]bool{}, columns: map[types.NamespacedName]bool{}, clusters: map[string]bool{}}
}

// NewHub returns a Hub without objects. A Follower fills it.
func NewHub(o simulator.Options) (*Hub, error) {
	// A client of an earlier Hub must not take this one for that.
	began := time.Now().UnixMilli()
	h := &Hub{options: o, version: began, rows: began, wake: make(chan struct{}), gone: make(chan struct{}), turns: turns.New(1, 1, maxColumnsAsked), state: HubState{State: Connecting, Since: time.Now()}}
	_, err := h.reset(scope{}, nil)
	return h, err
}

// reset empties the Hub. It returns the number of the run, for update and remove. d decides; nil
// for the engine, which needs to know everything.
func (h *Hub) reset(s scope, d decider) (run int64, err error) {
	followed, err := simulator.Follow(context.Background(), time.Now(), h.options)
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d == nil {
		d = simulated{followed}
	}
	h.simulator, h.scope, h.state.Synced = followed, s, false
	h.world = newWorld(followed.Inventory(), d, time.Now)
	h.placements, h.clusters, h.changes = map[types.NamespacedName]PlacementRow{}, map[string]ClusterRow{}, []ChangeRow{}
	h.dirty = newDirty()
	h.restart()
	h.run++
	return h.run, nil
}

// Fill replaces the state by objects, as if all of them had been listed.
func (h *Hub) Fill(objects simulator.Objects) error {
	run, err := h.reset(scope{}, nil)
	if err != nil {
		return err
	}
	byKind := map[string]simulator.Objects{}
	for _, o := range objects {
		if kind, ok := kinds.Of(o); ok {
			byKind[kind.Name] = append(byKind[kind.Name], o)
		}
	}
	for _, kind := range kinds.All() {
		for _, o := range byKind[kind.Name] {
			h.update(run, nil, o)
		}
	}
	h.start()
	h.setState(Connected, "")
	return nil
}

// limit replaces the scope and the decider: the viewer may not read the queues, on which decisions
// depend.
func (h *Hub) limit(s scope, d decider) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scope, h.world.decider = s, d
	h.drops++
	clear(h.world.columns)
}

// restart makes all clients read the whole state again. The Hub is locked.
func (h *Hub) restart() {
	h.version++
	h.rows++
	h.updates = nil
	close(h.wake)
	h.wake = make(chan struct{})
}

// start ends the initial listing.
func (h *Hub) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.simulator.SetNow(time.Now())
	h.simulator.Inventory().Started()
	h.state.Synced = true
	h.world.countAllPublished()
	h.world.setNames()
	fleet, sets := h.world.inventory.View()
	for _, name := range h.world.names {
		h.clusters[name] = h.world.clusterRow(fleet, sets, name)
	}
	for _, key := range h.world.inventory.Placements() {
		h.placements[key], _ = h.world.placementRow(key)
	}
	h.changes = h.world.changeRows()
	h.dirty = newDirty()
	h.restart()
}

// setState sets the state of the connection.
func (h *Hub) setState(state, problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.State == state && h.state.Problem == problem {
		return
	}
	if h.state.State != state {
		h.state.Since = time.Now()
	}
	h.state.State, h.state.Problem = state, problem
	h.dirty.hub = true
	h.flushSoon()
}

// update processes an object that was added or changed; old is nil for a new one.
func (h *Hub) update(run int64, old, object client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if run != h.run {
		return
	}
	h.affected(h.simulator.Update(object))
	h.mark(old, object)
	h.flushSoon()
}

func (h *Hub) remove(run int64, object client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if run != h.run {
		return
	}
	h.affected(h.simulator.Delete(object))
	h.mark(object, nil)
	h.flushSoon()
}

// affected drops the columns of Placements.
func (h *Hub) affected(keys []types.NamespacedName) {
	for _, key := range keys {
		h.dropColumn(key)
	}
}

// mark notes what an object changes. One of old and object may be nil.
func (h *Hub) mark(old, object client.Object) {
	known := object
	if known == nil {
		known = old
	}
	key := types.NamespacedName{Namespace: known.GetNamespace(), Name: known.GetName()}
	switch o := known.(type) {
	case *v1alpha1.ManagedCluster:
		h.dirty.clusters[o.Name] = true
		h.dirty.names = h.dirty.names || old == nil || object == nil
	case *v1alpha1.ManagedClusterSet:
		h.dirty.allRows, h.dirty.allPlacements = true, true
	case *v1alpha1.Placement:
		h.dirty.placements[key] = true
		if r, ok := h.world.decider.(*remote); ok && object == nil {
			r.forget(key)
			h.dirty.names = true
		}
	case *v1alpha1.ManagedClusterSetBinding, *berthv1alpha1.DisruptionPolicy, *berthv1alpha1.SelectionPolicy:
		for placement := range h.placements {
			if placement.Namespace == key.Namespace {
				h.dirty.placements[placement] = true
			}
		}
	case *berthv1alpha1.PlacementChange:
		h.dirty.changes = true
		h.markPlacement(key.Namespace, o.Spec.Placement)
	case *berthv1alpha1.PlacementEviction:
		h.markPlacement(key.Namespace, o.Spec.Placement)
	case *v1alpha1.PlacementDecision:
		h.markPage(old)
		h.markPage(object)
	}
}

func (h *Hub) markPage(object client.Object) {
	if page, ok := object.(*v1alpha1.PlacementDecision); ok && page != nil {
		h.markPlacement(page.Namespace, page.PlacementName())
	}
}

func (h *Hub) markPlacement(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	h.dirty.placements[key] = true
	h.dropColumn(key)
}

// flushSoon sends what changed after a short time. The Hub is locked.
func (h *Hub) flushSoon() {
	if h.timer == nil {
		h.timer = time.AfterFunc(flushInterval, h.flush)
	}
}

// fleet returns the whole state.
func (h *Hub) fleet() *Fleet {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &Fleet{
		Version: h.version, At: time.Now(), Hub: h.state, Namespace: h.scope.namespace, Missing: h.scope.missing, Rows: h.rows,
		Clusters: make([]ClusterRow, 0, len(h.clusters)), Placements: make([]PlacementRow, 0, len(h.placements)), Changes: h.changes,
	}
	for _, name := range h.world.names {
		if row, ok := h.clusters[name]; ok {
			f.Clusters = append(f.Clusters, row)
		}
	}
	for _, row := range h.placements {
		f.Placements = append(f.Placements, row)
	}
	slices.SortFunc(f.Placements, func(a, b PlacementRow) int { return cmp.Compare(a.Placement, b.Placement) })
	return f
}

// since returns the Updates after a version, and a channel that is closed at the next one. ok is
// false if the client must read the whole state.
func (h *Hub) since(version int64) (updates []Update, next <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version == h.version {
		return nil, h.wake, true
	}
	i := slices.IndexFunc(h.updates, func(u Update) bool { return u.Version == version+1 })
	if i < 0 {
		return nil, h.wake, false
	}
	return slices.Clone(h.updates[i:]), h.wake, true
}

// columnTime is how long one column may take to decide: costly Placements must not keep the others
// from being shown.
const columnTime = time.Second

// columns implements view. With the engine, the columns are decided without the lock, so that the
// Hub goes on.
func (h *Hub) columns(ctx context.Context, placements []string) (*Columns, error) {
	for {
		c := &Columns{Columns: []Column{}}
		var engine attempter
		err := h.use(ctx, nil, func(w *world, rows int64) (err error) {
			var decides bool
			if engine, decides = w.decider.(attempter); !decides {
				c, err = columnsOf(ctx, w, rows, placements)
			}
			c.Rows = rows
			return err
		})
		if err != nil || engine == nil {
			return c, err
		}
		done, err := h.decideColumns(ctx, engine, placements, c)
		if err != nil || done {
			return c, err
		}
	}
}

// decideColumns adds the columns. It returns false if the order of the cells changed meanwhile.
func (h *Hub) decideColumns(ctx context.Context, engine attempter, placements []string, c *Columns) (done bool, err error) {
	for _, placement := range placements {
		column, state, err := h.decideColumn(ctx, engine, keyOf(placement), c.Rows)
		switch {
		case err != nil:
			return false, err
		case state == columnOutdated:
			return false, nil
		case state == columnKnown:
			c.Columns = append(c.Columns, column)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Plugins = slices.Clone(h.world.plugins)
	return h.rows == c.Rows, nil
}

// columnState says what decideColumn returns.
type columnState int

const (
	// columnGone: the Placement does not exist. columnKnown: the column is decided. columnOutdated:
	// the order of the cells has changed.
	columnGone columnState = iota
	columnKnown
	columnOutdated
)

// decideColumn decides one column in the turn of its namespace.
func (h *Hub) decideColumn(ctx context.Context, engine attempter, key types.NamespacedName, rows int64) (Column, columnState, error) {
	h.mu.Lock()
	known, ok := h.world.columns[key]
	exists, order, drops := h.world.inventory.Placement(key) != nil, h.rows, h.drops
	var d *draft
	if exists && !ok {
		d, _ = h.world.draft(key)
	}
	h.mu.Unlock()
	switch {
	case order != rows:
		return Column{}, columnOutdated, nil
	case ok:
		return known, columnKnown, nil
	case d == nil:
		return Column{}, columnGone, nil
	}
	done, err := h.turns.Wait(ctx, key.Namespace)
	if err != nil {
		return Column{}, columnGone, err
	}
	deciding, cancel := context.WithTimeout(ctx, columnTime)
	d.decide(deciding, engine)
	if deciding.Err() != nil {
		d.err = deciding.Err()
	}
	cancel()
	done()
	if ctx.Err() != nil {
		return Column{}, columnGone, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows != rows {
		return Column{}, columnOutdated, nil
	}
	c := h.world.finish(d)
	if h.drops == drops {
		h.world.columns[key] = c
	}
	return c, columnKnown, nil
}

// columnsOf returns the cells of the Placements that exist.
func columnsOf(ctx context.Context, w *world, rows int64, placements []string) (*Columns, error) {
	c := &Columns{Rows: rows, Columns: []Column{}}
	for _, placement := range placements {
		if w.inventory.Placement(keyOf(placement)) == nil {
			continue
		}
		column, err := w.column(ctx, keyOf(placement))
		if err != nil {
			return nil, err
		}
		c.Columns = append(c.Columns, column)
	}
	c.Plugins = slices.Clone(w.plugins)
	return c, nil
}
