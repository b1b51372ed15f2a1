package queues

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// keepsHeldQuota restarts the controller while a held change has all of a quota, and a
// Placement that is decided first waits for it.
func keepsHeldQuota(ctx SpecContext) {
	GinkgoHelper()
	policy := fixture.ApprovalPolicy("team", "held", "held")
	Expect(hub.Create(ctx, policy)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		g.Expect(policy.Status.Conditions).NotTo(BeEmpty())
	}).Should(Succeed())
	configure(ctx, strings.Replace(everything, "  - {name: web,", "  - {name: tight, submitacl: \"*\", resources: {max: {clusters: 2}}}\n  - {name: web,", 1))
	submit(ctx, "ann", fixture.Placement("team", "held").Number(2).Sets("lab").Obj(), "root.tight")
	pending := func() (string, error) { return condition(ctx, "held", v1alpha1.PlacementConditionDecisionPending) }
	Eventually(pending).Should(HavePrefix("True Held"))
	submit(ctx, "ann", fixture.Placement("team", "urgent").Number(1).Sets("lab").Annotation(v1alpha1.PriorityAnnotation, "10").Obj(), "root.tight")
	satisfied := func() (string, error) { return condition(ctx, "urgent", v1alpha1.PlacementConditionSatisfied) }
	Eventually(satisfied).Should(ContainSubstring("by held 2"))

	berth.Stop()
	berth = start(hub.Config, withQueues())
	Eventually(answers).WithContext(ctx).Should(Succeed())
	// What is submitted now has the lowest priority, so the others have been decided before it.
	submit(ctx, "bob", fixture.Placement("team", "after").Annotation(v1alpha1.PriorityAnnotation, "-10").Obj(), "root.dev")
	Eventually(clusters).WithContext(ctx).WithArguments("after").Should(Equal([]string{"dev-1", "dev-2"}))
	Expect(clusters(ctx, "urgent")).To(BeEmpty())
	Expect(satisfied()).To(ContainSubstring("by held 2"))

	edit(ctx, hub, "held", func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
	Eventually(clusters).WithContext(ctx).WithArguments("urgent").Should(HaveLen(1))
	Expect(hub.Delete(ctx, policy)).To(Succeed())
	for _, name := range []string{"held", "urgent", "after"} {
		Expect(hub.Delete(ctx, stored(ctx, name))).To(Succeed())
	}
	configure(ctx, everything)
}
