package plan

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Verdict is the answer of Reserve and Permit plugins to a Move.
type Verdict struct {
	Answer Outcome
	// Holds are the holds of Permit plugins if the answer is Held or Expired, or of the open
	// record. Reason is set if it is Waiting, Denied or Rejected; PlanErr, the failure of step 6, 7
	// or 8, if it is Failed. endedBefore is true for a change that had already ended; message is
	// then that of its record, if only that says why.
	Holds           []berthv1alpha1.ChangeHold
	Reason, message string
	PlanErr         *framework.Status
	endedBefore     bool
	// heldBy are the plugins that hold the change now, also if it has expired before. stillHeldBy
	// are those of them that would hold it also after an approval; nil if it is approved.
	heldBy, stillHeldBy []string
}

func failed(failure *framework.Status) Verdict {
	return Verdict{Answer: Failed, PlanErr: failure}
}

// permitChange runs Reserve and Permit; a dry run skips Reserve. If the change is not permitted, it
// runs Unreserve; while it stays open, only of plugins that count permitted changes.
func (a *planner) permitChange(ctx context.Context, m *Move) Verdict {
	var v Verdict
	// 6. Reserve.
	if !a.in.Dry {
		v = a.reserve(ctx, m)
	}
	reserved := v.Answer == ""
	// 7. Permit.
	if reserved {
		v = a.permit(ctx, m)
	}
	if (v.Answer == Waiting || v.Answer == Failed) && m.Open != nil && a.hasExpired(m.Open) {
		v = Verdict{Answer: Expired, Holds: m.Open.Status.Holds}
	}
	if a.in.Dry || v.Answer == Permitted {
		a.Claim.Unpermitted = false
		return v
	}
	return a.endReserve(ctx, m, v, reserved && v.Answer.keepsReservation())
}

// endReserve runs Unreserve for a change that is not published now. keeps is true if the change
// stays open, with what it reserved: then only plugins that count permitted changes run. Otherwise:
//
//   - the attempt fails or waits, and this change has the open record (own); or it fails, and this
//     change was reserved without a record (unrecorded): what earlier attempts reserved stays;
//   - it fails, and another change has the open record: that is reserved again, too;
//   - else nothing stays reserved.
func (a *planner) endReserve(ctx context.Context, m *Move, v Verdict, keeps bool) Verdict {
	open := changes.History(a.Snapshot.Subject.Records).Open()
	own := isSame(open, m.Open)
	unrecorded := v.Answer == Failed && m.Digest == a.Snapshot.Timers.Change.Digest
	stays := a.in.Reserved && (unrecorded || open != nil && (v.Answer == Failed || v.Answer == Waiting && own))
	v = v.orFailed(a.unreserve(ctx, m.Proposal, keeps || stays && (own || unrecorded)))
	a.keepsReserved = a.keepsReserved || stays
	if stays && !own {
		if claim, panicked := ReserveOpen(ctx, a.Profile, a.State, false); claim.Clusters != nil {
			a.Claim = KeepClaim
			a.recovered(panicked)
		}
	}
	return v
}

// keepsOpenRecord reports whether an attempt that decided nothing leaves the open record as it is.
func (a *planner) keepsOpenRecord() bool {
	open := changes.History(a.Snapshot.Subject.Records).Open()
	return open != nil && a.Failure != nil && !a.Ends(open)
}

// orFailed returns the verdict of the failure, if there is one.
func (v Verdict) orFailed(failure *framework.Status) Verdict {
	if failure == nil {
		return v
	}
	return failed(failure)
}

// keepsReservation reports whether a change keeps what was reserved for it, as a Pod that waits in
// Permit does: an approval must not fail because another change took it.
func (o Outcome) keepsReservation() bool { return o == Held || o == Waiting }

// isPermitted reports whether a change was permitted before.
func (m *Move) isPermitted() bool {
	return m.predecessor != nil || changes.IsPermitted(m.Open)
}

