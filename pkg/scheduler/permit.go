package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// permitResult is the result of Reserve and Permit for one change.
type permitResult struct {
	outcome Outcome
	// holds are set if the outcome is Held or Expired; why, if Waiting, Denied or Rejected;
	// failure, if Failed. message is from the record of a change that had already ended.
	holds []berthv1alpha1.ChangeHold
	// heldBy are the plugins that hold the change now, also if it has expired before.
	heldBy []string
	// stillHeldBy are those of them that would hold the change also after an approval; nil if it is
	// approved.
	stillHeldBy []string
	why         string
	message     string
	failure     *framework.Status
}

func failedResult(failure *framework.Status) permitResult {
	return permitResult{outcome: Failed, failure: failure}
}

// permitChange runs Reserve and Permit; a dry run skips Reserve. If the change is not permitted, it
// runs Unreserve; while it is held or waits, only of plugins that count permitted changes.
func (s *Scheduler) permitChange(ctx context.Context, a *Attempt, p *framework.Proposal, id *changeState, dry bool) permitResult {
	// 6. Reserve.
	if !dry {
		if v := s.reserve(ctx, a, p, id); v.outcome != "" {
			return v.orFailed(s.unreserve(ctx, a, p, false))
		}
	}
	// 7. Permit.
	v := s.permit(ctx, a, p, id)
	if !dry && v.outcome != Published {
		v = v.orFailed(s.unreserve(ctx, a, p, v.outcome.keepsReservation()))
	}
	return v
}

// orFailed returns the result of the failure, if there is one.
func (v permitResult) orFailed(failure *framework.Status) permitResult {
	if failure == nil {
		return v
	}
	return failedResult(failure)
}

// keepsReservation reports whether a change keeps what was reserved for it, as a Pod that waits in
// Permit does: an approval must not fail because another change took it.
func (o Outcome) keepsReservation() bool { return o == Held || o == Waiting }

func countsPermitted(plugin framework.ReservePlugin) bool {
	_, is := plugin.(framework.PermittedCounter)
	return is
}

// permit runs the Permit plugins. A change that was permitted before is completed without asking
// again.
func (s *Scheduler) permit(ctx context.Context, a *Attempt, p *framework.Proposal, id *changeState) permitResult {
	if id.open != nil && id.open.Status.PermittedTime != nil {
		return permitResult{outcome: Published}
	}
	defer s.startTimer(a.Result, "Permit")()
	waits := map[string]*framework.Status{}
	deadlines := map[string]time.Time{}
	for _, plugin := range a.profile.Permit {
		var timeout time.Duration
		status := guard(ctx, "Permit", plugin, func() (status *framework.Status) {
			status, timeout = plugin.Permit(ctx, a.State, a.Snapshot.Subject.Placement, p)
			return status
		})
		if late := a.timeout("Permit", plugin.Name()); late != nil {
			return failedResult(late)
		}
		switch status.Code() {
		case framework.Success:
		case framework.Wait:
			waits[plugin.Name()], deadlines[plugin.Name()] = status, a.Snapshot.Now.Add(timeout)
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable, framework.Pending:
			return deniedOrWaiting(status.WithPlugin(plugin.Name()), p, id)
		default:
			return failedResult(unexpected(plugin, "Permit", status))
		}
	}
	for plugin := range id.answers.Allowed {
		delete(waits, plugin)
	}
	for plugin, until := range p.HeldBy {
		if until.After(a.Snapshot.Now) || !holderIs[framework.HoldRenewer](a, plugin) {
			deadlines[plugin] = until
		}
	}
	v := a.resolvePermit(waits, deadlines, p, id)
	if v.outcome != Published && !p.Approved {
		v.stillHeldBy = s.heldAfterApproval(ctx, a, p, waits)
	}
	return v
}

// heldAfterApproval returns which of the plugins that hold a change would hold it also if it were
// approved, sorted.
func (s *Scheduler) heldAfterApproval(ctx context.Context, a *Attempt, p *framework.Proposal, waits map[string]*framework.Status) []string {
	approved, state := *p, a.State.Clone()
	approved.Approved = true
	var names []string
	for _, plugin := range a.profile.Permit {
		if waits[plugin.Name()] == nil {
			continue
		}
		if status, _ := plugin.Permit(ctx, state, a.Snapshot.Subject.Placement, &approved); status.Code() == framework.Wait {
			names = append(names, plugin.Name())
		}
	}
	slices.Sort(names)
	return names
}

// holderIs reports whether the Permit plugin of a name implements T.
func holderIs[T framework.PermitPlugin](a *Attempt, plugin string) bool {
	return slices.ContainsFunc(a.profile.Permit, func(p framework.PermitPlugin) bool {
		_, is := p.(T)
		return is && p.Name() == plugin
	})
}

