package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// tierMemory is what the model remembers of a tier after a decision.
type tierMemory struct {
	qualifying int
	since      time.Time
	used       bool
	// left are since when the clusters that left qualify again, zero while they do not.
	left map[string]time.Time
}

func memoryOf(policy *berthv1alpha1.SelectionPolicy) map[string]tierMemory {
	memory := map[string]tierMemory{}
	for _, t := range policy.Status.Tiers {
		m := tierMemory{qualifying: int(t.Qualifying), used: t.Used, left: map[string]time.Time{}}
		if t.SufficientSince != nil {
			m.since = t.SufficientSince.UTC()
		}
		for _, l := range t.Left {
			if m.left[l.Name] = (time.Time{}); l.QualifyingSince != nil {
				m.left[l.Name] = l.QualifyingSince.UTC()
			}
		}
		memory[t.Name] = m
	}
	return memory
}

// expectation is what the model expects of a decision: a mistake, that the required policy is
// missing, or the clusters that qualify. The order of the clusters depends on scores, which the
// model takes from the decision.
type expectation struct {
	mistake  bool
	missing  bool
	policy   *berthv1alpha1.SelectionPolicy
	feasible map[string]*v1alpha1.ManagedCluster
}

func (w *selectionWorld) placement(key inventory.Key) *v1alpha1.Placement {
	pl, _ := w.objects[idOf(&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})].(*v1alpha1.Placement)
	return pl
}

func (w *selectionWorld) placementsOf(namespace string) []inventory.Key {
	var keys []inventory.Key
	for _, o := range w.all() {
		if pl, ok := o.(*v1alpha1.Placement); ok && pl.Namespace == namespace {
			keys = append(keys, inventory.Key{Namespace: pl.Namespace, Name: pl.Name})
		}
	}
	return keys
}

// policiesOf are the policies that name a Placement, the oldest first.
func (w *selectionWorld) policiesOf(key inventory.Key) []*berthv1alpha1.SelectionPolicy {
	var all []*berthv1alpha1.SelectionPolicy
	for _, o := range w.all() {
		if policy, ok := o.(*berthv1alpha1.SelectionPolicy); ok && policy.Namespace == key.Namespace && policy.Spec.Placement == key.Name {
			all = append(all, policy)
		}
	}
	slices.SortStableFunc(all, func(a, b *berthv1alpha1.SelectionPolicy) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return all
}

// expect reads selection.md for one Placement.
func (w *selectionWorld) expect(key inventory.Key) expectation {
	pl, policies := w.placement(key), w.policiesOf(key)
	e := expectation{feasible: map[string]*v1alpha1.ManagedCluster{}}
	if len(policies) == 1 {
		e.policy = policies[0]
	}
	e.mistake = len(policies) > 1 || isBroken(pl) || e.policy != nil && (policyIsBroken(&e.policy.Spec, pl) || w.inMixedCycle(key))
	e.missing = w.lacksPolicy(key)
	for _, o := range w.all() {
		if c, ok := o.(*v1alpha1.ManagedCluster); ok && c.Labels[v1alpha1.ClusterSetLabel] == "s1" && len(c.Spec.Taints) == 0 && w.qualifies(key, pl, e.policy, c) {
			e.feasible[c.Name] = c
		}
	}
	return e
}

// lacksPolicy is true if no policy of the name that the Placement requires names the Placement.
func (w *selectionWorld) lacksPolicy(key inventory.Key) bool {
	name, required := w.placement(key).Annotations[v1alpha1.SelectionPolicyAnnotation]
	return required && !slices.ContainsFunc(w.policiesOf(key), func(p *berthv1alpha1.SelectionPolicy) bool { return p.Name == name })
}

func isBroken(pl *v1alpha1.Placement) bool {
	return len(pl.Spec.Predicates) > 0 && len(pl.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions) > 0
}

func policyIsBroken(spec *berthv1alpha1.SelectionPolicySpec, pl *v1alpha1.Placement) bool {
	sum := 0
	for i := range spec.Groups {
		least, most := spec.Groups[i].Bounds()
		if sum += least; most >= 0 && least > most {
			return true
		}
	}
	return pl.Spec.NumberOfClusters != nil && sum > int(*pl.Spec.NumberOfClusters)
}

func (w *selectionWorld) qualifies(key inventory.Key, pl *v1alpha1.Placement, policy *berthv1alpha1.SelectionPolicy, c *v1alpha1.ManagedCluster) bool {
	for _, p := range pl.Spec.Predicates {
		if !selects(p.RequiredClusterSelector, c) {
			return false
		}
	}
	if policy == nil {
		return true
	}
	spec := &policy.Spec
	names := spec.ClusterNames
	if slices.Contains(names.Exclude, c.Name) || names.Include != nil && !slices.Contains(names.Include, c.Name) {
		return false
	}
	if len(spec.Tiers) > 0 && tierOf(spec, c) < 0 {
		return false
	}
	return w.affinityPermits(key, spec, c.Name) && w.fits(key, c)
}

func selects(s v1alpha1.ClusterSelector, c *v1alpha1.ManagedCluster) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	return err == nil && selector.Matches(labels.Set(c.Labels))
}

