package v1alpha1

// The most items that a list in a Placement's spec may have. The schema refuses more; where the
// schema is that of somebody else, a Placement with more is misconfigured.
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
