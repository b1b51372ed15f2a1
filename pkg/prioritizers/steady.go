package prioritizers

import (
	"context"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Steady prefers clusters that are published for the Placement: they score 100, others 0. While a
// change is held, its clusters score 100, and clusters that it removes score 50, so that small
// changes of scores do not replace the held change.
type Steady struct{}

// Name implements framework.Plugin.
func (Steady) Name() string { return v1alpha1.PrioritizerSteady }

// Reads implements framework.ClusterReader: it reads pages.
func (Steady) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Score implements framework.ScorePlugin.
func (Steady) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	subject := state.Snapshot().Subject
	return steadyScore(cluster.Index, subject.Incumbents, subject.Leaving), nil
}

func steadyScore(cluster int, incumbents, leaving framework.Bitset) int64 {
	switch {
	case leaving.Has(cluster):
		// Lower than the clusters that the open change keeps, so that scores do not undo the
		// change.
		return framework.MaxScore / 2
	case incumbents.Has(cluster):
		return framework.MaxScore
	}
	return 0
}

// settledSteady are fixed scores: they change only with the pages and records.
type settledSteady struct{ incumbents, leaving framework.Bitset }

// Rescore implements framework.Rescorer.
func (Steady) Rescore(state *framework.CycleState) (framework.SettledScore, bool) {
	subject := state.Snapshot().Subject
	return &settledSteady{subject.Incumbents, subject.Leaving}, true
}

func (s *settledSteady) Score(c *framework.Cluster, _ *framework.DecisionCounts) int64 {
	return steadyScore(c.Index, s.incumbents, s.leaving)
}

func (*settledSteady) Keeps(_, _ *framework.Cluster, _ *framework.DecisionCounts) bool { return true }

func (*settledSteady) DependsOn() framework.ScoreDependency { return framework.OnNothing }
