package limits

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Limits of the time for slow attempts. An attempt is slow if it takes more than a quarter of
// CycleTimeout, or more than a sixteenth and a later one continues its work.
const (
	// namespaceShare is the fraction of time for the slow attempts of one namespace, allShare that
	// for all namespaces together. A namespace may use burstTimeouts times CycleTimeout before its
	// share limits it.
	namespaceShare = 0.1
	allShare       = 0.3
	burstTimeouts  = 10
	// An attempt that timed out is repeated after firstDelay times CycleTimeout, then twice as long
	// each time, at most maxDelay.
	firstDelay = 10
	maxDelay   = 5 * time.Minute
	// A Placement whose steps failed more than freeFailures times in a row waits for
	// firstFailureDelay, then twice as long each time, at most maxFailureDelay.
	freeFailures      = 2
	firstFailureDelay = 5 * time.Millisecond
	maxFailureDelay   = 5 * time.Second
)

// Limits limits the scheduler's time for slow Placements, by namespace. It keeps one entry per
// Placement until Forget. All methods may be called concurrently. Set the fields before the first
// call.
type Limits struct {
	Clock clock.WithDelayedExecution
	// CycleTimeout is how long an attempt may hold the cycle lock; 0 means no limit.
	CycleTimeout time.Duration

	mu         sync.Mutex
	placements map[types.NamespacedName]attemptStats
	// used is the time that the slow attempts of a namespace used beyond its share until updated.
	used    map[string]time.Duration
	updated time.Time
	turn    turn
}

// attemptStats describes the last attempt for one Placement.
type attemptStats struct {
	uid        types.UID
	generation int64
	slow       bool
	// prepared is true if a preparation since the last attempt was slow.
	prepared bool
	// timeouts counts consecutive timeouts, failures consecutive attempts whose step failed.
	// notBefore is the earliest time of the next attempt.
	timeouts, failures int
	notBefore          time.Time
	// panicked is the failure of the preparation for the next attempt.
	panicked *framework.Status
}

func keyOf(pl *v1alpha1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
}

// of returns the stats for this generation of a Placement; those of no attempt if it had none. The
// failure of a preparation stays over generations.
func (l *Limits) of(pl *v1alpha1.Placement) (p attemptStats, known bool) {
	p, known = l.placements[keyOf(pl)]
	if known = known && p.uid == pl.UID && p.generation == pl.Generation; !known {
		p = attemptStats{uid: pl.UID, generation: pl.Generation, panicked: p.panicked}
	}
	return p, known
}

func (l *Limits) set(pl *v1alpha1.Placement, p attemptStats) {
	if l.placements == nil {
		l.placements = map[types.NamespacedName]attemptStats{}
	}
	l.placements[keyOf(pl)] = p
}

// Forget drops the entry of a Placement.
func (l *Limits) Forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.placements, key)
}

// AttemptDelay returns the time until a Placement's next attempt. It is 0 unless the last attempt
// timed out or failed, or the namespace has used up its share and the Placement is not known to be
// fast.
func (l *Limits) AttemptDelay(pl *v1alpha1.Placement) time.Duration {
	if l.CycleTimeout <= 0 {
		return 0
	}
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.of(pl)
	wait := max(0, p.notBefore.Sub(now))
	if known && !p.slow {
		return wait
	}
	l.addShares(now)
	if over := l.used[pl.Namespace] - burstTimeouts*l.CycleTimeout; over >= 0 {
		// Others of the namespace may use the share first, so frequent retries would be wasted.
		wait = max(wait, time.Duration(float64(over)/l.share()), firstDelay*l.CycleTimeout)
	}
	return wait
}

// Charge adds the time of an attempt or a preparation to its namespace if it was slow, which is
// more than a quarter of CycleTimeout.
func (l *Limits) Charge(namespace string, elapsed time.Duration) {
	if l.CycleTimeout <= 0 {
		return
	}
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charge(namespace, elapsed, l.CycleTimeout/4, now)
}

// charge reports whether the time was slow, which is more than least.
func (l *Limits) charge(namespace string, elapsed, least time.Duration, now time.Time) (slow bool) {
	if elapsed <= least {
		return false
	}
	l.addShares(now)
	if l.used == nil {
		l.used = map[string]time.Duration{}
	}
	l.used[namespace] += elapsed
	return true
}

// ChargePreparation charges work outside attempts. If it was slow, the Placement counts as slow.
func (l *Limits) ChargePreparation(pl *v1alpha1.Placement, elapsed time.Duration) {
	if l.CycleTimeout <= 0 {
		return
	}
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.charge(pl.Namespace, elapsed, l.CycleTimeout/4, now) {
		p, _ := l.of(pl)
		p.slow, p.prepared = true, true
		l.set(pl, p)
	}
}

// Timeouts returns how many attempts in a row timed out for this generation of a Placement.
func (l *Limits) Timeouts(pl *v1alpha1.Placement) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.of(pl)
	return p.timeouts
}

// TimeoutDelay is the time until the next attempt after a number of timeouts in a row.
func (l *Limits) TimeoutDelay(timeouts int) time.Duration {
	return min(firstDelay*l.CycleTimeout<<min(timeouts-1, 20), maxDelay)
}

// EndAttempt stores the stats of an attempt that elapsed. timeouts counts those in a row,
// including this one; continues is true if a later attempt continues its work.
func (l *Limits) EndAttempt(pl *v1alpha1.Placement, elapsed time.Duration, timeouts int, continues bool) {
	if l.CycleTimeout <= 0 {
		return
	}
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.of(pl)
	least := l.CycleTimeout / 4
	if continues {
		least = l.CycleTimeout / 16
	}
	p.slow, p.prepared = l.charge(pl.Namespace, elapsed, least, now) || p.prepared, false
	p.timeouts, p.notBefore = timeouts, time.Time{}
	if timeouts > 0 {
		p.notBefore = now.Add(l.TimeoutDelay(timeouts))
	}
	l.set(pl, p)
}

// CountFailure stores whether an attempt failed. Events do not shorten the delay of Limits after a
// failure; they end the longer backoff of the queue.
func (l *Limits) CountFailure(pl *v1alpha1.Placement, failed bool) {
	if l.CycleTimeout <= 0 {
		return
	}
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.of(pl)
	if !known || !failed && p.failures == 0 {
		return
	}
	p.failures++
	if !failed {
		p.failures = 0
	} else if n := p.failures - freeFailures; n > 0 {
		if at := now.Add(min(firstFailureDelay<<min(n-1, 20), maxFailureDelay)); at.After(p.notBefore) {
			p.notBefore = at
		}
	}
	l.set(pl, p)
}

// addShares reduces the used time of each namespace by its share of the time since updated.
func (l *Limits) addShares(now time.Time) {
	gained := time.Duration(l.share() * float64(now.Sub(l.updated)))
	l.updated = now
	for namespace, used := range l.used {
		if used -= gained; used > 0 {
			l.used[namespace] = used
		} else {
			delete(l.used, namespace)
		}
	}
}

// share is the fraction of time for each namespace with slow attempts.
func (l *Limits) share() float64 { return min(namespaceShare, allShare/float64(max(1, len(l.used)))) }
