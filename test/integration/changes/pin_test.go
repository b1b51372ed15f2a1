package changes

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A pinned Placement", Ordered, func() {
	var controller *testhub.Controller
	start := func() { controller = hub.StartController(controllers.Options{}) }
	BeforeAll(func() {
		start()
		DeferCleanup(func() { controller.Stop() })
	})

	// before and after are the clusters of revisions 1 and 2.
	var ns string
	var web *v1alpha1.Placement
	var before, after []string
	BeforeEach(func(ctx SpecContext) {
		ns = fleet(ctx, 6)
		web = fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "old")).Obj()
		Expect(hub.Create(ctx, web)).To(Succeed())
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published"))
		before = listed(ctx, ns)
		testhub.Edit(ctx, hub, web, func(web *v1alpha1.Placement) {
			web.Spec = fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "new")).Obj().Spec
		})
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published, 2 Published"))
		after = listed(ctx, ns)
		Expect(after).NotTo(Equal(before))
	})

	It("has the clusters of the revision that qualify, in steps, also after a restart, until it is unpinned", func(ctx SpecContext) {
		By("making the old clusters qualify again")
		Expect(testhub.Patch(ctx, hub, web, `{"spec": {"predicates": null}}`)).To(Succeed())
		policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.HistoryLimit = 1 })
		pin(ctx, web, `"1"`)
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal(before))
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True"))
		Expect(hub.Kubectl(ctx, "get", "placement", "web", "-n", ns)).To(MatchRegexp(`^NAME +WANTED +SELECTED +SATISFIED +REASON +PENDING +PROGRESS +PINNED +AGE\nweb +2 +2 +True +AllDecisionsScheduled +1 +\d`))

		By("starting the controller again: the records since the revision are kept, whatever the limit")
		controller.Stop()
		start()
		Eventually(func() string { return phases(ctx, ns) }).Should(HavePrefix("1 Published, 2 Published, 3 Published"))
		Consistently(listed).WithContext(ctx).WithArguments(ns).Should(Equal(before))

		By("pinning the other revision, and unpinning")
		pin(ctx, web, `"2"`)
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal(after))
		pin(ctx, web, "null")
		Eventually(func() string { return phases(ctx, ns) }).ShouldNot(ContainSubstring("1 Published, 2 Published"))
		Expect(listed(ctx, ns)).To(HaveLen(2))
	})

	It("says in DecisionProgressing to which revision, and keeps its decision without replacements under an eviction", func(ctx SpecContext) {
		Expect(testhub.Patch(ctx, hub, web, `{"spec": {"predicates": null}}`)).To(Succeed())
		suspended := policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
		Eventually(statusOf(ctx, suspended)).Should(HavePrefix("1 True"))
		pin(ctx, web, `"1"`)
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionDecisionProgressing).
			Should(Equal("False Suspended: 0 of 2 added, 0 of 2 removed; suspended by DisruptionPolicy careful; pinned to revision 1"))
		Expect(hub.Delete(ctx, suspended)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal(before))
		policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) })
		e := evict(ctx, web, before[0])
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal(executed))
		Expect(listed(ctx, ns)).To(Equal(before[1:]))
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionSatisfied).Should(And(HavePrefix("False NotAllDecisionsScheduled: 1 cluster decisions unscheduled; pinned to revision 1")))
	})

	It("is misconfigured if the revision is not known", func(ctx SpecContext) {
		for _, revision := range []string{"7", "0", "x"} {
			pin(ctx, web, fmt.Sprintf("%q", revision))
			Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionMisconfigured).
				Should(And(HavePrefix("True Misconfigured: metadata.annotations["+berthv1alpha1.PinnedRevisionAnnotation+"]: Invalid value: "+fmt.Sprintf("%q", revision)),
					WithTransform(func(text string) bool {
						return revision != "7" || strings.Contains(text, "possible revisions are 2, 1")
					}, BeTrue())))
		}
		Expect(listed(ctx, ns)).To(Equal(after))
		pin(ctx, web, "null")
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionMisconfigured).Should(HavePrefix("False"))
	})
})

// pin sets or, with null, removes the annotation.
func pin(ctx context.Context, pl *v1alpha1.Placement, revision string) {
	GinkgoHelper()
	Expect(testhub.Patch(ctx, hub, pl, fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, berthv1alpha1.PinnedRevisionAnnotation, revision))).To(Succeed())
}
