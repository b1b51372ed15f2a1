package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Attempt is one attempt to decide and publish one Placement. It has ten steps:
//
//	 1 Snapshot    all inputs of the decision, immutable
//	 2 Filter      which clusters qualify: PreEnqueue, PreFilter, Filter, PostFilter
//	 3 Score       how they rank: PreScore, Score, NormalizeScore
//	 4 Select      the target: the chosen clusters
//	 5 Diff        the change from the clusters published last to the target, or none
//	 6 Reserve     plugins count the change, so that the next attempt includes it
//	 7 Permit      whether the change may begin now
//	 8 Transition  what is published in this step
//	 9 Bind        publishes the step: PreBind, Bind, PostBind
//	10 Report      status, events and the change's record, in the controller
//
// Steps 1 to 8 hold the cycle lock. Decide runs 2 to 5 and a dry run of 7 and 8, without effects.
type Attempt struct {
	// Result is the result of steps 2 to 4.
	*Result
	// Target is the Proposal of the selected clusters; nil if nothing was decided.
	Target *framework.Proposal
	// Change is the change that the Verdict is about: Target, or the removal of forced clusters
	// alone. It is nil if no cluster is added or removed.
	Change *Move
	Verdict
	// Step is the Proposal to publish now: Target, a part of the change, the removal of forced
	// clusters, or the last published decision again; nil if the pages stay. Its Writes are the
	// successful ones.
	Step *framework.Proposal
	// Earlier is the attempt before this one if its step failed, but was published: only the
	// response was lost. Its records are written then.
	Earlier *Attempt
	// Err is the error of a failed step. The writes of Step up to then are published.
	Err *framework.Status

	// partial is true if Step only makes forced removals and the next attempt continues with
	// Target.
	partial bool
	// records are set when they are asked for first; recorded is true once those before step 9 are
	// written.
	records  *records
	recorded bool
	// progress is set if Outcome is Progressing.
	progress *progress
	// pausedBy is the Transition plugin whose pause an approval ends.
	pausedBy string
	// goesOn is why the change in progress goes on although the target changed; empty if Change
	// leads to Target.
	goesOn string
	timers framework.Timers
	// edits is set once causedByEdit was called.
	edits *editState
	// settled is the result of whatSettles, settling the plugin that runs there.
	settled  *framework.Settled
	settling string
	// claim is what the Placement claims after this attempt.
	claim claim
	// unreserveFailed is true if Unreserve of a plugin panicked.
	unreserveFailed bool
	// unrecorded is the removal of forced clusters that was published although the records that
	// come first could not be written; nil otherwise.
	unrecorded *framework.Proposal
	// foundFrom is the position in Step.Writes of the first write whose response was lost.
	foundFrom int
	// timeouts counts consecutive attempts that timed out, including this one.
	timeouts int
}

// Decide runs steps 2 to 5 and a dry run of 7 and 8. It returns what would be published and changes
// nothing. It takes the cycle lock. Simulations, explanations and benchmarks call it.
func (s *Scheduler) Decide(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	a := s.decide(ctx, &Result{Snapshot: snapshot})
	s.transition(ctx, a, true)
	return a
}

// DecideInTime is Decide within the limits of an attempt: it ends at CycleTimeout, and its time is
// charged to the share of the Placement's namespace. Call AttemptDelay and Prepare first, as before
// Attempt. Repeat it at State.NextAttempt while the Failure is unfinished or timed out.
func (s *Scheduler) DecideInTime(ctx context.Context, snapshot *framework.Snapshot) *Attempt {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	cycle, deadline := s.startDeadline(ctx)
	a := s.decide(cycle, &Result{Snapshot: snapshot})
	s.transition(cycle, a, true)
	s.endCycle(a, deadline.stop())
	return a
}

// Attempt runs steps 1 to 9 for one Placement of a namespace. takeSnapshot runs with the cycle lock
// held; if it returns nil, Attempt returns nil. Attempts of different namespaces take turns.
func (s *Scheduler) Attempt(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot) *Attempt {
	return s.attempt(ctx, namespace, takeSnapshot, false)
}

