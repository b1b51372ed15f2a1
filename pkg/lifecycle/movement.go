package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// MovementName is the plugin's name.
const MovementName = "Movement"

// Movement is a Transition plugin that publishes the changes of Placements with a DisruptionPolicy
// in steps. A cluster is removed only while enough others stay published: maxUnavailable of the
// desired clusters may be missing, and maxSurge more may be published. The number of desired
// clusters is numberOfClusters or, without it, the number of selected clusters. Clusters that are
// deleted, in no usable set any more, or have an untolerated NoSelect taint other than DrainTaint
// are removed at once. While a policy suspends the Placement, nothing else is published.
type Movement struct{}

// NewMovement is the plugin's factory.
func NewMovement(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return Movement{}, err
}

// Name implements framework.Plugin.
func (Movement) Name() string { return MovementName }

// Transition implements framework.TransitionPlugin.
func (Movement) Transition(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, change *framework.Change) (*framework.Transition, *framework.Status) {
	subject := state.Snapshot().Subject
	if len(subject.Policies) == 0 {
		return nil, nil
	}
	policy := changes.PolicyOf(subject.Policies)
	update := &changes.RollingUpdate{Desired: len(change.Clusters), Missing: missing(change), Adds: change.Adds}
	drained := 0
	update.Listed, drained = listed(state.Snapshot(), change)
	if n := pl.Spec.NumberOfClusters; n != nil {
		update.Desired = int(*n)
	} else {
		update.Desired += drained
	}
	update.MaxUnavailable, update.MaxSurge = policy.Budget(update.Desired)
	if policy.SuspendedBy != "" {
		return suspended(update, policy.SuspendedBy), nil
	}
	added, removed := update.Next()
	t := &framework.Transition{Added: added, Removed: removed, ProgressDeadline: policy.ProgressDeadline}
	if len(added)+len(removed) == 0 {
		t.Why = fmt.Sprintf("clusters to remove stay until enough others are published: %d of %d desired ones must be, maxUnavailable is %d",
			update.Desired-update.MaxUnavailable, update.Desired, update.MaxUnavailable)
	}
	return t, nil
}

// missing returns the names that are still to be added, best first.
func missing(change *framework.Change) []string {
	if len(change.Added) == 0 {
		return nil
	}
	names := make([]string, 0, len(change.Added))
	for _, s := range change.Selected {
		if _, added := slices.BinarySearch(change.Added, s.Cluster.Name); added {
			names = append(names, s.Cluster.Name)
		}
	}
	return names
}

// listed describes the clusters that are published now. drained are the clusters, also those that
// earlier steps removed, that would be selected if they were not drained or evicted.
func listed(snapshot *framework.Snapshot, change *framework.Change) (all []changes.Listed, drained int) {
	names := snapshot.Subject.LastNames()
	all = make([]changes.Listed, 0, len(names))
	for _, name := range changes.Minus(names, change.Removed) {
		all = append(all, changes.Listed{Name: name, Ready: true})
	}
	if len(change.Removed) == 0 {
		return all, 0
	}
	for _, leaving := range change.Leaving() {
		c := changes.Listed{Name: leaving.Name, Ready: true, Rank: leaving.Rank, Removal: removalOf(snapshot, leaving)}
		if c.Removal == changes.Drained && leaving.OtherwiseQualifies {
			drained++
		}
		if _, published := slices.BinarySearch(change.Removed, leaving.Name); published {
			all = append(all, c)
		}
	}
	return all, drained
}

// removalOf returns why a cluster leaves.
func removalOf(snapshot *framework.Snapshot, leaving framework.Leaving) changes.Removal {
	switch {
	case leaving.Forced:
		return changes.Forced
	case leaving.Rank > 0:
		return changes.Outranked
	case leaving.Cluster.Drained() || snapshot.EvictionOf(leaving.Name) != nil:
		return changes.Drained
	}
	return changes.Unqualified
}

// suspended returns the step while a policy suspends the Placement: forced removals only.
func suspended(update *changes.RollingUpdate, policy string) *framework.Transition {
	t := &framework.Transition{Suspended: true, Why: "suspended by DisruptionPolicy " + policy}
	for _, c := range update.Listed {
		if c.Removal == changes.Forced {
			t.Removed = append(t.Removed, c.Name)
		}
	}
	slices.Sort(t.Removed)
	return t
}
