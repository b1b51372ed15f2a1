package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Stage is what users can rely on. docs/versions.md has the rules of each stage.
type Stage string

const (
	// Stable features change only compatibly, or after a deprecation.
	Stable Stage = "stable"
	// Beta features are tested and complete. Details may change between minor releases.
	Beta Stage = "beta"
	// Alpha features may change in any way, or be removed, in any release.
	Alpha Stage = "alpha"
)

// Feature is a part of Berth with one stage. Each kind, command and plugin belongs to one feature.
type Feature struct {
	Name  string `json:"name"`
	Stage Stage  `json:"stage"`
	// MayChange is what may change, empty for a stable feature.
	MayChange string `json:"mayChange,omitempty"`
	// Docs is the page of the feature in docs.
	Docs     string   `json:"docs"`
	Kinds    []string `json:"kinds,omitempty"`
	Commands []string `json:"commands,omitempty"`
	Plugins  []string `json:"plugins,omitempty"`
}

// Features returns the table of all features, those of the highest stage first.
func Features() []Feature { return features }

var features = []Feature{
	{
		Name: "Placements", Stage: Stable, Docs: "user-guide.md",
		Kinds:    []string{"Placement", "PlacementDecision", "ManagedCluster", "ManagedClusterSet", "ManagedClusterSetBinding", "AddOnPlacementScore"},
		Commands: []string{"controller", "explain", "simulate", "status", "version"},
		Plugins: []string{
			"Predicate", "TaintToleration", "Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory", "AddOn",
			"PrioritySort", "Shortfall", "DecisionPublisher", "AuditLog",
		},
	},
	{
		Name: "Changes", Stage: Beta, MayChange: "fields, and how changes are divided into steps", Docs: "changes.md",
		Kinds:    []string{"PlacementChange", "DisruptionPolicy"},
		Commands: []string{"approve", "reject", "diff", "history", "undo", "suspend", "resume", "top"},
		Plugins:  []string{"Approval", "BlastRadius", "MaintenanceWindow", "Movement", "Stabilization"},
	},
	{
		Name: "Evictions and pins", Stage: Beta, MayChange: "fields and flags", Docs: "changes.md",
		Kinds:    []string{"PlacementEviction"},
		Commands: []string{"drain", "undrain", "evict", "pin", "unpin"},
		Plugins:  []string{"Eviction"},
	},
	{
		Name: "Selection policies", Stage: Beta, MayChange: "fields, and scores of preferences", Docs: "selection.md",
		Kinds:   []string{"SelectionPolicy"},
		Plugins: []string{"SelectionPolicy", "PlacementAffinity", "Preference", "ResourceFit"},
	},
	{
		Name: "Explanations for a namespace", Stage: Beta, MayChange: "fields of the status", Docs: "explanations.md",
		Kinds: []string{"PlacementExplanation"},
	},
	{
		Name: "Queues", Stage: Beta, MayChange: "what the controller reads of YuniKorn's format", Docs: "tenancy.md",
		Commands: []string{"queues"}, Plugins: []string{"QueueAdmission"},
	},
	{
		Name: "Consumers", Stage: Beta, MayChange: "flags and responses", Docs: "consumers.md",
		Commands: []string{"generator", "argocd-clusters"}, Plugins: []string{"ArgoCDRefresh"},
	},
	{
		Name: "Reports", Stage: Beta, MayChange: "flags, and the names of claims", Docs: "report.md",
		Commands: []string{"add-cluster", "report"},
	},
	{
		Name: "Open Cluster Management's flags", Stage: Beta, MayChange: "the flags, with OCM's", Docs: "coming-from.md",
		Commands: []string{"placement"},
	},
	{
		Name: "A hub on one machine", Stage: Beta, MayChange: "flags and the folder's layout", Docs: "tutorial.md",
		Commands: []string{"up"},
	},
	{
		Name: "Explore", Stage: Beta, MayChange: "the page, and its requests to the server", Docs: "explore.md",
		Commands: []string{"explore"},
	},
	{
		Name: "Replay", Stage: Alpha, MayChange: "the format of recordings: a release may not read older ones", Docs: "replay.md",
		Commands: []string{"replay"},
	},
	{
		Name: "Resilience", Stage: Alpha, MayChange: "arguments, metrics and the report", Docs: "resilience.md",
		Commands: []string{"resilience"}, Plugins: []string{"Resilience"},
	},
	{
		Name: "ClusterProfiles and their PlacementDecisions", Stage: Alpha, MayChange: "everything, with SIG-Multicluster's API", Docs: "onboarding.md",
	},
}

// showStages adds the stage of its feature to the help of each subcommand that is not stable.
func showStages(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		for _, f := range Features() {
			if f.Stage == Stable || !slices.Contains(f.Commands, cmd.Name()) {
				continue
			}
			if cmd.Long == "" {
				cmd.Long = cmd.Short + "."
			}
			cmd.Long = strings.TrimSpace(cmd.Long) + "\n\nStage: " + string(f.Stage) + ". May change: " + f.MayChange + "."
		}
	}
}
