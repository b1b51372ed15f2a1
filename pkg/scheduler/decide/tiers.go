package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// decideTiers decides which tiers may be used now and asks for an attempt when another one may be.
func (r *Decision) decideTiers() {
	p := r.selectionPolicy
	if p == nil {
		return
	}
	p.tierOf, p.groupOf = r.positionsIn(p.matches.Tiers), r.positionsIn(p.matches.Groups)
	if len(r.Demand.Tiers) == 0 {
		return
	}
	c, before := r.Choices(), p.statesBefore(r.Snapshot)
	r.decideLeft(before)
	p.tiers = selection.DecideTiers(before, &r.Demand, selection.Qualifying(&c, &r.Demand), p.failback(), r.Snapshot.Now)
	r.Demand.Tiers = p.tiers.Tiers
	if at := p.tiers.Next; !at.IsZero() {
		r.attemptForTier(at)
	}
}

// attemptForTier asks for an attempt at the time from which an earlier tier may be used again.
func (r *Decision) attemptForTier(at time.Time) {
	r.State.AttemptAt(at)
	r.expiresAt("SelectionPolicy "+r.selectionPolicy.policy.Name+": an earlier tier may be used again", at)
}

// decideLeft decides, with Overflow, which clusters left their tiers, and which of these are
// delayed. A cluster left if the Placement had it and it does not qualify; until the Placement has
// it again, it counts as one that left. Clusters of the last tier are not delayed: there is none
// to go back from.
func (r *Decision) decideLeft(before []selection.TierState) {
	p, last := r.selectionPolicy, len(r.Demand.Tiers)-1
	if !r.Demand.Overflow || last < 1 {
		return
	}
	p.left = make([][]selection.LeftCluster, last+1)
	candidates, incumbents := r.Snapshot.Candidates(), r.Snapshot.Subject.Incumbents
	var feasible framework.Bitset
	for _, c := range r.Feasible {
		feasible = feasible.Set(c.Index)
	}
	add := func(tier int, l selection.LeftCluster, c *framework.Cluster) {
		if candidates.Has(c.Index) {
			// Otherwise it is not known which tier matches.
			if now := slices.IndexFunc(p.matches.Tiers, func(of framework.Bitset) bool { return of.Has(c.Index) }); now >= 0 {
				tier = now
			}
		}
		if tier < last {
			p.left[tier] = append(p.left[tier], l.Next(feasible.Has(c.Index), r.Snapshot.Now))
		}
	}
	for _, state := range before {
		tier := slices.IndexFunc(r.Demand.Tiers, func(t selection.Tier) bool { return t.Name == state.Name })
		for _, l := range state.Left {
			if c := r.Snapshot.Cluster(l.Name); tier >= 0 && c != nil && !incumbents.Has(c.Index) {
				add(tier, l, c)
			}
		}
	}
	for i := range incumbents.Without(feasible).All {
		if c := r.Snapshot.Clusters.Get(i); c != nil {
			add(0, selection.LeftCluster{Name: c.Name}, c)
		}
	}
	p.limitLeft()
	r.decideDelayed()
}

// limitLeft sorts the clusters that left by name. Of too many it forgets those that qualify
// longest.
func (p *policySelection) limitLeft() {
	all := slices.Concat(p.left...)
	if len(all) > berthv1alpha1.MaxLeftClusters {
		slices.SortFunc(all, compareLeft)
		first := all[berthv1alpha1.MaxLeftClusters]
		for tier := range p.left {
			p.left[tier] = slices.DeleteFunc(p.left[tier], func(l selection.LeftCluster) bool { return compareLeft(l, first) >= 0 })
		}
	}
	for _, left := range p.left {
		slices.SortFunc(left, func(a, b selection.LeftCluster) int { return strings.Compare(a.Name, b.Name) })
	}
}

// compareLeft orders clusters that left: first those that do not qualify, then those that qualify
// shortest.
func compareLeft(a, b selection.LeftCluster) int {
	if a.Since.IsZero() != b.Since.IsZero() {
		if a.Since.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Name, b.Name))
}

