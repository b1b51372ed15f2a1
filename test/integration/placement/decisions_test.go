package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/samples"
	"github.com/berth-dev/berth/test/testhub"
)

// layout is a check for Eventually: the pages of Placement p, a line each with name, group index,
// group name, clusters.
func layout(ctx SpecContext, t *tenant) func() []string {
	return func() []string {
		var lines []string
		for _, page := range pagesOf(ctx, t.key("p")) {
			lines = append(lines, fmt.Sprintf("%s %s %q %s", page.Name, page.Labels[v1alpha1.DecisionGroupIndexLabel],
				page.Labels[v1alpha1.DecisionGroupNameLabel], strings.ReplaceAll(strings.Join(testhub.ClustersOn(page), " "), t.namespace+"-", "")))
		}
		return lines
	}
}

var _ = Describe("Decision groups", func() {
	It("take their clusters in order, on pages with the labels of the group", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b", "c", "f")
		t.apply(ctx,
			"{kind: ManagedCluster, metadata: {name: d, labels: {stage: canary}}}",
			"{kind: ManagedCluster, metadata: {name: e, labels: {stage: canary, size: big}}}",
			"{kind: ManagedCluster, metadata: {name: g, labels: {size: big}}, status: {clusterClaims: [{name: region, value: eu}]}}")
		t.placement(ctx, "p", `{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 2, decisionGroups: [
			{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {stage: canary}}}},
			{groupName: big-eu, groupClusterSelector: {labelSelector: {matchLabels: {size: big}}, claimSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}}}]}}}`)
		want := []string{
			`p-decision-1 0 "canary" d e`, `p-decision-2 1 "big-eu" g`, `p-decision-3 2 "" a b`, `p-decision-4 3 "" c f`,
		}
		Eventually(layout(ctx, t)).Should(Equal(want))
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		status := placementAt(ctx, t.key("p")).Status
		Expect(status.NumberOfSelectedClusters).To(BeEquivalentTo(7))
		group := func(index int32, name string, clusters int32) v1alpha1.DecisionGroupStatus {
			return v1alpha1.DecisionGroupStatus{DecisionGroupIndex: index, DecisionGroupName: name, ClusterCount: clusters,
				Decisions: []string{fmt.Sprintf("p-decision-%d", index+1)}}
		}
		Expect(status.DecisionGroups).To(Equal([]v1alpha1.DecisionGroupStatus{
			group(0, "canary", 2), group(1, "big-eu", 1), group(2, "", 2), group(3, "", 2)}))

		By("a newcomer, which takes a free place, and a cluster that changes its group")
		t.apply(ctx, "{kind: ManagedCluster, metadata: {name: g, labels: {size: big}}, status: {clusterClaims: [{name: region, value: us}]}}")
		Eventually(layout(ctx, t)).Should(ConsistOf(
			ContainSubstring(` 0 "canary" d e`), ContainSubstring(` "" a b`), ContainSubstring(` "" c f`), HaveSuffix(` "" g`)))
		Eventually(func() int { return len(placementAt(ctx, t.key("p")).Status.DecisionGroups) }).Should(Equal(4))
		t.clusters(ctx, "h")
		Eventually(layout(ctx, t)).Should(ContainElement(HaveSuffix(` "" g h`)))
	})

	It("can have a size in percent", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b", "c", "d", "e")
		t.placement(ctx, "p", "{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 41%}}}")
		Eventually(layout(ctx, t)).Should(Equal([]string{`p-decision-1 0 "" a b c`, `p-decision-2 1 "" d e`}))
	})
})

