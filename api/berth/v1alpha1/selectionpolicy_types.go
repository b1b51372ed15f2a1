package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Defaults and bounds of a SelectionPolicy.
const (
	DefaultFailbackAfterSeconds = 300
	MaxFailbackAfterSeconds     = 31_536_000
	MaxSelectionTiers           = 16
	MaxSelectionGroups          = 32
	MaxUnknownNames             = 100
	MaxTierClusters             = 5000
	MaxLeftClusters             = 1000
	// MaxPlacementRequirements is the maximum number of labels, and of requirements, in a
	// placementSelector, which is compared with every Placement of the namespace.
	MaxPlacementRequirements = 10
	// MaxAffinityRequirements is the maximum number of both in all selectors of an affinity.
	MaxAffinityRequirements = 100
)

// PrioritizerPreference is the prioritizer that scores the preferences of SelectionPolicies.
const PrioritizerPreference = "Preference"

// FailbackRequestedAnnotation on a SelectionPolicy is a time (RFC 3339). Tiers that became
// sufficient before it, and clusters that qualified before it, do not wait for
// failbackAfterSeconds. A time in the future counts now.
const FailbackRequestedAnnotation = "berth.dev/failback-requested-at"

// Conditions of a SelectionPolicy, and their reasons.
const (
	// SelectionReady is True if the policy takes part in the decisions of its Placement.
	SelectionReady = "Ready"
	// SelectionTierSufficient is True if a tier has at least its minClusters. It is absent without
	// tiers.
	SelectionTierSufficient = "TierSufficient"
	// SelectionRequired is True if the annotation v1alpha1.SelectionPolicyAnnotation of the
	// Placement names the policy. Otherwise the Placement is decided without the policy while it
	// does not exist.
	SelectionRequired = "Required"

	// ReasonSelectionApplied, with Ready True.
	ReasonSelectionApplied = "Applied"
	// ReasonPlacementMissing, with Ready False: the Placement does not exist.
	ReasonPlacementMissing = "PlacementMissing"
	// ReasonSelectionInvalid, with Ready False: the message names the field. The condition
	// PlacementMisconfigured of the Placement has the same message.
	ReasonSelectionInvalid = "Invalid"
	// ReasonTierSufficient and ReasonNoTierSufficient are those of TierSufficient.
	ReasonTierSufficient   = "Sufficient"
	ReasonNoTierSufficient = "NoTierSufficient"
	// ReasonRequired and ReasonNotRequired are those of Required.
	ReasonRequired    = "RequiredByPlacement"
	ReasonNotRequired = "NotRequiredByPlacement"
)

// SelectionPolicy adds to one Placement of its namespace what the Placement itself cannot ask for:
// clusters by name, preferences, capacity, tiers with failback, numbers for groups of clusters, and
// affinity to other Placements. All parts are optional.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=slp
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Required",type=string,JSONPath=`.status.conditions[?(@.type=="Required")].status`
// +kubebuilder:printcolumn:name="Tiers",type=string,JSONPath=`.status.tiers[?(@.used==true)].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SelectionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy.
	// +required
	Spec SelectionPolicySpec `json:"spec"`

	// status is what the policy did in the last decision. Only the controller writes it.
	// +optional
	Status SelectionPolicyStatus `json:"status,omitzero"`
}

// SelectionPolicySpec is the policy.
type SelectionPolicySpec struct {
	// placement is the name of the Placement in the same namespace. A Placement can have one
	// policy; two make it misconfigured.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Placement string `json:"placement"`

	// clusterNames restricts the Placement to some clusters by name, or excludes some.
	// +optional
	ClusterNames ClusterNames `json:"clusterNames,omitzero"`

	// preferences give clusters a higher or lower score. The prioritizer Preference adds the
	// weights of all terms that match a cluster, at least -100 and at most 100 in sum.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Preferences []Preference `json:"preferences,omitempty"`

	// preferenceWeight is the weight of the prioritizer Preference among the prioritizers of the
	// Placement. From -10 to 10; the default is 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	PreferenceWeight *int32 `json:"preferenceWeight,omitempty"`

	// requests are what the Placement uses on each of its clusters, by resource. A cluster
	// qualifies if its allocatable amount, less the requests of all other Placements on it, is at
	// least as large. A resource that a cluster does not report does not fit.
	// Example: {cpu: "4", memory: 16Gi}. Exponents have at most two digits.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() > 0 && name.size() <= 253)",message="the name of a resource must have 1 to 253 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(name, string(self[name]).matches('^[^eE]*([eE][+-]?[0-9]{1,2}|Ei?)?$') && isQuantity(string(self[name])) && quantity(string(self[name])).compareTo(quantity('0')) >= 0 && quantity(string(self[name])).compareTo(quantity('1Pi')) <= 0)",message="each amount must be a quantity from 0 to 1Pi"
	Requests map[v1alpha1.ResourceName]resource.Quantity `json:"requests,omitempty"`

	// tiers are ordered alternatives: clusters of a later tier are used only if the earlier ones do
	// not suffice. A cluster belongs to the first tier that matches it; a cluster in no tier does
	// not qualify.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Tiers []SelectionTier `json:"tiers,omitempty"`

	// tierMode is Fallback or Overflow. Fallback: all clusters are from the first tier that is
	// sufficient; if none is, tiers are filled in order. Overflow: tiers are filled in order. The
	// default is Fallback.
	// +optional
	// +default="Fallback"
	TierMode TierMode `json:"tierMode,omitempty"`

	// failbackAfterSeconds is how long an earlier tier must be sufficient again before it is used,
	// in seconds. In the mode Overflow it applies to each cluster that left an earlier tier, which
	// must qualify again for so long. From -1 to 31,536,000 (a year); -1 is never, 0 at once. The
	// default is 300. The annotation berth.dev/failback-requested-at permits it earlier.
	// +optional
	// +default=300
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=31536000
	FailbackAfterSeconds *int64 `json:"failbackAfterSeconds,omitempty"`

	// groups are how many clusters of a kind are selected. A cluster belongs to the first group
	// that matches it; clusters in no group are not bounded. The minima are filled first, in the
	// order of the groups. Their sum must not be greater than numberOfClusters.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Groups []SelectionGroup `json:"groups,omitempty"`

	// affinity keeps the Placement together with others of its namespace, or apart from them.
	// +optional
	Affinity PlacementAffinity `json:"affinity,omitzero"`
}

