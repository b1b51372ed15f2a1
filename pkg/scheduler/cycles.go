package scheduler

import (
	"context"
	"errors"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Outcomes of a cycle.
const (
	// CycleDecided: clusters were selected. CycleContinues: a later cycle continues the work.
	// CycleTimedOut: the deadline passed. CycleFailed: another failure. CycleNone: there was no
	// Placement to decide.
	CycleDecided   = "Decided"
	CycleContinues = "Continues"
	CycleTimedOut  = "TimedOut"
	CycleFailed    = "Failed"
	CycleNone      = "Skipped"
)

// endCycle records the time for which an attempt held the cycle lock. p is nil if there was no
// Placement to decide.
func (s *Scheduler) endCycle(p *plan.Plan, held time.Duration) {
	profile, outcome := "", CycleNone
	if p != nil {
		profile, outcome = p.Profile.Name, cycleOutcome(p)
		s.EndAttempt(p.Snapshot.Subject.Placement, held, p.Timeouts, outcome == CycleContinues)
	}
	if s.LockHeld != nil {
		s.LockHeld(profile, outcome, held)
	}
}

// endRemoval is endCycle for RemoveRevoked. A slow one is charged to the share of the namespace.
func (s *Scheduler) endRemoval(p *plan.Plan, held time.Duration) {
	s.Charge(p.Snapshot.Subject.Placement.Namespace, held)
	if s.LockHeld != nil {
		s.LockHeld(p.Profile.Name, cycleOutcome(p), held)
	}
}

func cycleOutcome(p *plan.Plan) string {
	_, _, timedOut := p.TimedOut()
	switch {
	case timedOut:
		return CycleTimedOut
	case p.Failure.IsUnfinished():
		return CycleContinues
	case p.Failure != nil || p.Outcome == plan.Failed:
		return CycleFailed
	}
	return CycleDecided
}

// Prepare runs the Preparers for a Placement and its SelectionPolicies, without the cycle lock. It
// starts no new work after half of CycleTimeout. It returns false if work is left, another
// Placement is being prepared, or it is the turn of another namespace; call it again soon. If a
// plugin panics, the next attempt fails.
func (s *Scheduler) Prepare(pl *v1alpha1.Placement, policies ...*berthv1alpha1.SelectionPolicy) bool {
	profile, failure := s.ProfileOf(pl)
	if failure != nil {
		return true
	}
	due := s.duePreparations(profile, pl, policies)
	if len(due) == 0 {
		return true
	}
	if !s.BeginPreparation(pl.Namespace) {
		return false
	}
	defer s.EndPreparation()
	began, done := s.Clock.Now(), true
	for _, prepare := range due {
		done = prepare(func() bool { return s.CycleTimeout > 0 && s.Clock.Since(began) >= s.CycleTimeout/2 }) && done
	}
	s.ChargePreparation(pl, s.Clock.Since(began))
	return done
}

// duePreparations returns the work of the Preparers that is left.
func (s *Scheduler) duePreparations(profile *plugins.Profile, pl *v1alpha1.Placement, policies []*berthv1alpha1.SelectionPolicy) (due []func(yield func() bool) (done bool)) {
	ask := func(method string, plugin framework.Plugin, do func() bool) (answer bool) {
		answer = true
		failure := plugins.Call(context.Background(), method, plugin, func() *framework.Status {
			answer = do()
			return nil
		})
		if failure != nil {
			s.FailPreparation(pl, failure)
		}
		return answer
	}
	for _, plugin := range profile.PreFilter {
		if p, ok := plugin.(framework.Preparer); ok && !ask("Prepared", plugin, func() bool { return p.Prepared(pl) }) {
			due = append(due, func(yield func() bool) bool {
				return ask("Prepare", plugin, func() bool { return p.Prepare(pl, yield) })
			})
		}
		if p := profile.Traits(plugin.Name()); p.PolicyPrepared != nil && len(policies) == 1 && !ask("PolicyPrepared", plugin, func() bool { return p.PolicyPrepared(policies[0]) }) {
			due = append(due, func(yield func() bool) bool {
				return ask("PreparePolicy", plugin, func() bool { return p.PreparePolicy(policies[0], yield) })
			})
		}
	}
	return due
}

// Select runs steps 2 to 4 on a Snapshot, which may be a trial one. It has no effect. It takes the
// cycle lock. Release the Decision.
func (s *Scheduler) Select(ctx context.Context, snapshot *framework.Snapshot) *decide.Decision {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.Decider.Decide(ctx, decide.Request{Snapshot: snapshot, Failure: s.TakePreparationFailure(snapshot.Subject.Placement), TotalsOnly: true, Trial: true})
}

// Explain is decide.Decider.Explain. It takes the cycle lock.
func (s *Scheduler) Explain(ctx context.Context, d *decide.Decision, only string) []framework.ClusterVerdict {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.Decider.Explain(ctx, d, only)
}

// Advise is decide.Decider.Advise. It takes the cycle lock.
func (s *Scheduler) Advise(ctx context.Context, d *decide.Decision) []framework.Intent {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.Decider.Advise(ctx, d)
}

// changeTimeouts times CycleTimeout is how long trials may take: ExplainSome looks for changes with
// which clusters would be selected.
const changeTimeouts = 10

var errNoTime = errors.New("no time is left for trials")

// ExplainSome is Explain for some candidates, in limited time that is charged to the share of the
// Placement's namespace. Names that are no candidates are ignored. It takes the cycle lock.
func (s *Scheduler) ExplainSome(ctx context.Context, d *decide.Decision, names []string) (e decide.Explanation) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	s.LimitTrials(ctx, d, func(limited context.Context) { e = s.Decider.ExplainSome(ctx, limited, d, names) })
	return e
}

// LimitTrials calls try with a context that ends after the time for trials. It charges the time to
// the share of the Placement's namespace.
func (s *Scheduler) LimitTrials(ctx context.Context, d *decide.Decision, try func(limited context.Context)) {
	began := s.Clock.Now()
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.CycleTimeout > 0 {
		timer := s.Clock.AfterFunc(changeTimeouts*s.CycleTimeout, func() { cancel(errNoTime) })
		defer timer.Stop()
	}
	defer func() { s.ChargePreparation(d.Snapshot.Subject.Placement, s.Clock.Since(began)) }()
	try(limited)
}
