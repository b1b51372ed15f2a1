package plan

import (
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
)

// Publication says what an attempt publishes.
type Publication string

// What an attempt publishes.
const (
	// Nothing: the pages stay.
	Nothing Publication = ""
	// Whole: the target.
	Whole Publication = "Whole"
	// Partial: a part of the change.
	Partial Publication = "Partial"
	// ForcedOnly: the last published decision without clusters that the Placement cannot keep. The
	// next attempt continues with the target.
	ForcedOnly Publication = "ForcedOnly"
	// Republished: the last published decision, because pages were edited or groups may have
	// changed.
	Republished Publication = "Republished"
)

// Publication says what Publish is.
func (p *Plan) Publication() Publication {
	switch publish := p.Publish; {
	case publish == nil:
		return Nothing
	case publish.Kind == framework.Republication:
		return Republished
	case publish.Partial:
		return Partial
	case publish.Kind.Forced():
		return ForcedOnly
	}
	return Whole
}

// Plan is the result of steps 5 to 8.
type Plan struct {
	*decide.Decision
	// Target is the Proposal of the selected clusters; nil if nothing was decided, except before
	// the first publication: then it is an empty page.
	Target *framework.Proposal
	// Change is the change that the Verdict is about: to Target, or one that is made or may be
	// approved instead; nil if there is none. Deferred is the change to Target then. It has no
	// record, and nothing is remembered of it.
	Change *Move
	Verdict
	Deferred *Deferred
	// Outcome is that of the Verdict or, if that is Permitted, how much of the change is published.
	Outcome Outcome
	// Publish is the Proposal to publish now; nil for nothing. Beside is true if that is a removal
	// alone, and what is reserved for another change stays.
	Publish *framework.Proposal
	Beside  bool
	// WithoutRecords is what is published if the records that come first cannot be written; nil for
	// nothing.
	WithoutRecords *framework.Proposal
	// Progress is set if Outcome is Progressing.
	Progress *Progress
	Records  Records
	// Timers and Held are what the next attempt must know. Claim is what the Placement takes of the
	// fleet after this attempt; Reserved is true if the next attempt must run Unreserve
	// when no change is left.
	Timers   framework.Timers
	Held     HeldChange
	Claim    Claim
	Reserved bool
	// Timeouts counts the attempts in a row that timed out, including this one.
	Timeouts int
	// Settled is what is needed to skip later attempts if this one needs no write; nil if each must
	// run.
	Settled *framework.Settled
	// Panics are the panics that the attempt survived.
	Panics []*framework.Status
}

// Deferred is the change to Target, which is put off, with its Verdict; empty if it was not asked
// for.
type Deferred struct {
	*Move
	Verdict
}

// HeldChange says which change the engine remembers as held, or as rejected or expired while no
// record says so, for the answers of plugins.
type HeldChange struct {
	// Keep is true if what is remembered stays. Otherwise Change replaces it; nil for none.
	Keep   bool
	Change *framework.HeldChange
	// ID identifies the change.
	ID framework.Answers
}

// Input is what a Plan is made from, beside the Decision.
type Input struct {
	// Reserved is true if Reserve plugins count a change of earlier attempts.
	Reserved bool
	// Timeouts counts the attempts in a row before this one that timed out.
	Timeouts int
	// Dry reserves nothing.
	Dry bool
	// RevokedOnly is true for an attempt that only removes clusters of lost sets: its Decision has
	// a Failure. Its timeouts do not count.
	RevokedOnly bool
	Limits      *limits.Limits
	Timer       decide.Timer
}

// planner makes one Plan.
type planner struct {
	*Plan
	in Input
	// edits is set once causedByEdit was called.
	edits *editState
	// step is set once restFirst chose the rest of the change in progress.
	step *step
	// keepsReserved is true if what earlier attempts reserved stays, although this one fails, waits
	// or decides nothing.
	keepsReserved bool
	// forcedWait and revokedWait are true if clusters that would leave beside the rest must wait,
	// revokedWait also if they leave now: the record of the rest may be refused.
	forcedWait, revokedWait bool
	// unreserveFailed is true if Unreserve of a plugin panicked.
	unreserveFailed bool
}

