package v1alpha1

import "slices"

// Labels and annotations with the group's prefix. Consumers select and order pages by the first
// three.
const (
	// PlacementLabel, on a PlacementDecision, names the Placement it belongs to.
	PlacementLabel = GroupName + "/placement"
	// DecisionGroupNameLabel, on a PlacementDecision, is the name of its decision group; empty for
	// clusters that no named group selects.
	DecisionGroupNameLabel = GroupName + "/decision-group-name"
	// DecisionGroupIndexLabel, on a PlacementDecision, is the index of its decision group: 0, 1, 2…
	DecisionGroupIndexLabel = GroupName + "/decision-group-index"
	// ClusterSetLabel, on a ManagedCluster, names the one exclusive ManagedClusterSet it belongs
	// to.
	ClusterSetLabel = GroupName + "/clusterset"
	// PlacementDisableAnnotation, if "true" on a Placement, makes Berth ignore it and not change
	// its pages.
	PlacementDisableAnnotation = GroupName + "/experimental-scheduling-disable"
	// AutoUpdateAnnotation, if "false" on the ManagedClusterSet default or global, keeps edits of
	// its selector.
	AutoUpdateAnnotation = GroupName + "/autoupdate"
)

// Annotations and labels with Berth's prefix.
const (
	// QueueAnnotation, on a PlacementDecision, is a JSON text with the queue of the Placement and
	// the rule that selected the queue.
	QueueAnnotation = "berth.dev/queue"
	// ProfileAnnotation, on a Placement, is the name of the scheduler profile.
	ProfileAnnotation = "berth.dev/profile"
	// PriorityAnnotation, on a Placement, is an integer. Queued Placements with higher priority are
	// decided first.
	PriorityAnnotation = "berth.dev/priority"
	// SelectionPolicyAnnotation, on a Placement, is the name of the SelectionPolicy that it
	// requires: without that policy it is not decided.
	SelectionPolicyAnnotation = "berth.dev/selection-policy"
	// ClusterProfileAnnotation, on a ManagedCluster, is the ClusterProfile that it was made from:
	// NAMESPACE/NAME, the profile's UID and the UID of its CustomResourceDefinition.
	ClusterProfileAnnotation = "berth.dev/cluster-profile"
	// CopiedLabelsAnnotation, on such a ManagedCluster, lists the labels that it has from its
	// ClusterProfile. All others are people's.
	CopiedLabelsAnnotation = "berth.dev/cluster-profile-labels"
	// ClusterProfileNamespaceLabel, on such a ManagedCluster, is the namespace of its
	// ClusterProfile. Authors of profiles cannot set it, so cluster sets can select by it.
	ClusterProfileNamespaceLabel = "berth.dev/cluster-profile-namespace"

	// DefaultProfile is the profile of a Placement without ProfileAnnotation.
	DefaultProfile = "default"
)

// MaxDecisionsPerPage is the maximum number of clusters in a PlacementDecision.
const MaxDecisionsPerPage = 100

// MaxLabelValueLength is the maximum length of a label value in characters, and so of the names of
// Placements and ManagedClusterSets, which are label values.
const MaxLabelValueLength = 63

// Conditions of a Placement.
const (
	PlacementConditionMisconfigured   = "PlacementMisconfigured"
	PlacementConditionSatisfied       = "PlacementSatisfied"
	PlacementConditionDecisionPending = "DecisionPending"
	// PlacementConditionDecisionProgressing exists while a change is published in steps. It is
	// False while a DisruptionPolicy suspends it, and after its progress deadline.
	PlacementConditionDecisionProgressing = "DecisionProgressing"
	PlacementConditionQueueAdmitted       = "QueueAdmitted"
	// PlacementConditionDecisionEdited is True while another client edits the pages repeatedly and
	// Berth reverts the edits, else absent.
	PlacementConditionDecisionEdited = "DecisionEdited"
	// PlacementConditionResilient is whether the Placement stays satisfied if a failure domain is
	// lost. It exists while the plugin Resilience has arguments.
	PlacementConditionResilient = "Resilient"
	// PlacementConditionSchedulingDisabled is True while PlacementDisableAnnotation is set, and
	// until Berth has adopted the pages after it was removed; else absent.
	PlacementConditionSchedulingDisabled = "SchedulingDisabled"
)

// Reasons of Resilient: True, False, False before a loss, and twice Unknown.
const (
	ReasonDomainsCanBeLost = "DomainsCanBeLost"
	ReasonDomainsCritical  = "DomainsCritical"
	ReasonNotSatisfied     = "NotSatisfied"
	ReasonNoDomains        = "NoDomains"
	ReasonTooManyDomains   = "TooManyDomains"
)

// Reasons of PlacementMisconfigured: the first when it is True, the second when it is False.
const (
	ReasonMisconfigured     = "Misconfigured"
	ReasonSucceedConfigured = "Succeedconfigured"
)

// Reasons of PlacementSatisfied: the first that applies is used, Misconfigured before all. The
// status is True only for AllDecisionsScheduled.
const (
	ReasonDecisionPending             = "DecisionPending"
	ReasonQueueRejected               = "QueueRejected"
	ReasonNoManagedClusterSetBindings = "NoManagedClusterSetBindings"
	ReasonNoIntersection              = "NoIntersection"
	ReasonAllManagedClusterSetsEmpty  = "AllManagedClusterSetsEmpty"
	ReasonSelectionPolicyMissing      = "SelectionPolicyMissing"
	ReasonNotAllDecisionsScheduled    = "NotAllDecisionsScheduled"
	ReasonNoManagedClusterMatched     = "NoManagedClusterMatched"
	ReasonPinUnsatisfiable            = "PinUnsatisfiable"
	ReasonSpreadUnsatisfiable         = "SpreadUnsatisfiable"
	ReasonGroupUnsatisfiable          = "GroupUnsatisfiable"
	ReasonAllDecisionsScheduled       = "AllDecisionsScheduled"
)

