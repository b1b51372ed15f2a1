package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// MovementName is the plugin's name.
const MovementName = "Movement"

// Movement publishes the changes of Placements with a DisruptionPolicy in steps. Without it in the
// profile, maxUnavailable, maxSurge, minAvailable and suspend of policies have no effect.
//
// A cluster is removed only while enough others stay published and ready: maxUnavailable of the
// desired clusters may be missing or not ready, and maxSurge more may be published. The number of
// desired clusters is numberOfClusters, or what quotas leave of it; without it, the number of
// selected clusters. Until the change is approved, minAvailable of the clusters that were published
// when it began stay. Forced removals are made at once. While a policy suspends the Placement, or
// too many select it, nothing else is published.
type Movement struct{}

// Name implements framework.Plugin.
func (Movement) Name() string { return MovementName }

// Transition implements framework.TransitionPlugin.
func (Movement) Transition(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, change *framework.Change) (*framework.Transition, *framework.Status) {
	subject := state.Snapshot().Subject
	if len(subject.DisruptionPolicies) == 0 {
		return nil, nil
	}
	policy := changes.PolicyOf(subject.DisruptionPolicies)
	update := &changes.RollingUpdate{Desired: len(change.Clusters), Missing: missing(change)}
	drained := 0
	update.Listed, drained = listed(state.Snapshot(), change)
	if n := pl.Spec.NumberOfClusters; n != nil {
		wanted := int(*n)
		if limit := state.Snapshot().Limit; limit >= 0 {
			wanted = min(wanted, limit)
		}
		// While an edit of the number waits, the change in progress has its own number.
		update.Desired = max(wanted, update.Desired)
	} else {
		update.Desired += drained
	}
	update.MaxUnavailable, update.MaxSurge = policy.Budget(update.Desired)
	switch {
	case subject.MorePolicies > 0:
		return suspended(update, tooManyPolicies(subject)), nil
	case policy.SuspendedBy != "":
		return suspended(update, "suspended by DisruptionPolicy "+policy.SuspendedBy), nil
	}
	waiting := setReady(state, update, change, &policy)
	limitedBy := setMinAvailable(update, change, &policy)
	t := &framework.Transition{ProgressDeadline: policy.ProgressDeadline}
	if t.Added, t.Removed = update.Next(); len(t.Added)+len(t.Removed) > 0 {
		return t, nil
	}
	t.AwaitsReadiness = len(waiting) > 0
	t.Why = whyNoStep(update, waiting, pl.Spec.NumberOfClusters != nil)
	available := update.MinAvailable
	if update.MinAvailable = 0; update.Moves() {
		t.Paused, t.Approvable = v1alpha1.ReasonMinAvailable, true
		t.Why = fmt.Sprintf("minAvailable of DisruptionPolicy %s: %d of the %d clusters that were published when the change began must stay published",
			limitedBy, available, max(available, len(change.Original)))
	}
	return t, nil
}

// setMinAvailable sets how many of the original clusters stay, and which these are: all published
// ones if they are unknown. It returns the policy that says so. An approved change has no such
// limit.
func setMinAvailable(update *changes.RollingUpdate, change *framework.Change, policy *changes.Policy) (limitedBy string) {
	for i := range update.Listed {
		c := &update.Listed[i]
		_, original := slices.BinarySearch(change.Original, c.Name)
		c.Original = original || change.Original == nil
	}
	if change.Approved {
		return ""
	}
	update.MinAvailable, limitedBy = policy.MinAvailable(len(change.Original))
	if change.Original == nil {
		if _, limitedBy = policy.MinAvailable(1); limitedBy != "" {
			update.MinAvailable = len(update.Listed)
		}
	}
	return limitedBy
}

// notReady is a cluster that is not ready.
type notReady struct{ name, why string }

// setReady sets which clusters are ready and returns those of the target that are not. It requests
// an attempt for the time at which one could become ready.
func setReady(state *framework.CycleState, update *changes.RollingUpdate, change *framework.Change, policy *changes.Policy) []notReady {
	snapshot := state.Snapshot()
	late := policy.ContinueAtDeadline && !snapshot.Now.Before(change.LastProgress.Add(policy.ProgressDeadline))
	var waiting []notReady
	for i := range update.Listed {
		c := &update.Listed[i]
		why := snapshot.NotReady[c.Name]
		c.Unknown = snapshot.Unknown[c.Name]
		if since := change.ReadySince[c.Name]; why == "" && policy.MinReady > 0 {
			if ready := since.Add(policy.MinReady); snapshot.Now.Before(ready) {
				state.RequeueAt(ready)
				c.Young = true
				why = "ready since " + since.UTC().Format(time.RFC3339) + ", minReadySeconds is " + strconv.Itoa(int(policy.MinReady.Seconds()))
			}
		}
		c.Ready = why == "" || late && c.Removal == changes.Stays
		c.Young = c.Young && !c.Ready
		if !c.Ready && c.Removal == changes.Stays {
			waiting = append(waiting, notReady{c.Name, why})
		}
	}
	return waiting
}

