package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Bounds of PlacementExplanations.
const (
	// MaxOpenExplanations is how many PlacementExplanations of a namespace are answered. Answered
	// ones count until they are deleted.
	MaxOpenExplanations = 10
	// MaxKeptExplanations is how many PlacementExplanations of a namespace are kept. Beyond it, the
	// newest are deleted at once.
	MaxKeptExplanations = 100
	// MaxTemplateBytes bounds spec.template, in bytes of JSON.
	MaxTemplateBytes = 64 << 10
	// ExplanationLifetime is the time from creation to deletion by the controller.
	ExplanationLifetime = 10 * time.Minute
	// DefaultVerdicts is the default of spec.limit.
	DefaultVerdicts = 200
	// MaxVerdicts is the maximum of spec.limit.
	MaxVerdicts = 1000
	// MaxExplainedNames bounds the bytes of all cluster names in status.decisions.
	MaxExplainedNames = 256 << 10
	// MaxVerdictBytes bounds status.verdicts, in bytes of JSON; etcd accepts objects of up to
	// 1.5 MiB.
	MaxVerdictBytes = 512 << 10
	// MaxMovingBytes bounds status.pending.moving, in bytes of JSON.
	MaxMovingBytes = 128 << 10
	// MaxMovingClusters, MaxExplainedDecisions, MaxReasonCounts and MaxPrioritizerWeights bound
	// lists of the status.
	MaxMovingClusters     = 1000
	MaxExplainedDecisions = 1000
	MaxReasonCounts       = 100
	MaxPrioritizerWeights = 100
)

// NotACandidate is the reason in the verdict on every cluster that is not a candidate. It is the
// same whether the cluster exists or not.
const NotACandidate = "not a candidate"

// Conditions of a PlacementExplanation, and their reasons.
const (
	// ExplanationExplained is True when status has the answer, and False when there will be none.
	ExplanationExplained = "Explained"
	// ExplanationThrottled is True while the answer has to wait.
	ExplanationThrottled = "Throttled"

	ReasonDecided           = "Decided"
	ReasonLeftAlone         = "LeftAlone"
	ReasonPlacementNotFound = "PlacementNotFound"
	ReasonTemplateTooLarge  = "TemplateTooLarge"
	ReasonTimedOut          = "TimedOut"
	ReasonDecisionFailed    = "DecisionFailed"
	ReasonTooManyOpen       = "TooManyOpen"
	ReasonShareUsed         = "ShareUsed"
	ReasonNotThrottled      = "NotThrottled"
)

// PlacementExplanation asks why a Placement has its clusters, or which clusters a Placement would
// get. Its author needs no permission outside the namespace and learns only about candidates:
// members of the sets that are bound to the namespace. Berth deletes it after 10 minutes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pex
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Explained",type=string,JSONPath=`.status.conditions[?(@.type=="Explained")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Explained")].reason`
// +kubebuilder:printcolumn:name="Throttled",type=string,JSONPath=`.status.conditions[?(@.type=="Throttled")].status`
// +kubebuilder:printcolumn:name="Candidates",type=integer,JSONPath=`.status.candidates`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selectedClusters`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlacementExplanation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question. It is immutable.
	// +required
	Spec PlacementExplanationSpec `json:"spec"`

	// status is the answer. Only the controller writes it.
	// +optional
	Status PlacementExplanationStatus `json:"status,omitzero"`
}

// PlacementExplanationSpec is the question.
//
// +kubebuilder:validation:XValidation:rule="has(self.placement) != has(self.template)",message="exactly one of placement and template is required"
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: create another PlacementExplanation"
type PlacementExplanationSpec struct {
	// placement is the name of a Placement in the same namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Placement string `json:"placement,omitempty"`

	// template describes a Placement that is decided as if it were created now in this namespace,
	// under the name of this object. Nothing is published. It has at most 64 KiB of JSON. Example:
	// {spec: {numberOfClusters: 2}}.
	// +optional
	Template *PlacementTemplate `json:"template,omitempty"`

	// clusters are the names of the clusters to explain. If the list is empty, the selected
	// clusters and those nearest to the cut are explained.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Clusters []string `json:"clusters,omitempty"`

	// limit is the maximum number of verdicts if clusters is empty. From 1 to 1,000; the default is
	// 200.
	// +optional
	// +default=200
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`
}

// PlacementTemplate describes a Placement that does not exist.
type PlacementTemplate struct {
	// metadata has the labels and annotations of the Placement.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`

	// spec is the spec of the Placement.
	// +required
	Spec v1alpha1.PlacementSpec `json:"spec"`
}

