package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Placement selects clusters from the cluster sets that are bound to its namespace. The selected
// clusters are published, and kept current, as PlacementDecisions in the same namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pl
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.numberOfClusters`,description="The number of clusters to select; empty for all that qualify"
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.numberOfSelectedClusters`,description="The number of published clusters"
// +kubebuilder:printcolumn:name="Satisfied",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].status`,description="Whether all wanted clusters were selected"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].reason`,description="The reason of the condition PlacementSatisfied"
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.status.conditions[?(@.type=="DecisionPending")].reason`,description="The reason why a change is not published yet, for example Held"
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.conditions[?(@.type=="DecisionProgressing")].reason`,description="The state of a change that is published in steps: RollingUpdate, Suspended or ProgressDeadlineExceeded"
// +kubebuilder:printcolumn:name="Pinned",type=string,JSONPath=`.metadata.annotations.berth\.dev/pinned-revision`,description="The revision to which the annotation berth.dev/pinned-revision pins the Placement"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pending Change",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="DecisionPending")].message`,description="What the change adds and removes, and what it waits for"
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the clusters to select.
	// +required
	Spec PlacementSpec `json:"spec"`

	// status is the state of the Placement. Only the controller writes it.
	// +optional
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec describes the clusters to select: from which sets, how many, and which are
// preferred.
type PlacementSpec struct {
	// clusterSets are the names of the ManagedClusterSets to select from. Sets without a
	// ManagedClusterSetBinding in the namespace are ignored. If the list is empty, all bound sets
	// are used.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ClusterSets []string `json:"clusterSets,omitempty"`

	// numberOfClusters is the number of clusters to select, the best first. If absent, all that
	// qualify are selected.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`

	// predicates define which clusters qualify. They are ORed. Without predicates, or with an empty
	// one, every cluster qualifies. Example, which selects clusters in two ways:
	// [{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}},
	// {requiredClusterSelector: {celSelector: {celExpressions:
	// ["managedCluster.metadata.name.startsWith('edge-')"]}}}].
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Predicates []ClusterPredicate `json:"predicates,omitempty"`

	// prioritizerPolicy defines how the clusters that qualify are scored.
	// +optional
	PrioritizerPolicy PrioritizerPolicy `json:"prioritizerPolicy,omitzero"`

	// spreadPolicy defines how evenly the selected clusters are spread across regions, zones or any
	// other topology.
	// +optional
	SpreadPolicy SpreadPolicy `json:"spreadPolicy,omitzero"`

	// tolerations let clusters qualify despite their taints. Example: [{key: gpu, operator: Equal,
	// value: "true", effect: NoSelect}].
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// decisionStrategy defines how the selected clusters are divided into groups, for rollouts.
	// +optional
	DecisionStrategy DecisionStrategy `json:"decisionStrategy,omitzero"`

	// sortBy is the order of the clusters in a PlacementDecision: by name, or by score, the highest
	// first. With Score each entry also contains its score.
	// +optional
	// +kubebuilder:default=ClusterName
	SortBy DecisionSortBy `json:"sortBy,omitempty"`

	// scoreRateLimit is the minimum time between two updates that change only order or scores: a
	// whole number of hours, minutes or seconds, for example 30s. It applies only with sortBy
	// Score.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[0-9]+[hms]$')`,message=`must be a whole number with h, m or s, such as 30s`
	ScoreRateLimit string `json:"scoreRateLimit,omitempty"`
}

// DecisionSortBy is the order of the clusters in a PlacementDecision.
// +kubebuilder:validation:Enum=ClusterName;Score
type DecisionSortBy string

// The orders of clusters in a PlacementDecision.
const (
	SortByClusterName DecisionSortBy = "ClusterName"
	SortByScore       DecisionSortBy = "Score"
)

