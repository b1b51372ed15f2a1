package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// UnmetName is the plugin's name.
const UnmetName = "Unmet"

// Unmet is a PostFilter plugin that says what is missing when fewer clusters fit than
// spec.numberOfClusters, and which filter stands in the way.
type Unmet struct{}

// NewUnmet is the plugin's factory.
func NewUnmet(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return Unmet{}, err
}

// Name implements framework.Plugin.
func (Unmet) Name() string { return UnmetName }

// PostFilter passes on to the next plugin.
func (Unmet) PostFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, filtered framework.Filtered) ([]framework.Intent, *framework.Status) {
	passOn := framework.NewStatus(framework.Unschedulable, "only tells")
	wanted := 0
	if n := pl.Spec.NumberOfClusters; n != nil {
		wanted = int(*n)
	}
	missing := wanted - len(filtered.Feasible)
	if missing <= 0 {
		return nil, passOn
	}
	note := fmt.Sprintf("%d of %d clusters fit, %d missing", len(filtered.Feasible), wanted, missing)
	if n := len(filtered.Excluded); n == 0 {
		note += ": the cluster sets have no others"
	} else {
		parts := make([]string, n)
		for i, e := range filtered.Excluded {
			parts[i] = fmt.Sprintf("%s excludes %d", e.Plugin, e.Clusters)
		}
		note += ": " + strings.Join(parts, ", ") + "; " + advice(filtered.Excluded, missing)
	}
	return []framework.Intent{{Reason: "ClustersMissing", Note: note}}, passOn
}

// advice names the filter to relax. What the last one excludes has passed all others, so that it
// alone stands in the way there.
func advice(excluded []framework.ExcludedBy, missing int) string {
	last := excluded[len(excluded)-1]
	sum := 0
	for _, e := range excluded {
		sum += e.Clusters
	}
	switch {
	case last.Clusters >= missing:
		return fmt.Sprintf("relaxing %s is enough", last.Plugin)
	case sum < missing:
		return "relaxing them all is not enough"
	case len(excluded) == 1:
		return fmt.Sprintf("relaxing %s is enough", last.Plugin)
	}
	return fmt.Sprintf("relaxing %s yields %d; the others are stopped by %s first", last.Plugin, last.Clusters, excluded[0].Plugin)
}
