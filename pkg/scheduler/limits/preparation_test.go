package limits

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestPreparationTakesTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	limits := &Limits{Clock: clock}
	for i, step := range []struct {
		namespace string
		later     time.Duration
		end, want bool
	}{
		{namespace: "a", want: true},
		{namespace: "b"},
		{namespace: "a"},
		// a had the last turn, and b asks.
		{namespace: "a", end: true},
		{namespace: "b", want: true},
		// b had the last turn, and a asks.
		{namespace: "b", end: true},
		{namespace: "a", want: true},
		{namespace: "b", later: PrepareInterval},
		// b does not ask again.
		{namespace: "a", end: true, later: askedFor},
		{namespace: "a", later: time.Millisecond, want: true},
		{namespace: "a", end: true, want: true},
	} {
		if clock.Step(step.later); step.end {
			limits.EndPreparation()
		}
		if got := limits.BeginPreparation(step.namespace); got != step.want {
			t.Errorf("step %d: %s begins: %t", i, step.namespace, got)
		}
	}
	if len(limits.turn.asked) > 0 {
		t.Errorf("kept: %v", limits.turn.asked)
	}
}

// TestPreparationFailureStays until the next attempt takes it, also if one that began earlier ends
// meanwhile, or the Placement is edited.
func TestPreparationFailureStays(t *testing.T) {
	l, _ := limitsOf(time.Second)
	pl := fixture.Placement("ns", "p").Generation(1).Obj()
	pl.UID = "u"
	failure := framework.NewStatus(framework.Error, "boom")
	l.FailPreparation(pl, failure)
	l.ChargePreparation(pl, time.Minute)
	l.EndAttempt(pl, time.Millisecond, 1, false)
	l.CountFailure(pl, true)
	edited := pl.DeepCopy()
	edited.Generation = 2
	l.EndAttempt(edited, time.Millisecond, 0, false)
	for _, want := range []*framework.Status{failure, nil} {
		if got := l.TakePreparationFailure(edited); got != want {
			t.Errorf("got %v, want %v", got.Err(), want.Err())
		}
	}
}
