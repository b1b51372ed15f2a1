package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

const (
	// maxComparisons is how often labels and scores are looked at for the warnings of a Placement;
	// what is not looked at to the end gets no warning.
	maxComparisons = 1_000_000
	// maxWarnings is how many warnings a Placement gets, and maxWarningLength how long each may be.
	maxWarnings      = 10
	maxWarningLength = 512
)

// Warnings returns what is valid in a Placement and yet probably a mistake: a sentence each, with
// the field. What depends on clusters is compared with the candidates, if there are any.
func Warnings(snapshot *framework.Snapshot) []string {
	warnings := allWarnings(snapshot)
	warnings = warnings[:min(len(warnings), maxWarnings)]
	for i := range warnings {
		warnings[i] = v1alpha1.CutText(warnings[i], maxWarningLength)
	}
	return warnings
}

// compared looks for candidates, at most maxComparisons times.
type compared struct {
	candidates []*framework.Cluster
	times      int
}

// find looks for a candidate that matches, and reports whether it looked at all until it found one.
// cost is how many comparisons a look at one of them takes.
func (c *compared) find(cost func(*framework.Cluster) int, matches func(*framework.Cluster) bool) (found, finished bool) {
	for _, cluster := range c.candidates {
		if c.times += cost(cluster); c.times > maxComparisons {
			return false, false
		}
		if matches(cluster) {
			return true, true
		}
	}
	return false, true
}

// none reports whether all candidates were looked at and none matches.
func (c *compared) none(cost func(*framework.Cluster) int, matches func(*framework.Cluster) bool) bool {
	found, finished := c.find(cost, matches)
	return finished && !found
}

func allWarnings(snapshot *framework.Snapshot) []string {
	spec := &snapshot.Subject.Placement.Spec
	policy := &spec.PrioritizerPolicy
	warnings := duplicatePrioritizers(policy)
	if policy.Mode == v1alpha1.PrioritizerPolicyModeExact && !slices.ContainsFunc(policy.Configurations, weighs) {
		warnings = append(warnings, fmt.Sprintf("%s: no prioritizer has a weight, and mode Exact uses no others: clusters are selected by name",
			policyPath.Child("configurations")))
	}
	warnings = append(warnings, duplicateGroups(spec)...)
	warnings = append(warnings, unboundSets(snapshot)...)
	fleet := &compared{}
	for i := range snapshot.Candidates().All {
		fleet.candidates = append(fleet.candidates, snapshot.Clusters.Get(i))
	}
	if len(fleet.candidates) == 0 {
		return warnings
	}
	warnings = append(warnings, missingScores(snapshot, policy, fleet)...)
	for i := range spec.Predicates {
		warnings = append(warnings, unmatchedSelectors(&spec.Predicates[i].RequiredClusterSelector, i, fleet)...)
	}
	for i, term := range spec.SpreadPolicy.SpreadConstraints {
		warnings = append(warnings, missingTopology(term, i, fleet)...)
	}
	return warnings
}

// duplicateGroups warns about decision groups with the same name.
func duplicateGroups(spec *v1alpha1.PlacementSpec) (warnings []string) {
	path := field.NewPath("spec", "decisionStrategy", "groupStrategy", "decisionGroups")
	first := map[string]int{}
	for i, group := range spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		before, twice := first[group.GroupName]
		if !twice {
			first[group.GroupName] = i
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: %s is also the name of %s: programs that read a group by its name get the clusters of both; give each group its own name",
			path.Index(i).Child("groupName"), group.GroupName, path.Index(before)))
	}
	return warnings
}