// Make runs steps 5 to 8.
func Make(ctx context.Context, d *decide.Decision, in Input) *Plan {
	a := &planner{in: in, Plan: &Plan{
		Decision: d, Outcome: Unchanged, Timers: d.Snapshot.Timers, Claim: KeepClaim, Panics: slices.Clip(d.Panics),
	}}
	// 5. Diff.
	a.Target = a.diff()
	a.Timers.ReadySince = a.readySince()
	a.Timers.Unrecorded, a.Timers.UnrecordedAt = nil, time.Time{}
	a.updateGeneration()
	if a.Failure != nil {
		a.Outcome = Undecided
	}
	// 6. Reserve, 7. Permit.
	a.chooseChange(ctx)
	// 8. Transition.
	a.publishOrRemove(ctx)
	a.undecideIfTimedOut()
	if a.Publish == nil && (a.Outcome != Undecided && a.Outcome != Failed || a.Snapshot.Subject.Last != nil) {
		a.republish()
	}
	a.limitTimeouts()
	a.planRecords()
	a.WithoutRecords = a.withoutRecords()
	a.retry()
	a.remember()
	if a.isQuiet() {
		a.Settled = a.settles(ctx)
	}
	if _, _, timedOut := a.TimedOut(); timedOut && !a.in.RevokedOnly {
		a.State.RequeueAt(a.Snapshot.Now.Add(a.in.Limits.TimeoutDelay(a.Timeouts)))
	}
	return a.Plan
}

// chooseChange chooses the change that the attempt is about, and runs Reserve and Permit for it:
// the rest of the change in progress, if Target does not contradict that; else the change to Target
// or, while that must wait, again the rest. If Target is published, that ends the change in
// progress.
func (a *planner) chooseChange(ctx context.Context) {
	switch {
	case IsChange(a.Target):
		m := a.newMove(a.Target, a.Timers.Change)
		rest := a.remainingChange(ctx, m)
		if a.restFirst(ctx, m, rest) {
			return
		}
		a.setChange(m, a.permitChange(ctx, m))
		if rest != nil && (a.Outcome == Waiting || a.holdsPermitForced() && !keepsLeaving(m, rest)) {
			a.retry()
			a.restBeside(ctx, rest, &Deferred{m, a.Verdict})
		}
	case a.endWaits(ctx), !a.in.Reserved || a.in.Dry:
	case a.undecidedForNow() || a.keepsOpenRecord():
		a.keepsReserved = true
	default:
		if failure := a.unreserve(ctx, &framework.Proposal{}, false); failure != nil {
			a.setChange(nil, failed(failure))
		}
	}
}

// retry asks for another attempt if the outcome does, and no plugin did.
func (a *planner) retry() {
	if after := a.Effects().RetryAfter; after > 0 && a.State.Requeue().IsZero() {
		a.State.RequeueAt(a.Snapshot.Now.Add(after))
	}
}

// setChange sets the change that the attempt is about.
func (a *planner) setChange(m *Move, v Verdict) { a.Change, a.Verdict, a.Outcome = m, v, v.Answer }

// undecidedForNow reports whether nothing was decided because the attempt is unfinished, a plugin
// waits, or after an error: it is repeated by itself.
func (p *Plan) undecidedForNow() bool {
	return p.Failure != nil && (p.Failure.Code() == framework.Pending || p.Failure.Code() == framework.Error)
}

// undecideIfTimedOut makes an attempt that timed out after its decision, with nothing to publish,
// undecided.
func (a *planner) undecideIfTimedOut() {
	if timedOut := limits.TimeoutOf(a.PlanErr); timedOut != nil && a.Publish == nil {
		a.Decision, a.Target, a.Deferred = a.WithFailure(a.PlanErr), nil, nil
		a.setChange(nil, Verdict{Answer: Undecided})
	}
}

// limitTimeouts counts timeouts in a row. The first one does not publish a first, empty page,
// because the machine may have been slow, but steps, forced removals and restored pages.
func (a *planner) limitTimeouts() {
	if _, _, timedOut := a.TimedOut(); timedOut {
		a.Timeouts = a.in.Timeouts + 1
		if a.in.RevokedOnly {
			// Always the first: so it is not reported.
			a.Timeouts = 1
		}
	}
	if a.FirstTimeout() {
		// The Outcome stays; nothing is reported (see FirstTimeout).
		a.Publish = nil
	}
}

// FirstTimeout reports whether this cycle timed out and the previous one for the same generation of
// the Placement did not. It is false if the attempt has something to publish other than an empty
// page.
func (p *Plan) FirstTimeout() bool {
	return p.Timeouts == 1 && (p.Publish == nil || p.Publication() == Whole)
}

// publishOrRemove sets what the outcome publishes. If that is nothing, it may remove clusters
// alone.
func (a *planner) publishOrRemove(ctx context.Context) {
	switch {
	case a.Outcome == Permitted:
		a.nextStep(ctx)
	case a.Outcome == Unchanged || a.Outcome == Undecided && a.Target != nil:
		a.Publish = a.Target
	}
	switch a.Outcome {
	case Published, Progressing, Unchanged:
		if !a.forcedWait {
			a.Timers.Forced = framework.Stability{}
		}
		if !a.revokedWait {
			a.Timers.Revoked = framework.Stability{}
		}
	default:
		if a.Publish == nil {
			// It sets Timers.Forced and Revoked, also if the outcome is Published then.
			a.removeForced(ctx)
		}
	}
}

