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
	// MaxClusterEdits bounds spec.edits.
	MaxClusterEdits = 100
	// MaxChangedClusters and MaxChangedNames bound each list of clusters in status.change, in names
	// and in bytes of names. MaxChangedPages and MaxChangedConditions bound its other lists.
	MaxChangedClusters   = 10_000
	MaxChangedNames      = 64 << 10
	MaxChangedPages      = 200
	MaxChangedConditions = 20
	// MaxLosses and MaxLossBytes bound status.resilience.losses, in entries and in bytes of JSON.
	MaxLosses    = 1000
	MaxLossBytes = 128 << 10
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
	ReasonInvalid           = "Invalid"
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
// +kubebuilder:validation:XValidation:rule="has(self.placement) || has(self.template)",message="placement or template is required"
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: create another PlacementExplanation"
type PlacementExplanationSpec struct {
	// placement is the name of a Placement in the same namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Placement string `json:"placement,omitempty"`

	// template describes a Placement that is decided as if it were created now in this namespace,
	// under the name of this object; with placement, that Placement after an edit or its creation.
	// Nothing is published. It has at most 64 KiB of JSON. Example: {spec: {numberOfClusters: 2}}.
	// +optional
	Template *PlacementTemplate `json:"template,omitempty"`

	// clusters are the names of the clusters to explain. If empty, the selected ones and those
	// nearest to the cut are explained.
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

	// edits are assumed changes of candidates, in their order. Other clusters do not change.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Edits []ClusterEdit `json:"edits,omitempty"`

	// domains asks which failure domains can be lost: label:KEY, claim:NAME or cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=323
	Domains string `json:"domains,omitempty"`
}

// ClusterEdit is a change of clusters whose effect is shown without being written. The fields
// beside kind depend on it.
type ClusterEdit struct {
	// kind is one of taint, label, drain, evict, or lose for all clusters of a domain.
	// +kubebuilder:validation:Enum=taint;label;drain;lose;evict
	Kind string `json:"kind"`

	// cluster is for all kinds but lose.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`

	// key is that of the taint or label; for lose label:KEY or claim:NAME.
	// +optional
	// +kubebuilder:validation:MaxLength=323
	Key string `json:"key,omitempty"`

	// value is that of the taint, label or claim.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is that of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Effect string `json:"effect,omitempty"`

	// remove removes the taint, of all effects if effect is empty, or the label.
	// +optional
	Remove bool `json:"remove,omitempty"`
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
	// The submitter is that of the PlacementExplanation.
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

	// conditions are Explained, Throttled and those that the Placement has or would get.
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

	// decisions are the PlacementDecisions that the Placement has or would get, at most 1,000.
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

	// verdicts are the reasons for single clusters, sorted by name, cut at 512 KiB; condition
	// Explained counts the missing ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Verdicts []ClusterVerdict `json:"verdicts,omitempty"`

	// pending is the change that would not be published yet: the decisions are those before it, the
	// verdicts describe it.
	// +optional
	Pending *PendingChange `json:"pending,omitempty"`

	// change is the effect of the edits. The rest of the status describes the Placement with them.
	// +optional
	Change *ExplainedChange `json:"change,omitempty"`

	// resilience is the answer to spec.domains, in numbers.
	// +optional
	Resilience *ExplainedResilience `json:"resilience,omitempty"`
}

