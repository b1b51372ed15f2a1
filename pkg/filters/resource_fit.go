package filters

import (
	"context"
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

// ResourceFit excludes clusters that are too small for the requests of the Placement's
// SelectionPolicy: their allocatable amounts, less the requests of the other Placements that have
// them, must be large enough.
//
// If a cluster is too small for the Placements that have it, the oldest that fit keep it.
type ResourceFit struct{}

// Name implements framework.Plugin.
func (ResourceFit) Name() string { return ResourceFitName }

// Reads implements framework.ClusterReader: the policy names the resources.
func (ResourceFit) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Describe implements framework.Describer.
func (ResourceFit) Describe() framework.Traits { return framework.Traits{ForcesRemoval: neverForced} }

// PreFilter returns the clusters that are large enough.
func (ResourceFit) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	snapshot := state.Snapshot()
	if snapshot.Subject.CapacityRequest == nil {
		return nil, skip
	}
	passed, contended := snapshot.Candidates().Clone(), framework.Bitset{}
	has := snapshot.Subject.Has
	for name, amount := range snapshot.Subject.CapacityRequest.Amounts {
		capacity := snapshot.Capacities[name]
		for i := range passed.All {
			switch free, reported := capacity.Free(i); {
			case !reported || !has.Has(i) && free < amount:
				passed.Unset(i)
			case free < 0:
				contended = contended.Set(i)
			}
		}
	}
	for i := range contended.All {
		if len(missingAmounts(snapshot, i)) > 0 {
			passed.Unset(i)
		}
	}
	return &framework.PreFilterResult{Clusters: passed, SkipFilter: true}, nil
}

// lack is how much of a resource a cluster lacks for the Placement, and how much is free for it, in
// the units of framework.UnitsOf.
type lack struct {
	resource      v1alpha1.ResourceName
	missing, free int64
}

// missingAmounts returns the resources of which a cluster has too little for the Placement, sorted
// by name.
func missingAmounts(snapshot *framework.Snapshot, cluster int) []lack {
	own, has := snapshot.Subject.CapacityRequest, snapshot.Subject.Has.Has(cluster)
	free, contended := map[v1alpha1.ResourceName]int64{}, false
	for name, amount := range own.Amounts {
		units, reported := snapshot.Capacities[name].Free(cluster)
		if !reported {
			continue
		}
		if contended = contended || has && units < 0; has {
			units += amount
		}
		free[name] = units
	}
	if contended {
		free = leftByOlder(snapshot, cluster)
	}
	var all []lack
	for _, name := range slices.Sorted(maps.Keys(own.Amounts)) {
		if units, reported := free[name]; !reported || units < own.Amounts[name] {
			all = append(all, lack{name, own.Amounts[name] - units, units})
		}
	}
	return all
}

// leftByOlder returns what is left for the Placement on a cluster that is too small for all that
// have it, by resource: what those before it leave. Those that do not fit themselves do not count,
// because they leave.
func leftByOlder(snapshot *framework.Snapshot, cluster int) map[v1alpha1.ResourceName]int64 {
	left := map[v1alpha1.ResourceName]int64{}
	for name, capacity := range snapshot.Capacities {
		if allocatable := capacity.Allocatable.Get(cluster); allocatable > 0 {
			left[name] = allocatable - 1
		}
	}
next:
	for _, other := range snapshot.CapacityRequests.Get(cluster) {
		if !other.Before(snapshot.Subject.CapacityRequest) {
			break
		}
		for name, amount := range other.Amounts {
			if units, reported := left[name]; !reported || units < amount {
				continue next
			}
		}
		for name, amount := range other.Amounts {
			left[name] -= amount
		}
	}
	return left
}

// Filter returns the reason why a cluster is too small.
func (ResourceFit) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	snapshot := state.Snapshot()
	if snapshot.Subject.CapacityRequest == nil {
		return nil
	}
	var reasons []string
	for _, l := range missingAmounts(snapshot, cluster.Index) {
		allocatable, reported := cluster.Status.Allocatable[l.resource]
		if !reported {
			reasons = append(reasons, fmt.Sprintf("the cluster does not report %s", l.resource))
			continue
		}
		reasons = append(reasons, fmt.Sprintf("needs %s %s, %s of %s are free", quantityOf(snapshot, l.resource, l.missing+l.free), l.resource,
			quantityOf(snapshot, l.resource, max(l.free, 0)), allocatable.String()))
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
	if snapshot.Subject.CapacityRequest == nil {
		return nil
	}
	object := *cluster.ManagedCluster
	object.Status.Allocatable = maps.Clone(object.Status.Allocatable)
	var texts []string
	for _, l := range missingAmounts(snapshot, cluster.Index) {
		allocatable, reported := object.Status.Allocatable[l.resource]
		if !reported {
			return nil
		}
		more := resource.NewQuantity(l.missing, resource.DecimalSI)
		if l.resource == v1alpha1.ResourceCPU {
			more = resource.NewMilliQuantity(l.missing, resource.DecimalSI)
		}
		allocatable = allocatable.DeepCopy()
		allocatable.Add(*more)
		object.Status.Allocatable[l.resource] = allocatable
		texts = append(texts, fmt.Sprintf("%s more allocatable %s", quantityOf(snapshot, l.resource, l.missing), l.resource))
	}
	if len(texts) == 0 {
		return nil
	}
	return []framework.Relaxation{{Text: strings.Join(texts, " and "), Cluster: cluster.Changed(&object)}}
}

// Recheck implements framework.Rechecker. Without a request, all clusters pass.
func (ResourceFit) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, state.Snapshot().Subject.CapacityRequest == nil
}
