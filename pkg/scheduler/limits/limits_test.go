package limits

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func limitsOf(timeout time.Duration) (*Limits, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	return &Limits{Clock: clock, CycleTimeout: timeout}, clock
}

// TestWaitWithoutLimit: nothing waits if cycles have no limit.
func TestWaitWithoutLimit(t *testing.T) {
	pl := fixture.Placement("n", "p").Obj()
	l, _ := limitsOf(time.Second)
	l.EndAttempt(pl, time.Hour, 1, false)
	for timeout, want := range map[time.Duration]bool{0: false, time.Second: true} {
		l.CycleTimeout = timeout
		if got := l.AttemptDelay(pl) > 0; got != want {
			t.Errorf("with a limit of %s it waits: %t", timeout, got)
		}
	}
}

// TestPartsAreCharged: a cycle that a later one continues counts as slow much earlier, because its
// Placement may have many of them.
func TestPartsAreCharged(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	for _, tc := range []struct {
		timeouts  int
		continues bool
		held      time.Duration
		want      time.Duration
	}{
		{held: 250, want: 0},
		{held: 251, want: 251},
		{continues: true, held: 62, want: 0},
		{continues: true, held: 63, want: 63},
		{timeouts: 1, held: 1000, want: 1000},
	} {
		l, _ := limitsOf(time.Second)
		l.EndAttempt(pl, tc.held*time.Millisecond, tc.timeouts, tc.continues)
		if got := l.used["ns"]; got != tc.want*time.Millisecond {
			t.Errorf("%d timeouts, continued: %t, after %d ms: %s are charged, want %d ms", tc.timeouts, tc.continues, tc.held, got, tc.want)
		}
	}
}

// TestSlowPreparationsMakeSlow: a Placement with fast attempts and slow preparations waits when its
// namespace has used up its share, until an attempt needed no slow preparation.
func TestSlowPreparationsMakeSlow(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	l, _ := limitsOf(time.Second)
	l.EndAttempt(pl, time.Millisecond, 0, false)
	for range 2 {
		l.ChargePreparation(pl, time.Minute)
		for _, done := range []bool{false, true} {
			if done {
				l.EndAttempt(pl, time.Millisecond, 0, true)
			}
			if l.AttemptDelay(pl) == 0 {
				t.Errorf("it does not wait, attempt done: %t", done)
			}
		}
		l.EndAttempt(pl, time.Millisecond, 0, false)
		if wait := l.AttemptDelay(pl); wait != 0 {
			t.Errorf("it still waits for %s", wait)
		}
	}
	other := fixture.Placement("ns", "new").Obj()
	l.ChargePreparation(other, time.Second)
	if l.AttemptDelay(other) == 0 {
		t.Error("a new Placement with a slow preparation does not wait")
	}
}

// TestDelayIsOfOneSpec: a timeout delays neither another Placement of that name nor an edited one.
func TestDelayIsOfOneSpec(t *testing.T) {
	pl := fixture.Placement("ns", "p").Generation(1).Obj()
	edited, recreated := pl.DeepCopy(), pl.DeepCopy()
	edited.Generation, recreated.UID = 2, "other"
	l, _ := limitsOf(time.Second)
	l.EndAttempt(pl, time.Millisecond, 1, false)
	for of, want := range map[*v1alpha1.Placement]time.Duration{pl: 10 * time.Second, edited: 0, recreated: 0} {
		if got := l.AttemptDelay(of); got != want || l.Timeouts(of) != int(want/(10*time.Second)) {
			t.Errorf("%s of generation %d waits for %s after %d timeouts, want %s", of.UID, of.Generation, got, l.Timeouts(of), want)
		}
	}
}

// TestShareOfANamespace: a namespace that used its share waits, longer the more it used, and gains
// a tenth of the time.
func TestShareOfANamespace(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	for name, tc := range map[string]struct {
		used, later time.Duration
		want        time.Duration
	}{
		"less than its share":   {used: time.Second - 1},
		"its share":             {used: time.Second, want: time.Second},
		"more":                  {used: 4 * time.Second, want: 30 * time.Second},
		"more, some time ago":   {used: 4 * time.Second, later: 10 * time.Second, want: 20 * time.Second},
		"more, a long time ago": {used: 4 * time.Second, later: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l, clock := limitsOf(100 * time.Millisecond)
			l.AttemptDelay(pl)
			l.ChargePreparation(pl, tc.used)
			clock.Step(tc.later)
			if got := l.AttemptDelay(pl); got != tc.want {
				t.Errorf("it waits for %s", got)
			}
		})
	}
}

// TestUsedUpShares: a namespace that used nothing any more counts no longer for the shares of all.
func TestUsedUpShares(t *testing.T) {
	l, clock := limitsOf(time.Second)
	pl := fixture.Placement("ns", "p").Obj()
	l.AttemptDelay(pl)
	l.ChargePreparation(pl, time.Second)
	clock.Step(10 * time.Second)
	l.AttemptDelay(pl)
	if len(l.used) > 0 {
		t.Errorf("used: %v", l.used)
	}
}

// TestForget: nothing is kept for a deleted Placement.
func TestForget(t *testing.T) {
	l, _ := limitsOf(time.Second)
	pl := fixture.Placement("ns", "p").Obj()
	l.EndAttempt(pl, time.Second, 1, false)
	if l.Forget(keyOf(pl)); len(l.placements) > 0 {
		t.Errorf("kept: %v", l.placements)
	}
}
