package decide

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// policySelection is what the SelectionPolicy of a Placement adds to the selection.
type policySelection struct {
	policy  *berthv1alpha1.SelectionPolicy
	matches *framework.PolicyMatches
	tiers   selection.TierDecision
	states  []selection.TierState
	// left are the clusters that left, by tier. delayed are those of them that qualify but cannot
	// be taken again yet.
	left    [][]selection.LeftCluster
	delayed framework.Bitset
	// tierOf and groupOf return the position of the tier and group of a feasible cluster, by its
	// position; -1 for none. They are nil without tiers and groups.
	tierOf, groupOf func(i int) int
	// chosen are the numbers of selected clusters by group.
	chosen []int
}

// readSelectionPolicy sets policy, and adds groups and tiers to the Demand. It returns the Status
// for a profile that cannot apply the policy.
func (r *Decision) readSelectionPolicy() *framework.Status {
	policies := r.Snapshot.Subject.SelectionPolicies
	if len(policies) == 0 {
		return nil
	}
	matches, ok := framework.ReadAs[*framework.PolicyMatches](r.State, framework.PolicyMatchesKey)
	if !ok {
		r.policyInvalid = true
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(
			"SelectionPolicy %s: the profile %s has no plugin SelectionPolicy", policies[0].Name, r.Profile.Name))
	}
	policy := policies[0]
	r.selectionPolicy = &policySelection{policy: policy, matches: matches}
	for i := range policy.Spec.Groups {
		g := &policy.Spec.Groups[i]
		least, most := g.Bounds()
		r.Demand.Groups = append(r.Demand.Groups, selection.Group{Name: g.Name, Min: least, Max: most})
	}
	for i := range policy.Spec.Tiers {
		t := &policy.Spec.Tiers[i]
		least := ptr.Deref(t.MinClusters, int32(max(r.Demand.Number, 1)))
		r.Demand.Tiers = append(r.Demand.Tiers, selection.Tier{Name: t.Name, Min: int(least)})
	}
	r.Demand.Overflow = policy.Spec.TierMode == berthv1alpha1.TierOverflow
	return nil
}

// LacksPolicy reports whether the SelectionPolicy that the Placement requires is missing or
// invalid.
func (r *Decision) LacksPolicy() bool {
	_, required := r.Snapshot.Subject.Placement.Annotations[v1alpha1.SelectionPolicyAnnotation]
	return required && (r.policyInvalid || r.policyMissing != "")
}

// addPreference adds the prioritizer Preference with the weight of the policy.
func (r *Decision) addPreference(scorers []scorer) []scorer {
	if r.selectionPolicy == nil || len(r.selectionPolicy.policy.Spec.Preferences) == 0 {
		return scorers
	}
	weight := int64(ptr.Deref(r.selectionPolicy.policy.Spec.PreferenceWeight, 1))
	plugin := r.Profile.ScorePlugin(berthv1alpha1.PrioritizerPreference)
	if plugin == nil || weight == 0 {
		return scorers
	}
	return addOrReplace(scorers, scorer{ScorePlugin: plugin, name: plugin.Name(), weight: weight})
}

// positionsIn returns a function that returns the position of the set that contains a feasible
// cluster, by the cluster's position; nil without sets.
func (r *Decision) positionsIn(sets []framework.Bitset) func(i int) int {
	if len(sets) == 0 {
		return nil
	}
	positions := make([]int8, len(r.Feasible))
	for i, cluster := range r.Feasible {
		positions[i] = int8(slices.IndexFunc(sets, func(set framework.Bitset) bool { return set.Has(cluster.Index) }))
	}
	return func(i int) int { return int(positions[i]) }
}

// setChosen stores the states of the tiers and the numbers of clusters by group after a selection.
func (r *Decision) setChosen(c *selection.Candidates, chosen []int) {
	p := r.selectionPolicy
	if p == nil {
		return
	}
	p.states = p.tiers.States(c, chosen)
	r.setLeft()
	if p.groupOf == nil {
		return
	}
	p.chosen = make([]int, len(p.policy.Spec.Groups))
	for _, i := range chosen {
		if group := p.groupOf(i); group >= 0 {
			p.chosen[group]++
		}
	}
}

// tierOrGroup returns why the tier or the group of a feasible cluster keeps it from being selected;
// empty if neither does.
func (r *Decision) tierOrGroup(i int) string {
	p := r.selectionPolicy
	if p == nil || r.pin != nil {
		return ""
	}
	if p.tierOf != nil {
		tier := p.tierOf(i)
		if state := p.states[tier]; !state.Used && !r.Demand.Overflow && !r.Shortfall.NoTierSufficient {
			return r.whyUnused(tier)
		}
		if r.isDelayed(i) {
			return r.whyDelayed(i)
		}
	}
	if p.groupOf == nil || p.groupOf(i) < 0 {
		return ""
	}
	if group := r.Demand.Groups[p.groupOf(i)]; group.Max >= 0 && p.chosen[p.groupOf(i)] >= group.Max {
		return fmt.Sprintf("group %s has its maximum of %d", group.Name, group.Max)
	}
	return ""
}

