package filters

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/fixture"
)

// TestEviction: what excludes cluster c, and when the next attempt runs.
func TestEviction(t *testing.T) {
	evict := func(name string) fixture.EvictionBuilder { return fixture.Eviction("n", name, "p", "c") }
	waiting := func(name string) fixture.EvictionBuilder { return evict(name).Valid(metav1.ConditionTrue) }
	ago := func(d time.Duration) time.Time { return fixture.Now.Add(-d) }
	tests := map[string]struct {
		evictions  []fixture.EvictionBuilder
		wantReason string
		// wantAt is the next attempt, from Now.
		wantAt time.Duration
		// wantSkip: the plugin has nothing to do.
		wantSkip bool
	}{
		"none":                    {wantSkip: true},
		"one that is not checked": {evictions: []fixture.EvictionBuilder{evict("e")}, wantSkip: true},
		"an invalid one":          {evictions: []fixture.EvictionBuilder{evict("e").Valid(metav1.ConditionFalse)}, wantSkip: true},
		"one that waits":          {evictions: []fixture.EvictionBuilder{waiting("e")}, wantReason: "evicted by PlacementEviction e"},
		"an executed one": {
			evictions: []fixture.EvictionBuilder{evict("e").Executed(ago(time.Minute))}, wantAt: 59 * time.Minute,
			wantReason: "evicted by PlacementEviction e until 2026-08-01T12:59:00Z",
		},
		"one that has just ended": {evictions: []fixture.EvictionBuilder{evict("e").Executed(ago(time.Hour))}, wantSkip: true},
		"two executed ones: the later end": {
			evictions: []fixture.EvictionBuilder{evict("e").Executed(ago(time.Minute)), evict("f").Executed(ago(time.Second))}, wantAt: time.Hour - time.Second,
			wantReason: "evicted by PlacementEviction f until 2026-08-01T12:59:59Z",
		},
		"one that waits, and an executed one": {
			evictions: []fixture.EvictionBuilder{waiting("f"), evict("e").Executed(ago(time.Second))}, wantReason: "evicted by PlacementEviction f",
		},
		"two that wait": {evictions: []fixture.EvictionBuilder{waiting("f"), waiting("e")}, wantReason: "evicted by PlacementEviction e"},
		"of another cluster": {
			evictions: []fixture.EvictionBuilder{fixture.Eviction("n", "e", "p", "b").Executed(ago(time.Minute))}, wantAt: 59 * time.Minute,
		},
		"of another Placement":              {evictions: []fixture.EvictionBuilder{fixture.Eviction("n", "e", "q", "c").Valid(metav1.ConditionTrue)}, wantSkip: true},
		"of another namespace":              {evictions: []fixture.EvictionBuilder{fixture.Eviction("m", "e", "p", "c").Valid(metav1.ConditionTrue)}, wantSkip: true},
		"of an earlier Placement":           {evictions: []fixture.EvictionBuilder{waiting("e").Created(ago(time.Hour + time.Second))}, wantSkip: true},
		"created together with a Placement": {evictions: []fixture.EvictionBuilder{waiting("e").Created(ago(time.Hour))}, wantReason: "evicted by PlacementEviction e"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := hub(ask(), fixture.Cluster("b"), fixture.Cluster("c"))
			pl := ask().Obj()
			pl.CreationTimestamp = metav1.NewTime(ago(time.Hour))
			inv.Update(pl)
			for _, e := range tc.evictions {
				inv.Update(e.Obj())
			}
			state := stateOf(inv)
			_, status := Eviction{}.PreFilter(t.Context(), state, pl)
			if status.IsSkip() != tc.wantSkip || !status.IsSkip() && !status.IsSuccess() {
				t.Errorf("PreFilter: %v, want skip %t", status, tc.wantSkip)
			}
			var want time.Time
			if tc.wantAt > 0 {
				want = fixture.Now.Add(tc.wantAt)
			}
			if at := state.NextAttempt(); !at.Equal(want) || !state.Requeue().IsZero() {
				t.Errorf("the next attempt is at %s, want %s", at, want)
			}
			cluster := state.Snapshot().Clusters.Get(1)
			if got := (Eviction{}).Filter(t.Context(), state, pl, cluster).Reason(); cluster.Name != "c" || got != tc.wantReason {
				t.Errorf("%s: %q, want %q", cluster.Name, got, tc.wantReason)
			}
			if (Eviction{}).Describe().ForcesRemoval(state, pl, cluster).Forces {
				t.Error("the removal is forced")
			}
		})
	}
}
