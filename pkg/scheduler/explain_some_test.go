package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestNearestToCut lists the selected clusters and those nearest to the cut.
func TestNearestToCut(t *testing.T) {
	for name, tc := range map[string]struct {
		number int32
		limit  int
		want   string
	}{
		"all":                                  {2, 10, "f1 f2 f3 f4 x1 x2"},
		"those after the cut that are nearest": {2, 3, "f1 f2 f3"},
		"of many selected ones, the last, beside a quarter of others": {4, 4, "f2 f3 f4 x1"},
		"one": {2, 1, "f2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fixture.Placement("ns", "p").Number(tc.number).Predicate(fixture.MatchLabel("a", "x"))
			var clusters []fixture.ClusterBuilder
			for i := 1; i <= 4; i++ {
				clusters = append(clusters, fixture.Cluster(fmt.Sprint("f", i)).Label("a", "x"))
			}
			clusters = append(clusters, fixture.Cluster("x1"), fixture.Cluster("x2"))
			s := newScheduler(t)
			a := s.Decide(context.Background(), fleet(p, clusters...).Snapshot(key, fixture.Now, nil))
			if diff := cmp.Diff(tc.want, strings.Join(a.NearestToCut(tc.limit), " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestExplainSome gives the verdicts that Explain gives.
func TestExplainSome(t *testing.T) {
	ctx, s := context.Background(), newScheduler(t)
	p := fixture.Placement("ns", "p").Number(1).Predicate(fixture.MatchLabel("a", "x"))
	inv := fleet(p, fixture.Cluster("c1").Label("a", "x"), fixture.Cluster("c2"), fixture.Cluster("c3").Label("a", "x"))
	a := s.DecideInTime(ctx, inv.Snapshot(key, fixture.Now, nil))
	var want []framework.ClusterVerdict
	for _, v := range s.Explain(ctx, a.Decision, "") {
		if v.Cluster != "c3" {
			want = append(want, v)
		}
	}
	got := s.ExplainSome(ctx, a.Decision, []string{"c2", "c1", "elsewhere"})
	if diff := cmp.Diff(want, got.Verdicts); diff != "" || got.NoChange != 0 {
		t.Errorf("%d without a change (-want +got):\n%s", got.NoChange, diff)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if got := s.ExplainSome(ended, a.Decision, []string{"c2"}); got.NoChange != 1 || got.Verdicts[0].Reason != want[1].Reason {
		t.Errorf("without time: %+v", got)
	}
}

// TestExplainSomeHasTenTimeouts: no change is looked for after ten times CycleTimeout, and the time
// is charged to the namespace.
func TestExplainSomeHasTenTimeouts(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, takes time.Duration
		want           int
		wantDelay      bool // the namespace has used up its share
	}{
		"in time":    {timeout: time.Second, takes: 9 * time.Second},
		"too late":   {timeout: time.Second, takes: 10 * time.Second, want: 1, wantDelay: true},
		"no timeout": {takes: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s, clock := context.Background(), newScheduler(t), clocktesting.NewFakeClock(fixture.Now)
			a := s.Decide(ctx, fleet(ask().Number(0), fixture.Cluster("c1")).Snapshot(key, fixture.Now, nil))
			s.Clock, s.CycleTimeout = clock, tc.timeout
			s.Timer = func(_, point string) func() {
				if point == "Filter" {
					clock.Step(tc.takes)
				}
				return func() {}
			}
			if got := s.ExplainSome(ctx, a.Decision, []string{"c1"}); got.NoChange != tc.want || (got.Verdicts[0].SelectedWith == "") != (tc.want > 0) {
				t.Errorf("%+v", got)
			}
			if delay := s.AttemptDelay(a.Snapshot.Subject.Placement); (delay > 0) != tc.wantDelay {
				t.Errorf("the next attempt waits for %s", delay)
			}
		})
	}
}
