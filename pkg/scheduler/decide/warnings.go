package decide

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// none reports whether all candidates were looked at and none matches. cost is how many comparisons
// a look at one of them takes.
func (c *compared) none(cost func(*framework.Cluster) int, matches func(*framework.Cluster) bool) bool {
	for _, cluster := range c.candidates {
		if c.times += cost(cluster); c.times > maxComparisons || matches(cluster) {
			return false
		}
	}
	return true
}

func allWarnings(snapshot *framework.Snapshot) []string {
	policy := &snapshot.Subject.Placement.Spec.PrioritizerPolicy
	warnings := duplicatePrioritizers(policy)
	if policy.Mode == v1alpha1.PrioritizerPolicyModeExact && !slices.ContainsFunc(policy.Configurations, weighs) {
		warnings = append(warnings, fmt.Sprintf("%s: no prioritizer has a weight, and mode Exact uses no others: clusters are selected by name",
			policyPath.Child("configurations")))
	}
	fleet := &compared{}
	for i := range snapshot.Candidates().All {
		fleet.candidates = append(fleet.candidates, snapshot.Clusters.Get(i))
	}
	if len(fleet.candidates) == 0 {
		return warnings
	}
	warnings = append(warnings, missingScores(snapshot, policy, fleet)...)
	for i := range snapshot.Subject.Placement.Spec.Predicates {
		selector := &snapshot.Subject.Placement.Spec.Predicates[i].RequiredClusterSelector.LabelSelector
		matcher, err := metav1.LabelSelectorAsSelector(selector)
		cost := func(*framework.Cluster) int { return 1 + len(selector.MatchLabels) + len(selector.MatchExpressions) }
		matches := func(c *framework.Cluster) bool { return matcher.Matches(labels.Set(c.Labels)) }
		if err == nil && fleet.none(cost, matches) {
			warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has labels that match %q",
				field.NewPath("spec", "predicates").Index(i).Child("requiredClusterSelector", "labelSelector"), matcher))
		}
	}
	return warnings
}

// weighs reports whether a configuration counts.
func weighs(c v1alpha1.PrioritizerConfig) bool { return c.Weight == nil || *c.Weight != 0 }

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

// missingScores warns about each AddOnPlacementScore that no candidate has.
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
		if fleet.none(cost, has) {
			warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has an AddOnPlacementScore %q with the score %q, which counts as 0",
				coordinatePath(i).Child("addOn"), addOn.ResourceName, addOn.ScoreName))
		}
	}
	return warnings
}
