package framework

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Handle is a plugin's only door outward; it lives as long as the plugin. A caller that only
// decides (a simulation, a benchmark) gives none of the clients.
type Handle struct {
	// Client reads and writes objects in the consumers' versions; nil in a simulation.
	Client client.Client
	// Pages writes PlacementDecisions; nil in a simulation.
	Pages PageClient
	// Assume tells the inventory of a page that was just written, so that the next cycle need not
	// wait for its echo.
	Assume func(page *v1alpha1.PlacementDecision, deleted bool)
	// Announce tells the inventory of a page that is about to be written, or deleted: news of
	// exactly that decide nothing anew, should the watch be faster than the answer. The function it
	// returns ends that, once Assume was called. Nil in a simulation.
	Announce func(page *v1alpha1.PlacementDecision, deleted bool) (end func())
	// Reserve counts decisions on clusters as if they were published for a Placement, until its
	// pages show them; Unreserve ends that. Both are nil in a simulation.
	Reserve   func(placement types.NamespacedName, clusters []string)
	Unreserve func(placement types.NamespacedName)
	// Quota tells the queues how many clusters a Placement has, or is about to have; nil in a
	// simulation, and where no queues are configured.
	Quota func(placement types.NamespacedName, clusters int)
	// Waiting lists, allows and rejects held Proposals; nil in a simulation.
	Waiting WaitingPlacements
	// Snapshot is the fleet as a Placement sees it now, for work outside cycles; nil when there is
	// no such Placement, and as a function in a simulation. In a cycle there is
	// CycleState.Snapshot.
	Snapshot func(placement types.NamespacedName) *Snapshot
	// Event sends an event of type Normal or Warning regarding a Placement, in the background; nil
	// in a simulation.
	Event func(pl *v1alpha1.Placement, eventType, reason, action, note string)

	shared sync.Map
}

// Shared is what the instances of a plugin in all profiles have in common; the first that asks
// begins it.
func Shared[T any](h *Handle, plugin string, begin func() *T) *T {
	if h == nil {
		return begin()
	}
	common, _ := h.shared.LoadOrStore(plugin, begin())
	return common.(*T)
}

// PageClient writes whole pages and returns what the API server made of them. There are two: one
// request a page on Berth's own CRDs, up to three on those of Open Cluster Management. An update
// and a deletion hold for the state they were given only: if the page changed meanwhile, they
// answer a conflict.
type PageClient interface {
	// Read asks the API server, past all caches.
	Read(ctx context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error)
	Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
	Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
	Delete(ctx context.Context, page *v1alpha1.PlacementDecision) error
}

// WaitingPlacement is a change held by Permit.
type WaitingPlacement struct {
	Key types.NamespacedName
	UID types.UID
	// Revision is the number of the change.
	Revision       int64
	Added, Removed []string
	// Plugins are those that still wait, each with its deadline.
	Plugins map[string]time.Time
}

// WaitingPlacements are the held changes. What is allowed or rejected applies to that very change:
// the Placement is decided anew, and a change with another revision waits as if nothing had been
// said. A restart forgets what was allowed.
type WaitingPlacements interface {
	// List is in order of the keys.
	List() []WaitingPlacement
	// Allow clears one plugin of the Placement's hold; clearing the last one permits the change.
	// False when the plugin holds no change of this Placement.
	Allow(uid types.UID, plugin string) bool
	// Reject ends the hold; the change is not held again until the answer or the Placement changes.
	// False when the plugin holds no change of this Placement.
	Reject(uid types.UID, plugin, reason string) bool
}