// maxWaitingNamed is the maximum number of clusters that a message names.
const maxWaitingNamed = 3

// whyNoStep describes what the next step waits for. numbered is true for a Placement with
// numberOfClusters: only then does a new cluster replace another one.
func whyNoStep(update *changes.RollingUpdate, waiting []notReady, numbered bool) string {
	text, advice := "clusters to remove stay until they are replaced", ""
	switch {
	case len(waiting) > 0:
		text = "waiting for " + namesByReason(waiting) + "; " + text
	case len(update.Missing) > 0:
	case numbered:
		text, advice = "no other cluster is selected to replace those to remove", higherMaxUnavailable(update)
	default:
		text, advice = "without numberOfClusters, no cluster replaces those to remove", higherMaxUnavailable(update)
	}
	return text + fmt.Sprintf(": %d of %d desired clusters must be published and ready, maxUnavailable is %d",
		update.Desired-update.MaxUnavailable, update.Desired, update.MaxUnavailable) + advice
}

// higherMaxUnavailable names the smallest maxUnavailable with which the next step removes a
// cluster; empty if there is none.
func higherMaxUnavailable(update *changes.RollingUpdate) string {
	more := sort.Search(update.Desired-update.MaxUnavailable, func(i int) bool {
		higher := *update
		higher.MaxUnavailable += i + 1
		_, removed := higher.Next()
		return len(removed) > 0
	}) + 1
	if update.MaxUnavailable+more > update.Desired {
		return ""
	}
	return fmt.Sprintf("; with %d the next one leaves", update.MaxUnavailable+more)
}

// namesByReason names the first clusters, those with the same reason together.
func namesByReason(waiting []notReady) string {
	var reasons []string
	names := map[string][]string{}
	for _, c := range waiting[:min(len(waiting), maxWaitingNamed)] {
		if names[c.why] == nil {
			reasons = append(reasons, c.why)
		}
		names[c.why] = append(names[c.why], c.name)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(names[why], ", ") + " (" + why + ")"
	}
	text := strings.Join(reasons, ", ")
	if more := len(waiting) - maxWaitingNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// missing returns the names that are still to be added, best first.
func missing(change *framework.Change) []string {
	names := make([]string, 0, len(change.Added))
	for _, s := range change.Selected {
		if changes.Contains(change.Added, s.Cluster.Name) {
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
		all = append(all, changes.Listed{Name: name})
	}
	if len(change.Removed) == 0 {
		return all, 0
	}
	for _, leaving := range change.Leaving() {
		c := changes.Listed{Name: leaving.Name, Rank: leaving.Rank, Removal: removalOf(snapshot, leaving)}
		if c.Removal == changes.Drained && leaving.OtherwiseQualifies {
			drained++
		}
		if changes.Contains(change.Removed, leaving.Name) {
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
	case leaving.Cluster.Drained() || snapshot.EvictionOf(leaving.Name) != nil, snapshot.Subject.ReplaceFirst && leaving.Cluster.Unavailable():
		return changes.Drained
	}
	return changes.Unqualified
}

// suspended returns the step while nothing but forced removals is published.
func suspended(update *changes.RollingUpdate, why string) *framework.Transition {
	t := &framework.Transition{Paused: v1alpha1.ReasonSuspended, Why: why}
	for _, c := range update.Listed {
		if c.Removal == changes.Forced {
			t.Removed = append(t.Removed, c.Name)
		}
	}
	return t
}

// tooManyPolicies says why a Placement is suspended that more policies select than apply: one of
// the others may protect it.
func tooManyPolicies(subject *framework.Subject) string {
	return fmt.Sprintf("%d DisruptionPolicies select the Placement, at most %d may; until fewer do, only forced removals are published",
		len(subject.DisruptionPolicies)+subject.MorePolicies, len(subject.DisruptionPolicies))
}
