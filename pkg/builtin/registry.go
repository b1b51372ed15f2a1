package builtin

import (
	"context"
	"encoding/json"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/filters"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/prioritizers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Registry has every plugin in the tree.
func Registry() framework.Registry {
	return framework.Registry{
		filters.PredicateName:                         withoutArgs(filters.NewPredicate),
		filters.TaintTolerationName:                   stateless(filters.TaintToleration{}),
		filters.SelectionPolicyName:                   withoutArgs(filters.NewSelectionPolicy),
		filters.PlacementAffinityName:                 stateless(filters.PlacementAffinity{}),
		filters.ResourceFitName:                       stateless(filters.ResourceFit{}),
		filters.EvictionName:                          stateless(filters.Eviction{}),
		v1alpha1.PrioritizerBalance:                   stateless(prioritizers.Balance{}),
		v1alpha1.PrioritizerSteady:                    stateless(prioritizers.Steady{}),
		berthv1alpha1.PrioritizerPreference:           stateless(prioritizers.Preference{}),
		v1alpha1.PrioritizerResourceAllocatableCPU:    withoutArgs(prioritizers.NewResourceAllocatableCPU),
		v1alpha1.PrioritizerResourceAllocatableMemory: withoutArgs(prioritizers.NewResourceAllocatableMemory),
		string(v1alpha1.ScoreCoordinateTypeAddOn):     stateless(prioritizers.AddOn{}),
		lifecycle.PrioritySortName:                    stateless(lifecycle.PrioritySort{}),
		lifecycle.QueueAdmissionName:                  stateless(lifecycle.QueueAdmission{}),
		lifecycle.ShortfallName:                       stateless(lifecycle.Shortfall{}),
		lifecycle.ResilienceName:                      lifecycle.NewResilience,
		lifecycle.MovementName:                        stateless(lifecycle.Movement{}),
		lifecycle.StabilizationName:                   lifecycle.NewStabilization,
		lifecycle.ApprovalName:                        stateless(lifecycle.Approval{}),
		lifecycle.BlastRadiusName:                     lifecycle.NewBlastRadius,
		lifecycle.MaintenanceWindowName:               lifecycle.NewMaintenanceWindow,
		lifecycle.DecisionPublisherName:               lifecycle.NewDecisionPublisher,
		lifecycle.AuditLogName:                        stateless(lifecycle.AuditLog{}),
		lifecycle.ArgoCDRefreshName:                   lifecycle.NewArgoCDRefresh,
	}
}

// withoutArgs refuses arguments for a plugin that has none.
func withoutArgs(factory framework.PluginFactory) framework.PluginFactory {
	return func(ctx context.Context, args json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
		if _, err := framework.DecodeArgs(args, struct{}{}); err != nil {
			return nil, err
		}
		return factory(ctx, nil, handle)
	}
}

// stateless is the factory of a plugin without arguments and data.
func stateless(plugin framework.Plugin) framework.PluginFactory {
	return withoutArgs(func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return plugin, nil
	})
}

// DefaultProfile is what runs when nothing is configured: each plugin at every point it implements.
// Balance and Steady count 1 in the Additive mode; the other prioritizers only where a Placement
// lists them, and Preference where a SelectionPolicy has preferences. BlastRadius permits
// everything until it has arguments, Approval, MaintenanceWindow and Stabilization until a
// DisruptionPolicy asks for them; Resilience reports nothing until it has arguments.
func DefaultProfile() config.Profile {
	listed := new(int32(0))
	return config.Profile{Name: v1alpha1.DefaultProfile, Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{
		{Name: lifecycle.PrioritySortName},
		{Name: lifecycle.QueueAdmissionName},
		{Name: filters.PredicateName},
		{Name: filters.TaintTolerationName},
		{Name: filters.SelectionPolicyName},
		{Name: filters.PlacementAffinityName},
		{Name: filters.ResourceFitName},
		{Name: filters.EvictionName},
		{Name: v1alpha1.PrioritizerBalance},
		{Name: v1alpha1.PrioritizerSteady},
		{Name: v1alpha1.PrioritizerResourceAllocatableCPU, Weight: listed},
		{Name: v1alpha1.PrioritizerResourceAllocatableMemory, Weight: listed},
		{Name: string(v1alpha1.ScoreCoordinateTypeAddOn), Weight: listed},
		{Name: berthv1alpha1.PrioritizerPreference, Weight: listed},
		{Name: lifecycle.ShortfallName},
		{Name: lifecycle.ResilienceName},
		{Name: lifecycle.StabilizationName},
		{Name: lifecycle.ApprovalName},
		{Name: lifecycle.BlastRadiusName},
		{Name: lifecycle.MaintenanceWindowName},
		{Name: lifecycle.MovementName},
		{Name: lifecycle.DecisionPublisherName},
		{Name: lifecycle.AuditLogName},
	}}}}
}

// Profiles builds the profiles of a configuration, by name, with the defaults of DefaultProfile; a
// nil configuration has only those. registry is Registry, or has more plugins.
func Profiles(ctx context.Context, c *config.PlacementSchedulerConfiguration, registry framework.Registry, handle *framework.Handle) (map[string]*plugins.Profile, error) {
	return plugins.NewProfiles(ctx, c, DefaultProfile(), registry, handle)
}
