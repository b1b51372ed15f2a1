package changes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A fleet that is being loaded", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	It("changes a Placement with a stabilization window once, when its target stays the same", func(ctx SpecContext) {
		const clusters, wanted = 120, 3
		ns := fleet(ctx, clusters)
		stable := &berthv1alpha1.DisruptionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stable"},
			Spec: berthv1alpha1.DisruptionPolicySpec{
				Placements: []string{"stable"}, StabilizationWindowSeconds: 2,
			},
		}
		Expect(hub.Create(ctx, stable)).To(Succeed())
		Eventually(statusOf(ctx, stable)).Should(Equal("0 False PlacementMissing"))
		for _, name := range []string{"stable", "restless"} {
			Expect(hub.Create(ctx, fixture.Placement(ns, name).Number(wanted).
				Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, 1).Obj())).To(Succeed())
		}
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(HaveLen(2 * wanted))
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published, 1 Published"))

		By("reporting the clusters, each one better than those before")
		for i := range clusters {
			name := fmt.Sprintf("%s-%d", ns, i)
			status := fmt.Sprintf(`{"status": {"allocatable": {"cpu": "%d"}, "capacity": {"cpu": "500"}}}`, i+1)
			cluster := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(hub.Status().Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(status)))).To(Succeed())
		}
		best := []string{fmt.Sprintf("%s-%d", ns, clusters-3), fmt.Sprintf("%s-%d", ns, clusters-2), fmt.Sprintf("%s-%d", ns, clusters-1)}
		revisions := func(name string) int64 {
			page := &v1alpha1.PlacementDecision{}
			Expect(hub.Get(ctx, client.ObjectKey{Namespace: ns, Name: name + "-decision-1"}, page)).To(Succeed())
			if fmt.Sprint(testhub.ClustersOn(*page)) != fmt.Sprint(best) {
				return 0
			}
			var revision int64
			_, err := fmt.Sscan(page.Annotations[berthv1alpha1.RevisionAnnotation], &revision)
			Expect(err).NotTo(HaveOccurred())
			return revision
		}
		// One change, or few if this machine pauses for longer than the window.
		Eventually(func() int64 { return revisions("stable") }).Should(And(BeNumerically(">=", 2), BeNumerically("<=", 4)))
		Eventually(func() int64 { return revisions("restless") }).Should(BeNumerically(">", 10))
	})
})
