package scheduler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Limits of the time that slow attempts get. An attempt is slow if it takes more than a quarter of
// CycleTimeout.
const (
	// namespaceShare is the part of all time that the slow attempts of one namespace get, allShare
	// that of all namespaces together. A namespace may use up burstTimeouts times CycleTimeout at
	// once before its share counts.
	namespaceShare = 0.1
	allShare       = 0.3
	burstTimeouts  = 10
	// An attempt that timed out is repeated after firstDelay times CycleTimeout, then twice as long
	// each time, at most maxDelay.
	firstDelay = 10
	maxDelay   = 5 * time.Minute
)

// shares limits how much of the scheduler's time slow Placements get. It knows each Placement that
// was decided, until Forget. The zero value is ready for use.
type shares struct {
	mu         sync.Mutex
	placements map[types.NamespacedName]pace
	// used is the time that the slow attempts of a namespace took and that its share has not made
	// up for yet, as of updated.
	used    map[string]time.Duration
	updated time.Time
}

// pace is how the last attempt for one Placement went.
type pace struct {
	uid        types.UID
	generation int64
	slow       bool
	// timeouts counts attempts in a row that timed out; notBefore is when the next may begin.
	timeouts  int
	notBefore time.Time
}

// of returns the pace of a Placement as it is specified now; false when it was not decided yet.
func (s *shares) of(pl *v1alpha1.Placement) (pace, bool) {
	p, known := s.placements[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}]
	return p, known && p.uid == pl.UID && p.generation == pl.Generation
}

// wait returns how long a Placement has to wait for its next attempt. Only those wait that timed
// out, and in a namespace that has used up its share those that are slow or not known to be fast.
func (s *shares) wait(pl *v1alpha1.Placement, now time.Time, timeout time.Duration) time.Duration {
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
	s.update(now)
	if over := s.used[pl.Namespace] - burstTimeouts*timeout; over >= 0 {
		// Others of the namespace may be first: looking too often would cost more than it gains.
		wait = max(wait, time.Duration(float64(over)/s.share()), firstDelay*timeout)
	}
	return wait
}

// spend charges an attempt, or a preparation of one, to its namespace if it was slow.
func (s *shares) spend(namespace string, took, timeout time.Duration, now time.Time) (slow bool) {
	if took <= timeout/4 {
		return false
	}
	s.update(now)
	if s.used == nil {
		s.used = map[string]time.Duration{}
	}
	s.used[namespace] += took
	return true
}

// prepared charges the preparation of an attempt.
func (s *shares) prepared(pl *v1alpha1.Placement, took, timeout time.Duration, now time.Time) {
	if timeout <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spend(pl.Namespace, took, timeout, now)
}

// decided notes how an attempt went and returns how many in a row timed out, and when the next may
// begin if this one did.
func (s *shares) decided(pl *v1alpha1.Placement, took, timeout time.Duration, timedOut bool, now time.Time) (timeouts int, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.of(pl)
	p := pace{uid: pl.UID, generation: pl.Generation, slow: s.spend(pl.Namespace, took, timeout, now)}
	if timedOut {
		p.timeouts = 1
		if known {
			p.timeouts += before.timeouts
		}
		delay = min(firstDelay*timeout<<min(p.timeouts-1, 20), maxDelay)
		p.notBefore = now.Add(delay)
	}
	if s.placements == nil {
		s.placements = map[types.NamespacedName]pace{}
	}
	s.placements[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}] = p
	return p.timeouts, delay
}

// update gives each namespace its share of the time that has passed.
func (s *shares) update(now time.Time) {
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

// share is the part of the time that each namespace with slow attempts gets.
func (s *shares) share() float64 { return min(namespaceShare, allShare/float64(max(1, len(s.used)))) }

func (s *shares) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.placements, key)
}

// Wait returns how long the next attempt for a Placement has to wait, because the last ones took
// too long or because slow Placements of its namespace have used up their share of the scheduler's
// time. It is 0 for all others.
func (s *Scheduler) Wait(pl *v1alpha1.Placement) time.Duration {
	if s.CycleTimeout <= 0 {
		return 0
	}
	return s.shares.wait(pl, s.Clock.Now(), s.CycleTimeout)
}

// Prepare does what attempts need and what may take long, outside of the cycle lock: PreFilter
// plugins compile what the Placement specifies. One Placement is prepared at a time, for at most
// half of CycleTimeout and what was begun by then. False says that more is to be done, here or for
// another Placement: try again soon.
func (s *Scheduler) Prepare(pl *v1alpha1.Placement) bool {
	profile, failure := s.profileOf(pl)
	if failure != nil {
		return true
	}
	var due []framework.Preparer
	for _, plugin := range profile.PreFilter {
		if p, ok := plugin.(framework.Preparer); ok && !p.Prepared(pl) {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return true
	}
	if !s.prepare.TryLock() {
		return false
	}
	defer s.prepare.Unlock()
	began, done := s.Clock.Now(), true
	for _, p := range due {
		done = p.Prepare(pl, func() bool { return s.CycleTimeout > 0 && s.Clock.Since(began) >= s.CycleTimeout/2 }) && done
	}
	s.shares.prepared(pl, s.Clock.Since(began), s.CycleTimeout, s.Clock.Now())
	return done
}

// Outcomes of a cycle.
const (
	// CycleDecided is an answer, CycleContinues one that is continued in a later cycle,
	// CycleTimedOut none, because the deadline passed, CycleFailed none for another reason,
	// CycleSkipped no attempt at all.
	CycleDecided   = "Decided"
	CycleContinues = "Continues"
	CycleTimedOut  = "TimedOut"
	CycleFailed    = "Failed"
	CycleSkipped   = "Skipped"
)

// endCycle accounts for the time for which an attempt held the cycle lock. The attempt is nil where
// there was nothing to decide.
func (s *Scheduler) endCycle(a *Attempt, held time.Duration) {
	profile, outcome := "", CycleSkipped
	if a != nil {
		profile, outcome = a.profile.Name, a.cycleOutcome()
		if s.CycleTimeout > 0 {
			timeouts, delay := s.shares.decided(a.Snapshot.Subject.Placement, held, s.CycleTimeout, outcome == CycleTimedOut, s.Clock.Now())
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