// ClusterNames are names of clusters that need not exist. A name in both lists is excluded.
type ClusterNames struct {
	// include are the only clusters that qualify: absent means all, [] none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Include []string `json:"include,omitzero"`

	// exclude are clusters that do not qualify.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Exclude []string `json:"exclude,omitempty"`
}

// Preference is a score for the clusters that a selector matches.
type Preference struct {
	// weight is the score. From -100 to 100.
	// +required
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// clusterSelector matches clusters by labels, claims and CEL.
	// +optional
	ClusterSelector v1alpha1.ClusterSelector `json:"clusterSelector,omitzero"`
}

// TierMode is how tiers are used.
//
// +kubebuilder:validation:Enum=Fallback;Overflow
type TierMode string

// The modes of tiers.
const (
	TierFallback TierMode = "Fallback"
	TierOverflow TierMode = "Overflow"
)

// SelectionTier is one of the ordered alternatives.
type SelectionTier struct {
	// name is the name of the tier in the status and in messages: lower-case letters, digits and -.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message=`must have lower-case letters, digits and '-', and begin and end with a letter or digit`
	Name string `json:"name"`

	// clusterSelector matches clusters by labels, claims and CEL; absent or {} matches all.
	// +optional
	ClusterSelector v1alpha1.ClusterSelector `json:"clusterSelector,omitzero"`

	// minClusters is the number of qualifying clusters from which the tier is sufficient. From 1 to
	// 100,000; the default is the Placement's numberOfClusters, or 1 if that is absent or 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinClusters *int32 `json:"minClusters,omitempty"`
}

// SelectionGroup is a kind of clusters and how many of them are selected.
//
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.min) && !has(self.max)",message="count replaces min and max"
// +kubebuilder:validation:XValidation:rule="has(self.count) || has(self.min) || has(self.max)",message="count, min or max is required"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must not be greater than max"
type SelectionGroup struct {
	// name is the name of the group in the status and in messages: lower-case letters, digits and
	// -.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message=`must have lower-case letters, digits and '-', and begin and end with a letter or digit`
	Name string `json:"name"`

	// clusterSelector matches clusters by labels, claims and CEL; absent or {} matches all.
	// +optional
	ClusterSelector v1alpha1.ClusterSelector `json:"clusterSelector,omitzero"`

	// count is min and max at once. From 0 to 100,000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Count *int32 `json:"count,omitempty"`

	// min is the number of clusters of the group that are selected before any others. From 0 to
	// 100,000; the default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Min *int32 `json:"min,omitempty"`

	// max is the largest number of clusters of the group that are selected. From 0 to 100,000;
	// absent means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Max *int32 `json:"max,omitempty"`
}

// Equal reports whether two specs mean the same. Unlike DeepEqual of the package equality, it
// distinguishes an empty list from none.
func (s *SelectionPolicySpec) Equal(other *SelectionPolicySpec) bool {
	return equality.Semantic.DeepEqualWithNilDifferentFromEmpty(s, other)
}

// NotRequired says that the Placement of a policy does not require it, and what to do; empty if it
// requires it.
func NotRequired(pl *v1alpha1.Placement, policy *SelectionPolicy) string {
	if name, required := pl.Annotations[v1alpha1.SelectionPolicyAnnotation]; required && name == policy.Name {
		return ""
	}
	return fmt.Sprintf("Placement %s does not require SelectionPolicy %s, and is decided without it while the policy does not exist; to require it, add the annotation %s: %s to the Placement",
		pl.Name, policy.Name, v1alpha1.SelectionPolicyAnnotation, policy.Name)
}

