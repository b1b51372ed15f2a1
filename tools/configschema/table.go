package main

const (
	configPackage = "github.com/berth-dev/berth/pkg/scheduler/config"
	// argsPackage has the types of arguments, each named after its plugin: BlastRadiusArgs.
	argsPackage = "github.com/berth-dev/berth/pkg/lifecycle"
)

// The plugins in the tree, with arguments and without. A file may name others, too: the schema
// knows nothing of theirs.
var (
	withArgs = []string{"ArgoCDRefresh", "BlastRadius", "DecisionPublisher", "MaintenanceWindow", "Resilience", "Stabilization"}

	withoutArgs = []string{
		"AddOn", "Approval", "AuditLog", "Balance", "Eviction", "Movement", "PlacementAffinity", "Predicate", "Preference", "PrioritySort", "QueueAdmission",
		"ResourceAllocatableCPU", "ResourceAllocatableMemory", "ResourceFit", "SelectionPolicy", "Shortfall", "Steady", "TaintToleration",
	}
)
