package scheduler

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
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

// shares limits the scheduler's time for slow Placements, by namespace. It keeps one entry per
// Placement until Forget. The zero value is ready for use.
type shares struct {
	mu         sync.Mutex
	placements map[types.NamespacedName]attemptStats
	// used is the time that the slow attempts of a namespace used beyond its share until updated.
	used    map[string]time.Duration
	updated time.Time
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
}

// of returns the stats for this generation of a Placement; false if it had no attempt yet.
func (s *shares) of(pl *v1alpha1.Placement) (attemptStats, bool) {
	p, known := s.placements[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}]
	return p, known && p.uid == pl.UID && p.generation == pl.Generation
}

// delay returns the time until a Placement's next attempt. It is 0 unless the last attempt timed
// out, or the namespace has used up its share and the Placement is not known to be fast.
func (s *shares) delay(pl *v1alpha1.Placement, now time.Time, timeout time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.of(pl)
	var wait time.Duration
	if known {
		wait = max(0, p.notBefore.Sub(now))
	}
	if known && !p.slow {
		return wait
	}
	s.addShares(now)
	if over := s.used[pl.Namespace] - burstTimeouts*timeout; over >= 0 {
		// Others of the namespace may use the share first, so frequent retries would be wasted.
		wait = max(wait, time.Duration(float64(over)/s.share()), firstDelay*timeout)
	}
	return wait
}

// charge adds the time of an attempt or a preparation to its namespace if it was slow, which is
// more than least. It reports whether it was slow.
func (s *shares) charge(namespace string, elapsed, least time.Duration, now time.Time) (slow bool) {
	if elapsed <= least {
		return false
	}
	s.addShares(now)
	if s.used == nil {
		s.used = map[string]time.Duration{}
	}
	s.used[namespace] += elapsed
	return true
}

// chargePreparation charges the preparation of an attempt. A slow one makes the Placement slow.
func (s *shares) chargePreparation(pl *v1alpha1.Placement, elapsed, timeout time.Duration, now time.Time) {
	if timeout <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.charge(pl.Namespace, elapsed, timeout/4, now) {
		return
	}
	p, known := s.of(pl)
	if !known {
		p = attemptStats{uid: pl.UID, generation: pl.Generation}
	}
	p.slow, p.prepared = true, true
	s.set(pl, p)
}

// recordAttempt stores the stats of an attempt. It returns the number of consecutive timeouts and,
// after a timeout, the delay of the next attempt.
func (s *shares) recordAttempt(pl *v1alpha1.Placement, elapsed, timeout time.Duration, outcome string, now time.Time) (timeouts int, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.of(pl)
	least := timeout / 4
	if outcome == CycleContinues {
		least = timeout / 16
	}
	p := attemptStats{uid: pl.UID, generation: pl.Generation, slow: s.charge(pl.Namespace, elapsed, least, now) || known && before.prepared}
	if known {
		p.failures = before.failures
	}
	if outcome == CycleTimedOut {
		p.timeouts = 1
		if known {
			p.timeouts += before.timeouts
		}
		delay = min(firstDelay*timeout<<min(p.timeouts-1, 20), maxDelay)
		p.notBefore = now.Add(delay)
	}
	s.set(pl, p)
	return p.timeouts, delay
}

// recordFailure stores whether the step of an attempt failed. Events do not shorten the delay after
// a failure.
func (s *shares) recordFailure(pl *v1alpha1.Placement, failed bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.of(pl)
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
	s.set(pl, p)
}

func (s *shares) set(pl *v1alpha1.Placement, p attemptStats) {
	if s.placements == nil {
		s.placements = map[types.NamespacedName]attemptStats{}
	}
	s.placements[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}] = p
}

// addShares reduces the used time of each namespace by its share of the time since updated.
func (s *shares) addShares(now time.Time) {
	gained := time.Duration(s.share() * float64(now.Sub(s.updated)))
	s.updated = now
	for namespace, used := range s.used {
		if used -= gained; used > 0 {
			s.used[namespace] = used
		} else {
			delete(s.used, namespace)
		}
	}
}

// share is the fraction of time for each namespace with slow attempts.
func (s *shares) share() float64 { return min(namespaceShare, allShare/float64(max(1, len(s.used)))) }

func (s *shares) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.placements, key)
}

// recordFailure stores whether the step of the attempt failed.
func (s *Scheduler) recordFailure(a *Attempt) {
	if s.CycleTimeout > 0 {
		s.shares.recordFailure(a.Snapshot.Subject.Placement, a.Err != nil, s.Clock.Now())
	}
}