var _ = Describe("Three pages", func() {
	It("hold the 250 clusters of the samples, and a joining cluster costs one write", func(ctx SpecContext) {
		everywhere := key{Namespace: "stores", Name: "everywhere"}
		applyFile(ctx, samples.FS, "40-stores-fleet.yaml")
		applyFile(ctx, samples.FS, "41-stores-placement.yaml")
		DeferCleanup((&tenant{namespace: everywhere.Namespace}).vacate)
		sizes := func() map[string]int {
			sizes := map[string]int{}
			for _, page := range pagesOf(ctx, everywhere) {
				sizes[page.Name] = len(page.Status.Decisions)
			}
			return sizes
		}
		Eventually(sizes).Should(Equal(map[string]int{"everywhere-decision-1": 100, "everywhere-decision-2": 100, "everywhere-decision-3": 50}))
		clusters := published(ctx, everywhere, "")()
		Expect(slices.Compact(slices.Sorted(slices.Values(clusters)))).To(HaveLen(250))
		Eventually(satisfied(ctx, everywhere)).Should(Equal(allScheduled))
		Expect(placementAt(ctx, everywhere).Status.DecisionGroups).To(Equal([]v1alpha1.DecisionGroupStatus{{
			ClusterCount: 250, Decisions: []string{"everywhere-decision-1", "everywhere-decision-2", "everywhere-decision-3"},
		}}))

		before, writes := versions(ctx, "stores", "everywhere"), pageWrites()
		newcomer := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "store000", Labels: map[string]string{v1alpha1.ClusterSetLabel: "stores"}}}
		Expect(hub.Create(ctx, newcomer)).To(Succeed())
		testhub.DeleteAfterwards(hub, newcomer)
		Eventually(published(ctx, everywhere, "")).Should(HaveLen(251))
		Eventually(func() int { return int(placementAt(ctx, everywhere).Status.NumberOfSelectedClusters) }).Should(Equal(251))
		after := versions(ctx, "stores", "everywhere")
		maps.DeleteFunc(after, func(name, version string) bool { return before[name] == version })
		Expect(slices.Collect(maps.Keys(after))).To(ConsistOf("Placement everywhere", "page everywhere-decision-3"))
		Expect(pageWrites() - writes).To(Equal(1))
	})
})

