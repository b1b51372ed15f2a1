package scheduler

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ReserveOpenChanges reserves again for the open changes of Placements, as the attempts before a
// restart did, so that no other Placement gets what they wait for. Call it once, before the first
// attempt. It takes the cycle lock.
func (s *Scheduler) ReserveOpenChanges(ctx context.Context, placements []types.NamespacedName, takeSnapshot func(types.NamespacedName) *framework.Snapshot) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, key := range placements {
		if snapshot := takeSnapshot(key); snapshot != nil && Skipped(snapshot.Subject.Placement) == "" {
			s.reserveOpenChange(ctx, snapshot)
		}
	}
}

// reserveOpenChange ignores failures of Reserve, because the first attempt reserves again and
// reports them.
func (s *Scheduler) reserveOpenChange(ctx context.Context, snapshot *framework.Snapshot) {
	p := openChange(snapshot)
	if p == nil {
		return
	}
	pl := snapshot.Subject.Placement
	profile, _ := s.profileOf(pl)
	state := framework.NewCycleState(snapshot)
	for _, plugin := range profile.Reserve {
		if !profile.traits(plugin.Name()).CountsPermitted {
			_ = guard(ctx, "Reserve", plugin, func() *framework.Status {
				plugin.Reserve(ctx, state, pl, p)
				return nil
			})
		}
	}
	s.storeClaim(snapshot.Subject.Key(), claimFor(p, snapshot.Queue), keepClaim)
	s.timers[snapshot.Subject.Key()] = timers{uid: pl.UID, profile: profile, reserved: true}
}

// openChange returns what is left of the change of the open record; nil without one. The selected
// clusters have no scores.
func openChange(snapshot *framework.Snapshot) *framework.Proposal {
	record := changes.History(snapshot.Subject.Records).Open()
	if record == nil {
		return nil
	}
	added, removed, err := changes.Lists(record)
	if err != nil {
		return nil
	}
	last := snapshot.Subject.LastNames()
	p := &framework.Proposal{
		Clusters: changes.Sorted(slices.Concat(changes.Minus(last, removed), added)),
		Digest:   record.Spec.To, From: record.Spec.From, Revision: record.Spec.Revision, Cause: record.Spec.Cause,
	}
	p.Added, p.Removed = changes.Between(last, p.Clusters)
	for _, name := range p.Clusters {
		c := snapshot.Cluster(name)
		if c == nil {
			c = framework.NewCluster(&v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, -1)
		}
		p.Selected = append(p.Selected, framework.Selection{Cluster: c})
	}
	return p
}
