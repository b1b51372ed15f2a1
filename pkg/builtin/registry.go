package builtin

import (
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/filters"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/prioritizers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Registry has every plugin in the tree.
func Registry() framework.Registry {
	return framework.Registry{
		filters.PredicateName:                         filters.NewPredicate,
		filters.TaintTolerationName:                   filters.NewTaintToleration,
		v1alpha1.PrioritizerBalance:                   prioritizers.NewBalance,
		v1alpha1.PrioritizerSteady:                    prioritizers.NewSteady,
		v1alpha1.PrioritizerResourceAllocatableCPU:    prioritizers.NewResourceAllocatableCPU,
		v1alpha1.PrioritizerResourceAllocatableMemory: prioritizers.NewResourceAllocatableMemory,
		string(v1alpha1.ScoreCoordinateTypeAddOn):     prioritizers.NewAddOn,
		lifecycle.DecisionPublisherName:               lifecycle.NewDecisionPublisher,
		lifecycle.PrioritySortName:                    lifecycle.NewPrioritySort,
	}
}

// DefaultProfile is what runs when nothing is configured. Balance and Steady count 1 in the Additive mode; the other
// prioritizers only where a Placement lists them.
func DefaultProfile() config.Profile {
	return config.Profile{Name: v1alpha1.DefaultProfile, Plugins: []config.Plugin{
		{Name: filters.PredicateName},
		{Name: filters.TaintTolerationName},
		{Name: v1alpha1.PrioritizerBalance, Weight: 1},
		{Name: v1alpha1.PrioritizerSteady, Weight: 1},
		{Name: v1alpha1.PrioritizerResourceAllocatableCPU},
		{Name: v1alpha1.PrioritizerResourceAllocatableMemory},
		{Name: string(v1alpha1.ScoreCoordinateTypeAddOn)},
		{Name: lifecycle.DecisionPublisherName},
	}}
}
