package plan

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
)

// removeForced proposes the removal of clusters that the Placement cannot keep alone, while the
// whole change is pending or nothing could be decided: of all of them while the change is Waiting,
// or only held by plugins that permit forced removals, else of revoked ones. It is a step of the
// change in progress, if the attempt leaves that as it is; else a separate change. The next attempt
// continues with the rest. If a plugin holds the removal, too, the clusters stay.
func (a *planner) removeForced(ctx context.Context) {
	if leaving := a.permittedRemovals(); len(leaving) > 0 {
		a.publishBeside(ctx, a.Change, &Move{Proposal: &framework.Proposal{Removed: leaving}}, Verdict{Answer: Permitted})
		return
	}
	revoked := revokedClusters(a.Snapshot)
	// Lost clusters do not wait for what is to replace them.
	if a.Outcome == Waiting || a.holdsPermitForced() {
		if forced := a.forcedRemovals(); len(forced) > len(revoked) && a.removeOnly(ctx, forced, false, &a.Timers.Forced) {
			return
		}
	}
	if len(revoked) == 0 {
		a.Timers.Revoked = framework.Stability{}
		return
	}
	a.removeOnly(ctx, revoked, true, &a.Timers.Revoked)
}

// permittedRemovals returns the clusters that the Placement cannot keep and that a permitted change
// removes, while that waits for a Reserve plugin.
func (a *planner) permittedRemovals() []string {
	if a.Outcome != Waiting || !changes.IsPermitted(a.Change.Open) {
		return nil
	}
	return changes.Both(a.Change.Removed, a.forcedRemovals())
}

// removeOnly proposes the removal of clusters as a change of its own. It reports whether that is
// permitted, or fails.
func (a *planner) removeOnly(ctx context.Context, removed []string, revoked bool, stability *framework.Stability) (done bool) {
	deadline := a.Deadline
	if deadline.Passed() {
		// A Placement that times out must not keep revoked clusters, so their removal gets its own
		// deadline.
		ctx, deadline = a.in.Limits.Start(context.WithoutCancel(ctx))
		defer deadline.Stop()
	}
	alone, m := a.moveOnly(removed, revoked, *stability, deadline)
	p := m.Proposal
	*stability = stabilityOf(*stability, p, a.Snapshot.Now)
	due := a.State.Requeue()
	rest := a.restThatStays(removed)
	p.KeepsReservation = rest != nil
	claim, v := a.Claim, alone.permitChange(ctx, m)
	a.Claim, a.Panics, a.unreserveFailed = alone.Claim, alone.Panics, a.unreserveFailed || alone.unreserveFailed
	a.keepsReserved = a.keepsReserved || alone.keepsReserved
	beside := a.Outcome.keepsReservation()
	if beside && !a.in.Dry {
		a.keepsReserved = true
		a.reserveChange(ctx)
		a.Claim = claim // with that of the next change, if the rest waits, too
	} else if a.keepsReserved || a.keepsOpenRecord() {
		// The next attempt decides about what is reserved.
		a.Claim, beside = KeepClaim, true
	}
	switch v.Answer {
	case Failed:
		a.setChange(a.Change, v)
		return true
	case Permitted:
		if rest == nil {
			a.Beside = beside
			a.publishRemoval(m, v)
		} else {
			a.publishBeside(ctx, rest, m, v)
		}
		return true
	}
	if a.isInsteadOfTarget(m, v) {
		if a.Change != nil {
			a.Deferred = &Deferred{a.Change, a.Verdict}
		}
		a.setChange(m, v)
	}
	a.requeueRemoval(alone, m, v, due)
	return false
}

// isInsteadOfTarget reports whether the attempt is about a removal that is not permitted, instead
// of the change to Target: nothing was decided, or that change ended, and a user can approve the
// removal. A record that stays open is ended first.
func (a *planner) isInsteadOfTarget(m *Move, v Verdict) bool {
	open := changes.History(a.Snapshot.Subject.Records).Open()
	switch {
	case a.Outcome == Undecided:
		return !a.keepsOpenRecord()
	case m.Kind != framework.RevokedRemoval || a.Effects().DecisionPending != metav1.ConditionFalse || len(v.heldBy) == 0:
		return false
	case open == nil || isSame(open, m.Open) || a.Ends(open):
		return true
	}
	a.State.RequeueAt(a.Snapshot.Now)
	return false
}

// moveOnly returns the removal of clusters as a change of its own, and the planner to ask about it.
func (a *planner) moveOnly(removed []string, revoked bool, stability framework.Stability, deadline *limits.Deadline) (*planner, *Move) {
	plan := *a.Plan
	plan.Decision = a.WithDeadline(deadline)
	alone := &planner{Plan: &plan, in: a.in, edits: a.edits}
	p := a.lastWithout(removed)
	if revoked {
		p.Kind = framework.RevokedRemoval
	}
	return alone, alone.newMove(p, stability)
}