// resolvePermit combines the plugins' answers into Published (permitted), Held, Rejected or
// Expired.
func (a *Attempt) resolvePermit(waits map[string]*framework.Status, deadlines map[string]time.Time, p *framework.Proposal, id *changeState) permitResult {
	rejecter := id.rejectedBy()
	switch {
	case p.Approved && len(waits) == 0:
		return permitResult{outcome: Published}
	case !p.Approved && id.ended != nil && (len(waits) > 0 || id.ended.Status.Phase == berthv1alpha1.PhaseRejected):
		v := endedResult(id)
		v.heldBy = slices.Sorted(maps.Keys(waits))
		return v
	case !p.Approved && rejecter != "":
		return permitResult{outcome: Rejected, why: rejecter, holds: holdsOf(id.open)}
	case len(waits) == 0:
		return permitResult{outcome: Published}
	}
	v := permitResult{outcome: Held, heldBy: slices.Sorted(maps.Keys(waits))}
	for _, plugin := range v.heldBy {
		status, until := waits[plugin], deadlines[plugin]
		if !until.After(a.Snapshot.Now) {
			v.outcome = Expired
		}
		a.State.RequeueAt(until)
		v.holds = append(v.holds, berthv1alpha1.ChangeHold{Plugin: plugin, Reason: v1alpha1.CutText(status.Reason(), maxReason), Until: &metav1.Time{Time: until.Truncate(time.Second)}})
	}
	return v
}

// deniedOrWaiting returns the result for a change that a plugin denies or leaves Pending. A change
// that has expired keeps that outcome, and so does one that was rejected, unless it is denied now.
func deniedOrWaiting(status *framework.Status, p *framework.Proposal, id *changeState) permitResult {
	switch {
	case id.ended != nil && !p.Approved:
		return endedResult(id)
	case status.Code() == framework.Pending && !p.Approved && id.rejectedBy() != "":
		return permitResult{outcome: Rejected, why: id.rejectedBy(), holds: holdsOf(id.open)}
	case status.Code() == framework.Pending:
		return permitResult{outcome: Waiting, why: status.Err().Error(), holds: holdsOf(id.open)}
	}
	return permitResult{outcome: Denied, why: status.Err().Error()}
}

// endedResult returns the result for a change that was rejected or has expired before.
func endedResult(id *changeState) permitResult {
	v := permitResult{outcome: Expired, holds: holdsOf(id.ended), message: id.ended.Status.Message}
	if id.ended.Status.Phase == berthv1alpha1.PhaseRejected {
		v.outcome = Rejected
	}
	return v
}

func holdsOf(record *berthv1alpha1.PlacementChange) []berthv1alpha1.ChangeHold {
	if record == nil {
		return nil
	}
	return record.Status.Holds
}

// rejectedBy returns the user or plugin that rejected the change; empty if it was not rejected.
func (id *changeState) rejectedBy() string {
	if rejected(id.open) {
		return id.open.Spec.Approval.By
	}
	return id.answers.Rejected
}

// maxReason is the maximum length of a hold's reason, in bytes.
const maxReason = 1024

// reserve runs the Reserve plugins up to the first failure. The result is empty if all succeed.
func (s *Scheduler) reserve(ctx context.Context, a *Attempt, p *framework.Proposal, id *changeState) permitResult {
	defer s.startTimer(a.Result, "Reserve")()
	a.claim = claimFor(p, a.Snapshot.Queue)
	for _, plugin := range a.profile.Reserve {
		status := guard(ctx, "Reserve", plugin, func() *framework.Status { return plugin.Reserve(ctx, a.State, a.Snapshot.Subject.Placement, p) })
		if late := a.timeout("Reserve", plugin.Name()); late != nil {
			return failedResult(late)
		}
		switch status.Code() {
		case framework.Success:
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable, framework.Pending:
			return deniedOrWaiting(status.WithPlugin(plugin.Name()), p, id)
		default:
			return failedResult(unexpected(plugin, "Reserve", status))
		}
	}
	return permitResult{}
}

// unreserve runs Unreserve of all plugins in reverse order, even if their Reserve did not run, or
// only of those that count permitted changes. It returns the first panic; the next attempt then
// runs Unreserve again.
func (s *Scheduler) unreserve(ctx context.Context, a *Attempt, p *framework.Proposal, onlyPermitted bool) (failure *framework.Status) {
	if !onlyPermitted {
		a.releaseClaim(p)
	}
	for _, plugin := range slices.Backward(a.profile.Reserve) {
		if onlyPermitted && !countsPermitted(plugin) {
			continue
		}
		panicked := unreserveOne(ctx, plugin, a.State, p)
		a.recovered(panicked)
		failure = cmp.Or(failure, panicked)
	}
	a.unreserveFailed = a.unreserveFailed || failure != nil
	return failure
}

func unreserveOne(ctx context.Context, plugin framework.ReservePlugin, state *framework.CycleState, p *framework.Proposal) *framework.Status {
	return guard(ctx, "Unreserve", plugin, func() *framework.Status {
		plugin.Unreserve(ctx, state, state.Snapshot().Subject.Placement, p)
		return nil
	})
}
