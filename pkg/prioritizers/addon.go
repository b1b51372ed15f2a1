package prioritizers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// AddOn uses scores that another program writes: a named value of an AddOnPlacementScore in the
// cluster's namespace. The score is 0 if the value is missing or past its validUntil. The next
// event of the Placement is then a Warning that names expired objects, and the event ScoreMissing
// reports a score that no candidate has.
type AddOn struct{}

// addOnScore is the scorer of one coordinate.
type addOnScore struct {
	coordinate v1alpha1.AddOnScore
	name       string
	// mu protects the list of expired scores in the CycleState.
	mu sync.Mutex
}

type expiredState struct{ names []string }

func (s *expiredState) Clone() framework.StateData { return &expiredState{slices.Clone(s.names)} }

// Name implements framework.Plugin.
func (AddOn) Name() string { return string(v1alpha1.ScoreCoordinateTypeAddOn) }

// Reads implements framework.ClusterReader: a Placement lists the scores it weighs.
func (AddOn) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Score returns Skip: without a coordinate there is no score.
func (AddOn) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, framework.NewStatus(framework.Skip, "no coordinate")
}

// Describe implements framework.Describer.
func (a AddOn) Describe() framework.Traits {
	return framework.Traits{ForAddOn: a.ForAddOn, WhyNoScore: a.WhyNoScore}
}

// ForAddOn is that of framework.Traits.
func (AddOn) ForAddOn(c v1alpha1.AddOnScore) framework.ScorePlugin {
	return &addOnScore{coordinate: c, name: fmt.Sprintf("AddOn/%s/%s", c.ResourceName, c.ScoreName)}
}

// Name is unique for the coordinate.
func (a *addOnScore) Name() string { return a.name }

// Score implements framework.ScorePlugin.
func (a *addOnScore) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	snapshot := state.Snapshot()
	object := snapshot.Scores[a.coordinate.ResourceName].Get(cluster.Index)
	if object == nil {
		return 0, nil
	}
	if isExpired(object, snapshot) {
		a.addExpired(state, object.Namespace+"/"+object.Name)
		return 0, nil
	}
	if until := object.Status.ValidUntil; until != nil {
		// Expired is strictly later.
		state.RequeueAt(until.Add(1))
	}
	if s := scoreIn(object, a.coordinate.ScoreName); s != nil {
		return int64(s.Value), nil
	}
	return 0, nil
}

// WhyNoScore is that of framework.Traits.
func (AddOn) WhyNoScore(c v1alpha1.AddOnScore, snapshot *framework.Snapshot, cluster *framework.Cluster) string {
	object := snapshot.Scores[c.ResourceName].Get(cluster.Index)
	switch {
	case object == nil || scoreIn(object, c.ScoreName) == nil:
		return "no score"
	case isExpired(object, snapshot):
		return "expired"
	}
	return ""
}

func isExpired(object *v1alpha1.AddOnPlacementScore, snapshot *framework.Snapshot) bool {
	return object.Status.ValidUntil != nil && snapshot.Now.After(object.Status.ValidUntil.Time)
}

// scoreIn returns the score of a name; nil if there is none. Of two, the last one counts.
func scoreIn(object *v1alpha1.AddOnPlacementScore, name string) *v1alpha1.AddOnPlacementScoreItem {
	for i := len(object.Status.Scores) - 1; i >= 0; i-- {
		if s := &object.Status.Scores[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// addExpired adds an expired score to the list in the CycleState.
func (a *addOnScore) addExpired(state *framework.CycleState, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired, ok := framework.ReadAs[*expiredState](state, framework.StateKey(a.name))
	if !ok {
		expired = &expiredState{}
		state.Write(framework.StateKey(a.name), expired)
	}
	expired.names = append(expired.names, name)
}

// NormalizeScore does not change the scores. It warns about expired ones, and about a score that no
// candidate has.
func (a *addOnScore) NormalizeScore(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, scores []int64) *framework.Status {
	if !slices.ContainsFunc(scores, func(x int64) bool { return x != 0 }) && !a.isKnown(state.Snapshot()) {
		state.MissScore(a.coordinate.ResourceName + "/" + a.coordinate.ScoreName)
	}
	if expired, ok := framework.ReadAs[*expiredState](state, framework.StateKey(a.name)); ok {
		slices.Sort(expired.names)
		state.Warn(a.name, fmt.Sprintf("AddOnPlacementScores %s expired", strings.Join(expired.names, " ")))
	}
	return nil
}

// isKnown reports whether a candidate has the score, expired or not.
func (a *addOnScore) isKnown(snapshot *framework.Snapshot) bool {
	objects := snapshot.Scores[a.coordinate.ResourceName]
	for i := range snapshot.Candidates().All {
		object := objects.Get(i)
		if object != nil && slices.ContainsFunc(object.Status.Scores, func(s v1alpha1.AddOnPlacementScoreItem) bool { return s.Name == a.coordinate.ScoreName }) {
			return true
		}
	}
	return false
}
