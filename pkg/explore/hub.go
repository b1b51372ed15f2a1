package explore

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
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
	// ctx ends the decisions of columns; stop ends it.
	ctx  context.Context
	stop context.CancelFunc

	// mu of lockedWorld protects what follows.
	lockedWorld
	simulator *simulator.Simulator
	// scope is what the viewer may list.
	scope scope
	state HubState
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
	h := &Hub{options: o, version: began, rows: began, wake: make(chan struct{}), gone: make(chan struct{}), state: HubState{State: Connecting, Since: time.Now()}}
	h.ctx, h.stop = context.WithCancel(context.Background())
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

// columnsOf returns the cells of the Placements that exist.
func columnsOf(w *world, rows int64, placements []string) (*Columns, error) {
	c := &Columns{Rows: rows, Columns: []Column{}}
	for _, placement := range placements {
		if w.inventory.Placement(keyOf(placement)) == nil {
			continue
		}
		column, err := w.column(keyOf(placement))
		if err != nil {
			return nil, err
		}
		c.Columns = append(c.Columns, column)
	}
	c.Plugins = slices.Clone(w.plugins)
	return c, nil
}