// AttemptDelay returns the time until the next attempt for a Placement. It is 0 unless the last
// attempt timed out or failed, or slow Placements of its namespace have used up their share of the
// scheduler's time.
func (s *Scheduler) AttemptDelay(pl *v1alpha1.Placement) time.Duration {
	if s.CycleTimeout <= 0 {
		return 0
	}
	return s.shares.delay(pl, s.Clock.Now(), s.CycleTimeout)
}

// PrepareInterval is the delay before Prepare is called again for a Placement with work left.
const PrepareInterval = 20 * time.Millisecond

// Prepare runs the Preparers for a Placement and its SelectionPolicies, without the cycle lock. It
// starts no new work after half of CycleTimeout. It returns false if work is left, another
// Placement is being prepared, or it is the turn of another namespace; call it again soon. If a
// plugin panics, the next attempt fails.
func (s *Scheduler) Prepare(pl *v1alpha1.Placement, policies ...*berthv1alpha1.SelectionPolicy) bool {
	profile, failure := s.profileOf(pl)
	if failure != nil {
		return true
	}
	due := s.duePreparations(profile, pl, policies)
	if len(due) == 0 {
		return true
	}
	if !s.prepare.begin(pl.Namespace, s.Clock.Now()) {
		return false
	}
	defer s.prepare.end()
	began, done := s.Clock.Now(), true
	for _, prepare := range due {
		done = prepare(func() bool { return s.CycleTimeout > 0 && s.Clock.Since(began) >= s.CycleTimeout/2 }) && done
	}
	s.shares.chargePreparation(pl, s.Clock.Since(began), s.CycleTimeout, s.Clock.Now())
	return done
}

// duePreparations returns the work of the Preparers that is left.
func (s *Scheduler) duePreparations(profile *Profile, pl *v1alpha1.Placement, policies []*berthv1alpha1.SelectionPolicy) (due []func(yield func() bool) (done bool)) {
	ask := func(method string, plugin framework.Plugin, do func() bool) (answer bool) {
		answer = true
		failure := guard(context.Background(), method, plugin, func() *framework.Status {
			answer = do()
			return nil
		})
		if failure != nil {
			s.prepare.fail(types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}, failure)
		}
		return answer
	}
	for _, plugin := range profile.PreFilter {
		if p, ok := plugin.(framework.Preparer); ok && !ask("Prepared", plugin, func() bool { return p.Prepared(pl) }) {
			due = append(due, func(yield func() bool) bool {
				return ask("Prepare", plugin, func() bool { return p.Prepare(pl, yield) })
			})
		}
		if p := profile.traits(plugin.Name()); p.PolicyPrepared != nil && len(policies) == 1 && !ask("PolicyPrepared", plugin, func() bool { return p.PolicyPrepared(policies[0]) }) {
			due = append(due, func(yield func() bool) bool {
				return ask("PreparePolicy", plugin, func() bool { return p.PreparePolicy(policies[0], yield) })
			})
		}
	}
	return due
}

// Outcomes of a cycle.
const (
	// CycleDecided: clusters were selected. CycleContinues: a later cycle continues the work.
	// CycleTimedOut: the deadline passed. CycleFailed: another failure. CycleSkipped: there was no
	// Placement to decide.
	CycleDecided   = "Decided"
	CycleContinues = "Continues"
	CycleTimedOut  = "TimedOut"
	CycleFailed    = "Failed"
	CycleSkipped   = "Skipped"
)

// endCycle records the time for which an attempt held the cycle lock. a is nil if there was no
// Placement to decide.
func (s *Scheduler) endCycle(a *Attempt, held time.Duration) {
	profile, outcome := "", CycleSkipped
	if a != nil {
		profile, outcome = a.profile.Name, a.cycleOutcome()
		if s.CycleTimeout > 0 {
			timeouts, delay := s.shares.recordAttempt(a.Snapshot.Subject.Placement, held, s.CycleTimeout, outcome, s.Clock.Now())
			if outcome == CycleTimedOut {
				a.timeouts = timeouts
				a.State.RequeueAt(a.Snapshot.Now.Add(delay))
			}
		}
	}
	if s.LockHeld != nil {
		s.LockHeld(profile, outcome, held)
	}
}

func (a *Attempt) cycleOutcome() string {
	_, _, timedOut := a.TimedOut()
	switch {
	case timedOut:
		return CycleTimedOut
	case a.Failure.IsUnfinished():
		return CycleContinues
	case a.Failure != nil || a.Outcome == Failed:
		return CycleFailed
	}
	return CycleDecided
}