func tierOf(spec *berthv1alpha1.SelectionPolicySpec, c *v1alpha1.ManagedCluster) int {
	return slices.IndexFunc(spec.Tiers, func(t berthv1alpha1.SelectionTier) bool { return selects(t.ClusterSelector, c) })
}

func groupOf(spec *berthv1alpha1.SelectionPolicySpec, c *v1alpha1.ManagedCluster) int {
	return slices.IndexFunc(spec.Groups, func(g berthv1alpha1.SelectionGroup) bool { return selects(g.ClusterSelector, c) })
}

// named are the other Placements that references name.
func (w *selectionWorld) named(key inventory.Key, references []berthv1alpha1.PlacementReference) map[inventory.Key]bool {
	named := map[inventory.Key]bool{}
	for _, other := range w.placementsOf(key.Namespace) {
		for _, r := range references {
			if r.PlacementSelector == nil && r.Placement != other.Name || other == key {
				continue
			}
			if r.PlacementSelector != nil {
				if s, err := metav1.LabelSelectorAsSelector(r.PlacementSelector); err != nil || !s.Matches(labels.Set(w.placement(other).Labels)) {
					continue
				}
			}
			named[other] = true
		}
	}
	return named
}

// affinityOf are the Placements that the only policy of a Placement names.
func (w *selectionWorld) affinityOf(key inventory.Key) (with, apart map[inventory.Key]bool) {
	if policies := w.policiesOf(key); len(policies) == 1 {
		return w.named(key, policies[0].Spec.Affinity.With), w.named(key, policies[0].Spec.Affinity.ApartFrom)
	}
	return nil, nil
}

func (w *selectionWorld) affinityPermits(key inventory.Key, spec *berthv1alpha1.SelectionPolicySpec, cluster string) bool {
	for other := range w.named(key, spec.Affinity.With) {
		if len(w.has[other]) > 0 && !w.has[other][cluster] {
			return false
		}
	}
	for other := range w.named(key, spec.Affinity.ApartFrom) {
		if !w.has[other][cluster] {
			continue
		}
		_, theirs := w.affinityOf(other)
		if !theirs[key] || !w.has[key][cluster] || w.older(other, key) {
			return false
		}
	}
	return true
}

func (w *selectionWorld) older(a, b inventory.Key) bool {
	if c := w.placement(a).CreationTimestamp.Compare(w.placement(b).CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)) < 0
}

// requestsOf returns what a Placement requests on each of its clusters.
func (w *selectionWorld) requestsOf(key inventory.Key) map[v1alpha1.ResourceName]resource.Quantity {
	if policies := w.policiesOf(key); len(policies) > 0 {
		return policies[0].Spec.Requests
	}
	return nil
}

func (w *selectionWorld) fits(key inventory.Key, c *v1alpha1.ManagedCluster) bool {
	for name, needed := range w.requestsOf(key) {
		allocatable, reported := c.Status.Allocatable[name]
		if !reported {
			return false
		}
		all := needed.DeepCopy()
		for other, has := range w.has {
			if amount, ok := w.requestsOf(other)[name]; ok && other != key && has[c.Name] {
				all.Add(amount)
			}
		}
		if all.Cmp(allocatable) > 0 && (!w.has[key][c.Name] || !w.keeps(key, c)) {
			return false
		}
	}
	return true
}

