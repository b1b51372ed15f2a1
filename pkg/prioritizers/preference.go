package prioritizers

import (
	"context"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Preference scores the preferences of the Placement's SelectionPolicy: the sum of the weights of
// the terms that match the cluster, from -100 to 100. It counts preferenceWeight times, also in the
// mode Exact.
//
// The plugin SelectionPolicy finds the clusters that match.
type Preference struct{}

// Name implements framework.Plugin.
func (Preference) Name() string { return berthv1alpha1.PrioritizerPreference }

// Reads implements framework.ClusterReader: the policy names it all.
func (Preference) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreScore disables Score for a Placement without preferences.
func (Preference) PreScore(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, _ []*framework.Cluster) *framework.Status {
	if policy := state.Snapshot().Subject.SelectionPolicy(); policy == nil || len(policy.Spec.Preferences) == 0 {
		return framework.NewStatus(framework.Skip, "")
	}
	return nil
}

// Score implements framework.ScorePlugin.
func (Preference) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	matches, ok := framework.ReadAs[*framework.PolicyMatches](state, framework.PolicyMatchesKey)
	if !ok {
		return 0, nil
	}
	preferences, sum := state.Snapshot().Subject.SelectionPolicy().Spec.Preferences, int64(0)
	for i, matched := range matches.Preferences {
		if matched.Has(cluster.Index) {
			sum += int64(preferences[i].Weight)
		}
	}
	return min(max(sum, framework.MinScore), framework.MaxScore), nil
}