// permit runs the Permit plugins. A change that was permitted before is completed without asking
// again.
func (a *planner) permit(ctx context.Context, m *Move) Verdict {
	if m.isPermitted() {
		return Verdict{Answer: Permitted}
	}
	defer a.in.Timer.Start(a.Profile, "Permit")()
	holds := map[string]*framework.Status{}
	deadlines := map[string]time.Time{}
	for _, plugin := range a.Profile.Permit {
		var timeout time.Duration
		status := plugins.Call(ctx, "Permit", plugin, func() (status *framework.Status) {
			status, timeout = plugin.Permit(ctx, a.State, a.Snapshot.Subject.Placement, m.Proposal)
			return status
		})
		if timedOut := a.checkTimeout("Permit", plugin); timedOut != nil {
			return failed(timedOut)
		}
		switch status.Code() {
		case framework.Success:
		case framework.Wait:
			holds[plugin.Name()], deadlines[plugin.Name()] = status, a.Snapshot.Now.Add(timeout)
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable, framework.Pending:
			return deniedOrWaiting(status.WithPlugin(plugin.Name()), m)
		default:
			return failed(plugins.Unexpected(plugin, "Permit", status))
		}
	}
	for plugin := range m.answers.Allowed {
		delete(holds, plugin)
	}
	for plugin, until := range m.HeldBy {
		if until.After(a.Snapshot.Now) || !a.Profile.Traits(plugin).RenewsHolds {
			deadlines[plugin] = until
		}
	}
	v := a.resolvePermit(holds, deadlines, m)
	if v.Answer != Permitted && !m.Approved {
		v.stillHeldBy = a.heldAfterApproval(ctx, m.Proposal, holds)
	}
	return v
}

// heldAfterApproval returns which of the plugins that hold a change would hold it also if it were
// approved, sorted.
func (a *planner) heldAfterApproval(ctx context.Context, p *framework.Proposal, holds map[string]*framework.Status) []string {
	approved, state := *p, a.State.Clone()
	approved.Approved = true
	var names []string
	for _, plugin := range a.Profile.Permit {
		if holds[plugin.Name()] == nil {
			continue
		}
		status := plugins.Call(ctx, "Permit", plugin, func() (status *framework.Status) {
			status, _ = plugin.Permit(ctx, state, a.Snapshot.Subject.Placement, &approved)
			return status
		})
		if status.Code() == framework.Wait {
			names = append(names, plugin.Name())
		}
	}
	slices.Sort(names)
	return names
}

// resolvePermit combines the plugins' answers into Permitted, Held, Rejected or Expired.
func (a *planner) resolvePermit(holds map[string]*framework.Status, deadlines map[string]time.Time, m *Move) Verdict {
	rejecter := m.rejectedBy()
	switch {
	case !m.Approved && m.ended != nil && (len(holds) > 0 || wasRejected(m.ended)):
		v := endedResult(m)
		v.heldBy = slices.Sorted(maps.Keys(holds))
		return v
	case !m.Approved && rejecter != "":
		return Verdict{Answer: Rejected, Reason: rejecter, Holds: holdsOf(m.Open)}
	case len(holds) == 0:
		return Verdict{Answer: Permitted}
	}
	v := Verdict{Answer: Held, heldBy: slices.Sorted(maps.Keys(holds))}
	for _, plugin := range v.heldBy {
		hold := berthv1alpha1.ChangeHold{Plugin: plugin, Reason: v1alpha1.CutText(holds[plugin].Reason(), maxReason)}
		if until := deadlines[plugin]; !m.Approved { // An approved change does not expire.
			hold.Until = &metav1.Time{Time: until.Truncate(time.Second)}
			if until.After(a.Snapshot.Now) {
				a.State.RequeueAt(until)
			} else {
				v.Answer = Expired
			}
		}
		v.Holds = append(v.Holds, hold)
	}
	return v
}

