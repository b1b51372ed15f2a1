package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Placement asks which of the clusters a namespace can see should be chosen. The answer is
// published, and kept true, as PlacementDecisions in the same namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].reason`
// +kubebuilder:printcolumn:name="SelectedClusters",type=integer,JSONPath=`.status.numberOfSelectedClusters`
// +kubebuilder:printcolumn:name="Pending",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="DecisionPending")].reason`
// +kubebuilder:printcolumn:name="Pending Change",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="DecisionPending")].message`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="metadata.name must be at most 63 characters: it becomes a label value"
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is asked.
	// +required
	Spec PlacementSpec `json:"spec"`

	// status says how the question stands. Only the controller writes it.
	// +optional
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec is the question: among which clusters, how many, and which are better.
type PlacementSpec struct {
	// clusterSets names the ManagedClusterSets to choose from. Sets that are not bound to the
	// namespace are ignored; when the list is empty, every bound set counts.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ClusterSets []string `json:"clusterSets,omitempty"`

	// numberOfClusters is how many clusters are wanted, the best first. All that qualify when
	// absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`

	// predicates say which clusters qualify. They are ORed; none, or an empty one, lets every
	// cluster qualify.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Predicates []ClusterPredicate `json:"predicates,omitempty"`

	// prioritizerPolicy says which of the clusters that qualify are better.
	// +optional
	PrioritizerPolicy PrioritizerPolicy `json:"prioritizerPolicy,omitzero"`

	// spreadPolicy says how evenly the chosen clusters lie across regions, zones or any other
	// topology.
	// +optional
	SpreadPolicy SpreadPolicy `json:"spreadPolicy,omitzero"`

	// tolerations let clusters qualify in spite of their taints.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// decisionStrategy says how the chosen clusters are arranged in groups, for rollouts.
	// +optional
	DecisionStrategy DecisionStrategy `json:"decisionStrategy,omitzero"`

	// sortBy is the order of the clusters in a PlacementDecision: by name, or by score, the highest
	// first. With Score each entry also carries its score.
	// +optional
	// +kubebuilder:default=ClusterName
	SortBy DecisionSortBy `json:"sortBy,omitempty"`

	// scoreRateLimit is the least time between two updates that change nothing but order or scores:
	// a whole number of hours, minutes or seconds, such as 30s. It has a meaning only with sortBy
	// Score.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Pattern=`^[0-9]+[hms]$`
	ScoreRateLimit string `json:"scoreRateLimit,omitempty"`
}

// DecisionSortBy is the order of the clusters in a PlacementDecision.
// +kubebuilder:validation:Enum=ClusterName;Score
type DecisionSortBy string

// The orders of clusters in a PlacementDecision, and the default of scoreRateLimit.
const (
	SortByClusterName DecisionSortBy = "ClusterName"
	SortByScore       DecisionSortBy = "Score"

	DefaultScoreRateLimit = "1m"
)

