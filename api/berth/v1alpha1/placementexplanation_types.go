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
// get, also after edits. Its author needs no permission outside the namespace and learns only about
// candidates: members of the sets that are bound to the namespace. Berth deletes it after 10
// minutes.
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
	// under the name of this object. With placement, it describes that Placement after an edit, in
	// the same queue, or after its creation. Nothing is published. It has at most 64 KiB of JSON.
	// Example: {spec: {numberOfClusters: 2}}.
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

	// edits are changes of clusters, in their order, with which the Placement is decided. They apply
	// to members of the sets that are bound to the namespace, and to no other cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Edits []ClusterEdit `json:"edits,omitempty"`

	// domains is label:KEY, claim:NAME or cluster. status.resilience then says which of these
	// failure domains the Placement can lose, one at a time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=323
	Domains string `json:"domains,omitempty"`
}

// ClusterEdit is a change of clusters whose effect is shown without being written. The fields
// beside kind depend on it.
type ClusterEdit struct {
	// kind is taint, label or drain (the taint of a drain) for a change of one cluster; lose for
	// the deletion of all clusters of a domain; evict for an eviction from the Placement.
	// +kubebuilder:validation:Enum=taint;label;drain;lose;evict
	Kind string `json:"kind"`

	// cluster is the name of the cluster. All kinds but lose need it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`

	// key is that of the taint or label; for lose label:KEY or claim:NAME, without a colon the key
	// of a label.
	// +optional
	// +kubebuilder:validation:MaxLength=323
	Key string `json:"key,omitempty"`

	// value is that of the taint or label; for lose that of the label or claim.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is that of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Effect string `json:"effect,omitempty"`

	// remove removes the taint or label, or ends the drain. Taints of all effects are removed if
	// effect is empty.
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

	// change is the effect of spec.template on spec.placement, and of spec.edits. The rest of the
	// status describes the Placement with them.
	// +optional
	Change *ExplainedChange `json:"change,omitempty"`

	// resilience is the answer to spec.domains.
	// +optional
	Resilience *ExplainedResilience `json:"resilience,omitempty"`
}

// ExplainedChange compares what is selected without and with the edits, whether or not a change may
// be published now.
type ExplainedChange struct {
	// operation is Created for a Placement that does not exist, Updated for one whose decision
	// changes, else Unchanged.
	Operation string `json:"operation"`

	// clustersBefore is the number of clusters without the edits.
	// +optional
	ClustersBefore int32 `json:"clustersBefore"`

	// clustersAfter is the number of clusters with the edits.
	// +optional
	ClustersAfter int32 `json:"clustersAfter"`

	// before are the clusters without the edits, sorted; cut at 64 KiB of names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Before []string `json:"before,omitempty"`

	// after are the clusters with the edits, sorted; cut at 64 KiB of names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	After []string `json:"after,omitempty"`

	// pages are the PlacementDecisions that would be written, sorted by name; at most 200.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Pages []ChangedPage `json:"pages,omitempty"`

	// conditions are those that differ, except in counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Conditions []ChangedCondition `json:"conditions,omitempty"`

	// needsApproval is true if the change would be held until a user approves it.
	// +optional
	NeedsApproval bool `json:"needsApproval,omitempty"`

	// outOfDate is true if the published clusters differ from before, and held if that change is
	// held.
	// +optional
	OutOfDate bool `json:"outOfDate,omitempty"`
	// held is true if the change that would be published without the edits is held.
	// +optional
	Held bool `json:"held,omitempty"`

	// undecided is why nothing would be selected with the edits: after are then the published
	// clusters. Empty if something would be.
	// +optional
	Undecided string `json:"undecided,omitempty"`

	// misconfigured is the mistake with the edits; empty if there is none.
	// +optional
	Misconfigured string `json:"misconfigured,omitempty"`
	// misconfiguredBefore is true if there is a mistake without the edits, too.
	// +optional
	MisconfiguredBefore bool `json:"misconfiguredBefore,omitempty"`
}

// ChangedPage is a PlacementDecision that would be written.
type ChangedPage struct {
	// name is the name of the PlacementDecision.
	Name string `json:"name"`

	// operation is Created, Updated or Deleted.
	Operation string `json:"operation"`
}

// ChangedCondition is a condition that differs; a state is absent if there is no condition.
type ChangedCondition struct {
	// type is the type of the condition.
	Type string `json:"type"`

	// before is the state without the edits.
	// +optional
	Before *ConditionState `json:"before,omitempty"`

	// after is the state with the edits.
	// +optional
	After *ConditionState `json:"after,omitempty"`
}

// ConditionState is a condition without its type and times.
type ConditionState struct {
	// status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`

	// reason is the reason of the condition.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is cut at 512 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// ExplainedResilience is which failure domains a Placement can lose.
type ExplainedResilience struct {
	// message says it all in one line.
	// +optional
	Message string `json:"message,omitempty"`

	// satisfied is whether the Placement is satisfied before a loss. If not, no loss is tried.
	// +optional
	Satisfied bool `json:"satisfied"`

	// why is the reason if it is not satisfied.
	// +optional
	Why string `json:"why,omitempty"`

	// misconfigured is true if the Placement is misconfigured.
	// +optional
	Misconfigured bool `json:"misconfigured,omitempty"`

	// selected is the number of clusters before a loss.
	// +optional
	Selected int32 `json:"selected"`

	// wanted is numberOfClusters; absent if all are wanted.
	// +optional
	Wanted *int32 `json:"wanted,omitempty"`

	// domains is the number of domains with candidates whose loss was tried.
	// +optional
	Domains int32 `json:"domains"`

	// survived is the number of domains whose loss leaves the Placement satisfied.
	// +optional
	Survived int32 `json:"survived"`

	// withoutDomain is the number of candidates that are in no domain.
	// +optional
	WithoutDomain int32 `json:"withoutDomain,omitempty"`

	// losses are the domains whose loss changes the decision, the weakest first; at most 1,000, cut
	// at 128 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Losses []DomainLoss `json:"losses,omitempty"`

	// leftOut is the number of domains that there was no time for, or whose losses are cut.
	// +optional
	LeftOut int32 `json:"leftOut,omitempty"`
}

// DomainLoss is what the loss of one failure domain does.
type DomainLoss struct {
	// domain is the value of the label or claim, or the name of the cluster.
	Domain string `json:"domain"`

	// clusters is the number of candidates in the domain.
	// +optional
	Clusters int32 `json:"clusters"`

	// lost is the number of selected clusters in the domain.
	// +optional
	Lost int32 `json:"lost"`

	// satisfied is whether the Placement is satisfied without the domain.
	// +optional
	Satisfied bool `json:"satisfied"`

	// missing is the number of clusters that are missing then.
	// +optional
	Missing int32 `json:"missing,omitempty"`

	// why is the reason if it is not satisfied.
	// +optional
	Why string `json:"why,omitempty"`

	// added is the number of clusters that are selected instead.
	// +optional
	Added int32 `json:"added"`

	// removed is the number of other clusters that are not selected any more.
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