// unboundSets warns about names in spec.clusterSets that select nothing.
func unboundSets(snapshot *framework.Snapshot) (warnings []string) {
	path := field.NewPath("spec", "clusterSets")
	names := snapshot.Subject.Placement.Spec.ClusterSets
	if i := slices.Index(names, ""); i >= 0 {
		warnings = append(warnings, fmt.Sprintf(`%s: "" is not the name of a ManagedClusterSet: remove it; an empty list means all bound sets`, path.Index(i)))
	}
	if snapshot.Fleet == nil {
		return warnings
	}
	var unbound []string
	for _, name := range names {
		if _, bound := slices.BinarySearch(snapshot.BoundSets, name); !bound && name != "" {
			unbound = append(unbound, name)
		}
	}
	if len(unbound) == 0 {
		return warnings
	}
	hint := "create a ManagedClusterSetBinding"
	if len(snapshot.BoundSets) > 0 {
		hint = "name a bound one: " + listNames(snapshot.BoundSets) + "; or " + hint
	}
	return append(warnings, fmt.Sprintf("%s: ignored, because no ManagedClusterSet of that name is bound to the namespace: %s; %s", path, listNames(unbound), hint))
}

// unmatchedSelectors warns about a predicate whose labels or claims no candidate has.
func unmatchedSelectors(selector *v1alpha1.ClusterSelector, i int, fleet *compared) (warnings []string) {
	path := field.NewPath("spec", "predicates").Index(i).Child("requiredClusterSelector")
	matchesNone := func(s *metav1.LabelSelector, of func(*framework.Cluster) map[string]string) (labels.Selector, bool) {
		matcher, err := metav1.LabelSelectorAsSelector(s)
		cost := func(*framework.Cluster) int { return 1 + len(s.MatchLabels) + len(s.MatchExpressions) }
		return matcher, err == nil && fleet.none(cost, func(c *framework.Cluster) bool { return matcher.Matches(labels.Set(of(c))) })
	}
	if matcher, none := matchesNone(&selector.LabelSelector, labelsOf); none {
		warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has labels that match %q", path.Child("labelSelector"), matcher))
	}
	claims := &metav1.LabelSelector{MatchExpressions: selector.ClaimSelector.MatchExpressions}
	if matcher, none := matchesNone(claims, claimsOf); none {
		warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has claims that match %q; "+
			"claims are in status.clusterClaims of a cluster, and labelSelector matches labels", path.Child("claimSelector"), matcher))
	}
	return warnings
}

func labelsOf(c *framework.Cluster) map[string]string { return c.Labels }

func claimsOf(c *framework.Cluster) map[string]string { return c.Claims }

// missingTopology warns about a spread constraint whose topology key no candidate has.
func missingTopology(term v1alpha1.SpreadConstraintsTerm, i int, fleet *compared) []string {
	kinds := []struct {
		name     string
		typeName v1alpha1.TopologyKeyType
		of       func(*framework.Cluster) map[string]string
	}{{"label", v1alpha1.TopologyKeyTypeLabel, labelsOf}, {"claim", v1alpha1.TopologyKeyTypeClaim, claimsOf}}
	if term.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
		slices.Reverse(kinds)
	}
	cost := func(*framework.Cluster) int { return 1 }
	has := func(of func(*framework.Cluster) map[string]string) func(*framework.Cluster) bool {
		return func(c *framework.Cluster) bool { _, has := of(c)[term.TopologyKey]; return has }
	}
	named, other := kinds[0], kinds[1]
	if !fleet.none(cost, has(named.of)) {
		return nil
	}
	result, hint := "the constraint spreads nothing", "name a label or a claim that clusters have"
	if term.WhenUnsatisfiable == v1alpha1.DoNotSchedule {
		result = "no cluster is selected"
	}
	if found, _ := fleet.find(cost, has(other.of)); found {
		hint = fmt.Sprintf("clusters have the %s %s: set topologyKeyType to %s", other.name, term.TopologyKey, other.typeName)
	}
	return []string{fmt.Sprintf("%s: no cluster that the namespace can use has the %s %s, so %s; %s",
		field.NewPath("spec", "spreadPolicy", "spreadConstraints").Index(i).Child("topologyKey"), named.name, term.TopologyKey, result, hint)}
}

