package scheduler

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// claim is what a Placement takes of the fleet while its pages do not list it.
type claim struct {
	// clusters each count as a decision until a page of the Placement lists them. They replace
	// those of the last claim; nil keeps those.
	clusters []string
	// quota is how many clusters of its queue's quota the Placement uses; negative keeps that of
	// the last claim.
	quota int
}

// keepClaim changes nothing.
var keepClaim = claim{quota: -1}

// claimFor returns the claim for a change: what it adds and, of the quota, the selected or the
// published clusters, whichever are more.
func claimFor(p *framework.Proposal, queue *framework.QueueAdmission) claim {
	c := claim{clusters: append([]string{}, p.Added...), quota: -1}
	if queue != nil {
		c.quota = max(len(p.Selected), queue.Listed)
	}
	return c
}

// releaseClaim ends the claim. Of the quota, the clusters that the pages list stay; all of them, if
// some pages were written.
func (a *Attempt) releaseClaim(p *framework.Proposal) {
	a.claim.clusters = []string{}
	if queue := a.Snapshot.Queue; queue != nil && len(p.Writes) == 0 {
		a.claim.quota = queue.Listed
	}
}

// publishClaim claims, of the quota, the published clusters. While a change is published in steps,
// or the rest of it stays reserved, the claim stays.
func (a *Attempt) publishClaim(p *framework.Proposal) {
	if a.Snapshot.Queue != nil && !p.Partial && !p.Beside {
		a.claim.quota = len(p.Selected)
	}
}

// storeClaim stores what differs from the claim that is stored already.
func (s *Scheduler) storeClaim(placement types.NamespacedName, next, stored claim) {
	if slices.Equal(next.clusters, stored.clusters) && (next.clusters == nil) == (stored.clusters == nil) {
		next.clusters = nil
	}
	if next.quota == stored.quota {
		next.quota = -1
	}
	if next.clusters != nil && s.StoreClaim != nil {
		s.StoreClaim(placement, next.clusters)
	}
	if next.quota >= 0 && s.StoreQuota != nil {
		s.StoreQuota(placement, next.quota)
	}
}

// reserveAgain reserves for the change of the attempt, after a removal of its own replaced that.
func (s *Scheduler) reserveAgain(ctx context.Context, a *Attempt) {
	a.claim = claimFor(a.Change.Proposal, a.Snapshot.Queue)
	for _, plugin := range a.profile.Reserve {
		if !a.profile.traits(plugin.Name()).CountsPermitted {
			a.recovered(guard(ctx, "Reserve", plugin, func() *framework.Status {
				plugin.Reserve(ctx, a.State, a.Snapshot.Subject.Placement, a.Change.Proposal)
				return nil
			}))
		}
	}
}