// remember sets what the next attempt must know.
func (a *planner) remember() {
	if a.Target != nil && a.Failure == nil {
		a.Timers.Change = stabilityOf(a.Timers.Change, a.Target, a.Snapshot.Now)
	}
	if a.Outcome == Unchanged {
		a.Timers.Unchanged = a.Snapshot.Now
	}
	if states, policy, ok := a.TierStates(); ok {
		a.Timers.Tiers, a.Timers.TiersOf = states, policy
	}
	if a.Outcome != Waiting && a.Outcome != Failed && !a.undecidedForNow() && (a.Outcome != Progressing || a.Change.Kind != framework.Continuation) {
		// The next removal starts a new measurement.
		a.Timers.Change.RemovingSince, a.Timers.Forced.RemovingSince, a.Timers.Revoked.RemovingSince = time.Time{}, time.Time{}, time.Time{}
	}
	a.Timers.NextAttempt, a.Timers.NextAttemptCause = a.State.NextAttempt(), "timer"
	if at, cause := a.Expiry(); a.Timers.NextAttempt.Equal(at) {
		a.Timers.NextAttemptCause = cause
	}
	a.Reserved = a.Outcome == Progressing || a.Outcome.keepsReservation() || a.Publication() == ForcedOnly || a.keepsReserved || a.unreserveFailed
	a.Held = a.held()
}

// held returns which change is remembered as held.
func (a *planner) held() HeldChange {
	subject := a.Snapshot.Subject
	switch {
	case a.Effects().Keep:
		open := changes.History(subject.Records).Open()
		return HeldChange{Keep: open == nil || !a.Ends(open)}
	case a.Outcome == Waiting && len(a.Change.HeldBy) > 0: // It was held before.
		return HeldChange{Keep: true}
	case a.endedBefore, a.Outcome != Held && a.Outcome != Rejected && a.Outcome != Expired:
		return HeldChange{}
	}
	held := &framework.HeldChange{
		Key: subject.Key(), UID: subject.Placement.UID, Revision: a.Change.Revision,
		Added: a.Change.Added, Removed: a.Change.Removed, Plugins: deadlinesOf(a.Holds),
		Since: a.heldSince(),
	}
	return HeldChange{Change: held, ID: framework.Answers{
		Revision: a.Change.Revision, From: a.Change.From, Digest: a.Change.Digest, Generation: a.Change.generation,
	}}
}

// isQuiet reports whether the attempt changed nothing and waits for nothing, and the Placement has
// what it wants.
func (a *planner) isQuiet() bool {
	subject := a.Snapshot.Subject
	if a.Failure != nil || a.Outcome != Unchanged || subject.Last == nil || a.Snapshot.Trial {
		return false
	}
	// This attempt ends reservations, which the decision counts of the Snapshot include.
	if a.in.Reserved || len(a.Intents) > 0 || !a.State.NextAttempt().IsZero() {
		return false
	}
	if a.measuresReadiness() || len(subject.Evictions)+len(a.State.Warnings()) > 0 || changes.History(subject.Records).Open() != nil {
		return false
	}
	// The message of the condition counts the excluded clusters.
	satisfied, _ := a.Satisfied()
	return satisfied
}

func (a *planner) settles(ctx context.Context) *framework.Settled {
	settled, panicked := a.Settles(ctx)
	a.recovered(panicked)
	return settled
}

// recovered stores the failure of a plugin that the attempt survived; nil is ignored.
func (a *planner) recovered(failure *framework.Status) {
	if failure != nil {
		a.Panics = append(a.Panics, failure)
	}
}

// checkTimeout returns an Error if the deadline has passed; nil otherwise.
func (a *planner) checkTimeout(point string, p framework.Plugin) *framework.Status {
	return a.Deadline.Timeout(point, p.Name())
}

// measuresReadiness reports whether each attempt has to measure how long clusters are ready.
// Without a readiness source the times stay as they are.
func (a *planner) measuresReadiness() bool {
	for _, since := range a.Timers.ReadySince {
		if since.IsZero() {
			return true
		}
	}
	for _, policy := range a.Snapshot.Subject.DisruptionPolicies {
		if policy.Spec.Readiness != nil {
			return len(a.Timers.ReadySince) > 0
		}
	}
	return false
}