// ExplainedChange compares what is selected without and with the edits, whether or not a change may
// be published now.
type ExplainedChange struct {
	// operation is Created, Updated or Unchanged.
	Operation string `json:"operation"`

	// before are the clusters without the edits, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Before []string `json:"before,omitempty"`

	// after are the clusters with the edits, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	After []string `json:"after,omitempty"`

	// published is the number of published clusters.
	// +optional
	Published int32 `json:"published"`

	// needsApproval is true if it would wait for an approval.
	// +optional
	NeedsApproval bool `json:"needsApproval,omitempty"`

	// undecided is why nothing is selected with the edits.
	// +optional
	Undecided string `json:"undecided,omitempty"`

	// outOfDate is true if other clusters are published.
	// +optional
	OutOfDate bool `json:"outOfDate,omitempty"`

	// pages are the PlacementDecisions that would be written, sorted by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Pages []ChangedPage `json:"pages,omitempty"`

	// conditions are those that differ, except in counts.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=20
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// truncated is true if clusters or pages are cut, at 64 KiB of names.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// ChangedPage is a PlacementDecision that would be written.
type ChangedPage struct {
	// name is the name of the page.
	Name string `json:"name"`

	// operation is Created, Updated or Deleted.
	Operation string `json:"operation"`
}

// ExplainedResilience is which failure domains a Placement can lose, in numbers.
type ExplainedResilience struct {
	// message describes the result.
	// +optional
	Message string `json:"message,omitempty"`

	// satisfied is false if the Placement is not satisfied before a loss.
	// +optional
	Satisfied bool `json:"satisfied"`

	// selected are the clusters before a loss.
	// +optional
	Selected int32 `json:"selected"`

	// domains are those with candidates.
	// +optional
	Domains int32 `json:"domains"`

	// survived are domains without which it is satisfied.
	// +optional
	Survived int32 `json:"survived"`

	// withoutDomain are candidates in no domain.
	// +optional
	WithoutDomain int32 `json:"withoutDomain,omitempty"`

	// losses are the domains whose loss changes the decision, the weakest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Losses []DomainLoss `json:"losses,omitempty"`

	// leftOut are domains for which there was no time or space.
	// +optional
	LeftOut int32 `json:"leftOut,omitempty"`
}

// DomainLoss is what the loss of one failure domain does, in numbers of clusters.
type DomainLoss struct {
	// domain is the value that the clusters share, or a cluster.
	Domain string `json:"domain"`

	// clusters are its candidates.
	// +optional
	Clusters int32 `json:"clusters"`

	// lost are its selected clusters.
	// +optional
	Lost int32 `json:"lost"`

	// satisfied is whether it is satisfied then.
	// +optional
	Satisfied bool `json:"satisfied"`

	// missing are clusters that are wanted.
	// +optional
	Missing int32 `json:"missing,omitempty"`

	// why is the reason if not satisfied.
	// +optional
	Why string `json:"why,omitempty"`

	// added are clusters selected instead.
	// +optional
	Added int32 `json:"added"`

	// removed are other clusters given up.
	// +optional
	Removed int32 `json:"removed"`
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

	// clusters are the names of the clusters, left out once all have more than 256 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Clusters []string `json:"clusters,omitempty"`
}

// ReasonCount is the number of candidates for which a reason applies.
type ReasonCount struct {
	// reason is Selected, Outranked (qualified, not selected), NotDecided, or the plugin that
	// excluded the candidates.
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

	// plugin is what excluded it.
	// +optional
	Plugin string `json:"plugin,omitempty"`

	// reason is a text for people; "not a candidate" whether the cluster exists or not.
	// +optional
	Reason string `json:"reason,omitempty"`

	// rank counts from 1; absent if excluded.
	// +optional
	Rank int32 `json:"rank,omitempty"`

	// score is the total.
	// +optional
	Score *int64 `json:"score,omitempty"`

	// scores are the scores by prioritizer, before weights.
	// +optional
	Scores map[string]int64 `json:"scores,omitempty"`

	// unscored is why scores are missing, by prioritizer.
	// +optional
	Unscored map[string]string `json:"unscored,omitempty"`

	// distance is the score minus the lowest selected one, or for a selected cluster the highest
	// other one.
	// +optional
	Distance *int64 `json:"distance,omitempty"`

	// selectedWith is the smallest change that would select it.
	// +optional
	SelectedWith string `json:"selectedWith,omitempty"`
}

// PendingChange is a change that would not be published now, or only in part.
type PendingChange struct {
	// reason is Progressing for a change in steps, else that of condition DecisionPending.
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

	// moving are the clusters that a change in steps adds and removes, sorted by name, cut at 128
	// KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Moving []MovingCluster `json:"moving,omitempty"`
}

// MovingCluster is a cluster that a change in steps adds or removes.
type MovingCluster struct {
	// cluster is the name of the cluster.
	Cluster string `json:"cluster"`

	// state is a text for people: what was done with the cluster, or what it waits for.
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
