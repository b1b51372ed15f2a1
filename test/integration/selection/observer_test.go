package selection

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// observer watches the pages of all Placements, as a consumer does, and calls check after each
// change. It reads in its own goroutine until the spec ends.
type observer struct {
	mu sync.Mutex
	// pages are the clusters of each page, placementOf its Placement. users are the Placements that
	// list each cluster.
	pages       map[types.NamespacedName][]string
	placementOf map[types.NamespacedName]types.NamespacedName
	users       map[string][]types.NamespacedName
	// check returns what is wrong about the clusters of a page that changed; empty if nothing is.
	check      func(o *observer, page []string) string
	violations []string
	// versions are the clusters that were listed for each Placement, in order.
	versions map[types.NamespacedName][][]string
}

// observe starts an observer for pages that are written from now on.
func observe(ctx context.Context, check func(o *observer, page []string) string, options ...client.ListOption) *observer {
	GinkgoHelper()
	o := &observer{
		pages: map[types.NamespacedName][]string{}, placementOf: map[types.NamespacedName]types.NamespacedName{},
		users: map[string][]types.NamespacedName{}, versions: map[types.NamespacedName][][]string{},
		check: check,
	}
	w, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, options...)
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			page, ok := event.Object.(*v1alpha1.PlacementDecision)
			if !ok {
				o.fail("the watch failed")
				return
			}
			o.read(event.Type, page)
		}
	}()
	DeferCleanup(func() {
		w.Stop()
		<-done
	})
	return o
}

func (o *observer) fail(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, what)
}

// read processes one change of a page.
func (o *observer) read(kind watch.EventType, page *v1alpha1.PlacementDecision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key, placement := client.ObjectKeyFromObject(page), types.NamespacedName{Namespace: page.Namespace, Name: page.Labels[v1alpha1.PlacementLabel]}
	for _, cluster := range o.pages[key] {
		o.users[cluster] = slices.DeleteFunc(o.users[cluster], func(p types.NamespacedName) bool { return p == o.placementOf[key] })
	}
	delete(o.pages, key)
	if kind == watch.Deleted {
		return
	}
	var names []string
	for _, d := range page.Status.Decisions {
		names = append(names, d.ClusterName)
		o.users[d.ClusterName] = append(o.users[d.ClusterName], placement)
	}
	o.pages[key], o.placementOf[key] = names, placement
	o.versions[placement] = append(o.versions[placement], names)
	if what := o.check(o, names); what != "" && len(o.violations) < 10 {
		o.violations = append(o.violations, what)
	}
}

// violated returns what was wrong so far.
func (o *observer) violated() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

// history returns the clusters that were listed for a Placement, in order.
func (o *observer) history(placement types.NamespacedName) [][]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.versions[placement])
}

// counts returns how many Placements list each cluster.
func (o *observer) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[string]int{}
	for cluster, users := range o.users {
		if len(users) > 0 {
			counts[cluster] = len(users)
		}
	}
	return counts
}