// permitBeside asks Permit plugins about the removal of clusters beside the rest of the change in
// progress.
func (a *planner) permitBeside(ctx context.Context, removed []string, revoked bool) Outcome {
	stability, waits := &a.Timers.Forced, &a.forcedWait
	if revoked {
		stability, waits = &a.Timers.Revoked, &a.revokedWait
	}
	alone, m := a.moveOnly(removed, revoked, *stability, a.Deadline)
	m.KeepsReservation = true
	due := a.State.Requeue()
	v := alone.permit(ctx, m)
	a.Panics = alone.Panics
	if revoked || v.Answer == Waiting && len(removed) == len(a.forcedRemovals()) {
		// Of others, removeForced measures the removal of all.
		*stability, *waits = stabilityOf(*stability, m.Proposal, a.Snapshot.Now), v.Answer == Waiting || revoked && v.Answer == Permitted
	}
	if v.Answer == Waiting || v.Answer == Failed || revoked && v.Answer != Permitted {
		a.requeueAsFor(alone, v, due)
	}
	return v.Answer
}

// requeueRemoval is requeueAsFor for a removal that is not permitted.
func (a *planner) requeueRemoval(alone *planner, m *Move, v Verdict, before time.Time) {
	a.requeueAsFor(alone, v, before)
	unrecorded := m.Open == nil && len(m.HeldBy) > 0
	if unrecorded || slices.ContainsFunc(a.Snapshot.Subject.Records, func(r *berthv1alpha1.PlacementChange) bool { return changes.IsOpen(r) && !a.isOwed(r) && a.Ends(r) }) {
		// The next attempt asks without the record, or the memory of one, that may keep the removal
		// held.
		a.State.RequeueAt(a.Snapshot.Now.Add(effects[Waiting].RetryAfter))
	}
}

// requeueAsFor repeats the attempt when a removal alone, which is not made now, is due: soon, if it
// failed, or waits and no plugin asked for an earlier time than before.
func (a *planner) requeueAsFor(alone *planner, v Verdict, before time.Time) {
	at := alone.State.Requeue()
	if v.Answer == Failed || v.Answer == Waiting && at.Equal(before) {
		at = a.Snapshot.Now.Add(effects[Waiting].RetryAfter)
	}
	if at.After(a.Snapshot.Now) {
		a.State.RequeueAt(at)
	}
}

// restThatStays returns the rest of the change in progress without removed clusters; nil if the
// attempt ends that, or there is none.
func (a *planner) restThatStays(removed []string) *Move {
	open := a.inProgress()
	if open == nil || a.Ends(open) {
		return nil
	}
	return a.restWithout(open, removed)
}

// publishBeside publishes a permitted removal as a step of the rest of the change in progress.
func (a *planner) publishBeside(ctx context.Context, rest, m *Move, v Verdict) {
	if !a.in.Dry {
		a.recovered(Reserve(ctx, a.Profile, a.State, rest.Proposal, true))
	}
	a.setChange(rest, v)
	a.step = &step{Transition: &framework.Transition{Added: changes.Both(rest.Added, m.Added), Removed: m.Removed}}
	a.nextStep(ctx)
}

// publishRemoval publishes a permitted removal as a change of its own.
func (a *planner) publishRemoval(m *Move, v Verdict) {
	if a.Change != nil {
		a.Deferred = &Deferred{a.Change, a.Verdict}
	}
	a.setChange(m, v)
	a.Outcome = Published
	if a.Target != nil && slices.Equal(m.Clusters, a.Target.Clusters) {
		// The removal is the whole change.
		m.Selected, m.Kind, a.Target, a.Deferred = a.Target.Selected, framework.ToTarget, m.Proposal, nil
		a.Publish = m.Proposal
		return
	}
	a.Publish = m.Proposal
	a.State.RequeueAt(a.Snapshot.Now)
}

// holdsPermitForced reports whether all plugins that hold the change permit forced removals.
func (a *planner) holdsPermitForced() bool {
	for _, plugin := range a.heldBy {
		if !a.Profile.Traits(plugin).PermitsForcedRemovals {
			return false
		}
	}
	return len(a.heldBy) > 0 && (a.Outcome == Held || a.Outcome == Expired)
}

// maxRecordWait is for how long the record of the rest is tried before revoked clusters leave
// without it.
const maxRecordWait = time.Minute

// withoutRecords returns what must not wait for a record that cannot be written: pages are
// restored, and forced removals of a change in steps are made. A change with a record keeps its
// revision, and its approval, until that is written. The rest of one loses its approval when
// revoked clusters leave without its record, so that is tried for maxRecordWait.
func (a *planner) withoutRecords() *framework.Proposal {
	last := a.Snapshot.Subject.Last
	switch {
	case a.Publication() == Republished:
		return a.Publish
	case a.Publish == nil || last == nil:
		return nil
	}
	var forced []string
	if a.Outcome == Progressing && a.Record() == nil {
		forced = changes.Both(a.Change.Removed, a.forcedRemovals())
		onlyRevoked := len(forced) == len(changes.Both(a.Change.Removed, revokedClusters(a.Snapshot)))
		if since := a.Timers.RefusedSince; a.Change.predecessor != nil && onlyRevoked && (since.IsZero() || a.Snapshot.Now.Before(since.Add(maxRecordWait))) {
			forced = nil // Under its record, the rest goes on.
		}
	}
	switch p := a.lastWithout(forced); {
	case len(forced) > 0:
		p.Revision, p.Partial = a.Change.Revision, true
		return p
	case last.Damaged(a.Snapshot.Subject):
		return p
	}
	return nil
}
