package decide

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// reportSelection stores the conditions that the plugins of the profile report.
func (r *Decision) reportSelection(ctx context.Context) {
	if r.reports = r.Failure == nil; !r.reports {
		return
	}
	for _, p := range r.Profile.PostFilter {
		report := r.Profile.Traits(p.Name()).ReportSelection
		if report == nil {
			continue
		}
		var condition *metav1.Condition
		done := false
		if failure := plugins.Call(ctx, "ReportSelection", p, func() *framework.Status {
			condition, done = report(ctx, r.State, r.Snapshot.Subject.Placement, r.Selection())
			return nil
		}); failure != nil {
			r.Panics = append(r.Panics, failure)
		}
		r.reports = r.reports && done
		if condition != nil {
			r.reported = append(r.reported, *condition)
		}
	}
}

// RemoveUnreported removes the condition of a plugin that reports nothing.
func (r *Decision) RemoveUnreported(conditions *[]metav1.Condition) {
	if r.reports && len(r.reported) == 0 {
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionResilient)
	}
}

// Selection describes the selection. Read it before Release.
func (r *Decision) Selection() *framework.Selected {
	s := &framework.Selected{Clusters: r.selectedIndexes(), Decided: r.Failure == nil, Excluded: r.ExcludedBy, Without: r.selectWithout}
	s.Satisfied, s.Why = r.Satisfied()
	if short := r.Shortfall; !s.Satisfied {
		s.Missing = short.Missing
		s.OnlyFiltered = short.Missing > 0 && short.BlockedBy == "" && len(short.Unmet)+len(short.Full) == 0 && !r.Demand.Capped(len(r.Selected), short.Missing)
	}
	return s
}

// selectWithout repeats step 4 without some of the candidates.
func (r *Decision) selectWithout(lost framework.Bitset) *framework.Selected {
	left := r.candidates.Without(lost)
	if len(r.Demand.Tiers)+len(r.Demand.Spread) == 0 && !r.selectedIndexes().Intersects(lost) && left.Len() > 0 {
		return r.Selection()
	}
	trial := *r
	trial.ranking, trial.Selected, trial.Scores = nil, nil, nil
	trial.candidates = left
	trial.Feasible, trial.Totals = make([]*framework.Cluster, 0, len(r.Feasible)), make([]int64, 0, len(r.Totals))
	for i, c := range r.Feasible {
		if !lost.Has(c.Index) {
			trial.Feasible, trial.Totals = append(trial.Feasible, c), append(trial.Totals, r.Totals[i])
		}
	}
	trial.narrowed = make([]narrowing, len(r.narrowed))
	for i, n := range r.narrowed {
		trial.narrowed[i] = narrowing{plugin: n.plugin, excluded: n.excluded.Without(lost)}
	}
	trial.excluded = nil
	for _, e := range r.excluded {
		if !lost.Has(e.cluster.Index) {
			trial.excluded = append(trial.excluded, e)
		}
	}
	if r.selectionPolicy != nil {
		// The times at which tiers may be used again are those of the whole fleet.
		policy := *r.selectionPolicy
		trial.selectionPolicy, trial.State = &policy, r.State.Clone()
	}
	trial.Failure = trial.selectClusters()
	return trial.Selection()
}
