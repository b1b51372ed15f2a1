package prioritizers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// AddOn takes scores that others provide: the named value of the named AddOnPlacementScore in the
// cluster's namespace, as it is; 0 when it is missing, or past its validUntil, which is warned
// about.
type AddOn struct{}

// addOnScore is AddOn for one coordinate.
type addOnScore struct {
	coordinate v1alpha1.AddOnScore
	name       string
	// noting is held while an expired score is noted.
	noting sync.Mutex
}

type expiredState struct{ names []string }

func (s *expiredState) Clone() framework.StateData { return &expiredState{slices.Clone(s.names)} }

// NewAddOn is the plugin's factory.
func NewAddOn(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return AddOn{}, nil
}

// Name implements framework.Plugin.
func (AddOn) Name() string { return string(v1alpha1.ScoreCoordinateTypeAddOn) }

// Reads implements framework.ClusterReader: a Placement lists the scores it weighs.
func (AddOn) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Score has none to give without a coordinate.
func (AddOn) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, framework.NewStatus(framework.Skip, "no coordinate")
}

// ForAddOn implements framework.CoordinateScorer.
func (AddOn) ForAddOn(c v1alpha1.AddOnScore) framework.ScorePlugin {
	return &addOnScore{coordinate: c, name: fmt.Sprintf("AddOn/%s/%s", c.ResourceName, c.ScoreName)}
}

// Name tells coordinates apart.
func (a *addOnScore) Name() string { return a.name }

// Score implements framework.ScorePlugin.
func (a *addOnScore) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	snapshot := state.Snapshot()
	object := snapshot.Scores[a.coordinate.ResourceName].Get(cluster.Index)
	if object == nil {
		return 0, nil
	}
	if until := object.Status.ValidUntil; until != nil {
		if snapshot.Now.After(until.Time) {
			a.note(state, object.Namespace+"/"+object.Name)
			return 0, nil
		}
		// Expired is strictly later.
		state.RequeueAt(until.Add(1))
	}
	// Of two with one name the last one counts.
	for i := len(object.Status.Scores) - 1; i >= 0; i-- {
		if s := &object.Status.Scores[i]; s.Name == a.coordinate.ScoreName {
			return int64(s.Value), nil
		}
	}
	return 0, nil
}

// note remembers an expired score.
func (a *addOnScore) note(state *framework.CycleState, name string) {
	a.noting.Lock()
	defer a.noting.Unlock()
	expired, ok := framework.ReadAs[*expiredState](state, framework.StateKey(a.name))
	if !ok {
		expired = &expiredState{}
		state.Write(framework.StateKey(a.name), expired)
	}
	expired.names = append(expired.names, name)
}

// NormalizeScore leaves the values as they are and warns about the expired ones.
func (a *addOnScore) NormalizeScore(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, _ []int64) *framework.Status {
	if expired, ok := framework.ReadAs[*expiredState](state, framework.StateKey(a.name)); ok {
		slices.Sort(expired.names)
		state.Warn(a.name, fmt.Sprintf("AddOnPlacementScores %s expired", strings.Join(expired.names, " ")))
	}
	return nil
}
