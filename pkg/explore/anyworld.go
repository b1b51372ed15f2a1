package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// anyWorld is a world that requests can read: a LiveWorld or a fixedWorld.
type anyWorld interface {
	// fleet returns the whole state.
	fleet() *Fleet
	// use calls read with the locked world, and with the number of the order of its cells.
	use(read func(w *world, rows int64) error) error
	// answer decides a question, decide the columns of Placements. Neither holds the lock.
	answer(ctx context.Context, q question) answer
	decide(ctx context.Context, keys []types.NamespacedName)
}

// question is a Placement to decide; with a cluster, also the verdict on it.
type question struct {
	key     types.NamespacedName
	cluster string
}

// has is true if the Placement and the cluster of a question exist.
func (w *world) has(q question) bool {
	_, hasCluster := slices.BinarySearch(w.names, q.cluster)
	return w.inventory.Placement(q.key) != nil && (q.cluster == "" || hasCluster)
}

// fixedWorld is a world that does not change.
type fixedWorld struct {
	lockedWorld
	whole *Fleet
}

func newFixedWorld(w *world) *fixedWorld {
	whole := w.fleet()
	// A page must not use the cells of this world for another one.
	whole.Version, whole.Rows = 1, rand.Int64N(1<<53)
	v := &fixedWorld{whole: whole}
	v.world = w
	return v
}

func (v *fixedWorld) fleet() *Fleet { return v.whole }

func (v *fixedWorld) use(read func(*world, int64) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return read(v.world, v.whole.Rows)
}

// decide implements anyWorld. It waits for the columns, because there is no Update. A column that
// another request began may have ended with that request.
func (v *fixedWorld) decide(ctx context.Context, keys []types.NamespacedName) {
	for ctx.Err() == nil {
		v.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(keys), func(key types.NamespacedName) bool {
			e := v.world.columns[key]
			return v.world.inventory.Placement(key) == nil || e != nil && e.decided
		})
		v.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		v.decideColumns(ctx, ctx, missing, func(types.NamespacedName) {})
	}
}

// errNotRead is the error for a question to a hub that is still being read.
var errNotRead = errors.New("the hub has not been read yet")

// use implements anyWorld.
func (l *LiveWorld) use(read func(*world, int64) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.state.Synced {
		return fmt.Errorf("%w: %s %s", errNotRead, l.state.State, l.state.Problem)
	}
	return read(l.world, l.rows)
}

// decide implements anyWorld. Columns that take long are decided after it returns.
func (l *LiveWorld) decide(ctx context.Context, keys []types.NamespacedName) {
	if l.use(func(*world, int64) error { return nil }) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, columnsTime)
	defer cancel()
	l.decideColumns(ctx, l.ctx, keys, func(key types.NamespacedName) {
		l.dirty.columns[key] = true
		l.flushSoon()
	})
}
