package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ShortfallName is the plugin's name.
const ShortfallName = "Shortfall"

// Shortfall is a PostFilter plugin that reports how many clusters of spec.numberOfClusters are
// missing, and which filter to relax.
type Shortfall struct{}

// NewShortfall is the plugin's factory.
func NewShortfall(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return Shortfall{}, err
}

// Name implements framework.Plugin.
func (Shortfall) Name() string { return ShortfallName }

// PostFilter always returns Unschedulable, so the next plugin runs.
func (Shortfall) PostFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, filtered framework.Filtered) ([]framework.Intent, *framework.Status) {
	runNext := framework.NewStatus(framework.Unschedulable, "reports only")
	wanted := 0
	if n := pl.Spec.NumberOfClusters; n != nil {
		wanted = int(*n)
	}
	missing := wanted - len(filtered.Feasible)
	if missing <= 0 {
		return nil, runNext
	}
	note := fmt.Sprintf("%d of %d clusters fit, %d missing", len(filtered.Feasible), wanted, missing)
	if len(filtered.Excluded) == 0 && len(filtered.Feasible) == 0 {
		note += ": no cluster set that the Placement may use has clusters"
	} else {
		note += ": " + DescribeExcluded(filtered.Excluded, missing)
	}
	return []framework.Intent{{Reason: "ClustersMissing", Note: note}}, runNext
}

// DescribeExcluded says which filters exclude clusters, and which one to relax if clusters are
// missing.
func DescribeExcluded(excluded []framework.ExcludedBy, missing int) string {
	if len(excluded) == 0 {
		return "the cluster sets have no others"
	}
	parts := make([]string, len(excluded))
	for i, e := range excluded {
		parts[i] = fmt.Sprintf("%s excludes %d", e.Plugin, e.Clusters)
	}
	return strings.Join(parts, ", ") + "; " + suggestRelaxation(excluded, missing)
}

// suggestRelaxation names the filter to relax. Clusters that the last filter excludes have passed
// all others, so relaxing the last filter is enough for them.
func suggestRelaxation(excluded []framework.ExcludedBy, missing int) string {
	last := excluded[len(excluded)-1]
	sum := 0
	for _, e := range excluded {
		sum += e.Clusters
	}
	switch {
	case last.Clusters >= missing:
		return fmt.Sprintf("relaxing %s is enough", last.Plugin)
	case sum < missing:
		return "relaxing all of them is not enough"
	case len(excluded) == 1:
		return fmt.Sprintf("relaxing %s is enough", last.Plugin)
	}
	return fmt.Sprintf("relaxing %s adds %d; %s excludes the others first", last.Plugin, last.Clusters, excluded[0].Plugin)
}