// attempt is Attempt, or RemoveRevoked if revokedOnly.
func (s *Scheduler) attempt(ctx context.Context, namespace string, takeSnapshot func() *framework.Snapshot, revokedOnly bool) *Attempt {
	var a *Attempt
	// Without an end of the context, Do always runs the function.
	_ = s.attempts.Do(context.WithoutCancel(ctx), namespace, func() {
		s.cycle.Lock()
		defer s.cycle.Unlock()
		a = s.runCycle(ctx, takeSnapshot, revokedOnly)
	})
	if a != nil {
		// 9. Bind.
		stored := a.claim
		s.publish(ctx, a)
		s.storeClaim(a.Snapshot.Subject.Key(), a.claim, stored)
	}
	return a
}

// runCycle runs steps 1 to 8. The caller holds the cycle lock.
func (s *Scheduler) runCycle(ctx context.Context, takeSnapshot func() *framework.Snapshot, revokedOnly bool) *Attempt {
	cycle, deadline := s.startDeadline(ctx)
	// 1. Snapshot.
	snapshot := takeSnapshot()
	if snapshot == nil {
		s.endCycle(nil, deadline.stop())
		return nil
	}
	failure := s.loadState(ctx, snapshot)
	// 2 Filter, 3 Score, 4 Select, 5 Diff.
	a := s.decide(cycle, &Result{Snapshot: snapshot, totalsOnly: true, revokedOnly: revokedOnly, loadFailure: failure, reserved: s.timers[snapshot.Subject.Key()].reserved})
	// 6 Reserve, 7 Permit, 8 Transition.
	s.transition(cycle, a, false)
	s.storeClaim(snapshot.Subject.Key(), a.claim, keepClaim)
	s.saveState(a)
	if s.OnDecided != nil {
		s.OnDecided(a)
	}
	if revokedOnly {
		s.endRemoval(a, deadline.stop())
	} else {
		s.endCycle(a, deadline.stop())
	}
	return a
}

// loadState adds the memory of the engine and of plugins to a new Snapshot. It returns the last
// panic of a plugin.
func (s *Scheduler) loadState(ctx context.Context, snapshot *framework.Snapshot) (failure *framework.Status) {
	subject := snapshot.Subject
	key, uid := subject.Key(), subject.Placement.UID
	profile, mistake := s.profileOf(subject.Placement)
	switch known, ok := s.timers[key]; {
	case !ok:
	case known.uid != uid:
		// The Placement was deleted and created again without an attempt in between.
		s.forget(key)
	case known.profile != profile || mistake != nil:
		known.profile.forgetPrepared(key)
		if known.reserved && known.profile != profile {
			state := framework.NewCycleState(snapshot)
			for _, plugin := range slices.Backward(known.profile.Reserve) {
				failure = cmp.Or(unreserveOne(ctx, plugin, state, &framework.Proposal{}), failure)
			}
		}
	}
	snapshot.Timers, snapshot.Answers = s.timers[key].Timers, s.held.answers(uid)
	s.timers[key].unrecorded.load(snapshot)
	for _, counter := range profile.counters() {
		var counts any
		panicked := guard(ctx, "Counts", counter, func() *framework.Status {
			counts = counter.Counts()
			return nil
		})
		failure = cmp.Or(s.uncounted[profile.Name+"/"+counter.Name()], panicked, failure)
		if counts != nil {
			if snapshot.PluginCounts == nil {
				snapshot.PluginCounts = map[string]any{}
			}
			snapshot.PluginCounts[counter.Name()] = counts
		}
	}
	return failure
}

// decide runs steps 2 to 5.
func (s *Scheduler) decide(ctx context.Context, r *Result) *Attempt {
	a := &Attempt{Result: s.run(ctx, r, nil), Verdict: Verdict{Outcome: Unchanged}, timers: r.Snapshot.Timers, claim: keepClaim}
	a.reportSelection(ctx)
	a.Target = a.diff()
	a.timers.ReadySince = a.readySince()
	a.timers.Unrecorded, a.timers.UnrecordedAt = nil, time.Time{}
	a.updateGeneration()
	if a.Failure != nil {
		a.Outcome = Undecided
	}
	return a
}

// transition runs steps 6 to 8 and sets Step. A dry run reserves nothing.
func (s *Scheduler) transition(ctx context.Context, a *Attempt, dry bool) {
	if isChange(a.Target) {
		a.Change = a.newMove(a.Target, a.timers.Change)
		a.setVerdict(s.permitChange(ctx, a, a.Change, dry))
	} else if !a.failsForNow() && a.reserved && !dry {
		if failure := s.unreserve(ctx, a, &framework.Proposal{}, false); failure != nil {
			a.setVerdict(failedResult(failure))
		}
	}
	if a.Outcome == Waiting || a.forcedPermitted() {
		s.goOn(ctx, a, dry)
	}
	s.setStep(ctx, a, dry)
	a.undecideIfLate()
	if a.Step == nil && a.Outcome != Failed && (a.Outcome != Undecided || a.Snapshot.Subject.Last != nil) {
		a.Step = a.repair()
	}
	if after := a.Effects().RetryAfter; after > 0 && a.State.Requeue().IsZero() {
		a.State.RequeueAt(a.Snapshot.Now.Add(after))
	}
	a.noteForced()
	a.updateTimers()
	a.settled = a.whatSettles(ctx)
}

