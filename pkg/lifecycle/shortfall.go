package lifecycle

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ShortfallName is the plugin's name.
const ShortfallName = "Shortfall"

// Shortfall reports in the Warning event ClustersMissing how many clusters of spec.numberOfClusters
// are missing, and how many each filter excludes. It is sent once, and again if its text changes.
// The plugin changes no decision.
type Shortfall struct{}

// Name implements framework.Plugin.
func (Shortfall) Name() string { return ShortfallName }

// PostFilter always returns Unschedulable, so the next plugin runs.
func (Shortfall) PostFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, filtered framework.Filtered) ([]framework.Intent, *framework.Status) {
	runNext := framework.NewStatus(framework.Unschedulable, "reports only")
	wanted := int(ptr.Deref(pl.Spec.NumberOfClusters, 0))
	missing := wanted - len(filtered.Feasible)
	if missing <= 0 {
		return nil, runNext
	}
	note := fmt.Sprintf("%d of %d clusters fit, %d missing", len(filtered.Feasible), wanted, missing)
	why := DescribeExcluded(filtered.Excluded)
	if len(filtered.Excluded) == 0 && len(filtered.Feasible) == 0 {
		why = "no cluster set that the Placement may use has clusters"
	}
	return []framework.Intent{{Reason: "ClustersMissing", Note: note + ": " + why}}, runNext
}

// DescribeExcluded says which filters exclude clusters.
func DescribeExcluded(excluded []framework.ExcludedBy) string {
	if len(excluded) == 0 {
		return "the cluster sets have no others"
	}
	parts := make([]string, len(excluded))
	for i, e := range excluded {
		parts[i] = fmt.Sprintf("%s excludes %d", e.Plugin, e.Clusters)
	}
	return strings.Join(parts, ", ")
}