var _ = Describe("Candidates", func() {
	It("come from sets that select by label, and from the sets default and global", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.apply(ctx,
			"{kind: ManagedCluster, metadata: {name: a, labels: {tenant: $NS, env: prod}}}",
			"{kind: ManagedCluster, metadata: {name: b, labels: {tenant: $NS}}}",
			"{kind: ManagedCluster, metadata: {name: c, labels: {tenant: $NS, cluster.open-cluster-management.io/clusterset: default}}}",
			"{kind: ManagedClusterSet, metadata: {name: $NS-prod}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {env: prod, tenant: $NS}}}}}",
			"{kind: ManagedClusterSet, metadata: {name: $NS-none}, spec: {clusterSelector: {selectorType: LabelSelector}}}",
			"{kind: ManagedClusterSet, metadata: {name: default}}",
			"{kind: ManagedClusterSet, metadata: {name: global}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}}")
		for _, set := range []string{"$NS-prod", "$NS-none", "default", "global"} {
			t.apply(ctx, "{kind: ManagedClusterSetBinding, metadata: {name: "+set+"}}")
		}
		own := "predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {tenant: " + t.namespace + "}}}}]"
		for name, tc := range map[string]struct {
			sets string
			want []string
		}{
			"by-label": {"$NS-prod", []string{"a"}},
			"nothing":  {"$NS-none", nil},
			"default":  {"default", []string{"c"}},
			"global":   {"global", []string{"a", "b", "c"}},
			"union":    {"$NS-prod, default", []string{"a", "c"}},
		} {
			t.placement(ctx, name, "{clusterSets: ["+tc.sets+"], "+own+"}")
			Eventually(t.satisfied(ctx, name)).Should(MatchRegexp("^(True|False) "))
			Eventually(t.published(ctx, name)).Should(HaveExactElements(tc.want), name)
		}

		By("a cluster that moves")
		testhub.Edit(ctx, hub, t.cluster("b"), func(c *v1alpha1.ManagedCluster) { c.Labels["env"] = "prod" })
		Eventually(t.published(ctx, "by-label")).Should(Equal([]string{"a", "b"}))
		testhub.Edit(ctx, hub, t.cluster("c"), func(c *v1alpha1.ManagedCluster) { c.Labels[v1alpha1.ClusterSetLabel] = t.namespace })
		Eventually(t.published(ctx, "default")).Should(BeEmpty())

		By("a set that selects otherwise")
		t.apply(ctx, "{kind: ManagedClusterSet, metadata: {name: $NS-none}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {tenant: $NS}}}}}")
		Eventually(t.published(ctx, "nothing")).Should(Equal([]string{"a", "b", "c"}))
	})

	It("are selected by CEL expressions, also over scores, and selected again when their inputs change", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.apply(ctx,
			"{kind: ManagedCluster, metadata: {name: a}, status: {version: {kubernetes: v1.36.3}}}",
			"{kind: ManagedCluster, metadata: {name: b}, status: {version: {kubernetes: v1.36.3}}}",
			"{kind: ManagedCluster, metadata: {name: c}, status: {version: {kubernetes: v1.30.0}}}",
			"{kind: AddOnPlacementScore, metadata: {name: speed, namespace: a}, status: {scores: [{name: iops, value: 5}]}}",
			"{kind: AddOnPlacementScore, metadata: {name: speed, namespace: b}, status: {scores: [{name: iops, value: -5}]}}",
			"{kind: AddOnPlacementScore, metadata: {name: speed, namespace: c}, status: {scores: [{name: iops, value: 50}]}}")
		cel := func(expressions string) string {
			return "{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: [" + expressions + "]}}}]}"
		}
		t.placement(ctx, "version", cel(`"semver(managedCluster.status.version.kubernetes.substring(1)).isGreaterThan(semver('1.35.0'))"`))
		t.placement(ctx, "score", cel(`"managedCluster.scores('speed').exists(s, s.name == 'iops' && s.value > 0)"`))
		t.placement(ctx, "fails", cel(`"managedCluster.metadata.labels.missing == 'x'"`))
		Eventually(t.published(ctx, "version")).Should(Equal([]string{"a", "b"}))
		Eventually(t.published(ctx, "score")).Should(Equal([]string{"a", "c"}))
		Eventually(t.satisfied(ctx, "fails")).Should(Equal(
			"False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate: of 3 candidates 3 excluded by Predicate"))

		t.apply(ctx, "{kind: ManagedCluster, metadata: {name: b}, status: {version: {kubernetes: v1.29.1}}}",
			"{kind: AddOnPlacementScore, metadata: {name: speed, namespace: b}, status: {scores: [{name: iops, value: 1}]}}")
		Eventually(t.published(ctx, "version")).Should(Equal([]string{"a"}))
		Eventually(t.published(ctx, "score")).Should(Equal([]string{"a", "b", "c"}))
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.AddOnPlacementScore{}, client.InNamespace(t.full("a")))).To(Succeed())
		Eventually(t.published(ctx, "score")).Should(Equal([]string{"b", "c"}))
	})

	It("with a PreferNoSelect taint rank last for every score", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.apply(ctx,
			"{kind: ManagedCluster, metadata: {name: a}, spec: {hubAcceptsClient: true, taints: [{key: spot, effect: PreferNoSelect}]}, status: {allocatable: {cpu: 9}, capacity: {cpu: 9}}}",
			"{kind: ManagedCluster, metadata: {name: b}, status: {allocatable: {cpu: 1}, capacity: {cpu: 9}}}")
		cpu := "prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}"
		t.placement(ctx, "one", "{numberOfClusters: 1, "+cpu+"}")
		Eventually(t.published(ctx, "one")).Should(Equal([]string{"b"}))
		Eventually(eventsOf(ctx, placementAt(ctx, t.key("one")))).Should(ContainElement(HaveField("Note", t.full("a:100 ")+t.full("b:-100 "))))
		t.placement(ctx, "two", "{numberOfClusters: 2, "+cpu+"}")
		Eventually(t.published(ctx, "two")).Should(Equal([]string{"a", "b"}))
		t.placement(ctx, "tolerant", "{numberOfClusters: 1, tolerations: [{key: spot, operator: Exists}], "+cpu+"}")
		Eventually(t.published(ctx, "tolerant")).Should(Equal([]string{"a"}))
	})

	It("are spread evenly over the zones", func(ctx SpecContext) {
		t := newTenant(ctx)
		for name, zone := range map[string]string{"a": "z1", "b": "z1", "c": "z1", "d": "z2", "e": "z3"} {
			t.apply(ctx, "{kind: ManagedCluster, metadata: {name: "+name+"}, status: {clusterClaims: [{name: zone, value: "+zone+"}]}}")
		}
		spread := func(n int, when string) string {
			return fmt.Sprintf("{numberOfClusters: %d, spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Claim, whenUnsatisfiable: %s}]}}", n, when)
		}
		t.placement(ctx, "p", spread(3, "DoNotSchedule"))
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "d", "e"}))
		t.placement(ctx, "p", spread(5, "DoNotSchedule"))
		Eventually(t.satisfied(ctx, "p")).Should(HavePrefix("False SpreadUnsatisfiable: "))
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b", "d", "e"}))
		t.placement(ctx, "p", spread(5, "ScheduleAnyway"))
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b", "c", "d", "e"}))
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
	})
})

