package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Claims passes on what plugins reserve for Placements: clusters and quotas. During steps 1 to 8 of
// an attempt it keeps the calls until their end, and passes on only the last ones. So other
// Placements never see what Reserve and Unreserve of one attempt cancel out. All its methods may be
// called concurrently.
type Claims struct {
	// Clusters sets the clusters that are reserved for a Placement; Quota, how many clusters of its
	// queue's quota it uses. Either may be nil.
	Clusters func(placement types.NamespacedName, clusters []string)
	Quota    func(placement types.NamespacedName, clusters int)

	mu sync.Mutex
	// cycle is true during steps 1 to 8 of an attempt. The maps have the last calls since then.
	cycle    bool
	clusters map[types.NamespacedName][]string
	quotas   map[types.NamespacedName]int
}

// Reserve is for framework.Handle.
func (c *Claims) Reserve(placement types.NamespacedName, clusters []string) {
	c.mu.Lock()
	wait := c.cycle
	if wait {
		c.clusters[placement] = clusters
	}
	c.mu.Unlock()
	if !wait && c.Clusters != nil {
		c.Clusters(placement, clusters)
	}
}

// Unreserve is for framework.Handle.
func (c *Claims) Unreserve(placement types.NamespacedName) { c.Reserve(placement, nil) }

// SetQuota is for framework.Handle.
func (c *Claims) SetQuota(placement types.NamespacedName, clusters int) {
	c.mu.Lock()
	wait := c.cycle
	if wait {
		c.quotas[placement] = clusters
	}
	c.mu.Unlock()
	if !wait && c.Quota != nil {
		c.Quota(placement, clusters)
	}
}

// begin starts to keep calls. A nil receiver does nothing.
func (c *Claims) begin() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cycle, c.clusters, c.quotas = true, map[types.NamespacedName][]string{}, map[types.NamespacedName]int{}
}

// end passes on the last calls since begin, in the order of the Placements.
func (c *Claims) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	clusters, quotas := c.clusters, c.quotas
	c.cycle = false
	c.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(clusters), compareNames) {
		if c.Clusters != nil {
			c.Clusters(key, clusters[key])
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(quotas), compareNames) {
		if c.Quota != nil {
			c.Quota(key, quotas[key])
		}
	}
}

func compareNames(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
