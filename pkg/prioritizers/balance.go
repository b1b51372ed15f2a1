package prioritizers

import (
	"context"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Balance prefers clusters that few other Placements of the hub use. A cluster that no other
// Placement has scores 100, the one with the most decisions -100.
//
// count is the number of decisions on a cluster of all other Placements on the hub, but those that
// are with this one and so follow it, max the highest count of any cluster name. The score is 100
// if count is 0, otherwise 2·int(100·(0.5 − count/max)), in IEEE doubles. After a start the
// clusters that stay have the best score: counts have drifted since the last decision.
type Balance struct{}

type balanceState struct {
	max float64
	// staying are the clusters that have the score best; only after a start.
	staying framework.Bitset
	best    int64
}

func (s *balanceState) Clone() framework.StateData { c := *s; return &c }

// Name implements framework.Plugin.
func (Balance) Name() string { return v1alpha1.PrioritizerBalance }

// Reads implements framework.ClusterReader: counts are no property of clusters.
func (Balance) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreScore computes max.
func (b Balance) PreScore(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, _ []*framework.Cluster) *framework.Status {
	snapshot := state.Snapshot()
	s := &balanceState{max: float64(snapshot.Counts.Max(&snapshot.Subject.Entries))}
	if last := snapshot.Subject.Last; last != nil && last.SinceStart {
		s.staying, s.best = snapshot.Subject.Incumbents.Without(snapshot.Subject.Leaving), bestScore(pl)
	}
	state.Write(v1alpha1.PrioritizerBalance, s)
	return nil
}

// bestScore is the lowest score for a Placement that gives Balance a negative weight.
func bestScore(pl *v1alpha1.Placement) int64 {
	best := framework.MaxScore
	for _, c := range pl.Spec.PrioritizerPolicy.Configurations {
		if at := c.ScoreCoordinate; at == nil || at.Type == v1alpha1.ScoreCoordinateTypeAddOn || at.BuiltIn != v1alpha1.PrioritizerBalance {
			continue
		}
		if best = framework.MaxScore; c.Weight != nil && *c.Weight < 0 {
			best = framework.MinScore
		}
	}
	return best
}

// Score implements framework.ScorePlugin.
func (b Balance) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	snapshot := state.Snapshot()
	s, ok := framework.ReadAs[*balanceState](state, v1alpha1.PrioritizerBalance)
	if !ok {
		return 0, framework.AsStatus(framework.ErrNotFound)
	}
	if s.staying.Has(cluster.Index) {
		return s.best, nil
	}
	return balanceScore(snapshot.Counts.ByIndex.Get(cluster.Index)-snapshot.Subject.Entries.Of(cluster.Index), s.max), nil
}

// balanceScore returns the score of a cluster with a count of decisions, given the highest one.
func balanceScore(count int32, highest float64) int64 {
	if count == 0 {
		return framework.MaxScore
	}
	return 2 * int64(100.0*(0.5-float64(count)/highest))
}

// settledBalance are the scores by the decision counts of now.
type settledBalance struct {
	entries framework.Entries
	highest float64
	// changes is the number of changes of counts up to which the highest one is known to stay.
	changes uint64
}

// Rescore implements framework.Rescorer. Scores after a start are no proof for later attempts.
func (Balance) Rescore(state *framework.CycleState) (framework.SettledScore, bool) {
	s, ok := framework.ReadAs[*balanceState](state, v1alpha1.PrioritizerBalance)
	if !ok {
		return nil, false
	}
	return &settledBalance{state.Snapshot().Subject.Entries, s.max, state.Snapshot().Counts.Changes}, s.staying.Len() == 0
}

func (s *settledBalance) Score(c *framework.Cluster, counts *framework.DecisionCounts) int64 {
	return balanceScore(counts.ByIndex.Get(c.Index)-s.entries.Of(c.Index), s.highest)
}

// Keeps is true while the highest count stays.
func (s *settledBalance) Keeps(_, _ *framework.Cluster, counts *framework.DecisionCounts) bool {
	if counts.Changes == s.changes {
		return true
	}
	if float64(counts.Max(&s.entries)) != s.highest {
		return false
	}
	s.changes = counts.Changes
	return true
}

func (*settledBalance) DependsOn() framework.ScoreDependency { return framework.OnDecisionCounts }