// noteForced stores which removals of a change that gets a record are forced.
func (a *Attempt) noteForced() {
	if a.Outcome != Held && a.Outcome != Progressing && a.Outcome != Published || a.Record() != nil || len(a.Change.Removed) == 0 {
		return
	}
	for _, leaving := range a.describeLeaving(a.Change.Removed) {
		if leaving.Forced && len(a.Change.forced) < berthv1alpha1.MaxListedClusters {
			a.Change.forced = append(a.Change.forced, leaving.Name)
		}
	}
}

// staysReserved reports whether plugins count the clusters of a change after this attempt.
func (a *Attempt) staysReserved() bool {
	return a.Outcome == Progressing || a.Outcome.keepsReservation() || a.partial || a.failsForNow() && a.reserved || a.unreserveFailed
}

// failsForNow reports whether nothing was decided for a reason that passes without an edit.
func (a *Attempt) failsForNow() bool {
	return a.Failure != nil && (a.revokedOnly || a.Failure.IsUnfinished() || a.Failure.Code() == framework.Error)
}

// undecideIfLate makes an attempt that timed out after its decision, without a step, undecided.
func (a *Attempt) undecideIfLate() {
	if late := timeoutErrorOf(a.Err); late != nil && a.Step == nil {
		a.Failure, a.Selected, a.Target, a.Change = a.Err, nil, nil, nil
		a.setVerdict(Verdict{Outcome: Undecided})
	}
}

// setStep sets Step to what the outcome publishes.
func (s *Scheduler) setStep(ctx context.Context, a *Attempt, dry bool) {
	switch {
	case a.Outcome == Published:
		a.timers.Forced, a.timers.Revoked = framework.Stability{}, framework.Stability{}
		s.nextStep(ctx, a, dry)
	case a.Outcome == Unchanged || a.Outcome == Undecided && a.Target != nil:
		a.Step, a.timers.Forced, a.timers.Revoked = a.Target, framework.Stability{}, framework.Stability{}
	default:
		s.removeForced(ctx, a, dry)
	}
}

// setVerdict sets the answer to the change.
func (a *Attempt) setVerdict(v Verdict) { a.Verdict, a.Err = v, v.failure }

// removeForced proposes the removal of clusters that the Placement cannot keep alone, while the
// whole change is pending or nothing could be decided: of all of them while the change is Waiting,
// or only held by plugins that permit forced removals, else of revoked ones. It is a separate
// change; the next attempt continues with the rest. If a plugin holds the removal, too, the
// clusters stay.
func (s *Scheduler) removeForced(ctx context.Context, a *Attempt, dry bool) {
	revoked := revokedClusters(a.Snapshot)
	if a.Outcome == Waiting || a.forcedPermitted() {
		if forced := a.forcedRemovals(); len(forced) > len(revoked) {
			if s.removeAlone(ctx, a, forced, false, &a.timers.Forced, dry); a.partial || a.Outcome == Published || a.Outcome == Failed {
				return
			}
		}
	}
	if len(revoked) == 0 {
		a.timers.Revoked = framework.Stability{}
		return
	}
	s.removeAlone(ctx, a, revoked, true, &a.timers.Revoked, dry)
}