// weighs reports whether a configuration counts.
func weighs(c v1alpha1.PrioritizerConfig) bool { return ptr.Deref(c.Weight, 1) != 0 }

// coordinateOf is the prioritizer of a configuration.
func coordinateOf(c v1alpha1.PrioritizerConfig) string {
	switch at := c.ScoreCoordinate; {
	case at == nil:
		return ""
	case at.Type == v1alpha1.ScoreCoordinateTypeBuiltIn:
		return at.BuiltIn
	case at.AddOn != nil:
		return fmt.Sprintf("%s/%s/%s", v1alpha1.ScoreCoordinateTypeAddOn, at.AddOn.ResourceName, at.AddOn.ScoreName)
	}
	return ""
}

func duplicatePrioritizers(policy *v1alpha1.PrioritizerPolicy) (warnings []string) {
	first := map[string]int{}
	for i, c := range policy.Configurations {
		name := coordinateOf(c)
		if before, twice := first[name]; twice && name != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s is listed at %s, too: only the last weight counts", coordinatePath(i), name, coordinatePath(before)))
		}
		first[name] = i
	}
	return warnings
}

// missingScores warns about each AddOnPlacementScore that no candidate has, and about one with a
// negative weight that some candidates lack.
func missingScores(snapshot *framework.Snapshot, policy *v1alpha1.PrioritizerPolicy, fleet *compared) (warnings []string) {
	for i, c := range policy.Configurations {
		if c.ScoreCoordinate == nil || c.ScoreCoordinate.Type == v1alpha1.ScoreCoordinateTypeBuiltIn || c.ScoreCoordinate.AddOn == nil || !weighs(c) {
			continue
		}
		addOn := c.ScoreCoordinate.AddOn
		scores := func(c *framework.Cluster) []v1alpha1.AddOnPlacementScoreItem {
			if object := snapshot.Scores[addOn.ResourceName].Get(c.Index); object != nil {
				return object.Status.Scores
			}
			return nil
		}
		cost := func(c *framework.Cluster) int { return 1 + len(scores(c)) }
		has := func(c *framework.Cluster) bool {
			return slices.ContainsFunc(scores(c), func(s v1alpha1.AddOnPlacementScoreItem) bool { return s.Name == addOn.ScoreName })
		}
		lacks := func(c *framework.Cluster) bool { return !has(c) }
		if fleet.none(cost, has) {
			warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has an AddOnPlacementScore %q with the score %q, which counts as 0",
				coordinatePath(i).Child("addOn"), addOn.ResourceName, addOn.ScoreName))
			continue
		}
		if ptr.Deref(c.Weight, 1) >= 0 || requiresScore(snapshot.Subject.Placement.Spec.Predicates, addOn) {
			continue
		}
		if found, _ := fleet.find(cost, lacks); found {
			warnings = append(warnings, fmt.Sprintf("%s: a cluster without the score counts as 0, and with a negative weight it comes before clusters with a score above 0; "+
				"to leave such clusters out, add to each predicate the CEL expression managedCluster.scores(%q).exists(s, s.name == %q)",
				policyPath.Child("configurations").Index(i).Child("weight"), addOn.ResourceName, addOn.ScoreName))
		}
	}
	return warnings
}

// requiresScore reports whether each predicate has a CEL expression that reads a score.
func requiresScore(predicates []v1alpha1.ClusterPredicate, addOn *v1alpha1.AddOnScore) bool {
	has := func(expression, name string) bool {
		return strings.Contains(expression, strings.Trim(strconv.Quote(name), `"`))
	}
	reads := func(expression string) bool {
		return strings.Contains(expression, ".scores(") && has(expression, addOn.ResourceName) && has(expression, addOn.ScoreName)
	}
	return len(predicates) > 0 && !slices.ContainsFunc(predicates, func(p v1alpha1.ClusterPredicate) bool {
		return !slices.ContainsFunc(p.RequiredClusterSelector.CelSelector.CelExpressions, reads)
	})
}
