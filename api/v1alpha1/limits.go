package v1alpha1

// The maximum lengths of lists in a Placement's spec. Berth's schema refuses longer lists; on other
// CRDs, a Placement with a longer list is misconfigured.
const (
	MaxClusterSets       = 1_000
	MaxPredicates        = 100
	MaxTolerations       = 256
	MaxPrioritizers      = 64
	MaxSpreadConstraints = 8
	MaxDecisionGroups    = 100
	MaxCelExpressions    = 100
	// MaxRequirements is for the matchExpressions of a selector, MaxRequirementValues for the
	// values of one of them.
	MaxRequirements      = 100
	MaxRequirementValues = 1_000
)

// MaxResources is the maximum number of entries in a cluster's status.capacity, and in its
// status.allocatable. Berth's schema refuses more; on other CRDs, the controller ignores the rest.
const MaxResources = 1_000
