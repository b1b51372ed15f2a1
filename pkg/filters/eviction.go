package filters

import (
	"context"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// EvictionName is the plugin's name.
const EvictionName = "Eviction"

// Eviction excludes clusters that a valid PlacementEviction of the Placement evicts: until the
// eviction is executed, and for excludeForSeconds after that. Without the plugin in the profile of
// a Placement, its evictions wait.
//
// It is the last filter, so that a cluster that it excludes would qualify without the eviction.
type Eviction struct{}

// Name implements framework.Plugin.
func (Eviction) Name() string { return EvictionName }

// Reads implements framework.ClusterReader: it reads only names.
func (Eviction) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Describe implements framework.Describer.
func (Eviction) Describe() framework.Traits { return framework.Traits{ForcesRemoval: neverForced} }

// PreFilter asks for an attempt when the first exclusion ends. It disables Filter for a Placement
// without evictions.
func (Eviction) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	snapshot, active := state.Snapshot(), false
	for _, e := range snapshot.Subject.Evictions {
		waits := e.Until.IsZero()
		if !waits && snapshot.Now.Before(e.Until) {
			state.AttemptAt(e.Until)
			waits = true
		}
		active = active || waits
	}
	if !active {
		return nil, skip
	}
	return nil, nil
}

// Filter implements framework.FilterPlugin.
func (Eviction) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	e := state.Snapshot().EvictionOf(cluster.Name)
	if e == nil {
		return nil
	}
	reason := "evicted by PlacementEviction " + e.Name
	if !e.Until.IsZero() {
		reason += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return framework.NewStatus(framework.Unschedulable, reason)
}

// Recheck implements framework.Rechecker. Without evictions, all clusters pass.
func (Eviction) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, len(state.Snapshot().Subject.Evictions) == 0
}
