package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// filterer is a PreFilter plugin that prepares nothing.
type filterer struct{}

func (filterer) Name() string { return "x" }

func (filterer) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	return nil, nil
}

// preparer takes some time, and is done after that or not.
type preparer struct {
	filterer
	prepared, done bool
	takes          time.Duration
	clock          *clocktesting.FakeClock
	// yields are what yield answered before and after that time.
	yields []bool
}

func (p *preparer) Prepared(*v1alpha1.Placement) bool { return p.prepared }

func (p *preparer) Prepare(_ *v1alpha1.Placement, yield func() bool) bool {
	p.yields = append(p.yields, yield())
	p.clock.Step(p.takes)
	p.yields = append(p.yields, yield())
	return p.done
}

// charged is the time that was charged to a namespace; it uses up the share of the namespace.
func charged(s *Scheduler, namespace string) time.Duration {
	const ms, all, burst, share = time.Millisecond, 2 * time.Second, time.Second, 10
	s.CycleTimeout = 100 * ms
	s.Charge(namespace, all)
	return (s.AttemptDelay(fixture.Placement(namespace, "new").Obj())/share + burst - all).Round(ms)
}

func TestPrepare(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		timeout    time.Duration
		plugins    []preparer
		busy       bool
		chooses    string
		want       bool
		wantYields [][]bool
		wantUsed   time.Duration
	}{
		"nothing to prepare":         {timeout: 100 * ms, want: true},
		"all is prepared":            {timeout: 100 * ms, plugins: []preparer{{prepared: true}}, busy: true, want: true, wantYields: [][]bool{nil}},
		"an unknown profile":         {timeout: 100 * ms, plugins: []preparer{{}}, chooses: "x", want: true, wantYields: [][]bool{nil}},
		"another is being prepared":  {timeout: 100 * ms, plugins: []preparer{{done: true}}, busy: true, wantYields: [][]bool{nil}},
		"one of two":                 {timeout: 100 * ms, plugins: []preparer{{prepared: true}, {done: true, takes: 10 * ms}}, want: true, wantYields: [][]bool{nil, {false, false}}},
		"half of the time is over":   {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 50 * ms}}, want: true, wantYields: [][]bool{{false, true}}, wantUsed: 50 * ms},
		"nearly half is":             {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 49 * ms}}, want: true, wantYields: [][]bool{{false, false}}, wantUsed: 49 * ms},
		"the first is not done":      {timeout: 100 * ms, plugins: []preparer{{takes: 60 * ms}, {done: true}}, wantYields: [][]bool{{false, true}, {true, true}}, wantUsed: 60 * ms},
		"the last is not done":       {timeout: 100 * ms, plugins: []preparer{{done: true}, {}}, wantYields: [][]bool{{false, false}, {false, false}}},
		"there is no limit":          {plugins: []preparer{{done: true, takes: time.Hour}}, want: true, wantYields: [][]bool{{false, false}}},
		"a quarter is not yet slow":  {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 25 * ms}}, want: true, wantYields: [][]bool{{false, false}}},
		"more than a quarter counts": {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 26 * ms}}, want: true, wantYields: [][]bool{{false, false}}, wantUsed: 26 * ms},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(fixture.Now)
			profile := &plugins.Profile{PreFilter: []framework.PreFilterPlugin{filterer{}}}
			for i := range tc.plugins {
				tc.plugins[i].clock = clock
				profile.PreFilter = append(profile.PreFilter, &tc.plugins[i])
			}
			s := New(map[string]*plugins.Profile{"default": profile}, nil)
			s.Clock, s.CycleTimeout = clock, tc.timeout
			if tc.busy {
				s.BeginPreparation("other")
			}
			pl := fixture.Placement("n", "p").Obj()
			if tc.chooses != "" {
				pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: tc.chooses}
			}
			if got := s.Prepare(pl); got != tc.want {
				t.Errorf("got %t", got)
			}
			var yields [][]bool
			for _, p := range tc.plugins {
				yields = append(yields, p.yields)
			}
			if diff := cmp.Diff(tc.wantYields, yields); diff != "" {
				t.Errorf("yields (-want +got):\n%s", diff)
			}
			if s.BeginPreparation("third") == tc.busy {
				t.Errorf("another may be prepared: %t", !tc.busy)
			}
			if used := charged(s, "n"); used != tc.wantUsed {
				t.Errorf("charged with %s, want %s", used, tc.wantUsed)
			}
		})
	}
}

func TestCycleOutcome(t *testing.T) {
	late := framework.AsStatus(&limits.TimeoutError{Point: "Filter"})
	tests := map[string]struct {
		failure *framework.Status
		outcome plan.Outcome
		want    string
	}{
		"an answer":         {outcome: plan.Published, want: "Decided"},
		"timed out":         {failure: late, outcome: plan.Failed, want: "TimedOut"},
		"continued":         {failure: framework.Unfinished("more"), outcome: plan.Undecided, want: "Continues"},
		"no answer":         {failure: framework.NewStatus(framework.Pending, "score"), outcome: plan.Undecided, want: "Failed"},
		"a failed Reserve":  {outcome: plan.Failed, want: "Failed"},
		"a held change":     {outcome: plan.Held, want: "Decided"},
		"another exception": {failure: framework.AsStatus(errors.New("x")), outcome: plan.Failed, want: "Failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := attemptOn(nil).Plan
			p.Failure, p.Outcome = tc.failure, tc.outcome
			if got := cycleOutcome(p); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
