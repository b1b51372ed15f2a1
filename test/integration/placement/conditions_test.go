package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// onlyEmptyPage says that the Placement was seen and nothing was chosen: one page that lists no
// cluster.
func onlyEmptyPage(ctx context.Context, k key) {
	GinkgoHelper()
	Eventually(func() int { return len(pagesOf(ctx, k)) }).Should(Equal(1))
	page := pagesOf(ctx, k)[0]
	Expect(page.Name).To(Equal(k.Name + "-decision-1"))
	Expect(page.Status.Decisions).To(And(BeEmpty(), Not(BeNil())))
	Expect(page.Labels).To(HaveKeyWithValue(v1alpha1.DecisionGroupIndexLabel, "0"))
}

var _ = Describe("PlacementSatisfied", func() {
	const (
		zones = `
{kind: ManagedCluster, metadata: {name: a, labels: {zone: z1}}}
---
{kind: ManagedCluster, metadata: {name: b, labels: {zone: z1}}}
---
{kind: ManagedCluster, metadata: {name: c, labels: {zone: z1, env: prod}}, spec: {hubAcceptsClient: true, taints: [{key: gpu, effect: NoSelect}]}}
---
{kind: ManagedCluster, metadata: {name: d, labels: {zone: z2}}}
`
		prod   = `predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}]`
		spread = `spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, whenUnsatisfiable: DoNotSchedule}]}`
	)
	DescribeTable("reports", func(ctx SpecContext, fleet, spec, want string, selected ...string) {
		t := newTenant(ctx)
		if fleet != "" {
			t.apply(ctx, fleet)
		}
		t.placement(ctx, "p", spec)
		Eventually(t.satisfied(ctx, "p")).Should(HavePrefix(want))
		Expect(t.misconfigured(ctx, "p")()).To(Equal(wellConfigured))
		Expect(placementAt(ctx, t.key("p")).Status.NumberOfSelectedClusters).To(BeEquivalentTo(len(selected)))
		if len(selected) == 0 {
			onlyEmptyPage(ctx, t.key("p"))
		}
		Expect(t.published(ctx, "p")()).To(HaveExactElements(selected))
	},
		Entry("that no listed set is bound", zones, "{clusterSets: [elsewhere, nowhere]}",
			"False NoIntersection: None of ManagedClusterSets [elsewhere,nowhere] is bound to placement namespace"),
		Entry("that no cluster qualifies, and what each filter excluded", zones, "{"+prod+"}",
			"False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate: of 4 candidates 3 excluded by Predicate, 1 by TaintToleration"),
		Entry("the spread constraint that allows no further cluster", zones, "{numberOfClusters: 4, tolerations: [{operator: Exists}], "+spread+"}",
			"False SpreadUnsatisfiable: 1 cluster decisions unscheduled by spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)", "a", "b", "d"),
		Entry("success with a satisfied spread", zones, "{numberOfClusters: 2, "+spread+"}", allScheduled, "a", "d"),
		Entry("the number of missing clusters", zones, "{numberOfClusters: 5}",
			"False NotAllDecisionsScheduled: 2 cluster decisions unscheduled: of 4 candidates 1 excluded by TaintToleration", "a", "b", "d"),
		Entry("success with the requested number of clusters", zones, "{numberOfClusters: 2}", allScheduled, "a", "b"),
		Entry("success without a requested number", zones, "{}", allScheduled, "a", "b", "d"),
	)

	It("reports empty sets by name", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.apply(ctx, "{kind: ManagedClusterSet, metadata: {name: $NS-2}}", "{kind: ManagedClusterSetBinding, metadata: {name: $NS-2}}")
		t.placement(ctx, "p", "{}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(
			"False AllManagedClusterSetsEmpty: All ManagedClusterSets [" + t.namespace + "," + t.namespace + "-2] have no member ManagedCluster"))
		onlyEmptyPage(ctx, t.key("p"))
	})

	It("follows the binding: missing, of a set that does not exist, with another name than its set, valid", func(ctx SpecContext) {
		const unbound = "False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace"
		t := newTenant(ctx)
		t.clusters(ctx, "a")
		binding := &v1alpha1.ManagedClusterSetBinding{}
		Expect(hub.Get(ctx, t.key(t.namespace), binding)).To(Succeed())
		Expect(hub.Delete(ctx, binding)).To(Succeed())
		t.placement(ctx, "p", "{}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(unbound))
		onlyEmptyPage(ctx, t.key("p"))

		t.apply(ctx, "{kind: ManagedClusterSetBinding, metadata: {name: $NS-2}}")
		t.placement(ctx, "q", "{}")
		Eventually(t.satisfied(ctx, "q")).Should(Equal(unbound))

		t.apply(ctx, "{kind: ManagedClusterSetBinding}")
		for _, name := range []string{"p", "q"} {
			Eventually(t.satisfied(ctx, name)).Should(Equal(allScheduled))
			Eventually(t.published(ctx, name)).Should(Equal([]string{"a"}))
		}

		By("losing the set itself")
		set := &v1alpha1.ManagedClusterSet{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: t.namespace}, set)).To(Succeed())
		Expect(hub.Delete(ctx, set)).To(Succeed())
		Eventually(t.satisfied(ctx, "p")).Should(Equal(unbound))
		Eventually(t.published(ctx, "p")).Should(BeEmpty())
		onlyEmptyPage(ctx, t.key("p"))
	})

	It("describes the current Placement after each edit", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b")
		for i, n := range []string{"1", "2", "3"} {
			t.placement(ctx, "p", "{numberOfClusters: "+n+"}")
			Eventually(t.satisfied(ctx, "p")).Should(MatchRegexp("^(True|False) "))
			pl := placementAt(ctx, t.key("p"))
			Expect(pl.Generation).To(BeEquivalentTo(i + 1))
			Expect(pl.Status.Conditions).To(HaveEach(HaveField("ObservedGeneration", pl.Generation)))
		}
	})
})

