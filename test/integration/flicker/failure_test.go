package flicker

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A page that cannot be written", func() {
	const namespace, set = "failing", "failing"
	inPool := fixture.MatchLabel(faults.PoolLabel, "in")
	It("is reported in a condition and a metric, is retried, and does not affect other Placements", func(ctx SpecContext) {
		Expect(hub.Create(ctx, fixture.Set(set))).To(Succeed())
		faults.Bind(ctx, hub, namespace, set)
		faults.CleanUp(hub, set, namespace)
		for _, name := range []string{"a", "b"} {
			Expect(hub.Create(ctx, fixture.Cluster(name).Set(set).Label(faults.PoolLabel, "in").Obj())).To(Succeed())
		}
		for _, name := range []string{"stuck", "fine"} {
			Expect(hub.Create(ctx, fixture.Placement(namespace, name).Predicate(inPool).Obj())).To(Succeed())
		}
		faulty.Fail(stuck(http.StatusForbidden))
		DeferCleanup(faulty.EndFaults)
		berth := faults.StartController(throughProxy)
		failures := func() (float64, error) { return berth.Metric("berth_publish_failures_total") }

		By("never being created")
		Eventually(answer(ctx, namespace, "fine")).Should(Equal([]string{"a", "b"}))
		Eventually(satisfied(ctx, namespace, "stuck")).Should(And(HavePrefix("False NotAllDecisionsScheduled: "), ContainSubstring("the proxy says so")))
		Eventually(satisfied(ctx, namespace, "fine")).Should(HavePrefix("True "))
		Expect(answer(ctx, namespace, "stuck")()).To(BeEmpty())
		before, err := failures()
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(BeNumerically(">", 0))
		Eventually(failures).Should(BeNumerically(">", before))

		By("being created once the fault is over")
		faulty.EndFaults()
		Eventually(answer(ctx, namespace, "stuck")).Should(Equal([]string{"a", "b"}))
		Eventually(satisfied(ctx, namespace, "stuck")).Should(HavePrefix("True "))

		By("never being updated")
		faulty.Fail(stuck(http.StatusInternalServerError))
		Expect(faults.SetLabel(ctx, hub, "b", faults.PoolLabel, "out")).To(Succeed())
		Eventually(answer(ctx, namespace, "fine")).Should(Equal([]string{"a"}))
		Eventually(satisfied(ctx, namespace, "stuck")).Should(And(HavePrefix("False NotAllDecisionsScheduled: "), ContainSubstring("the proxy says so")))
		Expect(answer(ctx, namespace, "stuck")()).To(Equal([]string{"a", "b"}))
		Eventually(satisfied(ctx, namespace, "fine")).Should(HavePrefix("True "))

		By("being updated once the fault is over")
		faulty.EndFaults()
		Eventually(answer(ctx, namespace, "stuck")).Should(Equal([]string{"a"}))
		Eventually(satisfied(ctx, namespace, "stuck")).Should(HavePrefix("True "))
		Expect(berth.Alive()).To(BeTrue())
	})
})

// stuck refuses every write of one page.
func stuck(code int) func(*http.Request) faults.Fault {
	return func(r *http.Request) faults.Fault {
		if faults.IsPageWrite(r) && faults.IsAboutPage(r, "stuck-decision-1") {
			return faults.Fault{Code: code}
		}
		return faults.Fault{}
	}
}

// answer is a check for Eventually: the clusters on a Placement's pages, page by page.
func answer(ctx context.Context, namespace, placement string) func() []string {
	return func() []string {
		return testhub.ClustersOn(testhub.Must(testhub.Pages(ctx, hub, fixture.Placement(namespace, placement).Obj()))...)
	}
}

// satisfied is a check for Eventually: "status reason: message".
func satisfied(ctx context.Context, namespace, placement string) func() (string, error) {
	return func() (string, error) {
		return testhub.Condition(ctx, hub, fixture.Placement(namespace, placement).Obj(), v1alpha1.PlacementConditionSatisfied)
	}
}