// keeps is true for a Placement that keeps a cluster that is too small for all that have it: one
// after the other, the oldest first, they keep it if they fit.
func (w *selectionWorld) keeps(key inventory.Key, c *v1alpha1.ManagedCluster) bool {
	var all []inventory.Key
	for other, has := range w.has {
		if has[c.Name] {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b inventory.Key) int {
		if w.older(a, b) {
			return -1
		}
		return 1
	})
	left := map[v1alpha1.ResourceName]resource.Quantity{}
	for name, amount := range c.Status.Allocatable {
		left[name] = amount.DeepCopy()
	}
	for _, other := range all {
		fits := true
		for name, amount := range w.requestsOf(other) {
			free, reported := left[name]
			fits = fits && reported && free.Cmp(amount) >= 0
		}
		if other == key {
			return fits
		}
		for name, amount := range w.requestsOf(other) {
			if free := left[name]; fits {
				free.Sub(amount)
				left[name] = free
			}
		}
	}
	return false
}

// inMixedCycle follows all simple paths from a Placement back to itself. A path may never settle if
// it has both with and apartFrom, or a Placement that is apart from the next one on its side only.
// It settles if another Placement on it is misconfigured because of a cycle.
func (w *selectionWorld) inMixedCycle(start inventory.Key) bool {
	inCycle := func(key inventory.Key) bool { return w.inv.Snapshot(key, w.now, nil).Subject.AffinityCycle != "" }
	broken := map[inventory.Key]bool{}
	for _, key := range w.inv.Placements() {
		broken[key] = key != start && !inCycle(start) && inCycle(key)
	}
	var follow func(at inventory.Key, visited map[inventory.Key]bool, with, apart, oneSided bool) bool
	follow = func(at inventory.Key, visited map[inventory.Key]bool, with, apart, oneSided bool) bool {
		w1, a1 := w.affinityOf(at)
		for n, edges := range []map[inventory.Key]bool{w1, a1} {
			for next := range edges {
				_, back := w.affinityOf(next)
				withNow, apartNow, oneSidedNow := with || n == 0, apart || n == 1, oneSided || n == 1 && !back[at]
				if next == start && (withNow && apartNow || oneSidedNow) {
					return true
				}
				if !visited[next] && next != start {
					more := maps.Clone(visited)
					more[next] = true
					if follow(next, more, withNow, apartNow, oneSidedNow) {
						return true
					}
				}
			}
		}
		return false
	}
	return follow(start, broken, false, false, false)
}

// compare compares a decision with what the model expects.
func (w *selectionWorld) compare(key inventory.Key, want expectation, a *scheduler.Attempt) {
	if want.mistake != a.Misconfigured() || !want.mistake && want.missing != (a.Failure != nil) {
		w.fail("%s: misconfigured %t, want %t: %v", key, a.Misconfigured(), want.mistake, statusText(a.Failure))
	}
	if want.mistake {
		w.stats["misconfigured"]++
		return
	}
	if want.missing {
		w.stats["without a required policy"]++
		if reason := meta.FindStatusCondition(a.Conditions(), v1alpha1.PlacementConditionSatisfied).Reason; reason != v1alpha1.ReasonSelectionPolicyMissing && a.Candidates() > 0 {
			w.fail("%s: PlacementSatisfied is %s without the required policy", key, reason)
		}
		return
	}
	var feasible []string
	for _, c := range a.Feasible {
		feasible = append(feasible, c.Name)
	}
	slices.Sort(feasible)
	if names := slices.Sorted(maps.Keys(want.feasible)); !slices.Equal(names, feasible) {
		w.fail("%s: qualifying are %v, want %v; has %v", key, feasible, names, w.has)
	}
	chosen := w.expectedClusters(key, want, a)
	slices.Sort(chosen)
	if got := namesOf(a); !slices.Equal(got, chosen) {
		w.fail("%s: selected are %v, want %v of %v", key, got, chosen, feasible)
	}
}