// decideDelayed sets delayed, and asks for an attempt when the first of them can be taken again.
func (r *Decision) decideDelayed() {
	p, failback := r.selectionPolicy, r.selectionPolicy.failback()
	for _, left := range p.left {
		for _, l := range left {
			if failback.Usable(l.Since, r.Snapshot.Now) {
				continue
			}
			p.delayed = p.delayed.Set(r.Snapshot.Cluster(l.Name).Index)
			if at, ok := failback.At(l.Since); ok {
				r.attemptForTier(at)
			}
		}
	}
}

// isDelayed reports whether a feasible cluster left an earlier tier and cannot be taken again yet.
func (r *Decision) isDelayed(i int) bool { return r.selectionPolicy.delayed.Has(r.Feasible[i].Index) }

// setLeft stores the clusters that left and are not selected.
func (r *Decision) setLeft() {
	selected := r.selectedIndexes()
	for tier, left := range r.selectionPolicy.left {
		r.selectionPolicy.states[tier].Left = slices.DeleteFunc(slices.Clone(left), func(l selection.LeftCluster) bool {
			return selected.Has(r.Snapshot.Cluster(l.Name).Index)
		})
	}
}

// whyDelayed returns when a delayed cluster is taken again.
func (r *Decision) whyDelayed(i int) string {
	for _, left := range r.selectionPolicy.left {
		for _, l := range left {
			if l.Name == r.Feasible[i].Name {
				return fmt.Sprintf("qualifies again since %s and is taken again %s", timeText(l.Since), r.selectionPolicy.failbackText(l.Since))
			}
		}
	}
	return ""
}

