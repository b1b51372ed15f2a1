package placement

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// lateAnswers deletes each Placement whose name begins with doomed when its status is written, and
// holds back the answer of that write until the watch has reported the deletion.
type lateAnswers struct {
	next    http.RoundTripper
	deleted func(path string)
}

func (l lateAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/placements/doomed-") && strings.HasSuffix(r.URL.Path, "/status") {
		l.deleted(r.URL.Path)
	}
	return answer, err
}

var _ = Describe("A Placement that is deleted while it is decided", Serial, func() {
	It("stays deleted: no page remains, and no write follows", func(ctx SpecContext) {
		const many = 200
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b")
		// The watch is open before anything is deleted.
		reports, err := hub.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(t.namespace))
		Expect(err).NotTo(HaveOccurred())
		gone := map[string]chan struct{}{}
		for i := range many {
			gone[fmt.Sprintf("doomed-%d", i)] = make(chan struct{})
		}
		go func() {
			for report := range reports.ResultChan() {
				if pl, ok := report.Object.(*v1alpha1.Placement); ok && report.Type == watch.Deleted && gone[pl.Name] != nil {
					close(gone[pl.Name])
				}
			}
		}()
		DeferCleanup(reports.Stop)

		late := rest.CopyConfig(hub.Config)
		late.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return lateAnswers{next, func(path string) {
				_, name, _ := strings.Cut(path, "/placements/")
				name, _, _ = strings.Cut(name, "/")
				pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}}
				if hub.Delete(ctx, pl) == nil {
					<-gone[name]
				}
			}}
		})
		berth.Stop()
		lateController := testhub.StartController(late, controllers.Options{})
		DeferCleanup(func() {
			lateController.Stop()
			startBerth()
		})

		for i := range many {
			Expect(hub.Create(ctx, fixture.Placement(t.namespace, fmt.Sprintf("doomed-%d", i)).Obj())).To(Succeed())
		}
		for _, deleted := range gone {
			Eventually(deleted).Should(BeClosed())
		}
		By("waiting for the garbage collector, and for an edit that affects every Placement of the set")
		Eventually(ctx, testhub.PagesIn).WithArguments(hub, client.InNamespace(t.namespace)).Should(BeEmpty())
		t.placement(ctx, "p", "{}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		writes := pageWrites()
		testhub.Edit(ctx, hub, t.cluster("a"), func(c *v1alpha1.ManagedCluster) {
			c.Spec.Taints = []v1alpha1.Taint{{Key: "out", Effect: v1alpha1.TaintEffectNoSelect}}
		})
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		Expect(testhub.PagesIn(ctx, hub, client.InNamespace(t.namespace))).To(HaveLen(1))
		Expect(pageWrites() - writes).To(Equal(1))
		Consistently(func() int { return pageWrites() - writes }).Should(Equal(1))
	})
})

var _ = Describe("A page with a finalizer", func() {
	const slow = "example.com/slow"
	var t *tenant
	page := func(ctx context.Context, name string) *v1alpha1.PlacementDecision {
		p := &v1alpha1.PlacementDecision{}
		Expect(hub.Get(ctx, t.key(name), p)).To(Succeed())
		return p
	}
	release := func(ctx context.Context, name string) {
		p := page(ctx, name)
		testhub.Edit(ctx, hub, p, func(p *v1alpha1.PlacementDecision) { p.Finalizers = nil })
		Eventually(ctx, testhub.IsGone).WithArguments(hub, p).Should(BeTrue())
	}
	// lasting are the clusters on the pages that are not being deleted.
	lasting := func(ctx context.Context) func() int {
		return func() int {
			n := 0
			for _, p := range pagesOf(ctx, t.key("p")) {
				if p.DeletionTimestamp == nil {
					n += len(p.Status.Decisions)
				}
			}
			return n
		}
	}
	selected := func(ctx context.Context) func() int {
		return func() int { return int(placementAt(ctx, t.key("p")).Status.NumberOfSelectedClusters) }
	}
	BeforeEach(func(ctx SpecContext) {
		t = newTenant(ctx)
		faults.InParallel(150, func(i int) error {
			return hub.Create(ctx, fixture.Cluster(t.full(fmt.Sprintf("c%03d", i))).Set(t.namespace).Obj())
		})
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: t.namespace})).To(Succeed())
		})
		t.placement(ctx, "p", "{numberOfClusters: 150}")
		Eventually(selected(ctx)).Should(Equal(150))
		testhub.Edit(ctx, hub, page(ctx, "p-decision-2"), func(p *v1alpha1.PlacementDecision) { p.Finalizers = []string{slow} })
	})

	It("is deleted once, and its clusters are published on another page if they are selected again", func(ctx SpecContext) {
		t.placement(ctx, "p", "{numberOfClusters: 100}")
		Eventually(selected(ctx)).Should(Equal(100))
		leaving := page(ctx, "p-decision-2")
		Expect(leaving.DeletionTimestamp).NotTo(BeNil())

		t.placement(ctx, "p", "{numberOfClusters: 150}")
		Eventually(selected(ctx)).Should(Equal(150))
		Expect(lasting(ctx)()).To(Equal(150), "of 150 clusters in status, so many stay listed")
		Expect(page(ctx, "p-decision-2").ResourceVersion).To(Equal(leaving.ResourceVersion), "the page that is being deleted was written")

		By("finishing it")
		writes, version := pageWrites(), placementAt(ctx, t.key("p")).ResourceVersion
		release(ctx, "p-decision-2")
		t.waitForDecision(ctx, t.full("c000"))
		Expect(t.published(ctx, "p")()).To(HaveLen(150))
		Expect(placementAt(ctx, t.key("p")).ResourceVersion).To(Equal(version))
		// One is the marker's own page.
		Expect(pageWrites() - writes).To(Equal(1))
	})

	It("is replaced before its deletion completes, if another user deletes it", func(ctx SpecContext) {
		Expect(hub.Delete(ctx, page(ctx, "p-decision-2"))).To(Succeed())
		Eventually(lasting(ctx)).Should(Equal(150))
		Eventually(selected(ctx)).Should(Equal(150))
		Eventually(func() (pages []string) {
			for _, group := range placementAt(ctx, t.key("p")).Status.DecisionGroups {
				pages = append(pages, group.Decisions...)
			}
			return pages
		}).ShouldNot(ContainElement("p-decision-2"))
		release(ctx, "p-decision-2")
		t.waitForDecision(ctx, t.full("c000"))
		Expect(t.published(ctx, "p")()).To(HaveLen(150))
	})
})