// Bounds returns the minimum and the maximum; -1 is no maximum.
func (g *SelectionGroup) Bounds() (least, most int) {
	most = -1
	switch {
	case g.Count != nil:
		return int(*g.Count), int(*g.Count)
	case g.Max != nil:
		most = int(*g.Max)
	}
	if g.Min != nil {
		least = int(*g.Min)
	}
	return least, most
}

// PlacementAffinity names other Placements of the namespace. A Placement has the clusters that its
// PlacementDecisions list, that are being published, or that its open change adds.
type PlacementAffinity struct {
	// with are Placements of which each must have a cluster, so that it qualifies. A Placement
	// without clusters does not restrict. What a held or waiting change adds counts only if the
	// Placement has no other clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	With []PlacementReference `json:"with,omitempty"`

	// apartFrom are Placements whose clusters do not qualify. If two Placements are apart from each
	// other, the one that has a cluster keeps it; if both have it, the older one does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ApartFrom []PlacementReference `json:"apartFrom,omitempty"`
}

// Requirements is the number of labels and requirements in all selectors.
func (a *PlacementAffinity) Requirements() (sum int) {
	for _, references := range [][]PlacementReference{a.With, a.ApartFrom} {
		for i := range references {
			if s := references[i].PlacementSelector; s != nil {
				sum += len(s.MatchLabels) + len(s.MatchExpressions)
			}
		}
	}
	return sum
}

// PlacementReference names one Placement, or selects Placements by label. The Placement of the
// policy itself does not count.
//
// +kubebuilder:validation:XValidation:rule="has(self.placement) != has(self.placementSelector)",message="exactly one of placement and placementSelector is required"
// +kubebuilder:validation:XValidation:rule="!has(self.placementSelector) || !has(self.placementSelector.matchLabels) || self.placementSelector.matchLabels.size() <= 10",message="placementSelector.matchLabels: at most 10 labels"
// +kubebuilder:validation:XValidation:rule="!has(self.placementSelector) || !has(self.placementSelector.matchExpressions) || self.placementSelector.matchExpressions.size() <= 10",message="placementSelector.matchExpressions: at most 10 requirements"
type PlacementReference struct {
	// placement is the name of a Placement, which need not exist.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Placement string `json:"placement,omitempty"`

	// placementSelector selects Placements by label; {} selects all. At most 10 labels and 10
	// requirements.
	// +optional
	PlacementSelector *metav1.LabelSelector `json:"placementSelector,omitempty"`
}

// SelectionPolicyStatus is what the policy did in the last decision.
type SelectionPolicyStatus struct {
	// tiers are the tiers in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Tiers []SelectionTierStatus `json:"tiers,omitempty"`

	// unmet are the groups whose minimum is not met.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +kubebuilder:validation:MaxItems=32
	Unmet []UnmetGroup `json:"unmet,omitempty"`

	// unknownNames are the names in clusterNames of which the sets that are bound to the namespace
	// contain no cluster, sorted: the first 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	UnknownNames []string `json:"unknownNames,omitempty"`

	// conditions are Ready, Required and, with tiers, TierSufficient.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SelectionTierStatus is the state of a tier. It outlives restarts of the controller.
type SelectionTierStatus struct {
	// name is the name of the tier.
	// +required
	Name string `json:"name"`

	// qualifying is the number of clusters of the tier that pass all filters.
	// +optional
	Qualifying int32 `json:"qualifying"`

	// sufficientSince is when the tier became sufficient again; absent if it is insufficient, or
	// has been sufficient since it was first evaluated.
	// +optional
	SufficientSince *metav1.Time `json:"sufficientSince,omitempty"`

	// used is true if the selected clusters are from this tier.
	// +optional
	Used bool `json:"used"`

	// left are the clusters of the tier that the Placement lost because they no longer qualified.
	// A cluster that is selected again is removed. Only in the mode Overflow, for all tiers but the
	// last, and at most 1,000 for all tiers together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Left []LeftCluster `json:"left,omitempty"`

	// clusters are the names of the selected and of the published clusters that belong to the tier,
	// sorted: of all tiers together the first 5,000.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5000
	Clusters []string `json:"clusters,omitempty"`
}

// LeftCluster is a cluster that left a tier.
type LeftCluster struct {
	// name is the name of the cluster.
	// +required
	Name string `json:"name"`

	// qualifyingSince is since when the cluster qualifies again; absent while it does not.
	// +optional
	QualifyingSince *metav1.Time `json:"qualifyingSince,omitempty"`
}

// UnmetGroup is a group with fewer clusters than its minimum, or one whose maximum leaves the
// Placement short.
type UnmetGroup struct {
	// group is the name of the group.
	// +required
	Group string `json:"group"`

	// missing is the number of clusters that it lacks, or that its maximum excludes.
	// +required
	Missing int32 `json:"missing"`

	// relax says which filters exclude clusters of the group, or that its maximum does.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Relax string `json:"relax,omitempty"`
}

// SelectionPolicyList is a list of SelectionPolicies.
//
// +kubebuilder:object:root=true
type SelectionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SelectionPolicy `json:"items"`
}