// deniedOrWaiting returns the result for a change that a plugin denies or leaves Pending. A change
// that was rejected or has expired keeps that outcome.
func deniedOrWaiting(status *framework.Status, m *Move) Verdict {
	switch {
	case m.ended != nil && !m.Approved:
		return endedResult(m)
	case !m.Approved && m.rejectedBy() != "":
		return Verdict{Answer: Rejected, Reason: m.rejectedBy(), Holds: holdsOf(m.Open)}
	case status.Code() == framework.Pending:
		return Verdict{Answer: Waiting, Reason: status.Err().Error(), Holds: holdsOf(m.Open)}
	}
	return Verdict{Answer: Denied, Reason: status.Err().Error()}
}

// endedResult returns the result for a change that was rejected or has expired before.
func endedResult(m *Move) Verdict {
	v := Verdict{Answer: Expired, Holds: holdsOf(m.ended), endedBefore: true}
	switch {
	case rejected(m.ended):
		v.Answer, v.Reason = Rejected, m.ended.Spec.Approval.By
	case m.ended.Status.Phase == berthv1alpha1.PhaseRejected:
		// A plugin rejected it.
		v.Answer, v.message = Rejected, m.ended.Status.Message
	}
	return v
}

// wasRejected reports whether a record that ended was rejected, before or after it expired.
func wasRejected(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseRejected || rejected(record)
}

func holdsOf(record *berthv1alpha1.PlacementChange) []berthv1alpha1.ChangeHold {
	if record == nil {
		return nil
	}
	return record.Status.Holds
}

// rejectedBy returns the user or plugin that rejected the change; empty if it was not rejected.
func (m *Move) rejectedBy() string {
	switch {
	case m.Kind == framework.RevokedRemoval:
		return ""
	case rejected(m.Open):
		return m.Open.Spec.Approval.By
	}
	return m.answers.Rejected
}

// maxReason is the maximum length of a hold's reason, in bytes.
const maxReason = 1024

// reserve runs the Reserve plugins up to the first failure. The result is empty if all succeed.
func (a *planner) reserve(ctx context.Context, m *Move) Verdict {
	defer a.in.Timer.Start(a.Profile, "Reserve")()
	a.Claim = ClaimFor(m.Proposal, a.Snapshot.Queue, m.isPermitted())
	for _, plugin := range a.Profile.Reserve {
		status := plugins.Call(ctx, "Reserve", plugin, func() *framework.Status {
			return plugin.Reserve(ctx, a.State, a.Snapshot.Subject.Placement, m.Proposal)
		})
		if timedOut := a.checkTimeout("Reserve", plugin); timedOut != nil {
			return failed(timedOut)
		}
		switch status.Code() {
		case framework.Success:
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable, framework.Pending:
			return deniedOrWaiting(status.WithPlugin(plugin.Name()), m)
		default:
			return failed(plugins.Unexpected(plugin, "Reserve", status))
		}
	}
	return Verdict{}
}

// unreserve runs Unreserve of all plugins, or only of those that count permitted changes. It
// returns the first panic; the next attempt then runs Unreserve again.
func (a *planner) unreserve(ctx context.Context, p *framework.Proposal, onlyPermitted bool) (failure *framework.Status) {
	if !onlyPermitted {
		a.Claim = a.Claim.Released(a.Snapshot.Queue)
	}
	for _, panicked := range Unreserve(ctx, a.Profile, a.State, p, onlyPermitted) {
		a.recovered(panicked)
		failure = cmp.Or(failure, panicked)
	}
	a.unreserveFailed = a.unreserveFailed || failure != nil
	return failure
}

// Unreserve runs Unreserve of all plugins of a profile in reverse order, even if their Reserve did
// not run, or only of those that count permitted changes. It returns the panics.
func Unreserve(ctx context.Context, profile *plugins.Profile, state *framework.CycleState, p *framework.Proposal, onlyPermitted bool) (panics []*framework.Status) {
	for _, plugin := range slices.Backward(profile.Reserve) {
		if onlyPermitted && !profile.Traits(plugin.Name()).CountsPermitted {
			continue
		}
		panicked := plugins.Call(ctx, "Unreserve", plugin, func() *framework.Status {
			plugin.Unreserve(ctx, state, state.Snapshot().Subject.Placement, p)
			return nil
		})
		if panicked != nil {
			panics = append(panics, panicked)
		}
	}
	return panics
}