// expectedClusters selects as selection.md orders: tier, group minima in order, rank under maxima
// and spread.
func (w *selectionWorld) expectedClusters(key inventory.Key, want expectation, a *scheduler.Attempt) []string {
	pl, chosen := w.placement(key), []string{}
	var ranking []*v1alpha1.ManagedCluster
	for _, i := range a.Ranking() {
		ranking = append(ranking, want.feasible[a.Feasible[i].Name])
	}
	spec := &berthv1alpha1.SelectionPolicySpec{}
	if want.policy != nil {
		spec = &want.policy.Spec
	}
	var delayed []string
	if len(spec.Tiers) > 0 {
		var tier int
		if tier, delayed = w.tierFor(want.policy, pl, ranking, incumbentsOf(a)); tier >= 0 {
			ranking = slices.DeleteFunc(ranking, func(c *v1alpha1.ManagedCluster) bool { return tierOf(spec, c) != tier })
		}
	}
	counts := make([]int, len(spec.Groups))
	number := 1 << 30
	if n := pl.Spec.NumberOfClusters; n != nil {
		number = int(*n)
	}
	for len(chosen) < number {
		best, bestKey := -1, []int(nil)
		for i, c := range ranking {
			group, open := groupOf(spec, c), len(spec.Groups)
			if group >= 0 {
				least, most := spec.Groups[group].Bounds()
				if most >= 0 && counts[group] >= most {
					continue
				}
				if counts[group] < least {
					open = group
				}
			}
			if slices.Contains(chosen, c.Name) || w.violatesSpread(pl, ranking, chosen, c) {
				continue
			}
			tier := max(tierOf(spec, c), 0)
			if slices.Contains(delayed, c.Name) {
				tier += len(spec.Tiers)
			}
			if k := []int{tier, open, i}; best < 0 || slices.Compare(k, bestKey) < 0 {
				best, bestKey = i, k
			}
		}
		if best < 0 {
			break
		}
		chosen = append(chosen, ranking[best].Name)
		if g := groupOf(spec, ranking[best]); g >= 0 {
			counts[g]++
		}
	}
	if want.policy != nil {
		w.remember(want.policy, chosen, want.feasible)
		w.compareUnmet(spec, counts, a)
	}
	return chosen
}

// violatesSpread is true if a cluster would make its zone larger than the smallest one by more than
// maxSkew.
func (w *selectionWorld) violatesSpread(pl *v1alpha1.Placement, ranking []*v1alpha1.ManagedCluster, chosen []string, c *v1alpha1.ManagedCluster) bool {
	for _, s := range pl.Spec.SpreadPolicy.SpreadConstraints {
		zone, ok := c.Labels[s.TopologyKey]
		if !ok {
			return true
		}
		counts := map[string]int{}
		for _, other := range ranking {
			if z, ok := other.Labels[s.TopologyKey]; ok {
				counts[z] += 0
				if slices.Contains(chosen, other.Name) {
					counts[z]++
				}
			}
		}
		if counts[zone]+1-slices.Min(slices.Collect(maps.Values(counts))) > int(s.MaxSkew) {
			return true
		}
	}
	return false
}

// compareUnmet compares the groups whose minimum is not met.
func (w *selectionWorld) compareUnmet(spec *berthv1alpha1.SelectionPolicySpec, counts []int, a *scheduler.Attempt) {
	var want, got []string
	for i := range spec.Groups {
		if least, _ := spec.Groups[i].Bounds(); counts[i] < least {
			want = append(want, fmt.Sprint(spec.Groups[i].Name, " ", least-counts[i]))
		}
	}
	for _, u := range a.Shortfall.Unmet {
		got = append(got, fmt.Sprint(a.Demand.Groups[u.Group].Name, " ", u.Missing))
	}
	if !slices.Equal(want, got) {
		w.fail("%s: unmet are %v, want %v", a.Snapshot.Subject.Key(), got, want)
	}
	if len(want) > 0 {
		w.stats["unmet"]++
	}
}
