package scheduler

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/test/fixture"
)

func TestPrepareTurns(t *testing.T) {
	var turns prepareTurns
	now := fixture.Now
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
		if now = now.Add(step.later); step.end {
			turns.end()
		}
		if got := turns.begin(step.namespace, now); got != step.want {
			t.Errorf("step %d: %s begins: %t", i, step.namespace, got)
		}
	}
	if len(turns.asked) > 0 {
		t.Errorf("kept: %v", turns.asked)
	}
}
