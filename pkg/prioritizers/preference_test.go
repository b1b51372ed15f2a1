package prioritizers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPreference: the score is the sum of the weights that match, from -100 to 100.
func TestPreference(t *testing.T) {
	all, none := framework.Bitset{}.Set(0), framework.Bitset{}
	for name, tc := range map[string]struct {
		weights  []int32
		matches  []framework.Bitset
		want     int64
		wantSkip bool
	}{
		"no preferences":   {wantSkip: true},
		"none matches":     {weights: []int32{60}, matches: []framework.Bitset{none}},
		"one of two":       {weights: []int32{60, 30}, matches: []framework.Bitset{none, all}, want: 30},
		"both":             {weights: []int32{60, -30}, matches: []framework.Bitset{all, all}, want: 30},
		"more than 100":    {weights: []int32{60, 60}, matches: []framework.Bitset{all, all}, want: 100},
		"less than -100":   {weights: []int32{-60, -60}, matches: []framework.Bitset{all, all}, want: -100},
		"clamped at last":  {weights: []int32{100, 100, -100}, matches: []framework.Bitset{all, all, all}, want: 100},
		"without a filter": {weights: []int32{60}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("n", "p").Obj())
			inv.Update(fixture.Cluster("c").Obj())
			policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "slp"}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p"}}
			for _, w := range tc.weights {
				policy.Spec.Preferences = append(policy.Spec.Preferences, berthv1alpha1.Preference{Weight: w})
			}
			inv.Update(policy)
			state := framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))
			if tc.matches != nil {
				state.Write(framework.PolicyMatchesKey, &framework.PolicyMatches{Preferences: tc.matches})
			}
			if got := (Preference{}).PreScore(t.Context(), state, nil, nil).IsSkip(); got != tc.wantSkip {
				t.Errorf("PreScore skips: %t", got)
			}
			cluster := state.Snapshot().Cluster("c")
			for i := range tc.matches {
				if tc.matches[i].Len() > 0 {
					tc.matches[i] = framework.Bitset{}.Set(cluster.Index)
				}
			}
			if got, status := (Preference{}).Score(t.Context(), state, nil, cluster); got != tc.want || !status.IsSuccess() {
				t.Errorf("the score is %d, %v, want %d", got, status, tc.want)
			}
		})
	}
}
