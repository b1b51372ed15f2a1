package v1alpha1

// Labels and annotations under the group's own prefix. Consumers select and order decision pages by
// the first three.
const (
	// PlacementLabel, on a PlacementDecision, names the Placement it belongs to.
	PlacementLabel = GroupName + "/placement"
	// DecisionGroupNameLabel, on a PlacementDecision, is the name of its decision group; empty for
	// the clusters that no listed group claims.
	DecisionGroupNameLabel = GroupName + "/decision-group-name"
	// DecisionGroupIndexLabel, on a PlacementDecision, is the index of its decision group: an
	// integer, dense from 0.
	DecisionGroupIndexLabel = GroupName + "/decision-group-index"
	// ClusterSetLabel, on a ManagedCluster, names the one exclusive ManagedClusterSet it belongs
	// to.
	ClusterSetLabel = GroupName + "/clusterset"
	// PlacementDisableAnnotation, when "true" on a Placement, makes Berth leave it and its pages
	// alone.
	PlacementDisableAnnotation = GroupName + "/experimental-scheduling-disable"
)

// Labels and annotations of Berth's own.
const (
	// QueueAnnotation, on a PlacementDecision, records the queue its Placement was admitted to, and
	// by which rule.
	QueueAnnotation = "berth.dev/queue"
	// ProfileAnnotation, on a Placement, chooses the scheduling profile.
	ProfileAnnotation = "berth.dev/profile"
	// PriorityAnnotation, on a Placement, is an integer: of several waiting, the higher is decided
	// first.
	PriorityAnnotation = "berth.dev/priority"

	// DefaultProfile is the profile of a Placement without ProfileAnnotation.
	DefaultProfile = "default"
)

// MaxDecisionsPerPage is the most clusters one PlacementDecision lists.
const MaxDecisionsPerPage = 100

// MaxLabelValueLength is the most characters a label value may have, and so the most the name of a
// Placement or of a ManagedClusterSet may have: both names become label values.
const MaxLabelValueLength = 63

// Conditions of a Placement.
const (
	PlacementConditionMisconfigured   = "PlacementMisconfigured"
	PlacementConditionSatisfied       = "PlacementSatisfied"
	PlacementConditionDecisionPending = "DecisionPending"
	PlacementConditionQueueAdmitted   = "QueueAdmitted"
)

// Reasons of PlacementMisconfigured: the first when it is True, the second when it is False.
const (
	ReasonMisconfigured     = "Misconfigured"
	ReasonSucceedConfigured = "Succeedconfigured"
)

// Reasons of PlacementSatisfied, in the order they are tried. Only AllDecisionsScheduled goes with
// True.
const (
	ReasonQueueRejected               = "QueueRejected"
	ReasonNoManagedClusterSetBindings = "NoManagedClusterSetBindings"
	ReasonNoIntersection              = "NoIntersection"
	ReasonAllManagedClusterSetsEmpty  = "AllManagedClusterSetsEmpty"
	ReasonNotAllDecisionsScheduled    = "NotAllDecisionsScheduled"
	ReasonNoManagedClusterMatched     = "NoManagedClusterMatched"
	ReasonSpreadUnsatisfiable         = "SpreadUnsatisfiable"
	ReasonAllDecisionsScheduled       = "AllDecisionsScheduled"
)

// Reasons of DecisionPending; a Placement on which no change waits has no such condition.
const (
	// ReasonHeld, with True: a Permit plugin holds the change.
	ReasonHeld = "Held"
	// ReasonWaiting, with True: a plugin waits for an outside fact, and is asked again.
	ReasonWaiting = "Waiting"
	// ReasonExpired, with False: the change was not approved in time. The same change is not held
	// again.
	ReasonExpired = "Expired"
	// ReasonDenied, with False: a plugin denies the change. The plugin is asked again in the
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
	// ManagedClusterConditionJoined, on a ManagedCluster: it has joined the hub.
	ManagedClusterConditionJoined = "ManagedClusterJoined"
	// ManagedClusterSetConditionEmpty, on a ManagedClusterSet: no cluster belongs to it.
	ManagedClusterSetConditionEmpty = "ClusterSetEmpty"
	// ManagedClusterSetBindingConditionBound, on a ManagedClusterSetBinding: the set is visible in
	// the namespace.
	ManagedClusterSetBindingConditionBound = "Bound"
)

// Keys of the taints that an Available condition of False and of Unknown turns into; their effect
// is NoSelect.
const (
	ManagedClusterTaintUnavailable = GroupName + "/unavailable"
	ManagedClusterTaintUnreachable = GroupName + "/unreachable"
)

// The built-in prioritizers a ScoreCoordinate of type BuiltIn may name.
const (
	PrioritizerBalance                   = "Balance"
	PrioritizerSteady                    = "Steady"
	PrioritizerResourceAllocatableCPU    = "ResourceAllocatableCPU"
	PrioritizerResourceAllocatableMemory = "ResourceAllocatableMemory"
	PrioritizerSpread                    = "Spread"
)