// removeAlone proposes the removal of clusters as a change of its own.
func (s *Scheduler) removeAlone(ctx context.Context, a *Attempt, removed []string, revoked bool, stability *framework.Stability, dry bool) {
	alone := *a
	result := *a.Result
	alone.Result, result.State = &result, a.State.Clone()
	if a.deadlinePassed() {
		// A Placement that times out must not keep revoked clusters, so their removal gets its own
		// deadline.
		var own *cycleDeadline
		ctx, own = s.startDeadline(context.WithoutCancel(ctx))
		defer own.stop()
		result.deadline = own
	}
	p := a.republish(removed)
	p.Revoked = revoked
	m := alone.newMove(p, *stability)
	*stability = stabilityOf(*stability, p, a.Snapshot.Now)
	v := s.permitChange(ctx, &alone, m, dry)
	a.claim = alone.claim
	if p.Beside = a.Outcome.keepsReservation() && v.Outcome != Failed; p.Beside && !dry {
		s.reserveAgain(ctx, a)
	} else if !dry && a.failsForNow() && a.reserved {
		// The next attempt decides about what is reserved.
		a.claim, p.Beside = keepClaim, true
	}
	switch v.Outcome {
	case Failed:
		a.setVerdict(v)
	case Published:
		a.Change, a.Step = m, p
		a.setVerdict(v)
		if a.Target != nil && slices.Equal(p.Clusters, a.Target.Clusters) {
			// The removal is the whole change.
			p.Selected, a.Target = a.Target.Selected, p
			return
		}
		a.partial = true
		a.State.RequeueAt(a.Snapshot.Now)
	default:
		if at := result.State.Requeue(); at.After(a.Snapshot.Now) {
			a.State.RequeueAt(at)
		}
		if a.Outcome == Undecided {
			// There is no other change to report.
			a.Change = m
			a.setVerdict(v)
		}
	}
}

// forcedPermitted reports whether all plugins that hold the change permit forced removals.
func (a *Attempt) forcedPermitted() bool {
	for _, plugin := range a.heldBy {
		if !a.profile.traits(plugin).PermitsForcedRemovals {
			return false
		}
	}
	return len(a.heldBy) > 0 && (a.Outcome == Held || a.Outcome == Expired)
}

// updateTimers updates the timers for the next attempt.
func (a *Attempt) updateTimers() {
	if a.timers.ReadySince != nil && a.Step != nil {
		for _, name := range a.Step.Added {
			a.timers.ReadySince[name] = a.Snapshot.Now
		}
	}
	if a.Target != nil && a.Failure == nil {
		a.timers.Change = stabilityOf(a.timers.Change, a.Target, a.Snapshot.Now)
	}
	if tiers := a.tierStatuses(); tiers != nil && a.pin == nil {
		a.timers.Tiers, a.timers.TiersOf = tiers, a.policy.policy.UID
	}
	if a.Outcome != Waiting && a.Outcome != Failed && a.goesOn == "" {
		// The next removal starts a new measurement.
		a.timers.Change.RemovingSince, a.timers.Forced.RemovingSince, a.timers.Revoked.RemovingSince = time.Time{}, time.Time{}, time.Time{}
	}
	a.timers.NextAttempt, a.timers.NextAttemptCause = a.State.NextAttempt(), "timer"
	if a.timers.NextAttempt.Equal(a.expiry) {
		a.timers.NextAttemptCause = a.expiryCause
	}
}

// saveState stores the timers and the held change for the Placement's next attempt.
func (s *Scheduler) saveState(a *Attempt) {
	subject := a.Snapshot.Subject
	s.timers[subject.Key()] = timers{
		Timers: a.timers, uid: subject.Placement.UID, profile: a.profile, reserved: a.staysReserved(), unrecorded: s.unrecordedAfter(a),
	}
	switch {
	case a.Outcome == Failed || a.Outcome == Undecided || a.Outcome == Waiting && len(a.Holds) > 0:
	case a.Outcome == Held || a.Outcome == Rejected && a.message == "":
		held := framework.HeldChange{
			Key: subject.Key(), UID: subject.Placement.UID, Revision: a.Change.Revision,
			Added: a.Change.Added, Removed: a.Change.Removed, Plugins: map[string]time.Time{},
			Since: a.heldSince(),
		}
		for _, hold := range a.Holds {
			held.Plugins[hold.Plugin] = hold.Until.Time
		}
		s.held.hold(held, framework.Answers{
			Revision: a.Change.Revision, From: a.Change.From, Digest: a.Change.Digest, Generation: subject.Placement.Generation,
		})
	default:
		s.held.release(subject.Placement.UID)
	}
}

