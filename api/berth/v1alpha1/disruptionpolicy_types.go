package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults and bounds of a DisruptionPolicy.
const (
	DefaultApprovalTimeoutSeconds = 7 * 24 * 60 * 60
	DefaultHistoryLimit           = 10
	DefaultMaxSurge               = "25%"
	DefaultProgressDeadline       = 600
	MaxPolicyWindows              = 32
	MaxHistoryLimit               = 100
	// MaxPoliciesPerPlacement is how many DisruptionPolicies may select one Placement.
	MaxPoliciesPerPlacement = 32
)

// DisruptionPolicy controls how the published decisions of selected Placements of its namespace may
// change. It is meant for the people responsible for availability; authors of Placements need no
// permission for it. If several policies select a Placement, the strictest value of each field
// applies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=dp
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.spec.approval`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Placements",type=integer,JSONPath=`.status.placements`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DisruptionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy.
	// +required
	Spec DisruptionPolicySpec `json:"spec"`

	// status is the state of the policy.
	// +optional
	Status DisruptionPolicyStatus `json:"status,omitzero"`
}

// DisruptionPolicySpec is the policy.
//
// +kubebuilder:validation:XValidation:rule="has(self.placementSelector) != has(self.placements)",message="exactly one of placementSelector and placements is required"
// +kubebuilder:validation:XValidation:rule="!has(self.placementSelector) || !has(self.placementSelector.matchLabels) || self.placementSelector.matchLabels.size() <= 10",message="placementSelector.matchLabels: at most 10 labels"
// +kubebuilder:validation:XValidation:rule="!has(self.placementSelector) || !has(self.placementSelector.matchExpressions) || self.placementSelector.matchExpressions.size() <= 10",message="placementSelector.matchExpressions: at most 10 requirements"
// +kubebuilder:validation:XValidation:rule="!has(self.placementSelector) || !has(self.placementSelector.matchExpressions) || self.placementSelector.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",message="placementSelector.matchExpressions: In and NotIn need values, Exists and DoesNotExist have none"
// +kubebuilder:validation:XValidation:rule="!has(self.readiness) || !has(self.readiness.selector) || !has(self.readiness.selector.matchLabels) || self.readiness.selector.matchLabels.size() <= 10",message="readiness.selector.matchLabels: at most 10 labels"
// +kubebuilder:validation:XValidation:rule="!has(self.readiness) || !has(self.readiness.selector) || !has(self.readiness.selector.matchExpressions) || self.readiness.selector.matchExpressions.size() <= 10",message="readiness.selector.matchExpressions: at most 10 requirements"
// +kubebuilder:validation:XValidation:rule="!has(self.readiness) || !has(self.readiness.selector) || !has(self.readiness.selector.matchExpressions) || self.readiness.selector.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",message="readiness.selector.matchExpressions: In and NotIn need values, Exists and DoesNotExist have none"
// +kubebuilder:validation:XValidation:rule="!(has(self.maxUnavailable) && has(self.maxSurge)) || !(string(self.maxUnavailable) in ['0', '0%'] && string(self.maxSurge) in ['0', '0%'])",message="maxUnavailable and maxSurge must not both be 0: then no cluster could be replaced"
type DisruptionPolicySpec struct {
	// placementSelector selects Placements of the namespace by label; {} selects all. Example:
	// {matchLabels: {tier: production}}. At most 10 labels and 10 requirements. Exactly one of
	// placementSelector and placements is required.
	// +optional
	PlacementSelector *metav1.LabelSelector `json:"placementSelector,omitempty"`

	// placements are the names of the selected Placements of the namespace. Exactly one of
	// placementSelector and placements is required.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Placements []string `json:"placements,omitempty"`

	// approval is Required or absent. Required holds every change, including the first publication,
	// until its PlacementChange is approved, for example with kubectl placement approve.
	// +optional
	Approval ApprovalMode `json:"approval,omitempty"`

	// approvalTimeoutSeconds is how long a change waits for an approval before it expires, in
	// seconds. From 1 to 31,536,000 (a year); the default is 604,800 (a week).
	// +optional
	// +default=604800
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ApprovalTimeoutSeconds int64 `json:"approvalTimeoutSeconds,omitempty"`

	// stabilizationWindowSeconds is how long the target of a change must stay the same before the
	// change begins, in seconds. An approved change begins at once, and so does the removal of
	// clusters that are deleted, in no usable set any more, or have an untolerated NoSelect taint.
	// From 0 to 3,600 (an hour); the default is 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	StabilizationWindowSeconds int64 `json:"stabilizationWindowSeconds,omitempty"`

	// suspend publishes no step of a change while it is true, except the removal of clusters that
	// are deleted, in no usable set any more, or have an untolerated NoSelect taint.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// maxUnavailable is how many of the desired clusters may be missing during a change: a number
	// from 0 to 1,000,000, or a percentage of the desired clusters from "0%" to "100%", rounded
	// down. The default is 0: a cluster is removed only after its replacement is published.
	// Clusters that are deleted, in no usable set any more, or have an untolerated NoSelect taint
	// are removed at once, unless approval or a plugin holds that.
	// +optional
	// +default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",message="must be a number from 0 to 1000000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many clusters may be published beyond the desired ones during a change: a
	// number from 0 to 1,000,000, or a percentage of the desired clusters from "0%" to "100%",
	// rounded up. The default is "25%". If both maxUnavailable and maxSurge come to 0, maxSurge
	// is 1. Clusters up to the desired number are added at once.
	// +optional
	// +default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",message="must be a number from 0 to 1000000 or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// minAvailable is how many of the clusters that were published when a change began stay
	// published: a number from 0 to 1,000,000, or a percentage of these clusters from "0%" to
	// "100%", rounded up. Other removals wait until the change is approved, except of clusters that
	// are deleted, in no usable set any more, or have an untolerated NoSelect taint. Without it,
	// there is no such limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",message="must be a number from 0 to 1000000 or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// unavailableClusters is what happens to a published cluster with one of the taints
	// cluster.open-cluster-management.io/unavailable and unreachable, which Berth or Open Cluster
	// Management adds. Remove: it is removed at once, unless the Placement tolerates the taint.
	// ReplaceFirst: it is removed like a drained one, so it stays until it is replaced. The default
	// is Remove.
	// +optional
	// +default="Remove"
	UnavailableClusters UnavailableAction `json:"unavailableClusters,omitempty"`

	// readiness is how Berth knows that a published cluster is ready, for example because Argo CD
	// reports its Applications as healthy. A cluster that is not ready counts as missing for
	// maxUnavailable. Without it, every published cluster is ready.
	// +optional
	Readiness *ReadinessRequirement `json:"readiness,omitempty"`

	// minReadySeconds is how long a cluster that a change added must have been published and ready
	// until it counts as ready, in seconds. From 0 to 86,400 (a day); the default is 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// windows are the times at which a change may begin. A change that has begun is completed after
	// its window has closed. The removal of clusters that are deleted, in no usable set any more,
	// or have an untolerated NoSelect taint does not wait. An approval does not replace a window.
	// Without any, a change may begin at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Windows []RecurringWindow `json:"windows,omitempty"`

	// onDeadline is what happens at progressDeadlineSeconds to published clusters of the target
	// that are not ready. Pause: the change waits until they are. Continue: they count as ready.
	// The default is Pause.
	// +optional
	// +default="Pause"
	OnDeadline DeadlineAction `json:"onDeadline,omitempty"`

	// progressDeadlineSeconds is the time without a step or a newly ready cluster after which a
	// change in progress is reported: the condition DecisionProgressing is then False with the
	// reason ProgressDeadlineExceeded, and a Warning event is sent. From 1 to 86,400 (a day); the
	// default is 600.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// historyLimit is the number of Published records that are kept, and of other records.
	// From 1 to 100; the default is 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HistoryLimit int32 `json:"historyLimit,omitempty"`
}

// ReadinessRequirement is how the readiness of a Placement's clusters is read. A cluster is ready
// if at least one object of the source matches for it and all that match are ready.
type ReadinessRequirement struct {
	// source is the name of a readiness source: argocd (Argo CD's Applications in the Placement's
	// namespace), manifestwork (Open Cluster Management's ManifestWorks in the cluster's
	// namespace), cluster (the ManagedCluster's condition Available), or one of the scheduler's
	// configuration. While a source cannot be read, its clusters are not ready.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message=`must have lower-case letters, digits and '-', and begin and end with a letter or digit`
	Source string `json:"source"`

	// selector selects objects of the source by label; absent or {} selects all. Example:
	// {matchLabels: {app: web}}. At most 10 labels and 10 requirements.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// placementLabel is the key of a label with the Placement's name: only objects with that value
	// count. One policy can thus serve many Placements. Example: example.com/placement.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$')`,message=`must be a name of letters, digits, '-', '_' and '.', with an optional prefix as in example.com/name`
	PlacementLabel string `json:"placementLabel,omitempty"`
}

