package plan

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Claim is what a Placement takes of the fleet while it is not published.
type Claim struct {
	// Clusters each count as a decision until they are published. They replace those of the last
	// claim; nil keeps those.
	Clusters []string
	// Unpermitted is true while the change may still be rejected: Placements that are with this one
	// follow it to Clusters only if it has no others.
	Unpermitted bool
	// Quota is how many clusters of its queue's quota the Placement uses; negative keeps that of
	// the last claim.
	Quota int
}

// KeepClaim changes nothing.
var KeepClaim = Claim{Quota: -1}

// ClaimFor returns the claim for a change: what it adds and, of the quota, the selected or the
// published clusters, whichever are more.
func ClaimFor(p *framework.Proposal, queue *framework.QueueAdmission, permitted bool) Claim {
	c := Claim{Clusters: append([]string{}, p.Added...), Unpermitted: !permitted, Quota: -1}
	if queue != nil {
		c.Quota = max(len(p.Selected), queue.Listed)
	}
	return c
}

// Released returns the claim after its end: of the quota, the published clusters stay.
func (c Claim) Released(queue *framework.QueueAdmission) Claim {
	c.Clusters = []string{}
	if queue != nil {
		c.Quota = queue.Listed
	}
	return c
}

// Published returns the claim after a Proposal was published: of the quota, its clusters. While a
// change is published in steps, or another one stays reserved beside it, the claim stays.
func (c Claim) Published(queue *framework.QueueAdmission, p *framework.Proposal, beside bool) Claim {
	if queue != nil && !p.Partial && !beside {
		c.Quota = len(p.Selected)
	}
	return c
}

// with is the claim together with another one.
func (c Claim) with(other Claim) Claim {
	c.Clusters, c.Quota = changes.Sorted(slices.Concat(c.Clusters, other.Clusters)), max(c.Quota, other.Quota)
	c.Unpermitted = c.Unpermitted || other.Unpermitted
	return c
}

// reserveChange reserves for the change of the attempt, after a removal of its own replaced that.
func (a *planner) reserveChange(ctx context.Context) {
	a.Claim = ClaimFor(a.Change.Proposal, a.Snapshot.Queue, a.Change.isPermitted())
	a.recovered(Reserve(ctx, a.Profile, a.State, a.Change.Proposal, false))
}

// ReserveOpen reserves for what is left of the change of the open record, and returns its claim;
// KeepClaim without one. Recounted is true if plugins that count permitted changes counted it after
// a start. It returns the last panic, too; the next attempt reserves again and reports failures.
func ReserveOpen(ctx context.Context, profile *plugins.Profile, state *framework.CycleState, recounted bool) (Claim, *framework.Status) {
	snapshot := state.Snapshot()
	p := OpenChange(snapshot)
	if p == nil {
		return KeepClaim, nil
	}
	permitted := changes.IsPermitted(changes.History(snapshot.Subject.Records).Open())
	return ClaimFor(p, snapshot.Queue, permitted), Reserve(ctx, profile, state, p, permitted && !recounted)
}

// Reserve runs Reserve of all plugins, those that count permitted changes only for a permitted one,
// and ignores what they answer. It returns the last panic.
func Reserve(ctx context.Context, profile *plugins.Profile, state *framework.CycleState, p *framework.Proposal, permitted bool) (failure *framework.Status) {
	for _, plugin := range profile.Reserve {
		if !permitted && profile.Traits(plugin.Name()).CountsPermitted {
			continue
		}
		panicked := plugins.Call(ctx, "Reserve", plugin, func() *framework.Status {
			plugin.Reserve(ctx, state, state.Snapshot().Subject.Placement, p)
			return nil
		})
		if panicked != nil {
			failure = panicked
		}
	}
	return failure
}