var _ = Describe("A mistake in a Placement", func() {
	DescribeTable("is reported, and the published decision stays", func(ctx SpecContext, mistake, misconfiguration string) {
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b")
		t.placement(ctx, "p", "{numberOfClusters: 1}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		before := pagesOf(ctx, t.key("p"))
		status := placementAt(ctx, t.key("p")).Status

		t.placement(ctx, "p", "{numberOfClusters: 2, "+mistake+"}")
		Eventually(t.misconfigured(ctx, "p")).Should(HavePrefix("True Misconfigured: " + misconfiguration))
		Expect(t.satisfied(ctx, "p")()).To(HavePrefix("False Misconfigured: " + misconfiguration))
		said := placementAt(ctx, t.key("p")).Status
		Expect(said.NumberOfSelectedClusters).To(Equal(status.NumberOfSelectedClusters))
		Expect(said.DecisionGroups).To(Equal(status.DecisionGroups))
		Expect(pagesOf(ctx, t.key("p"))).To(Equal(before))

		By("deleting one of the clusters it could have")
		Expect(hub.Delete(ctx, t.cluster("b"))).To(Succeed())
		t.waitForDecision(ctx, t.full("a"))
		Expect(pagesOf(ctx, t.key("p"))).To(Equal(before))

		By("making the same mistake where nothing is published yet")
		t.placement(ctx, "q", "{"+mistake+"}")
		Eventually(t.misconfigured(ctx, "q")).Should(HavePrefix("True Misconfigured: " + misconfiguration))
		onlyEmptyPage(ctx, t.key("q"))

		By("fixing both")
		t.clusters(ctx, "c")
		for _, name := range []string{"p", "q"} {
			t.placement(ctx, name, "{numberOfClusters: 2}")
			Eventually(t.misconfigured(ctx, name)).Should(Equal(wellConfigured))
			Eventually(t.satisfied(ctx, name)).Should(Equal(allScheduled))
			Expect(t.published(ctx, name)()).To(Equal([]string{"a", "c"}))
		}
	},
		Entry("in a label selector", "predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: In}]}}}]",
			"Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].values: Required value"),
		Entry("in a claim selector", "predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: In}]}}}]",
			"Predicate:spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions[0].values: Required value"),
		Entry("in an expression", `predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.nonsense("]}}}]`,
			`Predicate:spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]: Invalid value: "managedCluster.nonsense(": compilation failed: 1:25`),
		Entry("in the name of a prioritizer", "prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Beauty}}]}",
			"spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn: Unsupported value: \"Beauty\": supported values: \"Balance\""),
		Entry("in a decision group", "decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: NotIn}]}}}]}}",
			"DecisionPublisher:spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector.labelSelector.matchExpressions[0].values: Required value"),
	)
})
