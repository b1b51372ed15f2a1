package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// view is a world that requests can read: that of a Hub, or one that does not change.
type view interface {
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

// frozenView is a state that does not change.
type frozenView struct {
	lockedWorld
	whole *Fleet
}

func newFrozenView(w *world) *frozenView {
	whole := w.fleet()
	// Another view must not take the cells of this one for its own.
	whole.Version, whole.Rows = 1, rand.Int64N(1<<53)
	v := &frozenView{whole: whole}
	v.world = w
	return v
}

func (v *frozenView) fleet() *Fleet { return v.whole }

func (v *frozenView) use(read func(*world, int64) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return read(v.world, v.whole.Rows)
}

// decide implements view. Columns of a state that does not change are waited for, because there is
// no Update. A column that another request began may have ended with that.
func (v *frozenView) decide(ctx context.Context, keys []types.NamespacedName) {
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

// use implements view.
func (h *Hub) use(read func(*world, int64) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.Synced {
		return fmt.Errorf("%w: %s %s", errNotRead, h.state.State, h.state.Problem)
	}
	return read(h.world, h.rows)
}

// decide implements view. Columns that take long are decided after it returns.
func (h *Hub) decide(ctx context.Context, keys []types.NamespacedName) {
	if h.use(func(*world, int64) error { return nil }) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, columnsTime)
	defer cancel()
	h.decideColumns(ctx, h.ctx, keys, func(key types.NamespacedName) {
		h.dirty.columns[key] = true
		h.flushSoon()
	})
}
