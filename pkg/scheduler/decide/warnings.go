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

// Warnings returns what is valid in a Placement and yet probably a mistake: a sentence each, with
// the field. What depends on clusters is compared with the candidates, if there are any.
func Warnings(snapshot *framework.Snapshot) []string {
	policy := &snapshot.Subject.Placement.Spec.PrioritizerPolicy
	warnings := duplicatePrioritizers(policy)
	if policy.Mode == v1alpha1.PrioritizerPolicyModeExact && !slices.ContainsFunc(policy.Configurations, weighs) {
		warnings = append(warnings, fmt.Sprintf("%s: no prioritizer has a weight, and mode Exact uses no others: clusters are selected by name",
			policyPath.Child("configurations")))
	}
	var candidates []*framework.Cluster
	for i := range snapshot.Candidates().All {
		candidates = append(candidates, snapshot.Clusters.Get(i))
	}
	if len(candidates) == 0 {
		return warnings
	}
	warnings = append(warnings, missingScores(snapshot, policy, candidates)...)
	for i := range snapshot.Subject.Placement.Spec.Predicates {
		selector := &snapshot.Subject.Placement.Spec.Predicates[i].RequiredClusterSelector.LabelSelector
		matcher, err := metav1.LabelSelectorAsSelector(selector)
		matches := func(c *framework.Cluster) bool { return matcher.Matches(labels.Set(c.Labels)) }
		if err == nil && !slices.ContainsFunc(candidates, matches) {
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
func missingScores(snapshot *framework.Snapshot, policy *v1alpha1.PrioritizerPolicy, candidates []*framework.Cluster) (warnings []string) {
	for i, c := range policy.Configurations {
		if c.ScoreCoordinate == nil || c.ScoreCoordinate.Type == v1alpha1.ScoreCoordinateTypeBuiltIn || c.ScoreCoordinate.AddOn == nil || !weighs(c) {
			continue
		}
		addOn := c.ScoreCoordinate.AddOn
		has := func(c *framework.Cluster) bool {
			object := snapshot.Scores[addOn.ResourceName].Get(c.Index)
			return object != nil && slices.ContainsFunc(object.Status.Scores, func(s v1alpha1.AddOnPlacementScoreItem) bool { return s.Name == addOn.ScoreName })
		}
		if !slices.ContainsFunc(candidates, has) {
			warnings = append(warnings, fmt.Sprintf("%s: no cluster that the namespace can use has an AddOnPlacementScore %q with the score %q, which counts as 0",
				coordinatePath(i).Child("addOn"), addOn.ResourceName, addOn.ScoreName))
		}
	}
	return warnings
}