// ClusterPredicate is one condition under which a cluster qualifies.
type ClusterPredicate struct {
	// requiredClusterSelector must match the cluster.
	// +optional
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector matches a cluster if all its fields match. An empty field matches every cluster.
type ClusterSelector struct {
	// labelSelector is matched against the cluster's labels.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector is matched against the claims in the cluster's status.clusterClaims.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`

	// celSelector contains CEL expressions over the whole ManagedCluster.
	// +optional
	CelSelector ClusterCelSelector `json:"celSelector,omitzero"`
}

// ClusterClaimSelector matches the claims in a cluster's status like a label selector matches
// labels.
type ClusterClaimSelector struct {
	// matchExpressions are requirements on claims. They are ANDed. Example: [{key:
	// region.open-cluster-management.io, operator: In, values: [eu-west-1]}].
	// +optional
	// +kubebuilder:validation:MaxItems=100
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterCelSelector matches the clusters for which every expression is true.
type ClusterCelSelector struct {
	// celExpressions are CEL expressions that return a boolean. They are ANDed. Variable:
	// managedCluster, the whole ManagedCluster: apiVersion, kind, metadata, spec and status.
	// Functions: managedCluster.scores(name) is the list of scores, each with name and value, in
	// the AddOnPlacementScore of that name for the cluster; string.parseJSON() parses JSON; the CEL
	// standard library, optional types, strings, and the Kubernetes libraries for lists, regular
	// expressions, URLs, quantities, IP, CIDR, format and semver. If an expression fails or costs
	// too much for a cluster, the cluster does not match. An expression that does not compile sets
	// PlacementMisconfigured. Examples:
	// managedCluster.status.version.kubernetes.startsWith("v1.3");
	// managedCluster.scores("demo").exists(s, s.name == "gpu" && s.value > 50).
	// +optional
	// +kubebuilder:validation:MaxItems=100
	CelExpressions []string `json:"celExpressions,omitempty"`
}

// PrioritizerPolicy defines how clusters are scored.
type PrioritizerPolicy struct {
	// mode defines how the configurations are used. Additive, or empty: they are added to the
	// defaults, Balance and Steady with weight 1 each. Exact: only the configurations are used.
	// +optional
	// +kubebuilder:default=Additive
	Mode PrioritizerPolicyModeType `json:"mode,omitempty"`

	// configurations set the weights of prioritizers. If two have the same coordinate, the last one
	// is used. Example: [{scoreCoordinate: {type: BuiltIn, builtIn: ResourceAllocatableMemory},
	// weight: 2}].
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerPolicyModeType is how the configurations of a PrioritizerPolicy are used.
// +kubebuilder:validation:Enum="";Additive;Exact
type PrioritizerPolicyModeType string

// The modes of a PrioritizerPolicy.
const (
	PrioritizerPolicyModeAdditive PrioritizerPolicyModeType = "Additive"
	PrioritizerPolicyModeExact    PrioritizerPolicyModeType = "Exact"
)

// PrioritizerConfig sets the weight of one source of scores.
// +kubebuilder:validation:XValidation:rule="self.scoreCoordinate.type != 'AddOn' || has(self.scoreCoordinate.addOn) || (has(self.weight) && self.weight == 0)",message="addOn is required when type is AddOn",fieldPath=".scoreCoordinate.addOn",reason=FieldValueRequired
type PrioritizerConfig struct {
	// scoreCoordinate is the source of the score.
	// +required
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`

	// weight, from -10 to 10, multiplies the score, which is from -100 to 100. A negative weight
	// prefers low scores, 0 disables the prioritizer. The default is 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	Weight *int32 `json:"weight,omitempty"`
}

// DefaultPrioritizerWeight is the weight of a PrioritizerConfig without a weight.
const DefaultPrioritizerWeight int32 = 1

// ScoreCoordinate is one source of scores.
// +kubebuilder:validation:XValidation:rule="self.type != 'AddOn' || !has(self.builtIn) || size(self.builtIn) == 0",message="must be empty when type is AddOn: remove builtIn, or set type to BuiltIn and remove addOn",fieldPath=".builtIn",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.type != 'BuiltIn' || !has(self.addOn)",message="must be absent when type is BuiltIn: remove addOn, or set type to AddOn and remove builtIn",fieldPath=".addOn",reason=FieldValueForbidden
type ScoreCoordinate struct {
	// type defines which of the other fields is used.
	// +required
	// +kubebuilder:default=BuiltIn
	Type ScoreCoordinateType `json:"type,omitempty"`

	// builtIn names a built-in prioritizer: Balance, Steady, ResourceAllocatableCPU,
	// ResourceAllocatableMemory or Spread. It is used if type is BuiltIn.
	// +optional
	BuiltIn string `json:"builtIn,omitempty"`

	// addOn is a score that an external component computes. It is used if type is AddOn. Example:
	// {resourceName: gpu, scoreName: free}.
	// +optional
	AddOn *AddOnScore `json:"addOn,omitempty"`
}

// ScoreCoordinateType is the kind of a source of scores.
// +kubebuilder:validation:Enum=BuiltIn;AddOn
type ScoreCoordinateType string

// The types of a ScoreCoordinate.
const (
	ScoreCoordinateTypeBuiltIn ScoreCoordinateType = "BuiltIn"
	ScoreCoordinateTypeAddOn   ScoreCoordinateType = "AddOn"
)

// AddOnScore is one score in the AddOnPlacementScores of the clusters' namespaces.
type AddOnScore struct {
	// resourceName is the name of the AddOnPlacementScore in each cluster's namespace.
	// +required
	ResourceName string `json:"resourceName"`

	// scoreName is the name of the score in it.
	// +required
	ScoreName string `json:"scoreName"`
}

// SpreadPolicy defines how evenly the selected clusters are spread across topologies.
type SpreadPolicy struct {
	// spreadConstraints are nested: the second spreads inside each domain of the first, and so on.
	// The first is the most important. Example: [{topologyKey: region, topologyKeyType: Label,
	// maxSkew: 1, whenUnsatisfiable: DoNotSchedule}].
	// +optional
	// +kubebuilder:validation:MaxItems=8
	SpreadConstraints []SpreadConstraintsTerm `json:"spreadConstraints,omitempty"`
}

// SpreadConstraintsTerm spreads the selected clusters evenly over the values of one label or claim.
type SpreadConstraintsTerm struct {
	// topologyKey is the label or claim whose values are the domains.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$')`,message=`must be a name of letters, digits, '-', '_' and '.', with an optional prefix as in example.com/name`
	// +kubebuilder:validation:MaxLength=316
	TopologyKey string `json:"topologyKey"`

	// topologyKeyType is whether topologyKey is a label or a claim.
	// +required
	TopologyKeyType TopologyKeyType `json:"topologyKeyType"`

	// maxSkew, at least 1, is the maximum difference in selected clusters between a domain and the
	// one with the fewest.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable defines how a cluster that would violate the constraint is treated: it is
	// not selected (DoNotSchedule), or only after those that satisfy it (ScheduleAnyway).
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable,omitempty"`
}

// TopologyKeyType is where a topology key is looked up.
// +kubebuilder:validation:Enum=Label;Claim
type TopologyKeyType string

// The values of TopologyKeyType.
const (
	TopologyKeyTypeLabel TopologyKeyType = "Label"
	TopologyKeyTypeClaim TopologyKeyType = "Claim"
)

// UnsatisfiableMaxSkewAction is how a cluster that would violate a spread constraint is treated.
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableMaxSkewAction string

// The values of UnsatisfiableMaxSkewAction.
const (
	DoNotSchedule  UnsatisfiableMaxSkewAction = "DoNotSchedule"
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)

// Toleration lets a cluster qualify despite the taints that it matches.
// +kubebuilder:validation:XValidation:rule="(has(self.key) && size(self.key) > 0) || self.operator == 'Exists'",message="operator must be Exists when key is empty",messageExpression="'\"' + (has(self.operator) ? self.operator : \"\") + '\": must be Exists when key is empty'",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",message="value must be empty when operator is Exists",messageExpression="'\"' + self.value + '\": must be empty when operator is Exists'",fieldPath=".value"
type Toleration struct {
	// key is the taint key to match. If empty, which requires operator Exists, it matches every
	// key.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$')`,message=`must be a name of letters, digits, '-', '_' and '.', with an optional prefix as in example.com/name`
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`

	// operator is how value is compared: Equal, or Exists, which matches every value.
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value is the taint value to match if operator is Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is the taint effect to match. If empty, it matches every effect.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long the taint is tolerated after it was added, in seconds. If
	// absent, the taint is tolerated forever; 0 means that it is not tolerated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TolerationOperator is how a toleration compares values.
// +kubebuilder:validation:Enum=Equal;Exists;""
type TolerationOperator string

// The operators of a Toleration. The empty one means Equal.
const (
	TolerationOpExists TolerationOperator = "Exists"
	TolerationOpEqual  TolerationOperator = "Equal"
)

// DecisionStrategy defines how the selected clusters are divided.
type DecisionStrategy struct {
	// groupStrategy divides the selected clusters into groups.
	// +optional
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

// GroupStrategy divides the selected clusters into groups, which a rollout updates one after the
// other.
type GroupStrategy struct {
	// decisionGroups select clusters in their order, each cluster once. The remaining clusters form
	// groups without a name, which are last. Example: [{groupName: canary, groupClusterSelector:
	// {labelSelector: {matchLabels: {canary: "true"}}}}].
	// +optional
	// +kubebuilder:validation:MaxItems=100
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`

	// clustersPerDecisionGroup is the maximum number of clusters in a group: a number, or a
	// percentage of the selected clusters, rounded up, for example 10 or "25%". A larger group is
	// divided into several of the same name.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule=`type(self) == int || self.matches(r'^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$')`,message=`must be a number from 1, or a percentage from 1% to 100%`
	// +kubebuilder:default="100%"
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

// DefaultClustersPerDecisionGroup is the group length when none is given: all clusters in one
// group.
const DefaultClustersPerDecisionGroup = "100%"

// DecisionGroup is a named group of selected clusters.
type DecisionGroup struct {
	// groupName is the value of the label decision-group-name on the group's PlacementDecisions.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$')`,message=`must have 2 to 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit`
	// +kubebuilder:validation:MaxLength=63
	GroupName string `json:"groupName"`

	// groupClusterSelector selects the clusters of the group among the selected ones.
	// +required
	ClusterSelector GroupClusterSelector `json:"groupClusterSelector"`
}

// GroupClusterSelector matches a cluster if all its fields match. An empty field matches every
// cluster.
type GroupClusterSelector struct {
	// labelSelector is matched against the cluster's labels.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector is matched against the cluster's claims.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`
}

// PlacementStatus is the state of a Placement.
type PlacementStatus struct {
	// numberOfSelectedClusters is the number of published clusters in all groups.
	// +optional
	NumberOfSelectedClusters int32 `json:"numberOfSelectedClusters"`

	// decisionGroups are the groups of the published clusters, by index.
	// +optional
	// +kubebuilder:validation:MaxItems=100000
	DecisionGroups []DecisionGroupStatus `json:"decisionGroups,omitempty"`

	// lastScoreUpdateTime is when only order or scores were last published.
	// +optional
	LastScoreUpdateTime *metav1.Time `json:"lastScoreUpdateTime,omitempty"`

	// conditions include PlacementMisconfigured (the Placement is invalid), PlacementSatisfied (all
	// wanted clusters were selected), DecisionPending (a change is not published yet),
	// QueueAdmitted (the queue of the Placement; only with queues) and Resilient (which failure
	// domains can be lost; only with the plugin Resilience).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DecisionGroupStatus is one group of published clusters and the PlacementDecisions that list it.
type DecisionGroupStatus struct {
	// decisionGroupIndex is the position of the group, from 0.
	// +optional
	DecisionGroupIndex int32 `json:"decisionGroupIndex"`

	// decisionGroupName is the group's name; empty for clusters that no named group selects.
	// +optional
	DecisionGroupName string `json:"decisionGroupName"`

	// decisions are the names of the PlacementDecisions that list the group's clusters.
	// +optional
	// +kubebuilder:validation:MaxItems=100000
	Decisions []string `json:"decisions,omitempty"`

	// clusterCount is the number of clusters in the group.
	// +optional
	// +kubebuilder:default=0
	ClusterCount int32 `json:"clusterCount"`
}

// PlacementList is a list of Placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Placement `json:"items"`
}
