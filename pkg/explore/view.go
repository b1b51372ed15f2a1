package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// view is a world that requests can read: that of a Hub, or one that does not change.
type view interface {
	// fleet returns the whole state.
	fleet() *Fleet
	// use calls read with the locked world, in which the questions can be decided, and with the
	// number of the order of its cells.
	use(ctx context.Context, questions []question, read func(w *world, rows int64) error) error
	// columns returns the cells of the Placements that exist.
	columns(ctx context.Context, placements []string) (*Columns, error)
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
	mu    sync.Mutex
	world *world
	whole *Fleet
}

func newFrozenView(w *world) *frozenView {
	whole := w.fleet()
	// Another view must not take the cells of this one for its own.
	whole.Version, whole.Rows = 1, rand.Int64N(1<<53)
	return &frozenView{world: w, whole: whole}
}

func (v *frozenView) fleet() *Fleet { return v.whole }

func (v *frozenView) columns(ctx context.Context, placements []string) (*Columns, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return columnsOf(ctx, v.world, v.whole.Rows, placements)
}

func (v *frozenView) use(_ context.Context, _ []question, read func(*world, int64) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return read(v.world, v.whole.Rows)
}

// errNotRead is the error for a question to a hub that is still being read.
var errNotRead = errors.New("the hub has not been read yet")

// use implements view. A viewer who may not list the whole hub waits for the answers of the
// controller without the lock.
func (h *Hub) use(ctx context.Context, questions []question, read func(*world, int64) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.world.decider.(*remote); ok && h.state.Synced {
		known := slices.DeleteFunc(slices.Clone(questions), func(q question) bool { return !h.world.has(q) })
		h.mu.Unlock()
		for _, q := range known {
			r.ask(ctx, q)
		}
		h.mu.Lock()
	}
	if !h.state.Synced {
		return fmt.Errorf("%w: %s %s", errNotRead, h.state.State, h.state.Problem)
	}
	return read(h.world, h.rows)
}
