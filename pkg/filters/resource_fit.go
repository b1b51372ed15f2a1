package filters

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ResourceFitName is the plugin's name.
const ResourceFitName = "ResourceFit"

// ResourceFit is a filter for the requests of SelectionPolicies: a cluster passes if its
// allocatable amounts, less the requests of the other Placements that have it, are large enough. If
// a cluster is too small for the Placements that have it, the oldest that fit keep it.
type ResourceFit struct{}

// NewResourceFit is the plugin's factory.
func NewResourceFit(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return ResourceFit{}, nil
}

// Name implements framework.Plugin.
func (ResourceFit) Name() string { return ResourceFitName }

// Reads implements framework.ClusterReader: the policy names the resources.
func (ResourceFit) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// ForcesRemoval implements framework.ForcedRemovalPlugin. Requests obey DisruptionPolicies.
func (ResourceFit) ForcesRemoval(*framework.CycleState, *v1alpha1.Placement, *framework.Cluster) bool {
	return false
}

// PreFilter returns the clusters that are large enough.
func (ResourceFit) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	snapshot := state.Snapshot()
	if snapshot.Subject.Request == nil {
		return nil, framework.NewStatus(framework.Skip, "")
	}
	passed := snapshot.Candidates().Clone()
	for name, amount := range snapshot.Subject.Request.Amounts {
		for i := range passed.All {
			if missing, _ := missingAmount(snapshot, i, name, amount); missing > 0 {
				passed.Unset(i)
			}
		}
	}
	return &framework.PreFilterResult{Clusters: passed, SkipFilter: true}, nil
}

// missingAmount returns how much of a resource a cluster lacks for the Placement, and how much is
// free for it. Both are in the units of framework.UnitsOf.
func missingAmount(snapshot *framework.Snapshot, cluster int, name v1alpha1.ResourceName, amount int64) (missing, free int64) {
	free, reported := snapshot.Capacities[name].Free(cluster)
	switch own := snapshot.Subject.Request; {
	case !reported:
		return max(amount, 1), 0
	case snapshot.Subject.Has.Has(cluster) && free >= 0:
		return 0, free + amount
	case snapshot.Subject.Has.Has(cluster):
		free = freeInOrder(snapshot, cluster, name, own)
	}
	return max(amount-free, 0), free
}

// freeInOrder returns how much of a resource is free for a Placement on a cluster that is too small
// for all that have it: what those before it leave. Those that do not fit themselves do not count,
// because they leave.
func freeInOrder(snapshot *framework.Snapshot, cluster int, name v1alpha1.ResourceName, own *framework.Request) int64 {
	free := map[v1alpha1.ResourceName]int64{}
	freeOf := func(name v1alpha1.ResourceName) int64 {
		if _, known := free[name]; !known {
			free[name] = -1
			if c := snapshot.Capacities[name]; c != nil {
				free[name] = c.Allocatable.Get(cluster) - 1
			}
		}
		return free[name]
	}
	for _, other := range snapshot.Requests.Get(cluster) {
		if !other.Before(own) {
			break
		}
		fits := true
		for resource, amount := range other.Amounts {
			fits = fits && freeOf(resource) >= amount
		}
		for resource, amount := range other.Amounts {
			if fits {
				free[resource] -= amount
			}
		}
	}
	return freeOf(name)
}

// Filter returns the reason why a cluster is too small.
func (ResourceFit) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	snapshot := state.Snapshot()
	if snapshot.Subject.Request == nil {
		return nil
	}
	var reasons []string
	amounts := snapshot.Subject.Request.Amounts
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		missing, free := missingAmount(snapshot, cluster.Index, name, amounts[name])
		allocatable, reported := cluster.Status.Allocatable[name]
		switch {
		case missing <= 0:
		case !reported:
			reasons = append(reasons, fmt.Sprintf("the cluster does not report %s", name))
		default:
			reasons = append(reasons, fmt.Sprintf("needs %s %s, %s of %s are free", quantityOf(snapshot, name, amounts[name]), name,
				quantityOf(snapshot, name, max(free, 0)), allocatable.String()))
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return framework.NewStatus(framework.Unschedulable, strings.Join(reasons, "; "))
}

// quantityOf returns an amount as text, in the notation of the policy.
func quantityOf(snapshot *framework.Snapshot, name v1alpha1.ResourceName, units int64) string {
	if name == v1alpha1.ResourceCPU {
		return resource.NewMilliQuantity(units, resource.DecimalSI).String()
	}
	format := resource.DecimalSI
	if policy := snapshot.Subject.SelectionPolicy(); policy != nil {
		format = policy.Spec.Requests[name].Format
	}
	return resource.NewQuantity(units, format).String()
}

// Relax returns the amounts that the cluster lacks.
func (ResourceFit) Relax(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	snapshot := state.Snapshot()
	if snapshot.Subject.Request == nil {
		return nil
	}
	object := *cluster.ManagedCluster
	object.Status.Allocatable = maps.Clone(object.Status.Allocatable)
	var texts []string
	amounts := snapshot.Subject.Request.Amounts
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		missing, _ := missingAmount(snapshot, cluster.Index, name, amounts[name])
		allocatable, reported := object.Status.Allocatable[name]
		if missing <= 0 {
			continue
		}
		if !reported {
			return nil
		}
		more := resource.NewQuantity(missing, resource.DecimalSI)
		if name == v1alpha1.ResourceCPU {
			more = resource.NewMilliQuantity(missing, resource.DecimalSI)
		}
		allocatable = allocatable.DeepCopy()
		allocatable.Add(*more)
		object.Status.Allocatable[name] = allocatable
		texts = append(texts, fmt.Sprintf("%s more allocatable %s", quantityOf(snapshot, name, missing), name))
	}
	if len(texts) == 0 {
		return nil
	}
	return []framework.Relaxation{{Text: strings.Join(texts, " and "), Cluster: cluster.Changed(&object)}}
}
