package filters

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PlacementAffinityName is the plugin's name.
const PlacementAffinityName = "PlacementAffinity"

// PlacementAffinity keeps a Placement together with other Placements of its namespace, or apart
// from them, as the affinity of its SelectionPolicy requires.
type PlacementAffinity struct{}

// Name implements framework.Plugin.
func (PlacementAffinity) Name() string { return PlacementAffinityName }

// Describe implements framework.Describer.
func (PlacementAffinity) Describe() framework.Traits {
	return framework.Traits{PolicyMistakes: true, ForcesRemoval: neverForced}
}

// Reads implements framework.ClusterReader: it reads decisions.
func (PlacementAffinity) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreFilter returns the clusters that pass. It rejects a Placement in a cycle that may never
// settle.
func (PlacementAffinity) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	subject := state.Snapshot().Subject
	if subject.AffinityCycle != "" {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable,
			"the affinity of the SelectionPolicy may never settle, because of a cycle: "+subject.AffinityCycle)
	}
	if len(subject.Peers) == 0 {
		return nil, skip
	}
	passed := state.Snapshot().Candidates().Clone()
	for i := range subject.Peers {
		peer := &subject.Peers[i]
		if peer.With != "" && peer.Clusters.Len() > 0 {
			passed.And(peer.Clusters)
		}
		if peer.ApartFrom == "" {
			continue
		}
		for cluster := range peer.Clusters.All {
			if peer.Excludes(cluster, subject.Has) {
				passed.Unset(cluster)
			}
		}
	}
	return &framework.PreFilterResult{Clusters: passed, SkipFilter: true}, nil
}

// Filter returns the reason why a cluster does not pass.
func (PlacementAffinity) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	subject := state.Snapshot().Subject
	for i := range subject.Peers {
		if reason := affinityProblem(subject, &subject.Peers[i], cluster.Index); reason != "" {
			return framework.NewStatus(framework.Unschedulable, reason)
		}
	}
	return nil
}

// affinityProblem returns why a peer excludes a cluster; empty if it does not.
func affinityProblem(subject *framework.Subject, peer *framework.Peer, cluster int) string {
	switch {
	case peer.Excludes(cluster, subject.Has):
		return fmt.Sprintf("Placement %s has the cluster (%s)", peer.Name, peer.ApartFrom)
	case peer.With != "" && peer.Clusters.Len() > 0 && !peer.Clusters.Has(cluster):
		return fmt.Sprintf("Placement %s does not have the cluster (%s)", peer.Name, peer.With)
	}
	return ""
}

// Relax returns the Placements without whose clusters the cluster would pass.
func (PlacementAffinity) Relax(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	subject := state.Snapshot().Subject
	var texts, peers []string
	for i := range subject.Peers {
		peer := &subject.Peers[i]
		if affinityProblem(subject, peer, cluster.Index) == "" {
			continue
		}
		text := "Placement " + peer.Name + " did not have it"
		if !peer.Excludes(cluster.Index, subject.Has) {
			text = "Placement " + peer.Name + " had it"
		}
		texts, peers = append(texts, text), append(peers, peer.Name)
	}
	if len(peers) == 0 {
		return nil
	}
	return []framework.Relaxation{{Text: "if " + strings.Join(texts, " and "), WithoutPeers: peers}}
}

// Recheck implements framework.Rechecker. Without affinity, all clusters pass.
func (PlacementAffinity) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, len(state.Snapshot().Subject.Peers) == 0
}
