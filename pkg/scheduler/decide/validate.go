package decide

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Validate returns the mistakes of a Placement for which an attempt would set
// PlacementMisconfigured, in the same words. It takes no lock, and ends early when ctx ends. A
// panic of a plugin is no mistake of the Placement: the attempt reports it.
func (s *Decider) Validate(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList {
	profile, mistake := s.ProfileOf(pl)
	mistakes := field.ErrorList{}
	add := func(mistake *field.Error) {
		if mistake != nil {
			mistakes = append(mistakes, mistake)
		}
	}
	add(mistake)
	if tooLong := checkBounds(pl); tooLong != nil {
		return append(mistakes, tooLong)
	}
	for _, p := range profile.PreFilter {
		if validator, ok := p.(framework.Validator); ok {
			plugins.Call(ctx, "Validate", p, func() *framework.Status {
				mistakes = append(mistakes, validator.Validate(ctx, pl)...)
				return nil
			})
		}
	}
	if _, _, mistake = scorersFor(profile, pl); mistake != nil && mistake.Type != field.ErrorTypeInternal {
		add(mistake)
	}
	add(validate(pl))
	add(validatePin(pl))
	return mistakes
}

// ValidatePolicy returns the mistakes of a SelectionPolicy for which an attempt would set
// PlacementMisconfigured, in the same words. It takes no lock, and ends early when ctx ends.
func (s *Decider) ValidatePolicy(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList {
	for _, p := range s.Profiles[v1alpha1.DefaultProfile].PreFilter {
		if validatePolicy := s.Profiles[v1alpha1.DefaultProfile].Traits(p.Name()).ValidatePolicy; validatePolicy != nil {
			var mistakes field.ErrorList
			plugins.Call(ctx, "ValidatePolicy", p, func() *framework.Status {
				mistakes = validatePolicy(ctx, policy)
				return nil
			})
			return mistakes
		}
	}
	return nil
}

// ProfileOf returns the profile that a Placement selects. If it does not exist, it returns the
// default profile and an error: its plugins can still publish an empty page.
func (s *Decider) ProfileOf(pl *v1alpha1.Placement) (*plugins.Profile, *field.Error) {
	name, chosen := pl.Annotations[v1alpha1.ProfileAnnotation]
	if !chosen {
		name = v1alpha1.DefaultProfile
	}
	if profile := s.Profiles[name]; profile != nil {
		return profile, nil
	}
	fallback := cmp.Or(s.Profiles[v1alpha1.DefaultProfile], &plugins.Profile{})
	return fallback, field.NotSupported(field.NewPath("metadata", "annotations").Key(v1alpha1.ProfileAnnotation), name, slices.Sorted(maps.Keys(s.Profiles)))
}

// ProfileName returns the name of the profile that a Placement selects.
func ProfileName(pl *v1alpha1.Placement) string {
	return cmp.Or(pl.Annotations[v1alpha1.ProfileAnnotation], v1alpha1.DefaultProfile)
}

// validate returns the mistake of a Placement for which no decision could be published.
func validate(pl *v1alpha1.Placement) *field.Error {
	if len(pl.Name) > v1alpha1.MaxLabelValueLength {
		return &field.Error{
			Type: field.ErrorTypeTooLong, Field: "metadata.name", BadValue: pl.Name,
			Detail: fmt.Sprintf("may not be more than %d bytes", v1alpha1.MaxLabelValueLength),
		}
	}
	if n := pl.Spec.NumberOfClusters; n != nil && *n < 0 {
		return field.Invalid(field.NewPath("spec", "numberOfClusters"), *n, "should be greater than or equal to 0")
	}
	if name, required := pl.Annotations[v1alpha1.SelectionPolicyAnnotation]; required && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.SelectionPolicyAnnotation), name, "must be the name of a SelectionPolicy")
	}
	return nil
}

// misconfigured returns the Status for a mistake that the engine found, or for a plugin that
// panicked; nil without one.
func misconfigured(mistake *field.Error) *framework.Status {
	switch {
	case mistake == nil:
		return nil
	case mistake.Type == field.ErrorTypeInternal:
		return framework.AsStatus(mistake)
	}
	return framework.Misconfigured(mistake)
}