var _ = Describe("Nothing is written", func() {
	// several makes Placements of all sorts and returns their names.
	several := func(ctx SpecContext, t *tenant) []string {
		GinkgoHelper()
		t.clusters(ctx, "a", "b", "c", "d")
		names := []string{"all", "some", "none", "wrong", "groups", "too-many", "expression"}
		for i, spec := range []string{
			"{}", "{numberOfClusters: 2}", "{clusterSets: [elsewhere]}", "{prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Beauty}}]}}",
			"{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 1}}}", "{numberOfClusters: 9}",
			`{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.name.endsWith('-c')"]}}}]}`,
		} {
			t.placement(ctx, names[i], spec)
			Eventually(t.satisfied(ctx, names[i])).Should(MatchRegexp("^(True|False) "))
		}
		Eventually(t.published(ctx, "groups")).Should(HaveLen(4))
		Eventually(t.published(ctx, "expression")).Should(Equal([]string{"c"}))
		return names
	}

	It("by a controller that starts on a hub with current decisions", Serial, func(ctx SpecContext) {
		t := newTenant(ctx)
		names := several(ctx, t)
		t.waitForDecision(ctx, t.full("a"))
		berth.Stop()
		before := versions(ctx, t.namespace, names...)
		writes := pageWrites()
		startBerth()
		t.waitForDecision(ctx, t.full("a"))
		Expect(pageWrites()-writes).To(Equal(1), "the page of the Placement that came last")
		Consistently(func() map[string]string { return versions(ctx, t.namespace, names...) }).Should(Equal(before))

		By("stopping again while the fleet changes")
		berth.Stop()
		Expect(hub.Delete(ctx, t.cluster("b"))).To(Succeed())
		t.clusters(ctx, "e")
		startBerth()
		Eventually(t.published(ctx, "all")).Should(Equal([]string{"a", "c", "d", "e"}))
	})

	It("for a heartbeat", func(ctx SpecContext) {
		t := newTenant(ctx)
		names := several(ctx, t)
		before, writes := versions(ctx, t.namespace, names...), pageWrites()
		for i := range 5 {
			testhub.EditStatus(ctx, hub, t.cluster("a"), func(c *v1alpha1.ManagedCluster) {
				meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue,
					Reason: "ManagedClusterAvailable", Message: fmt.Sprintf("seen %d times", i+1),
				})
			})
		}
		t.waitForDecision(ctx, t.full("a"))
		Expect(pageWrites()-writes).To(Equal(1), "the page of the Placement that came last")
		Consistently(func() map[string]string { return versions(ctx, t.namespace, names...) }).Should(Equal(before))
	})
})
