package selection

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The status of a SelectionPolicy", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	It("reports a Placement that does not exist, before and after it existed", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 1, "8")
		policy := selecting(ctx, ns, "web", "")
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(Equal("False PlacementMissing: Placement web does not exist"))
		pl := place(ctx, ns, "web", 1)
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(Equal("True Applied: The policy applies to Placement web"))
		By("naming another Placement")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"placement": "api"}}`)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(Equal("False PlacementMissing: Placement api does not exist"))
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"placement": "web"}}`)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(HavePrefix("True Applied"))
		Expect(hub.Delete(ctx, pl)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(HavePrefix("False PlacementMissing"))
	})

	It("says nothing about tiers, groups and names of a Placement that does not exist any more", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 2, "8")
		policy := selecting(ctx, ns, "web", tiers("groups: [{name: gpu, min: 1, clusterSelector: {labelSelector: {matchLabels: {gpu: 'true'}}}}], clusterNames: {exclude: [lost]},", "eu", "us"))
		pl := place(ctx, ns, "web", 2)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(
			"Ready True Applied, TierSufficient True Sufficient, eu 2 used, us 0, group gpu lacks 1, unknown lost"))
		Expect(hub.Delete(ctx, pl)).To(Succeed())
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready False PlacementMissing"))
	})

	It("has tiers and whether one is sufficient, and nothing about them after they are removed", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 2, "8")
		us := region(ctx, ns, "us", 1, "8")
		policy := selecting(ctx, ns, "web", tiers("", "eu", "us"))
		place(ctx, ns, "web", 2)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied, TierSufficient True Sufficient, eu 2 used, us 1"))
		By("wanting more than any tier has")
		Expect(testhub.Patch(ctx, hub, fixture.Placement(ns, "web").Obj(), `{"spec": {"numberOfClusters": 3}}`)).To(Succeed())
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied, TierSufficient False NoTierSufficient, eu 2 used, us 1 used"))
		eventually(ctx, ns, "web", "eu-0", "eu-1", "us-0")
		By("losing a cluster")
		setFailed(ctx, us, true)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied, TierSufficient False NoTierSufficient, eu 2 used, us 0"))
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"tiers": null}}`)).To(Succeed())
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied"))
	})

	It("has unmet groups and what would help, until they are met", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		eu := region(ctx, ns, "eu", 3, "8")
		policy := selecting(ctx, ns, "web", "groups: [{name: gpu, min: 2, clusterSelector: {labelSelector: {matchLabels: {gpu: 'true'}}}}]")
		Expect(testhub.Patch(ctx, hub, fixture.Cluster(eu[0]).Obj(), `{"metadata": {"labels": {"gpu": "true"}}}`)).To(Succeed())
		Expect(testhub.Patch(ctx, hub, fixture.Cluster(eu[1]).Obj(), `{"metadata": {"labels": {"gpu": "true"}}}`)).To(Succeed())
		setFailed(ctx, eu[1:2], true)
		place(ctx, ns, "web", 2)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied, group gpu lacks 1"))
		got := testhub.Must(testhub.Get(ctx, hub, policy))
		Expect(got.Status.Unmet[0].Relax).To(Equal("TaintToleration excludes 1 of the group"))
		Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement(ns, "web").Obj(), v1alpha1.PlacementConditionSatisfied).Should(HavePrefix(
			"False GroupUnsatisfiable: group gpu has 1 of at least 2 clusters: "))
		setFailed(ctx, eu[1:2], false)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal("Ready True Applied"))
	})

	It("has names that are no candidates of the namespace, until they are, whether such clusters exist or not", func(ctx SpecContext) {
		ns, other := testhub.CreateTeam(ctx, hub, "team-"), testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 1, "8")
		foreign := region(ctx, other, "eu", 1, "8")[0]
		policy := selecting(ctx, ns, "web", "clusterNames: {include: ["+ns+"-us-0, "+ns+"-eu-0, "+foreign+"], exclude: ["+ns+"-old]}")
		place(ctx, ns, "web", 1)
		unknown := func(names ...string) string {
			slices.Sort(names)
			return "Ready True Applied, unknown " + strings.Join(names, " ")
		}
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(unknown(ns+"-old", ns+"-us-0", foreign)))
		region(ctx, ns, "us", 1, "8")
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(unknown(ns+"-old", foreign)))
		By("binding the set of the other cluster")
		Expect(hub.Create(ctx, fixture.Binding(ns, other))).To(Succeed())
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(unknown(ns + "-old")))
		By("moving the cluster out of the set")
		Expect(testhub.Patch(ctx, hub, fixture.Cluster(foreign).Obj(), `{"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "none"}}}`)).To(Succeed())
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(unknown(ns+"-old", foreign)))
	})

	It("reports policies that are invalid, with the message of the Placement, and keeps its clusters", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 2, "8")
		policy := selecting(ctx, ns, "web", "")
		place(ctx, ns, "web", 1)
		eventually(ctx, ns, "web", "eu-0")
		invalid := func(policy *berthv1alpha1.SelectionPolicy, message string) {
			GinkgoHelper()
			Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(Equal("False Invalid: " + message))
			Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement(ns, "web").Obj(), v1alpha1.PlacementConditionMisconfigured).Should(HaveSuffix(message))
			Expect(listed(ctx, ns, "web")).To(Equal([]string{"eu-0"}))
		}
		By("minima that add up to too much")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"groups": [{"name": "a", "min": 2}]}}`)).To(Succeed())
		invalid(policy, "SelectionPolicy web: spec.groups: Invalid value: 2: the minima must not add up to more than numberOfClusters of the Placement, 1")
		By("an expression that does not compile")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"groups": null, "tiers": [{"name": "a", "clusterSelector": {"celSelector": {"celExpressions": ["1"]}}}]}}`)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(HavePrefix(
			`False Invalid: SelectionPolicy web: spec.tiers[0].clusterSelector.celSelector.celExpressions[0]: Invalid value: "1"`))
		By("a second policy")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"tiers": null}}`)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(HavePrefix("True Applied"))
		second := &berthv1alpha1.SelectionPolicy{Spec: berthv1alpha1.SelectionPolicySpec{Placement: "web"}}
		second.Namespace, second.Name = ns, "second"
		Expect(hub.Create(ctx, second)).To(Succeed())
		both := "the SelectionPolicies second, web name the Placement: it can have one"
		invalid(policy, both)
		invalid(second, both)
		Expect(hub.Delete(ctx, second)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(HavePrefix("True Applied"))
		By("a cycle of affinity")
		place(ctx, ns, "api", 1)
		selecting(ctx, ns, "api", "affinity: {apartFrom: [{placement: web}]}")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"affinity": {"with": [{"placement": "api"}]}}}`)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, policy, berthv1alpha1.SelectionReady).Should(And(HavePrefix("False Invalid: "), ContainSubstring("cycle: "), ContainSubstring("api"), ContainSubstring("web")))
	})
})
