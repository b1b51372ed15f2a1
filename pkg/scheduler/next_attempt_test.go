package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEndOfToleratedPreferNoSelectStartsAnAttempt: when the toleration of a selected cluster's
// PreferNoSelect taint ends, another cluster may be selected.
func TestEndOfToleratedPreferNoSelectStartsAnAttempt(t *testing.T) {
	p := ask().Number(1).Toleration("slow", v1alpha1.TolerationOpExists, "", "").Seconds(30)
	selected := fixture.Cluster("a").Set("s1").TaintAt("slow", "", v1alpha1.TaintEffectPreferNoSelect, fixture.At(-10)).Obj()
	inv := fleet(p)
	inv.Update(selected)
	inv.Update(fixture.Cluster("b").Set("s1").TaintAt("slow", "", v1alpha1.TaintEffectPreferNoSelect, fixture.At(-25)).Obj())
	s := newScheduler(t)
	for _, tc := range []struct {
		now             time.Time
		want            string
		wantNextAttempt time.Time
	}{
		{fixture.Now, "a", fixture.At(20).Time},
		{fixture.At(6).Time, "a", fixture.At(20).Time},
		{fixture.At(20).Time, "a", time.Time{}},
	} {
		r := s.Decide(context.Background(), inv.Snapshot(key, tc.now, nil))
		if len(r.Selected) != 1 || r.Selected[0].Cluster.Name != tc.want {
			t.Errorf("at %s: selected %v, want %s", tc.now, r.Selected, tc.want)
		}
		if !r.State.NextAttempt().Equal(tc.wantNextAttempt) || !r.State.Requeue().IsZero() {
			t.Errorf("at %s: next attempt at %s, requeue at %s; want %s and none", tc.now, r.State.NextAttempt(), r.State.Requeue(), tc.wantNextAttempt)
		}
	}
}
