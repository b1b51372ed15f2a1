package explanation

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// DebugResult is the JSON of the debugger of Open Cluster Management's placement controller.
type DebugResult struct {
	Placement         *v1alpha1.Placement `json:"placement,omitempty"`
	FilterResults     []DebugFilter       `json:"filteredPipelineResults,omitempty"`
	PrioritizeResults []DebugPrioritizer  `json:"prioritizeResults,omitempty"`
	AggregatedScores  []DebugScore        `json:"aggregatedScores,omitempty"`
	Error             string              `json:"error,omitempty"`
}

// DebugFilter has the clusters that are left after the filters named, in order.
type DebugFilter struct {
	Name             string   `json:"name"`
	FilteredClusters []string `json:"filteredClusters"`
}

// DebugPrioritizer has the scores of one prioritizer, before its weight.
type DebugPrioritizer struct {
	Name   string           `json:"name"`
	Weight int64            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

// DebugScore is the total of one cluster.
type DebugScore struct {
	ClusterName string `json:"clusterName"`
	Score       int64  `json:"score"`
}

// DebugResultOf returns a report as the debugger shows it. If nothing was decided, Error has the
// reason.
func DebugResultOf(pl *v1alpha1.Placement, a *Result) *DebugResult {
	result := &DebugResult{Placement: &v1alpha1.Placement{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "Placement"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name, Labels: pl.Labels, Annotations: pl.Annotations},
		Spec:       pl.Spec,
	}}
	report := a.Report
	if report.Answer == nil {
		result.Error = "the Placement is left alone: " + report.Skipped
		return result
	}
	if !a.Decided {
		// PlacementSatisfied says why, also of a misconfigured Placement.
		result.Error = report.Conditions.Get(v1alpha1.PlacementConditionSatisfied).Message
		return result
	}
	for _, f := range report.FilterResults {
		result.FilterResults = append(result.FilterResults, DebugFilter{f.Name, f.Clusters})
	}
	for _, name := range slices.Sorted(maps.Keys(report.PrioritizerScores)) {
		p := report.PrioritizerScores[name]
		result.PrioritizeResults = append(result.PrioritizeResults, DebugPrioritizer{name, p.Weight, p.Scores})
	}
	for _, name := range report.Ranking {
		result.AggregatedScores = append(result.AggregatedScores, DebugScore{name, report.Scores[name]})
	}
	return result
}