// delayedText says how many delayed clusters are not selected, and when the first is taken again.
func (r *Decision) delayedText() string {
	n, first := 0, time.Time{}
	for _, state := range r.selectionPolicy.states {
		for _, l := range state.Left {
			if !r.selectionPolicy.delayed.Has(r.Snapshot.Cluster(l.Name).Index) {
				continue
			}
			if n++; first.IsZero() || l.Since.Before(first) {
				first = l.Since
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; clusters that left and qualify again: %d, the first is taken again %s", n, r.selectionPolicy.failbackText(first))
}

// statesBefore are the states of the tiers after the last decision: of the last attempt, or after a
// restart those in the status of the policy.
func (p *policySelection) statesBefore(snapshot *framework.Snapshot) []selection.TierState {
	stored := p.policy.Status.Tiers
	if timers := &snapshot.Timers; timers.TiersOf == p.policy.UID && timers.Tiers != nil {
		stored = timers.Tiers
	}
	states := make([]selection.TierState, len(stored))
	for i, s := range stored {
		since := ptr.Deref(s.SufficientSince, metav1.Time{}).Time
		states[i] = selection.TierState{Name: s.Name, Qualifying: int(s.Qualifying), SufficientSince: since, Used: s.Used}
		for _, l := range s.Left {
			states[i].Left = append(states[i].Left, selection.LeftCluster{Name: l.Name, Since: ptr.Deref(l.QualifyingSince, metav1.Time{}).Time})
		}
	}
	return states
}

func (p *policySelection) failback() selection.Failback {
	f := selection.Failback{After: time.Duration(ptr.Deref(p.policy.Spec.FailbackAfterSeconds, berthv1alpha1.DefaultFailbackAfterSeconds)) * time.Second}
	// The webhook refuses an annotation that is no time; otherwise it has no effect.
	f.RequestedAt, _ = time.Parse(time.RFC3339, p.policy.Annotations[berthv1alpha1.FailbackRequestedAnnotation])
	return f
}

// TierStates returns the states of the tiers after this decision and the UID of their policy, for
// the next Snapshot; false if it decided nothing about them.
func (r *Decision) TierStates() (states []berthv1alpha1.SelectionTierStatus, policy types.UID, ok bool) {
	if states = r.tierStatuses(); states == nil || r.pin != nil {
		return nil, "", false
	}
	return states, r.selectionPolicy.policy.UID, true
}

// tierStatuses are the states of the tiers after this decision, as in the status of the policy; nil
// if it decided nothing.
func (r *Decision) tierStatuses() []berthv1alpha1.SelectionTierStatus {
	if r.selectionPolicy == nil || r.Failure != nil {
		return nil
	}
	statuses := make([]berthv1alpha1.SelectionTierStatus, len(r.selectionPolicy.states))
	for i, s := range r.selectionPolicy.states {
		statuses[i] = berthv1alpha1.SelectionTierStatus{Name: s.Name, Qualifying: int32(s.Qualifying), Used: s.Used}
		if !s.SufficientSince.IsZero() {
			statuses[i].SufficientSince = new(metav1.NewTime(s.SufficientSince))
		}
		for _, l := range s.Left {
			left := berthv1alpha1.LeftCluster{Name: l.Name}
			if !l.Since.IsZero() {
				left.QualifyingSince = new(metav1.NewTime(l.Since))
			}
			statuses[i].Left = append(statuses[i].Left, left)
		}
	}
	return statuses
}

// addTierClusters adds the selected and the published clusters to the first tier that matches each.
// One that no tier matches now, for example because it is no candidate any more, keeps the tier
// that it had before.
func (r *Decision) addTierClusters(tiers, before []berthv1alpha1.SelectionTierStatus, published []string) {
	if len(tiers) == 0 {
		return
	}
	names := slices.Clone(published)
	for _, s := range r.Selected {
		names = append(names, s.Cluster.Name)
	}
	had := map[string]string{}
	for i := range before {
		for _, name := range before[i].Clusters {
			had[name] = before[i].Name
		}
	}
	names = changes.Sorted(names)
	for _, name := range names[:min(len(names), berthv1alpha1.MaxTierClusters)] {
		tier := -1
		if c := r.Snapshot.Cluster(name); c != nil {
			tier = slices.IndexFunc(r.selectionPolicy.matches.Tiers, func(of framework.Bitset) bool { return of.Has(c.Index) })
		}
		if tier < 0 {
			tier = slices.IndexFunc(tiers, func(t berthv1alpha1.SelectionTierStatus) bool { return t.Name == had[name] })
		}
		if tier >= 0 {
			tiers[tier].Clusters = append(tiers[tier].Clusters, name)
		}
	}
}

// whyUnused returns why a tier is not used; empty if no tier is.
func (r *Decision) whyUnused(tier int) string {
	p, t := r.selectionPolicy, r.Demand.Tiers[tier]
	state := p.states[tier]
	if state.Qualifying < t.Min {
		return fmt.Sprintf("tier %s is not sufficient: %d of %d clusters qualify", t.Name, state.Qualifying, t.Min)
	}
	used := slices.IndexFunc(p.states, func(s selection.TierState) bool { return s.Used })
	switch {
	case used < 0:
		return "" // No cluster is wanted or permitted.
	case used < tier:
		return fmt.Sprintf("tier %s is not used, because tier %s is sufficient", t.Name, p.states[used].Name)
	}
	return fmt.Sprintf("tier %s is sufficient again since %s and is used again %s", t.Name, timeText(state.SufficientSince), p.failbackText(state.SufficientSince))
}

// failbackText says when what is sufficient, or qualifies, since a time is used again.
func (p *policySelection) failbackText(since time.Time) string {
	if at, ok := p.failback().At(since); ok {
		return "from " + timeText(at)
	}
	return "on request"
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// setTierCondition sets the condition TierSufficient of a policy with tiers.
func (r *Decision) setTierCondition(status *berthv1alpha1.SelectionPolicyStatus, policy *berthv1alpha1.SelectionPolicy) {
	if len(r.Demand.Tiers) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, berthv1alpha1.SelectionTierSufficient)
		return
	}
	c := metav1.Condition{
		Type: berthv1alpha1.SelectionTierSufficient, Status: metav1.ConditionFalse, Reason: berthv1alpha1.ReasonNoTierSufficient,
		Message: "No tier has enough qualifying clusters; tiers are filled in order", ObservedGeneration: policy.Generation,
	}
	for i, s := range r.selectionPolicy.states {
		if s.Qualifying >= r.Demand.Tiers[i].Min {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, berthv1alpha1.ReasonTierSufficient, fmt.Sprintf("Tier %s has enough qualifying clusters", s.Name)
			break
		}
	}
	if used := slices.IndexFunc(r.selectionPolicy.states, func(s selection.TierState) bool { return s.Used }); used > 0 && c.Status == metav1.ConditionTrue && !r.Demand.Overflow {
		c.Message = fmt.Sprintf("Tier %s is used", r.Demand.Tiers[used].Name)
		for i := range used {
			if why := r.whyUnused(i); why != "" {
				c.Message += ", " + why
			}
		}
	}
	c.Message += r.delayedText()
	v1alpha1.SetCondition(&status.Conditions, c)
}
