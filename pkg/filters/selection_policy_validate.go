package filters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// ValidatePolicy is that of framework.Traits. It compiles at least one expression.
func (*SelectionPolicy) ValidatePolicy(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList {
	if requested, ok := policy.Annotations[berthv1alpha1.FailbackRequestedAnnotation]; ok {
		if _, err := time.Parse(time.RFC3339, requested); err != nil {
			return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(berthv1alpha1.FailbackRequestedAnnotation), requested,
				"must be a time in the format of RFC 3339, for example 2026-01-31T15:04:05Z")}
		}
	}
	if c := compilePolicy(policy, func() bool { return ctx.Err() != nil }); c != nil && c.mistake != nil {
		return field.ErrorList{c.mistake}
	}
	return nil
}

// policyMistake returns the first mistake outside of clusterSelectors. The schema refuses most of
// them; objects in files have no schema.
func policyMistake(spec *berthv1alpha1.SelectionPolicySpec) *field.Error {
	root := field.NewPath("spec")
	for i := range spec.Preferences {
		if w := spec.Preferences[i].Weight; w < -100 || w > 100 {
			return field.Invalid(root.Child("preferences").Index(i).Child("weight"), w, "must be from -100 to 100")
		}
	}
	if w := spec.PreferenceWeight; w != nil && (*w < -10 || *w > 10) {
		return field.Invalid(root.Child("preferenceWeight"), *w, "must be from -10 to 10")
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Requests)) {
		if amount := spec.Requests[name]; amount.Sign() < 0 {
			return field.Invalid(root.Child("requests").Key(string(name)), amount.String(), "must not be negative")
		}
	}
	if mistake := tierMistake(spec, root); mistake != nil {
		return mistake
	}
	if mistake := groupMistake(spec.Groups, root.Child("groups")); mistake != nil {
		return mistake
	}
	affinity := root.Child("affinity")
	if n := spec.Affinity.Requirements(); n > berthv1alpha1.MaxAffinityRequirements {
		return field.Forbidden(affinity, fmt.Sprintf("all placementSelectors together must have at most %d labels and requirements, not %d", berthv1alpha1.MaxAffinityRequirements, n))
	}
	if mistake := referenceMistake(spec.Affinity.With, affinity.Child("with")); mistake != nil {
		return mistake
	}
	return referenceMistake(spec.Affinity.ApartFrom, affinity.Child("apartFrom"))
}

func tierMistake(spec *berthv1alpha1.SelectionPolicySpec, root *field.Path) *field.Error {
	if n := len(spec.Tiers); n > berthv1alpha1.MaxSelectionTiers {
		return field.TooMany(root.Child("tiers"), n, berthv1alpha1.MaxSelectionTiers)
	}
	names := map[string]bool{}
	for i := range spec.Tiers {
		t, path := &spec.Tiers[i], root.Child("tiers").Index(i)
		if names[t.Name] {
			return field.Duplicate(path.Child("name"), t.Name)
		}
		names[t.Name] = true
		if t.MinClusters != nil && *t.MinClusters < 1 {
			return field.Invalid(path.Child("minClusters"), *t.MinClusters, "must be at least 1")
		}
	}
	switch spec.TierMode {
	case "", berthv1alpha1.TierFallback, berthv1alpha1.TierOverflow:
	default:
		return field.NotSupported(root.Child("tierMode"), spec.TierMode, []berthv1alpha1.TierMode{berthv1alpha1.TierFallback, berthv1alpha1.TierOverflow})
	}
	if s := spec.FailbackAfterSeconds; s != nil && (*s < -1 || *s > berthv1alpha1.MaxFailbackAfterSeconds) {
		return field.Invalid(root.Child("failbackAfterSeconds"), *s, fmt.Sprintf("must be from -1 to %d", berthv1alpha1.MaxFailbackAfterSeconds))
	}
	return nil
}

func groupMistake(groups []berthv1alpha1.SelectionGroup, root *field.Path) *field.Error {
	if n := len(groups); n > berthv1alpha1.MaxSelectionGroups {
		return field.TooMany(root, n, berthv1alpha1.MaxSelectionGroups)
	}
	names := map[string]bool{}
	for i := range groups {
		g, path := &groups[i], root.Index(i)
		least, most := g.Bounds()
		for _, bound := range []struct {
			name  string
			value *int32
		}{{"count", g.Count}, {"min", g.Min}, {"max", g.Max}} {
			if bound.value != nil && *bound.value < 0 {
				return field.Invalid(path.Child(bound.name), *bound.value, "must not be negative")
			}
		}
		switch {
		case names[g.Name]:
			return field.Duplicate(path.Child("name"), g.Name)
		case g.Count != nil && (g.Min != nil || g.Max != nil):
			return field.Forbidden(path.Child("count"), "count replaces min and max")
		case g.Count == nil && g.Min == nil && g.Max == nil:
			return field.Required(path, "count, min or max is required")
		case most >= 0 && least > most:
			return field.Invalid(path.Child("min"), least, fmt.Sprintf("must not be greater than max, %d", most))
		}
		names[g.Name] = true
	}
	return nil
}

func referenceMistake(references []berthv1alpha1.PlacementReference, root *field.Path) *field.Error {
	for i := range references {
		r, path := &references[i], root.Index(i)
		if (r.Placement == "") == (r.PlacementSelector == nil) {
			return field.Required(path, "exactly one of placement and placementSelector is required")
		}
		if s := r.PlacementSelector; s != nil && max(len(s.MatchLabels), len(s.MatchExpressions)) > berthv1alpha1.MaxPlacementRequirements {
			return field.Forbidden(path.Child("placementSelector"), fmt.Sprintf("must have at most %d labels and %d requirements",
				berthv1alpha1.MaxPlacementRequirements, berthv1alpha1.MaxPlacementRequirements))
		}
		if r.PlacementSelector != nil {
			if _, mistake := v1alpha1.CompileSelector(r.PlacementSelector, path.Child("placementSelector")); mistake != nil {
				return mistake
			}
		}
	}
	return nil
}

// tooManyMinima returns the mistake of groups whose minima add up to more than numberOfClusters.
func tooManyMinima(spec *berthv1alpha1.SelectionPolicySpec, pl *v1alpha1.Placement) *field.Error {
	if pl.Spec.NumberOfClusters == nil {
		return nil
	}
	sum := 0
	for i := range spec.Groups {
		least, _ := spec.Groups[i].Bounds()
		sum += least
	}
	if number := int(*pl.Spec.NumberOfClusters); sum > number {
		return field.Invalid(field.NewPath("spec", "groups"), sum, fmt.Sprintf("the minima must not add up to more than numberOfClusters of the Placement, %d", number))
	}
	return nil
}