// groupsText describes the groups whose minimum is not met, and those whose maximum leaves the
// Placement short.
func (r *Decision) groupsText() string {
	var parts []string
	for _, unmet := range r.Shortfall.Unmet {
		group := r.Demand.Groups[unmet.Group]
		parts = append(parts, fmt.Sprintf("group %s has %d of at least %d clusters", group.Name, group.Min-unmet.Missing, group.Min))
	}
	if len(parts) > 0 && slices.ContainsFunc(r.Demand.Spread, func(c v1alpha1.SpreadConstraintsTerm) bool { return c.WhenUnsatisfiable == v1alpha1.DoNotSchedule }) {
		parts[len(parts)-1] += " (under the spread, minima are filled in the order of the groups)"
	}
	for _, full := range r.Shortfall.Full {
		parts = append(parts, fmt.Sprintf("group %s has its maximum of %d", r.Demand.Groups[full].Name, r.Demand.Groups[full].Max))
	}
	return strings.Join(parts, ", ")
}

// SelectionStatus returns the status of a SelectionPolicy of the Placement after this decision.
// published are the clusters that are published after the attempt.
func (r *Decision) SelectionStatus(policy *berthv1alpha1.SelectionPolicy, published []string) *berthv1alpha1.SelectionPolicyStatus {
	status := policy.Status.DeepCopy()
	ready := metav1.Condition{
		Type: berthv1alpha1.SelectionReady, Status: metav1.ConditionTrue, Reason: berthv1alpha1.ReasonSelectionApplied,
		Message: "The policy applies to Placement " + policy.Spec.Placement, ObservedGeneration: policy.Generation,
	}
	v1alpha1.SetCondition(&status.Conditions, requiredCondition(r.Snapshot.Subject.Placement, policy))
	switch {
	case r.Misconfigured() && r.policyInvalid:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, berthv1alpha1.ReasonSelectionInvalid, v1alpha1.CutMessage(r.Failure.Reason())
	case r.Failure != nil:
		return status
	}
	v1alpha1.SetCondition(&status.Conditions, ready)
	if r.Failure != nil {
		return status
	}
	if status.UnknownNames = r.unknownNames(policy); len(status.UnknownNames) > 0 {
		ready.Message += "; names that are no candidates: " + listNames(status.UnknownNames)
		v1alpha1.SetCondition(&status.Conditions, ready)
	}
	if r.pin == nil {
		status.Tiers, status.Unmet = r.tierStatuses(), r.unmetStatuses()
		r.addTierClusters(status.Tiers, policy.Status.Tiers, published)
		r.setTierCondition(status, policy)
	}
	return status
}

// requiredCondition is the condition Required of a policy of the Placement.
func requiredCondition(pl *v1alpha1.Placement, policy *berthv1alpha1.SelectionPolicy) metav1.Condition {
	c := metav1.Condition{
		Type: berthv1alpha1.SelectionRequired, Status: metav1.ConditionTrue, Reason: berthv1alpha1.ReasonRequired,
		Message: fmt.Sprintf("Placement %s is not decided without the policy", pl.Name), ObservedGeneration: policy.Generation,
	}
	if hint := berthv1alpha1.NotRequired(pl, policy); hint != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, berthv1alpha1.ReasonNotRequired, hint
	}
	return c
}

// listNames joins names for a message, the first five if there are more.
func listNames(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// unknownNames returns the names in the policy that no cluster of the bound sets has, sorted.
func (r *Decision) unknownNames(policy *berthv1alpha1.SelectionPolicy) []string {
	names := policy.Spec.ClusterNames
	all := slices.Concat(names.Include, names.Exclude)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		c := r.Snapshot.Cluster(name)
		return c != nil && r.Snapshot.IsUsable(c)
	})
	return all[:min(len(all), berthv1alpha1.MaxUnknownNames)]
}

// unmetStatuses returns the groups whose minimum is not met, and those whose maximum leaves the
// Placement short, with what excludes their clusters.
func (r *Decision) unmetStatuses() []berthv1alpha1.UnmetGroup {
	var all []berthv1alpha1.UnmetGroup
	for _, unmet := range r.Shortfall.Unmet {
		all = append(all, berthv1alpha1.UnmetGroup{
			Group: r.Demand.Groups[unmet.Group].Name, Missing: int32(unmet.Missing), Relax: r.groupExcludedBy(unmet.Group),
		})
	}
	for _, full := range r.Shortfall.Full {
		qualifying := 0
		for i := range r.Feasible {
			if r.selectionPolicy.groupOf(i) == full {
				qualifying++
			}
		}
		group := r.Demand.Groups[full]
		missing := min(r.Shortfall.Missing, qualifying-group.Max)
		all = append(all, berthv1alpha1.UnmetGroup{Group: group.Name, Missing: int32(missing), Relax: fmt.Sprintf("%d clusters of the group qualify; its maximum is %d", qualifying, group.Max)})
	}
	return all
}

// groupExcludedBy counts the clusters of a group that filters exclude.
func (r *Decision) groupExcludedBy(group int) string {
	var parts []string
	excluded := r.excludedByPlugin()
	for _, p := range r.Profile.Filter {
		of := excluded[p.Name()]
		of.And(r.selectionPolicy.matches.Groups[group])
		if n := of.Len(); n > 0 {
			parts = append(parts, fmt.Sprintf("%s excludes %d", p.Name(), n))
		}
	}
	if len(parts) == 0 {
		return "no filter excludes a cluster of the group"
	}
	return strings.Join(parts, ", ") + " of the group"
}
