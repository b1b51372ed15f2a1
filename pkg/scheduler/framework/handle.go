package framework

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Handle gives a plugin access to the controller and the API server. It lives as long as the
// plugin. A simulation or benchmark sets none of the clients.
type Handle struct {
	// Client reads and writes objects in the API versions that consumers use; nil in a simulation.
	Client client.Client
	// Pages writes PlacementDecisions; nil in a simulation.
	Pages PageClient
	// Assume passes a written page to the inventory, so that the next cycle need not wait for its
	// watch event.
	Assume func(page *v1alpha1.PlacementDecision, deleted bool)
	// Announce passes a page to the inventory before it is written or deleted. The watch event of
	// exactly this write then affects no Placement. Call the returned function after Assume. Nil in
	// a simulation.
	Announce func(page *v1alpha1.PlacementDecision, deleted bool) (end func())
	// HeldChanges lists, allows and rejects held changes; nil in a simulation.
	HeldChanges HeldChanges
	// Snapshot returns the fleet as a Placement sees it now, or nil if there is no such Placement.
	// It is for work outside cycles; use CycleState.Snapshot inside. The function is nil in a
	// simulation.
	Snapshot func(placement types.NamespacedName) *Snapshot
	// Activate starts attempts for Placements, because something changed that the plugin reads
	// beside the Snapshot. Nil in a simulation.
	Activate func(placements ...types.NamespacedName)
	// Event sends an event of type Normal or Warning regarding a Placement, in the background; nil
	// in a simulation.
	Event func(pl *v1alpha1.Placement, eventType, reason, action, note string)

	shared sync.Map
}

// Shared returns the data that the instances of a plugin in all profiles share. begin creates it;
// of several results the first stored is kept. Without a Handle nothing is shared.
func Shared[T any](h *Handle, plugin string, begin func() *T) *T {
	if h == nil {
		return begin()
	}
	common, _ := h.shared.LoadOrStore(plugin, begin())
	return common.(*T)
}

// PageClient writes whole pages and returns the stored objects. A page takes one request with
// Berth's own CRDs, up to three with those of Open Cluster Management. Update and Delete return a
// conflict if the page changed since the given version.
type PageClient interface {
	// Read reads from the API server, not from a cache.
	Read(ctx context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error)
	Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
	Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
	Delete(ctx context.Context, page *v1alpha1.PlacementDecision) error
	// Fence gives a page that was read another version, so that earlier writes of it are refused.
	// Berth does not count as the page's last writer afterwards.
	Fence(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
}

// HeldChange is a change for which a Permit plugin returned Wait.
type HeldChange struct {
	// Key and UID are those of the Placement.
	Key types.NamespacedName
	UID types.UID
	// Revision is the number of the change.
	Revision       int64
	Added, Removed []string
	// Plugins are those that hold the change, with their deadlines; zero if it is approved.
	Plugins map[string]time.Time
	// Since is when the change was first held.
	Since time.Time
}

// HeldChanges are the held changes of all Placements, in memory. The first attempts after a restart
// restore them. All methods may be called concurrently.
type HeldChanges interface {
	// List returns the held changes that were not rejected, sorted by `<namespace>/<name>`.
	List() []HeldChange
	// Allow ends one plugin's hold on the change that is held now, and starts a new attempt; the
	// end of the last hold permits the change. It returns false if the plugin does not hold it.
	Allow(uid types.UID, plugin string) bool
	// Reject rejects the change that is held now, and starts a new attempt. It is not held again
	// until the published clusters, the target or the Placement's generation changes. It returns
	// false if the plugin does not hold the change.
	Reject(uid types.UID, plugin, reason string) bool
}
