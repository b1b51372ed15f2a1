package api

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var longName = strings.Repeat("n", 64)

// placement returns a Placement with the given spec, in YAML flow style.
func placement(spec string) string {
	return "{kind: Placement, metadata: {name: p}, spec: " + spec + "}"
}

var _ = DescribeTable("An invalid object is refused in every version, with the path of the field",
	func(ctx SpecContext, body string, wantInError ...string) {
		kind := parse(body, "").GetKind()
		for _, version := range versionsOf(kind) {
			err := hub.Create(ctx, parse(body, version), client.DryRunAll)
			Expect(err).To(HaveOccurred(), version)
			for _, want := range wantInError {
				Expect(err.Error()).To(ContainSubstring(want), version)
			}
		}
	},
	Entry("a negative count", placement("{numberOfClusters: -1}"),
		"spec.numberOfClusters", "greater than or equal to 0"),
	Entry("a Placement without spec", "{kind: Placement, metadata: {name: p}}", "spec: Required"),
	Entry("a Placement with a name that is not a label value", "{kind: Placement, metadata: {name: "+longName+"}, spec: {}}",
		"metadata.name: Too long: may not be more than 63"),
	Entry("a set with a name that is not a label value", "{kind: ManagedClusterSet, metadata: {name: "+longName+"}}",
		"metadata.name: Too long: may not be more than 63"),
	Entry("a set with a labelSelector and without selectorType",
		"{kind: ManagedClusterSet, metadata: {name: s}, spec: {clusterSelector: {labelSelector: {matchLabels: {a: b}}}}}",
		`spec.clusterSelector.selectorType: Invalid value: "ExclusiveClusterSetLabel": must be LabelSelector when labelSelector is set`),
	Entry("a toleration of every key with Equal", placement("{tolerations: [{key: a}, {value: b}]}"),
		`spec.tolerations[1].operator: Invalid value: "Equal": must be Exists when key is empty`),
	Entry("a toleration of every key with an empty operator", placement(`{tolerations: [{operator: ""}]}`),
		`spec.tolerations[0].operator: Invalid value: "": must be Exists when key is empty`),
	Entry("a toleration with Exists and a value", placement("{tolerations: [{key: a, operator: Exists, value: b}]}"),
		`spec.tolerations[0].value: Invalid value: "b": must be empty when operator is Exists`),
	Entry("a negative tolerationSeconds", placement("{tolerations: [{key: a, tolerationSeconds: -5}]}"),
		"spec.tolerations[0].tolerationSeconds: Invalid value: -5: spec.tolerations[0].tolerationSeconds in body should be greater than or equal to 0"),
	Entry("an unknown toleration operator", placement("{tolerations: [{key: a, operator: Like}]}"),
		"spec.tolerations[0].operator", `"Like"`),
	Entry("an unknown toleration effect", placement("{tolerations: [{key: a, effect: NoSchedule}]}"),
		"spec.tolerations[0].effect", `"NoSchedule"`),
	Entry("an invalid toleration key", placement("{tolerations: [{key: a b}]}"), "spec.tolerations[0].key"),
	Entry("an unknown mode", placement("{prioritizerPolicy: {mode: Mixed}}"), "spec.prioritizerPolicy.mode", `"Mixed"`),
	Entry("a weight beyond the range", placement("{prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 11}]}}"),
		"spec.prioritizerPolicy.configurations[0].weight", "less than or equal to 10"),
	Entry("a configuration without coordinate", placement("{prioritizerPolicy: {configurations: [{weight: 0}]}}"),
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate: Required"),
	Entry("an AddOn coordinate without addOn", placement("{prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn}}]}}"),
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn", "required when type is AddOn"),
	Entry("an AddOn coordinate with builtIn",
		placement("{prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn, builtIn: Steady, addOn: {resourceName: r, scoreName: s}}}]}}"),
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn: Forbidden: must be empty when type is AddOn"),
	Entry("a BuiltIn coordinate with addOn",
		placement("{prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady, addOn: {resourceName: r, scoreName: s}}}]}}"),
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn: Forbidden: must be absent when type is BuiltIn"),
	Entry("a selector with an unknown operator",
		placement("{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Like}]}}}]}"),
		"spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator", `"Like"`),
	Entry("a claim selector with an unknown operator",
		placement("{predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: in}]}}}]}"),
		"spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions[0].operator", `"in"`),
	Entry("a ninth spread constraint",
		placement("{spreadPolicy: {spreadConstraints: ["+strings.Repeat("{topologyKey: z, topologyKeyType: Label},", 9)+"]}}"),
		"spec.spreadPolicy.spreadConstraints", "at most 8 items"),
	Entry("a skew of 0", placement("{spreadPolicy: {spreadConstraints: [{topologyKey: z, topologyKeyType: Label, maxSkew: 0}]}}"),
		"spec.spreadPolicy.spreadConstraints[0].maxSkew"),
	Entry("an unknown order", placement("{sortBy: Age}"), "spec.sortBy", `"Age"`),
	Entry("a rate limit that is not a duration", placement("{scoreRateLimit: soon}"), "spec.scoreRateLimit"),
	Entry("a group length over 100 %", placement("{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 101%}}}"),
		"spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"),
	Entry("a group without selector", placement("{decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: g1}]}}}"),
		"spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector: Required"),
	Entry("a binding of another set", "{kind: ManagedClusterSetBinding, metadata: {name: mine}, spec: {clusterSet: theirs}}",
		"spec.clusterSet", "spec.clusterSet must equal metadata.name"),
	Entry("a binding of no set", "{kind: ManagedClusterSetBinding, metadata: {name: mine}}",
		"spec.clusterSet must equal metadata.name"),
	Entry("a set with an unknown selector type",
		"{kind: ManagedClusterSet, metadata: {name: s}, spec: {clusterSelector: {selectorType: Any}}}",
		"spec.clusterSelector.selectorType", `"Any"`),
	Entry("a set with an unknown operator",
		"{kind: ManagedClusterSet, metadata: {name: s}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}}}",
		"spec.clusterSelector.labelSelector.matchExpressions[0].operator", `"Like"`),
	Entry("an unknown taint effect", "{kind: ManagedCluster, metadata: {name: c}, spec: {taints: [{key: a, effect: NoSchedule}]}}",
		"spec.taints[0].effect", `"NoSchedule"`),
)

var _ = DescribeTable("A valid object is accepted in every version, and gets defaults",
	func(ctx SpecContext, body, wantSpec string) {
		for _, version := range versionsOf(parse(body, "").GetKind()) {
			object := parse(body, version)
			Expect(hub.Create(ctx, object, client.DryRunAll)).To(Succeed(), version)
			spec, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec")
			Expect(err).NotTo(HaveOccurred())
			got, err := yaml.Marshal(spec)
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(MatchYAML(wantSpec), version)
		}
	},
	Entry("an empty Placement", placement("{}"), "{sortBy: ClusterName, scoreRateLimit: 1m}"),
	Entry("a Placement of zero clusters", placement("{numberOfClusters: 0}"), "{numberOfClusters: 0, sortBy: ClusterName, scoreRateLimit: 1m}"),
	Entry("a Placement with the longest name", "{kind: Placement, metadata: {name: "+longName[1:]+"}, spec: {sortBy: Score, scoreRateLimit: 30s}}",
		"{sortBy: Score, scoreRateLimit: 30s}"),
	Entry("tolerations",
		placement("{tolerations: [{key: a}, {operator: Exists}, {key: a, operator: Exists, effect: NoSelect, tolerationSeconds: 0}, {key: b, operator: '', value: c}]}"),
		`{sortBy: ClusterName, scoreRateLimit: 1m, tolerations: [{key: a, operator: Equal}, {operator: Exists},
		  {key: a, operator: Exists, effect: NoSelect, tolerationSeconds: 0}, {key: b, operator: "", value: c}]}`),
	Entry("prioritizers", placement(`{prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}},
		{scoreCoordinate: {builtIn: Mine}, weight: 0}, {scoreCoordinate: {type: AddOn}, weight: 0},
		{scoreCoordinate: {type: AddOn, addOn: {resourceName: r, scoreName: s}}, weight: -10}]}}`),
		`{sortBy: ClusterName, scoreRateLimit: 1m, prioritizerPolicy: {mode: Additive, configurations: [{scoreCoordinate: {type: BuiltIn, builtIn: Steady}, weight: 1},
		{scoreCoordinate: {type: BuiltIn, builtIn: Mine}, weight: 0}, {scoreCoordinate: {type: AddOn}, weight: 0},
		{scoreCoordinate: {type: AddOn, addOn: {resourceName: r, scoreName: s}}, weight: -10}]}}`),
	Entry("an empty mode", placement("{prioritizerPolicy: {mode: ''}}"), "{sortBy: ClusterName, scoreRateLimit: 1m, prioritizerPolicy: {mode: ''}}"),
	Entry("spread", placement("{spreadPolicy: {spreadConstraints: [{topologyKey: example.io/zone, topologyKeyType: Claim}]}}"),
		`{sortBy: ClusterName, scoreRateLimit: 1m, spreadPolicy: {spreadConstraints: [{topologyKey: example.io/zone, topologyKeyType: Claim,
		  maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}}`),
	Entry("groups", placement("{decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: g1, groupClusterSelector: {}}]}}}"),
		`{sortBy: ClusterName, scoreRateLimit: 1m, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 100%,
		  decisionGroups: [{groupName: g1, groupClusterSelector: {}}]}}}`),
	Entry("groups of a number", placement("{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 3}}}"),
		"{sortBy: ClusterName, scoreRateLimit: 1m, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 3}}}"),
	Entry("a cluster", "{kind: ManagedCluster, metadata: {name: c}, spec: {taints: [{key: a, effect: NoSelect, timeAdded: null}]}}",
		"{leaseDurationSeconds: 60, taints: [{key: a, effect: NoSelect, timeAdded: null}]}"),
	Entry("a set", "{kind: ManagedClusterSet, metadata: {name: s}}", "{clusterSelector: {selectorType: ExclusiveClusterSetLabel}}"),
	Entry("a set of everything", "{kind: ManagedClusterSet, metadata: {name: s}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}}",
		"{clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}"),
	Entry("a binding", "{kind: ManagedClusterSetBinding, metadata: {name: s}, spec: {clusterSet: s}}", "{clusterSet: s}"),
)

var _ = DescribeTable("A cluster cannot report an amount that takes long to parse",
	func(ctx SpecContext, amount string, accepted bool) {
		for _, version := range versionsOf("ManagedCluster") {
			cluster := parse("{kind: ManagedCluster, metadata: {generateName: heavy-}, spec: {}}", version)
			Expect(hub.Create(ctx, cluster)).To(Succeed())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"allocatable": {"cpu": `+amount+`}}}`))
			err := hub.Status().Patch(ctx, cluster, patch)
			Expect(hub.Delete(ctx, cluster)).To(Succeed())
			if accepted {
				Expect(err).NotTo(HaveOccurred(), version)
			} else {
				Expect(err).To(MatchError(ContainSubstring("status.allocatable.cpu")), version)
			}
		}
	},
	Entry("a small exponent", `"1e-10000000"`, false),
	Entry("a large exponent", `"1E+10000000"`, false),
	Entry("many digits", `"`+strings.Repeat("9", 65)+`"`, false),
	Entry("an exponent that is not an integer", `"1e1.5"`, false),
	Entry("a modest exponent", `"1e-003"`, true),
	Entry("exa", `"2E"`, true),
	Entry("a number", `4`, true),
)

var _ = DescribeTable("A cluster cannot report more resources than allowed",
	func(ctx SpecContext, list string, resources int, accepted bool) {
		amounts := make([]string, resources)
		for i := range amounts {
			amounts[i] = fmt.Sprintf(`"example.com/%d": "1"`, i)
		}
		for _, version := range versionsOf("ManagedCluster") {
			cluster := parse("{kind: ManagedCluster, metadata: {generateName: large-}, spec: {}}", version)
			Expect(hub.Create(ctx, cluster)).To(Succeed())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"`+list+`": {`+strings.Join(amounts, ", ")+`}}}`))
			err := hub.Status().Patch(ctx, cluster, patch)
			Expect(hub.Delete(ctx, cluster)).To(Succeed())
			if accepted {
				Expect(err).NotTo(HaveOccurred(), version)
			} else {
				Expect(err).To(MatchError(ContainSubstring("status."+list+": Too many: 1001: must have at most 1000 items")), version)
			}
		}
	},
	Entry("capacity", "capacity", 1_001, false),
	Entry("allocatable", "allocatable", 1_001, false),
	Entry("as many as allowed", "allocatable", 1_000, true),
)