// UnavailableAction is what happens to published clusters that are unavailable or unreachable.
//
// +kubebuilder:validation:Enum=Remove;ReplaceFirst
type UnavailableAction string

// The values of UnavailableAction.
const (
	UnavailableRemove       UnavailableAction = "Remove"
	UnavailableReplaceFirst UnavailableAction = "ReplaceFirst"
)

// DeadlineAction is what happens at the progress deadline.
//
// +kubebuilder:validation:Enum=Pause;Continue
type DeadlineAction string

// The actions at the progress deadline.
const (
	DeadlinePause    DeadlineAction = "Pause"
	DeadlineContinue DeadlineAction = "Continue"
)

// RecurringWindow is a recurring period of time.
type RecurringWindow struct {
	// schedule is when the window opens, in the five fields of cron: minute, hour, day of the
	// month, month, day of the week (0 is Sunday). An opening in the hour that daylight saving
	// skips is at the end of that hour; of an hour that occurs twice, the first one counts.
	// Example: "0 22 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^\S+( +\S+){4}$')`,message=`must have the five fields of cron, such as 0 22 * * 1-5`
	Schedule string `json:"schedule"`

	// duration is the time for which the window stays open, for example "90m" or "4h". It may be
	// longer than the time until the next opening.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]+(\.[0-9]+)?(h|m|s))+$')`,message=`must be a time such as 90m or 4h30m`
	Duration string `json:"duration"`

	// timeZone is the time zone of the schedule, by its IANA name, for example "Europe/Berlin". The
	// default is UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// ApprovalMode is whether changes need an approval.
//
// +kubebuilder:validation:Enum=Required
type ApprovalMode string

// ApprovalRequired holds every change until it is approved.
const ApprovalRequired ApprovalMode = "Required"

// PolicyReady is True if the DisruptionPolicy is valid, its readiness source can be read, and it
// applies to at least one Placement and to each that it names.
const PolicyReady = "Ready"

// DisruptionPolicyStatus is the state of a policy.
type DisruptionPolicyStatus struct {
	// placements is the number of Placements that the policy selects.
	// +optional
	Placements int32 `json:"placements"`

	// conditions contains Ready, with the reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DisruptionPolicyList is a list of DisruptionPolicies.
//
// +kubebuilder:object:root=true
type DisruptionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DisruptionPolicy `json:"items"`
}
