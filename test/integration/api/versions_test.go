package api

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// everyKind has one object of each kind, its status filled.
var everyKind = []string{`
kind: Placement
metadata: {name: everything}
spec:
  clusterSets: [s]
  numberOfClusters: 3
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, values: [d]}]}
      claimSelector: {matchExpressions: [{key: region, operator: Exists}]}
      celSelector: {celExpressions: ["true"]}
  prioritizerPolicy:
    mode: Exact
    configurations:
    - {scoreCoordinate: {type: BuiltIn, builtIn: Steady}, weight: 0}
    - {scoreCoordinate: {type: AddOn, addOn: {resourceName: r, scoreName: s}}, weight: -3}
  spreadPolicy: {spreadConstraints: [{topologyKey: z, topologyKeyType: Label, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoSelectIfNew, tolerationSeconds: 60}]
  decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 10%, decisionGroups: [{groupName: g1, groupClusterSelector: {labelSelector: {matchLabels: {a: b}}}}]}}
  sortBy: Score
  scoreRateLimit: 10s
status:
  numberOfSelectedClusters: 1
  lastScoreUpdateTime: "2026-01-01T00:00:00Z"
  decisionGroups: [{decisionGroupIndex: 0, decisionGroupName: g1, decisions: [everything-decision-1], clusterCount: 1}]
  conditions: [{type: PlacementSatisfied, status: "True", reason: AllDecisionsScheduled, message: m, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
`, `
kind: PlacementDecision
metadata: {name: everything, labels: {cluster.open-cluster-management.io/placement: everything}}
status: {decisions: [{clusterName: c, reason: "", score: -200}]}
`, `
kind: ManagedCluster
metadata: {name: everything}
spec:
  hubAcceptsClient: true
  leaseDurationSeconds: 30
  managedClusterClientConfigs: [{url: "https://example.com", caBundle: Zm9v}]
  taints: [{key: a, value: b, effect: PreferNoSelect, timeAdded: "2026-01-01T00:00:00Z"}]
status:
  allocatable: {cpu: 3500m, memory: 60M}
  capacity: {cpu: 4, memory: 64Mi}
  clusterClaims: [{name: region, value: eu}]
  version: {kubernetes: v1.36.3}
  managedNamespaces: [{clusterSet: s, name: apps}]
  conditions: [{type: ManagedClusterConditionAvailable, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`, `
kind: ManagedClusterSet
metadata: {name: everything}
spec:
  clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {a: b}}}
  managedNamespaces: [{name: apps}]
status:
  conditions: [{type: ClusterSetEmpty, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`, `
kind: ManagedClusterSetBinding
metadata: {name: everything}
spec: {clusterSet: everything}
status:
  conditions: [{type: Bound, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`, `
kind: AddOnPlacementScore
metadata: {name: everything}
status:
  scores: [{name: cpuratio, value: -100}]
  validUntil: "2026-01-01T00:00:00Z"
  conditions: [{type: T, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`}

var _ = Describe("The versions of a kind", func() {
	for _, body := range everyKind {
		kind := strings.TrimPrefix(strings.Split(body, "\n")[1], "kind: ")
		It("return the same "+kind+", for every version that wrote it", func(ctx SpecContext) {
			for _, written := range versionsOf(kind) {
				object := parse(body, written)
				status := object.DeepCopy()
				Expect(hub.Create(ctx, object)).To(Succeed())
				status.SetResourceVersion(object.GetResourceVersion())
				if kind != "PlacementDecision" || written != "v1alpha1" {
					Expect(hub.Status().Update(ctx, status)).To(Succeed())
				}
				want := parse(body, written)
				for _, read := range versionsOf(kind) {
					got := parse(body, read)
					Expect(hub.Get(ctx, client.ObjectKeyFromObject(got), got)).To(Succeed())
					Expect(got.GetAPIVersion()).To(HaveSuffix("/" + read))
					for _, part := range []string{"spec", "status"} {
						Expect(cmp.Diff(want.Object[part], got.Object[part])).To(BeEmpty(), "%s written through %s, read through %s", part, written, read)
					}
				}
				Expect(hub.Delete(ctx, object)).To(Succeed())
			}
		})
	}
})

var _ = Describe("A weight", func() {
	configuration := func(weight *int32) clusterv1alpha1.PrioritizerConfig {
		return clusterv1alpha1.PrioritizerConfig{
			ScoreCoordinate: &clusterv1alpha1.ScoreCoordinate{BuiltIn: clusterv1alpha1.PrioritizerSteady},
			Weight:          weight,
		}
	}

	It("of 0 stays 0, and an absent weight becomes 1", func(ctx SpecContext) {
		p := &clusterv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weights"}}
		p.Spec.PrioritizerPolicy.Configurations = []clusterv1alpha1.PrioritizerConfig{configuration(ptr.To[int32](0)), configuration(nil)}
		create(ctx, p)

		got := testhub.Must(testhub.Get(ctx, hub, p))
		Expect(got.Spec.PrioritizerPolicy.Configurations[0].Weight).To(HaveValue(BeEquivalentTo(0)))
		Expect(got.Spec.PrioritizerPolicy.Configurations[1].Weight).To(HaveValue(Equal(clusterv1alpha1.DefaultPrioritizerWeight)))
	})
})

var _ = Describe("The zero value of a Go type", func() {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "zero"}
	for _, object := range []client.Object{
		&clusterv1alpha1.Placement{ObjectMeta: meta},
		&clusterv1alpha1.PlacementDecision{ObjectMeta: meta},
		&clusterv1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "zero"}},
		&clusterv1alpha1.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "zero"}},
		&clusterv1alpha1.AddOnPlacementScore{ObjectMeta: meta},
	} {
		It("can be stored", func(ctx SpecContext) {
			create(ctx, object)
			Expect(hub.Status().Update(ctx, object)).To(Succeed())
		})
	}
})