// publish writes the records that must come first and then runs step 9.
func (s *Scheduler) publish(ctx context.Context, a *Attempt) {
	switch {
	case a.Outcome == Failed:
		s.recordFailure(a)
		return
	case a.FirstTimeout():
		// The machine may have been slow, so do not even publish an empty page.
		a.Step = nil
		return
	}
	defer s.recordFailure(a)
	if a.Err = s.verifyEarlier(ctx, a); a.Err != nil {
		s.unreserveStep(ctx, a)
		return
	}
	if s.WriteRecordsBefore != nil {
		if err := s.WriteRecordsBefore(ctx, a); err != nil {
			s.publishUnrecorded(ctx, a)
			a.Err = framework.AsStatus(err)
			return
		}
	}
	if a.Step == nil {
		return
	}
	if a.Err = s.bindStep(ctx, a); a.Err != nil {
		s.unverified.put(a)
		s.unreserveStep(ctx, a)
		if last := a.Snapshot.Subject.Last; last != nil && a.ScoresWritten(a.Step) {
			scored := *last
			scored.ScoresAt = a.Snapshot.Now
			s.setPublished(a, &scored)
		}
		return
	}
	if a.Target == nil || a.Failure == nil || a.Step != a.Target {
		s.setPublished(a, a.published())
	}
}

// publishUnrecorded publishes what must not wait for a record that cannot be written: pages are
// restored, and forced removals of a change in steps are made.
func (s *Scheduler) publishUnrecorded(ctx context.Context, a *Attempt) {
	// A change with a record keeps its revision, and its approval, until that is written.
	if a.Outcome == Progressing && a.Step != nil && !a.Step.Restores && a.Record() == nil {
		if forced := a.forcedRemovals(); len(forced) > 0 {
			alone := *a
			alone.Step = a.republish(forced)
			alone.Step.Revision, alone.Step.Partial = a.Change.Revision, true
			alone.unrecorded = alone.Step
			bound := s.bindStep(ctx, &alone).IsSuccess()
			a.panics = alone.panics
			a.Step.Writes, a.Step.Outcome = alone.Step.Writes, alone.Step.Outcome
			if bound {
				a.unrecorded = alone.Step
				s.setPublished(a, alone.published())
				return
			}
			s.unverified.put(&alone)
		}
	}
	if a.Step != nil && a.Step.Restores && s.bindStep(ctx, a).IsSuccess() {
		s.setPublished(a, a.published())
	}
	s.unreserveStep(ctx, a)
}

// unreserveStep undoes Reserve for a step that was not published.
func (s *Scheduler) unreserveStep(ctx context.Context, a *Attempt) {
	if a.Step != nil && !a.Step.Restores {
		s.unreserve(ctx, a, a.Step, false)
	}
}

// bindStep publishes the step. PreBind and PostBind do not run if it only restores pages.
func (s *Scheduler) bindStep(ctx context.Context, a *Attempt) *framework.Status {
	if a.Step.Restores {
		return s.bind(ctx, a, a.Step)
	}
	if failure := s.preBind(ctx, a, a.Step); failure != nil {
		return failure
	}
	if failure := s.bind(ctx, a, a.Step); failure != nil {
		return failure
	}
	s.postBind(ctx, a, a.Step)
	return nil
}

func (s *Scheduler) setPublished(a *Attempt, last *framework.Published) {
	if s.StorePublished != nil {
		s.StorePublished(a.Snapshot.Subject, last)
	}
}

func (s *Scheduler) preBind(ctx context.Context, a *Attempt, p *framework.Proposal) *framework.Status {
	defer s.startTimer(a.Result, "PreBind")()
	for _, plugin := range a.profile.PreBind {
		status := guard(ctx, "PreBind", plugin, func() *framework.Status { return plugin.PreBind(ctx, a.State, a.Snapshot.Subject.Placement, p) })
		if !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
	}
	return nil
}

func (s *Scheduler) bind(ctx context.Context, a *Attempt, p *framework.Proposal) *framework.Status {
	defer s.startTimer(a.Result, "Bind")()
	for _, plugin := range a.profile.Bind {
		status := guard(ctx, "Bind", plugin, func() *framework.Status { return plugin.Bind(ctx, a.State, a.Snapshot.Subject.Placement, p) })
		if status.IsSkip() {
			continue
		}
		if !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
		return nil
	}
	return framework.AsStatus(errors.New("no Bind plugin publishes this Placement"))
}

func (s *Scheduler) postBind(ctx context.Context, a *Attempt, p *framework.Proposal) {
	defer s.startTimer(a.Result, "PostBind")()
	a.publishClaim(p)
	for _, plugin := range a.profile.PostBind {
		a.recovered(guard(ctx, "PostBind", plugin, func() *framework.Status {
			plugin.PostBind(ctx, a.State, a.Snapshot.Subject.Placement, p)
			return nil
		}))
	}
}