// ReasonDisabledByAnnotation is the reason of SchedulingDisabled.
const ReasonDisabledByAnnotation = "DisabledByAnnotation"

// ReasonEditsReverted is the reason of DecisionEdited.
const ReasonEditsReverted = "EditsReverted"

// Reasons of DecisionProgressing.
const (
	// ReasonRollingUpdate, with True: the change is published in steps.
	ReasonRollingUpdate = "RollingUpdate"
	// ReasonProgressDeadlineExceeded, with False: no step was published for the progress deadline.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonSuspended, with False: a DisruptionPolicy suspends the change.
	ReasonSuspended = "Suspended"
	// ReasonMinAvailable, with False: removals wait for minAvailable of a DisruptionPolicy.
	ReasonMinAvailable = "MinAvailable"
	// ReasonUndecided, with False: the change does not go on, because nothing is decided.
	ReasonUndecided = "Undecided"
)

// Reasons of DecisionPending. A Placement without a pending change does not have the condition.
const (
	// ReasonHeld, with True: a Permit plugin holds the change.
	ReasonHeld = "Held"
	// ReasonWaiting, with True: a plugin waits for something outside the hub and is called again.
	ReasonWaiting = "Waiting"
	// ReasonExpired, with False: the change was not approved in time. The same change is not held
	// again.
	ReasonExpired = "Expired"
	// ReasonDenied, with False: a plugin denies the change. The plugin is called again in the
	// Placement's next attempt.
	ReasonDenied = "Denied"
	// ReasonRejected, with False: a user or a plugin rejected the change. The same change is not
	// held again.
	ReasonRejected = "Rejected"
)

// Conditions of the other kinds.
const (
	// ManagedClusterConditionAvailable, on a ManagedCluster: its API server answers.
	ManagedClusterConditionAvailable = "ManagedClusterConditionAvailable"
	// ManagedClusterSetConditionEmpty, on a ManagedClusterSet: no cluster belongs to it.
	ManagedClusterSetConditionEmpty = "ClusterSetEmpty"
	// ManagedClusterSetBindingConditionBound, on a ManagedClusterSetBinding: Placements of the
	// namespace can use the set.
	ManagedClusterSetBindingConditionBound = "Bound"
)

// Reasons of ManagedClusterConditionAvailable that Berth and Open Cluster Management write.
const (
	// ReasonClusterAvailable, with True: the member answers and is ready.
	ReasonClusterAvailable = "ManagedClusterAvailable"
	// ReasonClusterUnavailable, with False: the member answers that it is not ready.
	ReasonClusterUnavailable = "ManagedClusterUnavailable"
	// ReasonClusterUnreachable, with Unknown: the member does not respond.
	ReasonClusterUnreachable = "ManagedClusterUnreachable"
	// ReasonLeaseUpdateStopped, with Unknown: the cluster's lease is not renewed.
	ReasonLeaseUpdateStopped = "ManagedClusterLeaseUpdateStopped"
	// ReasonKubeAPIServerUnavailable, with False: Open Cluster Management's agent cannot reach the
	// cluster's API server.
	ReasonKubeAPIServerUnavailable = "ManagedClusterKubeAPIServerUnavailable"
)

// Keys of the NoSelect taints for clusters whose Available condition is False or Unknown.
const (
	ManagedClusterTaintUnavailable = GroupName + "/unavailable"
	ManagedClusterTaintUnreachable = GroupName + "/unreachable"
)

// DrainTaint is the key of the NoSelect taint that drains a cluster: its removal from decisions
// obeys DisruptionPolicies.
const DrainTaint = "berth.dev/drain"

// Drains reports whether the taint drains its cluster.
func (t Taint) Drains() bool { return t.Key == DrainTaint && t.Effect == TaintEffectNoSelect }

// SaysUnavailable reports whether the taint is one that Berth or Open Cluster Management adds to a
// cluster that is unavailable or unreachable.
func (t Taint) SaysUnavailable() bool {
	return (t.Key == ManagedClusterTaintUnavailable || t.Key == ManagedClusterTaintUnreachable) && t.Effect == TaintEffectNoSelect
}

// Unavailable reports whether the cluster has a taint that says so.
func (c *ManagedCluster) Unavailable() bool {
	return slices.ContainsFunc(c.Spec.Taints, Taint.SaysUnavailable)
}

// Drained reports whether the cluster has a taint that drains it.
func (c *ManagedCluster) Drained() bool { return slices.ContainsFunc(c.Spec.Taints, Taint.Drains) }

// The built-in prioritizers that a ScoreCoordinate of type BuiltIn can name.
const (
	PrioritizerBalance                   = "Balance"
	PrioritizerSteady                    = "Steady"
	PrioritizerResourceAllocatableCPU    = "ResourceAllocatableCPU"
	PrioritizerResourceAllocatableMemory = "ResourceAllocatableMemory"
	PrioritizerSpread                    = "Spread"
)
