package decide

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// normalizer writes scores.
type normalizer struct {
	plain
	scores []int64
}

func (n *normalizer) NormalizeScore(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, scores []int64) *framework.Status {
	copy(scores, n.scores)
	return n.status
}

func TestNormalize(t *testing.T) {
	broken := framework.AsStatus(errors.New("broken"))
	tests := map[string]struct {
		scores []int64
		status *framework.Status
		addOn  bool
		want   string
	}{
		"in range":               {scores: []int64{-100, 100}},
		"none is fine":           {scores: []int64{framework.NoScore, 0}},
		"too high":               {scores: []int64{0, 101}, want: "N: the score 101 of cluster c1 is not between -100 and 100"},
		"too low":                {scores: []int64{-101, 0}, want: "N: the score -101 of cluster c0 is not between -100 and 100"},
		"of an AddOn, any":       {scores: []int64{-101, 101}, addOn: true},
		"a failure":              {scores: []int64{0, 0}, status: broken, want: "N: broken"},
		"a failure of an AddOn":  {scores: []int64{0, 0}, status: broken, addOn: true, want: "N: broken"},
		"a code that means none": {scores: []int64{0, 0}, status: framework.NewStatus(framework.Skip, "why"), want: "N: NormalizeScore returned Skip: why"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Decision{Snapshot: &framework.Snapshot{Subject: &framework.Subject{}}}
			for i := range tc.scores {
				r.Feasible = append(r.Feasible, framework.NewCluster(fixture.Cluster(fmt.Sprint("c", i)).Obj(), i))
			}
			n := &normalizer{plain{name: "N", status: tc.status}, tc.scores}
			got := r.normalize(t.Context(), scoring{scorer: scorer{ScorePlugin: n, name: "N", addOn: tc.addOn}, scores: make([]int64, len(tc.scores))})
			if text := fmt.Sprint(got.Err()); tc.want == "" && got != nil || tc.want != "" && text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			bare := scoring{scorer: scorer{ScorePlugin: &plain{name: "N"}, name: "N", addOn: tc.addOn}, scores: tc.scores}
			if failure := r.normalize(t.Context(), bare); tc.status == nil && fmt.Sprint(failure.Err()) != fmt.Sprint(got.Err()) {
				t.Errorf("without NormalizeScore: %v", failure.Err())
			}
		})
	}
}

// TestPreScoreOfWeighted: PreScore of a plugin that scores runs if it has a weight.
func TestPreScoreOfWeighted(t *testing.T) {
	var calls []string
	of := func(name string) *preScorer { return &preScorer{plain: plain{name: name}, calls: &calls} }
	scores, rests, prepares := of("scores"), of("rests"), of("prepares")
	r := &Decision{Snapshot: snapshotOf(), State: framework.NewCycleState(nil)}
	r.Profile = &plugins.Profile{PreScore: []framework.PreScorePlugin{scores, rests, prepares}, Score: []plugins.WeightedScore{{ScorePlugin: scores, Weight: 1}, {ScorePlugin: rests, Weight: 0}}}
	if _, failure := (&Decider{}).preScore(t.Context(), r, []scorer{{ScorePlugin: scores, name: "scores"}, {ScorePlugin: scores, name: "rests", addOn: true}}); failure != nil {
		t.Fatal(failure.Err())
	}
	if diff := cmp.Diff([]string{"scores", "prepares"}, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type preScorer struct {
	plain
	calls *[]string
}

func (p *preScorer) PreScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []*framework.Cluster) *framework.Status {
	*p.calls = append(*p.calls, p.name)
	return nil
}