// ClusterPredicate is one condition under which a cluster qualifies.
type ClusterPredicate struct {
	// requiredClusterSelector must match the cluster.
	// +optional
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector matches a cluster when all its parts do. A part that is empty matches every
// cluster.
type ClusterSelector struct {
	// labelSelector is matched against the cluster's labels.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector is matched against the cluster's claims.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`

	// celSelector is evaluated over the whole cluster.
	// +optional
	CelSelector ClusterCelSelector `json:"celSelector,omitzero"`
}

// ClusterClaimSelector matches the claims in a cluster's status, as a label selector matches
// labels.
type ClusterClaimSelector struct {
	// matchExpressions are requirements on claims. They are ANDed.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterCelSelector matches the clusters for which every expression is true.
type ClusterCelSelector struct {
	// celExpressions are CEL expressions over the variable managedCluster. They are ANDed. One that
	// fails, costs too much or yields no boolean matches nothing.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	CelExpressions []string `json:"celExpressions,omitempty"`
}

// PrioritizerPolicy says how clusters are scored.
type PrioritizerPolicy struct {
	// mode says what the configurations mean. Additive, or empty: they are laid over the defaults,
	// Balance and Steady with weight 1 each. Exact: nothing else counts.
	// +optional
	// +kubebuilder:default=Additive
	Mode PrioritizerPolicyModeType `json:"mode,omitempty"`

	// configurations give prioritizers their weights. Of two with the same coordinate the last one
	// counts.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerPolicyModeType says what the configurations of a PrioritizerPolicy mean.
// +kubebuilder:validation:Enum="";Additive;Exact
type PrioritizerPolicyModeType string

// The modes of a PrioritizerPolicy.
const (
	PrioritizerPolicyModeAdditive PrioritizerPolicyModeType = "Additive"
	PrioritizerPolicyModeExact    PrioritizerPolicyModeType = "Exact"
)

// PrioritizerConfig gives one source of scores its weight.
// +kubebuilder:validation:XValidation:rule="self.scoreCoordinate.type != 'AddOn' || has(self.scoreCoordinate.addOn) || (has(self.weight) && self.weight == 0)",message="addOn is required when type is AddOn",fieldPath=".scoreCoordinate.addOn",reason=FieldValueRequired
type PrioritizerConfig struct {
	// scoreCoordinate is where the score comes from.
	// +required
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`

	// weight, from -10 to 10, multiplies the score, which runs from -100 to 100. A negative weight
	// prefers low scores, 0 switches the prioritizer off; 1 when absent.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	Weight *int32 `json:"weight,omitempty"`
}

// DefaultPrioritizerWeight is the weight of a PrioritizerConfig that gives none.
const DefaultPrioritizerWeight int32 = 1

// ScoreCoordinate names one source of scores.
type ScoreCoordinate struct {
	// type says which of the other fields counts.
	// +required
	// +kubebuilder:default=BuiltIn
	Type ScoreCoordinateType `json:"type,omitempty"`

	// builtIn names a built-in prioritizer: Balance, Steady, ResourceAllocatableCPU,
	// ResourceAllocatableMemory or Spread. It counts when type is BuiltIn.
	// +optional
	BuiltIn string `json:"builtIn,omitempty"`

	// addOn names a score that somebody else computes. It counts when type is AddOn.
	// +optional
	AddOn *AddOnScore `json:"addOn,omitempty"`
}

// ScoreCoordinateType says who computes a score.
// +kubebuilder:validation:Enum=BuiltIn;AddOn
type ScoreCoordinateType string

// The types of a ScoreCoordinate.
const (
	ScoreCoordinateTypeBuiltIn ScoreCoordinateType = "BuiltIn"
	ScoreCoordinateTypeAddOn   ScoreCoordinateType = "AddOn"
)

// AddOnScore names one score in the AddOnPlacementScores of the clusters' namespaces.
type AddOnScore struct {
	// resourceName is the name of the AddOnPlacementScore in each cluster's namespace.
	// +required
	ResourceName string `json:"resourceName"`

	// scoreName is the name of the score in it.
	// +required
	ScoreName string `json:"scoreName"`
}

// SpreadPolicy says how evenly the chosen clusters lie across topologies.
type SpreadPolicy struct {
	// spreadConstraints nest: the second spreads inside each domain of the first, and so on. The
	// first weighs most.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	SpreadConstraints []SpreadConstraintsTerm `json:"spreadConstraints,omitempty"`
}

// SpreadConstraintsTerm asks for the chosen clusters to be spread evenly over the values of one
// label or claim.
type SpreadConstraintsTerm struct {
	// topologyKey is the label or claim whose values are the domains.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:MaxLength=316
	TopologyKey string `json:"topologyKey"`

	// topologyKeyType says whether topologyKey is a label or a claim.
	// +required
	TopologyKeyType TopologyKeyType `json:"topologyKeyType"`

	// maxSkew, at least 1, is by how many chosen clusters a domain may exceed the emptiest one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable says what happens to a cluster that would break the constraint: it is left
	// out (DoNotSchedule), or taken only after those that keep it (ScheduleAnyway).
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable,omitempty"`
}

// TopologyKeyType says where a topology key is looked up.
// +kubebuilder:validation:Enum=Label;Claim
type TopologyKeyType string

// The places where a topology key is looked up.
const (
	TopologyKeyTypeLabel TopologyKeyType = "Label"
	TopologyKeyTypeClaim TopologyKeyType = "Claim"
)

// UnsatisfiableMaxSkewAction says what happens to a cluster that would break a spread constraint.
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableMaxSkewAction string

// What happens to a cluster that would break a spread constraint.
const (
	DoNotSchedule  UnsatisfiableMaxSkewAction = "DoNotSchedule"
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)

// Toleration lets a cluster qualify in spite of the taints it matches.
// +kubebuilder:validation:XValidation:rule="(has(self.key) && size(self.key) > 0) || self.operator == 'Exists'",message="operator must be Exists when key is empty",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",message="value must be empty when operator is Exists",fieldPath=".value"
type Toleration struct {
	// key is the taint key matched. Empty, which needs operator Exists, it matches every key.
	// +optional
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`

	// operator says how value is compared: Equal, or Exists, which matches every value.
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value is the taint value matched when operator is Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is the taint effect matched. Empty, it matches every effect.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long after it was added the taint is tolerated, in seconds. If
	// absent, the taint is tolerated forever.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TolerationOperator says how a toleration compares values.
// +kubebuilder:validation:Enum=Equal;Exists;""
type TolerationOperator string

// The operators of a Toleration. The empty one means Equal.
const (
	TolerationOpExists TolerationOperator = "Exists"
	TolerationOpEqual  TolerationOperator = "Equal"
)

// DecisionStrategy says how the chosen clusters are arranged.
type DecisionStrategy struct {
	// groupStrategy divides the chosen clusters into groups.
	// +optional
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

// GroupStrategy divides the chosen clusters into groups, which a rollout takes one after the other.
type GroupStrategy struct {
	// decisionGroups claim clusters in the order written, each cluster once. Those nobody claims
	// form groups without a name, which come last.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`

	// clustersPerDecisionGroup is the most clusters a group may have: a number, or a percentage of
	// the chosen clusters, rounded up. A longer group is cut into several of the same name.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$`
	// +kubebuilder:default="100%"
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

// DefaultClustersPerDecisionGroup is the group length when none is given: all clusters in one
// group.
const DefaultClustersPerDecisionGroup = "100%"

// DecisionGroup is a named group of chosen clusters.
type DecisionGroup struct {
	// groupName is the value of the label decision-group-name on the group's PlacementDecisions.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`
	GroupName string `json:"groupName"`

	// groupClusterSelector says which of the chosen clusters belong to the group.
	// +required
	ClusterSelector GroupClusterSelector `json:"groupClusterSelector"`
}

// GroupClusterSelector matches a cluster when all its parts do. A part that is empty matches every
// cluster.
type GroupClusterSelector struct {
	// labelSelector is matched against the cluster's labels.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector is matched against the cluster's claims.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`
}

// PlacementStatus says how a Placement stands.
type PlacementStatus struct {
	// numberOfSelectedClusters is how many clusters are chosen, over all groups.
	// +optional
	NumberOfSelectedClusters int32 `json:"numberOfSelectedClusters"`

	// decisionGroups are the groups the chosen clusters are divided into, by index.
	// +optional
	// +kubebuilder:validation:MaxItems=100000
	DecisionGroups []DecisionGroupStatus `json:"decisionGroups,omitempty"`

	// lastScoreUpdateTime is when order or scores alone were last published.
	// +optional
	LastScoreUpdateTime *metav1.Time `json:"lastScoreUpdateTime,omitempty"`

	// conditions say whether the Placement makes sense (PlacementMisconfigured) and whether all
	// that it asks for could be chosen (PlacementSatisfied).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DecisionGroupStatus is one group of chosen clusters and the PlacementDecisions that list it.
type DecisionGroupStatus struct {
	// decisionGroupIndex is the place of the group, from 0.
	// +optional
	DecisionGroupIndex int32 `json:"decisionGroupIndex"`

	// decisionGroupName is the group's name; empty for clusters that no named group claims.
	// +optional
	DecisionGroupName string `json:"decisionGroupName"`

	// decisions are the names of the PlacementDecisions that list the group's clusters.
	// +optional
	// +kubebuilder:validation:MaxItems=100000
	Decisions []string `json:"decisions,omitempty"`

	// clusterCount is how many clusters the group has.
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
