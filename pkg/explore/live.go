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

// LiveWorld is the world now, in one scope. A Follower keeps it up to date.
type LiveWorld struct {
	options simulator.Options
	// streams is how many pages follow the world. gone is closed when no Follower does any more.
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

// NewLiveWorld returns a LiveWorld without objects. A Follower fills it.
func NewLiveWorld(o simulator.Options) (*LiveWorld, error) {
	// A page must not use the state of an earlier LiveWorld for this one.
	began := time.Now().UnixMilli()
	l := &LiveWorld{options: o, version: began, rows: began, wake: make(chan struct{}), gone: make(chan struct{}), state: HubState{State: Connecting, Since: time.Now()}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	_, err := l.reset(scope{}, nil)
	return l, err
}

// reset empties the world. It returns the number of the run, for update and remove. d decides; nil
// for the engine, which needs to know everything.
func (l *LiveWorld) reset(s scope, d decider) (run int64, err error) {
	followed, err := simulator.Follow(context.Background(), time.Now(), l.options)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == nil {
		d = simulated{followed}
	}
	l.simulator, l.scope, l.state.Synced = followed, s, false
	l.world = newWorld(followed.Inventory(), d, time.Now)
	l.world.lacksPages = !s.lists("PlacementDecision")
	l.placements, l.clusters, l.changes = map[types.NamespacedName]PlacementRow{}, map[string]ClusterRow{}, []ChangeRow{}
	l.dirty = newDirty()
	l.restart()
	l.run++
	return l.run, nil
}

// Fill replaces the state by objects, as if all of them had been listed.
func (l *LiveWorld) Fill(objects simulator.Objects) error {
	run, err := l.reset(scope{}, nil)
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
			l.update(run, nil, o)
		}
	}
	l.start()
	l.setState(Connected, "")
	return nil
}

// limit replaces the scope and the decider: the viewer may not read the queues, on which decisions
// depend.
func (l *LiveWorld) limit(s scope, d decider) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scope, l.world.decider = s, d
	clear(l.world.columns)
}

// restart makes all clients read the whole state again. The world is locked.
func (l *LiveWorld) restart() {
	l.version++
	l.rows++
	l.updates = nil
	close(l.wake)
	l.wake = make(chan struct{})
}

// start ends the initial listing.
func (l *LiveWorld) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.simulator.SetNow(time.Now())
	l.simulator.Inventory().Started()
	l.state.Synced = true
	l.world.countAllPublished()
	l.world.setNames()
	fleet, sets := l.world.inventory.View()
	for _, name := range l.world.names {
		l.clusters[name] = l.world.clusterRow(fleet, sets, name)
	}
	for _, key := range l.world.inventory.Placements() {
		l.placements[key], _ = l.world.placementRow(key)
	}
	l.changes = l.world.changeRows()
	l.dirty = newDirty()
	l.restart()
}

// setState sets the state of the connection.
func (l *LiveWorld) setState(state, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.State == state && l.state.Problem == problem {
		return
	}
	if l.state.State != state {
		l.state.Since = time.Now()
	}
	l.state.State, l.state.Problem = state, problem
	l.dirty.hub = true
	l.flushSoon()
}

// update processes an object that was added or changed; old is nil for a new one.
func (l *LiveWorld) update(run int64, old, object client.Object) {
	l.change(run, func() {
		l.affected(l.simulator.Update(object))
		l.mark(old, object)
	})
}

// remove processes an object that was deleted.
func (l *LiveWorld) remove(run int64, object client.Object) {
	l.change(run, func() {
		l.affected(l.simulator.Delete(object))
		l.mark(object, nil)
	})
}

// change runs a change with the world locked, unless it is of an earlier run.
func (l *LiveWorld) change(run int64, change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run == l.run {
		change()
		l.flushSoon()
	}
}

// affected drops the columns of Placements.
func (l *LiveWorld) affected(keys []types.NamespacedName) {
	for _, key := range keys {
		l.dropColumn(key)
	}
}

// mark notes what an object changes. One of old and object may be nil.
func (l *LiveWorld) mark(old, object client.Object) {
	known := object
	if known == nil {
		known = old
	}
	key := types.NamespacedName{Namespace: known.GetNamespace(), Name: known.GetName()}
	switch o := known.(type) {
	case *v1alpha1.ManagedCluster:
		l.dirty.clusters[o.Name] = true
		l.dirty.names = l.dirty.names || old == nil || object == nil
	case *v1alpha1.ManagedClusterSet:
		l.dirty.allRows, l.dirty.allPlacements = true, true
	case *v1alpha1.Placement:
		l.dirty.placements[key] = true
		if r, ok := l.world.decider.(*remote); ok && object == nil {
			r.forget(key)
			l.dirty.names = true
		}
	case *berthv1alpha1.SelectionPolicy:
		l.dirty.allRows = true // It says what is requested of clusters.
		l.markNamespace(o.Namespace)
	case *v1alpha1.ManagedClusterSetBinding, *berthv1alpha1.DisruptionPolicy:
		l.markNamespace(key.Namespace)
	case *berthv1alpha1.PlacementChange:
		l.dirty.changes = true
		l.markPlacement(key.Namespace, o.Spec.Placement)
	case *berthv1alpha1.PlacementEviction:
		l.markPlacement(key.Namespace, o.Spec.Placement)
	case *v1alpha1.PlacementDecision:
		l.markPage(old)
		l.markPage(object)
	}
}

// markNamespace notes that all Placements of a namespace may look different.
func (l *LiveWorld) markNamespace(namespace string) {
	for placement := range l.placements {
		if placement.Namespace == namespace {
			l.dirty.placements[placement] = true
		}
	}
}

func (l *LiveWorld) markPage(object client.Object) {
	if page, ok := object.(*v1alpha1.PlacementDecision); ok && page != nil {
		l.markPlacement(page.Namespace, page.PlacementName())
	}
}

func (l *LiveWorld) markPlacement(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	l.dirty.placements[key] = true
	l.dropColumn(key)
}

// flushSoon sends what changed after a short time. The world is locked.
func (l *LiveWorld) flushSoon() {
	if l.timer == nil {
		l.timer = time.AfterFunc(flushInterval, l.flush)
	}
}

// fleet returns the whole state.
func (l *LiveWorld) fleet() *Fleet {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &Fleet{
		Version: l.version, At: time.Now(), Hub: l.state, Namespace: l.scope.namespace, Missing: l.scope.missing, SetsNotKnown: !l.scope.knowsSets(), Rows: l.rows,
		Clusters: make([]ClusterRow, 0, len(l.clusters)), Placements: make([]PlacementRow, 0, len(l.placements)), Changes: l.changes,
	}
	for _, name := range l.world.names {
		if row, ok := l.clusters[name]; ok {
			f.Clusters = append(f.Clusters, row)
		}
	}
	for _, row := range l.placements {
		f.Placements = append(f.Placements, row)
	}
	slices.SortFunc(f.Placements, func(a, b PlacementRow) int { return cmp.Compare(a.Placement, b.Placement) })
	return f
}

// since returns the Updates after a version, and a channel that is closed at the next one. ok is
// false if the client must read the whole state.
func (l *LiveWorld) since(version int64) (updates []Update, next <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version == l.version {
		return nil, l.wake, true
	}
	i := slices.IndexFunc(l.updates, func(u Update) bool { return u.Version == version+1 })
	if i < 0 {
		return nil, l.wake, false
	}
	return slices.Clone(l.updates[i:]), l.wake, true
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