// TemplateMetadata is the part of a Placement's metadata that decisions depend on.
type TemplateMetadata struct {
	// labels are the labels of the Placement, with values of at most 63 characters.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 63)",message="a value may have at most 63 characters"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are the annotations of the Placement, with values of at most 4,096 characters.
	// The submitter is always that of the PlacementExplanation, not one that is named here.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 4096)",message="a value may have at most 4,096 characters"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PlacementExplanationStatus is the answer.
type PlacementExplanationStatus struct {
	// decidedTime is when the answer was decided.
	// +optional
	DecidedTime *metav1.Time `json:"decidedTime,omitempty"`

	// conditions are Explained and Throttled, and the conditions that the Placement has or would
	// get.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// candidates is the number of clusters that the Placement may select from.
	// +optional
	Candidates int32 `json:"candidates"`

	// selectedClusters is the number of clusters in all decisions.
	// +optional
	SelectedClusters int32 `json:"selectedClusters"`

	// decisions are the PlacementDecisions that the Placement has or would get; at most the first
	// 1,000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Decisions []ExplainedDecision `json:"decisions,omitempty"`

	// counts are the numbers of candidates by reason. Their sum is candidates.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Counts []ReasonCount `json:"counts,omitempty"`

	// prioritizers are the prioritizers whose scores were added, with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Prioritizers []PrioritizerWeight `json:"prioritizers,omitempty"`

	// verdicts are the reasons for single clusters, sorted by name. They are cut at 512 KiB; the
	// message of the condition Explained then has the number of missing ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Verdicts []ClusterVerdict `json:"verdicts,omitempty"`

	// pending is the change that would not be published yet. The decisions are then those before
	// the change, and the verdicts describe the change.
	// +optional
	Pending *PendingChange `json:"pending,omitempty"`
}

// ExplainedDecision is one PlacementDecision.
type ExplainedDecision struct {
	// name is the name of the PlacementDecision.
	Name string `json:"name"`

	// group is the name of the decision group.
	// +optional
	Group string `json:"group,omitempty"`

	// groupIndex is the index of the decision group, from 0.
	// +optional
	GroupIndex int32 `json:"groupIndex"`

	// clusterCount is the number of clusters.
	// +optional
	ClusterCount int32 `json:"clusterCount"`

	// clusters are the names of the clusters. They are left out once the names of all decisions
	// together have more than 256 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Clusters []string `json:"clusters,omitempty"`
}

// ReasonCount is the number of candidates for which a reason applies.
type ReasonCount struct {
	// reason is Selected, Outranked for candidates that passed all filters and were not selected,
	// NotDecided if nothing was decided, or the plugin that excluded the candidates.
	Reason string `json:"reason"`

	// clusters is the number of candidates.
	// +optional
	Clusters int32 `json:"clusters"`
}

// Reasons of a ReasonCount beside the names of plugins.
const (
	CountSelected   = "Selected"
	CountOutranked  = "Outranked"
	CountNotDecided = "NotDecided"
)

// CountText says what the clusters of a reason have in common.
func CountText(reason string) string {
	switch reason {
	case CountSelected:
		return "selected"
	case CountOutranked:
		return "qualified, not selected"
	case CountNotDecided:
		return "not decided"
	}
	return "excluded by " + reason
}

// PrioritizerWeight is a prioritizer and its weight.
type PrioritizerWeight struct {
	// name is the name of the prioritizer.
	Name string `json:"name"`

	// weight is the factor of its scores in the total.
	// +optional
	Weight int64 `json:"weight"`
}

// ClusterVerdict is why one cluster was, or was not, selected.
type ClusterVerdict struct {
	// cluster is the name of the cluster.
	Cluster string `json:"cluster"`

	// selected is true if the cluster was selected.
	// +optional
	Selected bool `json:"selected"`

	// plugin is the one that excluded the cluster; empty if it was ranked or is not a candidate.
	// +optional
	Plugin string `json:"plugin,omitempty"`

	// reason is a text for people. It is "not a candidate" for every cluster that is not a
	// candidate, whether it exists or not.
	// +optional
	Reason string `json:"reason,omitempty"`

	// rank counts from 1 among the candidates that passed all filters; absent if excluded.
	// +optional
	Rank int32 `json:"rank,omitempty"`

	// score is the total score.
	// +optional
	Score *int64 `json:"score,omitempty"`

	// scores are the scores by prioritizer, before weights.
	// +optional
	Scores map[string]int64 `json:"scores,omitempty"`

	// distance is the score minus the lowest score that was selected, or for a selected cluster
	// minus the highest that was not.
	// +optional
	Distance *int64 `json:"distance,omitempty"`

	// selectedWith describes the smallest change with which the cluster would be selected.
	// +optional
	SelectedWith string `json:"selectedWith,omitempty"`
}

// PendingChange is a change that would not be published now, or only in part.
type PendingChange struct {
	// reason is why: Progressing for a change that is published in steps; Held, Rejected or another
	// reason of condition DecisionPending for one that is not published.
	Reason string `json:"reason"`

	// message describes the reason.
	// +optional
	Message string `json:"message,omitempty"`

	// addedCount is the number of clusters that the change adds.
	// +optional
	AddedCount int32 `json:"addedCount"`
	// removedCount is the number of clusters that the change removes.
	// +optional
	RemovedCount int32 `json:"removedCount"`

	// moving are the clusters that a change in steps adds and removes, sorted by name; at most the
	// first 1,000, cut at 128 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Moving []MovingCluster `json:"moving,omitempty"`
}

// MovingCluster is a cluster that a change in steps adds or removes.
type MovingCluster struct {
	// cluster is the name of the cluster.
	Cluster string `json:"cluster"`

	// state is a text for people: what was done with the cluster, or since when it leaves and what
	// it waits for, or why it is not ready.
	// +optional
	State string `json:"state"`
}

// PlacementExplanationList is a list of PlacementExplanations.
//
// +kubebuilder:object:root=true
type PlacementExplanationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PlacementExplanation `json:"items"`
}
