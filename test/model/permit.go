package model

import (
	"fmt"
	"slices"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// change leads from what is published to another set.
type change struct {
	from, to, added, removed []string
	revision                 int64
	// open is its open record, ended that of the same change that was rejected or expired.
	open, ended *Record
	// resumed is the record of the change in progress whose rest this is, if that goes on under
	// another record.
	resumed  *Record
	approved bool
	// forced: it only removes clusters that the Placement cannot keep; revoked: that the namespace
	// may no longer use.
	forced, revoked bool
	holds           map[string]time.Time
}

// changeTo returns the change to a target; nil if it is published. forced: it only removes clusters
// that the Placement cannot keep.
func (a *attempt) changeTo(target []string, forced bool) *change {
	if slices.Equal(target, a.Listed) {
		return nil
	}
	c := &change{from: a.Listed, to: target, added: minus(target, a.Listed), removed: minus(a.Listed, target), forced: forced}
	if open := a.openRecord(); open != nil && a.continues(open, c) {
		c.open = open
	}
	for i := range a.Records {
		r := &a.Records[i]
		if (r.Phase == berthv1alpha1.PhaseRejected || r.Phase == berthv1alpha1.PhaseExpired) &&
			r.From == digest(c.from) && r.To == digest(c.to) && r.Generation == a.generationOf(c) {
			c.ended = r
		}
	}
	if c.open != nil && c.open.Approval == berthv1alpha1.Rejected {
		c.ended = nil
	}
	c.approved = isApproved(c.open) || isApproved(c.ended)
	a.number(c)
	return c
}

// revokes makes a change one that only removes clusters of lost sets: no rejection keeps them.
func (a *attempt) revokes(c *change) {
	c.revoked = true
	if c.ended != nil && (c.ended.Phase == berthv1alpha1.PhaseRejected || c.ended.Approval == berthv1alpha1.Rejected) && !isApproved(c.ended) {
		c.ended = nil
	}
	if c.open != nil && c.open.Approval == berthv1alpha1.Rejected {
		c.open = nil
	}
	a.number(c)
}

// generationOf is the generation for which the clusters are published after a change: where only
// clusters leave that the Placement cannot keep, it is that of those that stay.
func (a *attempt) generationOf(c *change) int64 {
	if published := a.publishedGeneration(); c.forced && published != 0 {
		return published
	}
	return a.Placement.Generation
}

func isApproved(r *Record) bool {
	return r != nil && (r.Approval == berthv1alpha1.Approved || r.Uses && r.Approval != berthv1alpha1.Rejected)
}

// continues: an open record stays that of the change while the target, the generation, and the
// published clusters apart from its own steps are the same.
func (a *attempt) continues(r *Record, c *change) bool {
	if r.To != digest(c.to) || r.Generation != a.generationOf(c) || a.Revision > r.Revision {
		return false
	}
	return r.From == digest(c.from) || r.permitted() && digest(beforeOf(r, c.from)) == r.From && digest(targetOf(r, c.from)) == r.To
}

// number sets the revision: that of the change's record, or 1 + the highest on records and pages.
func (a *attempt) number(c *change) {
	last := a.Revision
	if n := len(a.Records); n > 0 {
		last = max(last, a.Records[n-1].Revision)
	}
	c.revision = last + 1
	switch {
	case c.open != nil:
		c.revision = c.open.Revision
	case c.ended != nil && c.ended.Revision == last:
		c.revision = last
	}
}

// permit returns whether a change may begin now (Published), or what it waits for.
func (a *attempt) permit(c *change) (Outcome, map[string]time.Time) {
	permitted := c.open != nil && c.open.permitted()
	switch {
	case a.Denies == InReserve, !permitted && !a.unstable(c) && a.deniedInPermit(c):
		return c.denied()
	case permitted:
		return Published, nil
	case c.rejected():
		// Forced removals wait, as they do for an approval.
		return Rejected, nil
	case a.unstable(c) && c.ended != nil:
		return Expired, c.ended.Holds
	case a.unstable(c):
		return Waiting, nil
	}
	c.holds = a.gates(c)
	until, held := c.holds["Approval"]
	switch {
	case len(c.holds) == 0:
		return Published, nil
	case c.ended != nil && !c.approved, held && !a.Now.Before(until):
		return Expired, c.holds
	}
	return Held, c.holds
}

func (a *attempt) deniedInPermit(c *change) bool {
	return a.Denies == InPermit || a.Denies == InPermitOfOthers && !c.revoked
}

// denied is the answer to a change that a plugin denies. One that was rejected or ended before
// stays so.
func (c *change) denied() (Outcome, map[string]time.Time) {
	switch {
	case c.rejected():
		return Rejected, nil
	case c.ended == nil || c.approved:
		return Denied, nil
	}
	return Expired, c.ended.Holds
}

// rejected reports whether a person rejected the change and did not approve it later.
func (c *change) rejected() bool {
	return !c.approved && (c.open != nil && c.open.Approval == berthv1alpha1.Rejected || c.ended != nil && (c.ended.Phase == berthv1alpha1.PhaseRejected || c.ended.Approval == berthv1alpha1.Rejected))
}

// unstable reports whether the change must wait for the stabilization window.
func (a *attempt) unstable(c *change) bool {
	since := a.Now
	if a.memory.Target == digest(c.to) {
		since = a.memory.Since
	}
	held := c.open != nil && len(c.open.Holds) > 0 || a.knownUnwritten(c) != nil
	return !c.approved && !c.forced && !held && a.Now.Before(since.Add(a.policy.stabilization))
}

// knownUnwritten is what is remembered of the hold of a change without a record; nil if nothing is.
func (a *attempt) knownUnwritten(c *change) *Record {
	known := a.memory.Unwritten
	if known == nil || known.From != digest(c.from) || known.To != digest(c.to) || known.Generation != a.generationOf(c) {
		return nil
	}
	return known
}

// gates returns the gates that hold a change now. The end of an approval's hold does not change
// once it is held.
func (a *attempt) gates(c *change) map[string]time.Time {
	holds := map[string]time.Time{}
	if !c.forced && !a.policy.windowOpen(a.Now) {
		holds["MaintenanceWindow"] = time.Time{}
	}
	if a.policy.approval && !c.approved && !c.revoked {
		holds["Approval"] = a.Now.Add(a.policy.approvalTimeout)
		known := a.knownUnwritten(c)
		if c.open != nil && c.open.Phase != "" {
			known = c.open
		}
		if known != nil && known.Revision == c.revision {
			if until, held := known.Holds["Approval"]; held {
				holds["Approval"] = until
			}
		}
	}
	return holds
}

func onlyWindows(holds map[string]time.Time) bool {
	_, window := holds["MaintenanceWindow"]
	return window && len(holds) == 1
}

// policy has the strictest values of all policies.
type policy struct {
	any, suspended, approval, continues      bool
	replaceFirst                             bool
	approvalTimeout, stabilization, minReady time.Duration
	deadline                                 time.Duration
	windows                                  [][]berthv1alpha1.RecurringWindow
	specs                                    []berthv1alpha1.DisruptionPolicySpec
}

func strictest(specs []berthv1alpha1.DisruptionPolicySpec) policy {
	p := policy{any: len(specs) > 0, continues: true, approvalTimeout: 604800 * time.Second, deadline: 24 * time.Hour, specs: specs}
	for _, s := range specs {
		p.suspended = p.suspended || s.Suspend
		p.replaceFirst = p.replaceFirst || s.UnavailableClusters == berthv1alpha1.UnavailableReplaceFirst
		p.continues = p.continues && s.OnDeadline == berthv1alpha1.DeadlineContinue
		p.stabilization = max(p.stabilization, seconds(s.StabilizationWindowSeconds))
		p.minReady = max(p.minReady, seconds(int64(s.MinReadySeconds)))
		deadline := seconds(int64(s.ProgressDeadlineSeconds))
		if deadline == 0 {
			deadline = 600 * time.Second
		}
		p.deadline = min(p.deadline, deadline)
		if len(s.Windows) > 0 {
			p.windows = append(p.windows, s.Windows)
		}
		if s.Approval == berthv1alpha1.ApprovalRequired {
			p.approval = true
			if s.ApprovalTimeoutSeconds > 0 {
				p.approvalTimeout = min(p.approvalTimeout, seconds(s.ApprovalTimeoutSeconds))
			}
		}
	}
	return p
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// windowOpen reports whether a window of each policy with windows is open. Windows here open every
// n minutes, for one minute: "*/n * * * *".
func (p *policy) windowOpen(now time.Time) bool {
	for _, windows := range p.windows {
		if !slices.ContainsFunc(windows, func(w berthv1alpha1.RecurringWindow) bool {
			var every int
			if _, err := fmt.Sscanf(w.Schedule, "*/%d", &every); err != nil || w.Duration != "1m" {
				panic("the model does not know this window: " + w.Schedule)
			}
			return now.Minute()%every == 0
		}) {
			return false
		}
	}
	return true
}
