package changes

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	drainedPlacements = 50
	drainedNumber     = 3
)

// pageWatch counts the events of each page and the fewest clusters that it listed.
type pageWatch struct {
	writes int
	fewest int
	// with are the pages that list the drained cluster.
	with map[string]bool
}

// follow reads events until no page lists the cluster any more.
func (w *pageWatch) follow(ctx context.Context, pages watch.Interface, cluster string) {
	GinkgoHelper()
	for len(w.with) > 0 {
		var event watch.Event
		Eventually(pages.ResultChan()).WithContext(ctx).Should(Receive(&event))
		page := event.Object.(*v1alpha1.PlacementDecision)
		names := testhub.ClustersOn(*page)
		w.writes++
		w.fewest = min(w.fewest, len(names))
		w.with[page.Name] = true
		if !slices.Contains(names, cluster) {
			delete(w.with, page.Name)
		}
	}
}

var _ = Describe("A drain of a cluster that many Placements have", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	drain := func(ctx context.Context, policies bool) *pageWatch {
		GinkgoHelper()
		ns := fleet(ctx, 8)
		drained := ns + "-0"
		if policies {
			policy(ctx, ns, func(*berthv1alpha1.DisruptionPolicySpec) {})
		}
		for i := range drainedPlacements {
			pl := fixture.Placement(ns, fmt.Sprintf("web-%03d", i)).Number(drainedNumber).Predicate(fixture.MatchLabel("tier", "old")).Obj()
			Expect(hub.Create(ctx, pl)).To(Succeed())
		}
		Eventually(func() int { return len(listed(ctx, ns)) }).Should(Equal(drainedPlacements * drainedNumber))
		w := &pageWatch{fewest: drainedNumber, with: map[string]bool{}}
		all := testhub.Must(testhub.PagesIn(ctx, hub, client.InNamespace(ns)))
		for _, page := range all {
			if slices.Contains(testhub.ClustersOn(page), drained) {
				w.with[page.Name] = true
			}
		}
		had := len(w.with)
		Expect(had).To(BeNumerically(">", 0))
		pages, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(ns))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pages.Stop)
		for range all {
			// A new watch begins with what exists.
			Eventually(pages.ResultChan()).WithContext(ctx).Should(Receive())
		}
		began := time.Now()
		testhub.Edit(ctx, hub, fixture.Cluster(drained).Obj(), func(cluster *v1alpha1.ManagedCluster) {
			cluster.Spec.Taints = append(cluster.Spec.Taints, v1alpha1.Taint{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect})
		})
		w.follow(ctx, pages, drained)
		fmt.Printf("\nobserved: drain, policies %t: %d Placements had the cluster, %d page writes, at least %d of %d clusters listed, %.1f s\n",
			policies, had, w.writes, w.fewest, drainedNumber, time.Since(began).Seconds())
		Expect(w.writes).To(BeNumerically(">=", had))
		return w
	}

	It("with a DisruptionPolicy, publishes each replacement first", func(ctx SpecContext) {
		Expect(drain(ctx, true).fewest).To(Equal(drainedNumber))
	})

	It("without one, exchanges the clusters in one write", func(ctx SpecContext) {
		Expect(drain(ctx, false).fewest).To(Equal(drainedNumber))
	})
})
