package changes

import (
	"fmt"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Readiness is the compiled spec.readiness of a DisruptionPolicy. It is immutable.
type Readiness struct {
	// Source is the name of the readiness source.
	Source         string
	selector       labels.Selector
	placementLabel string
	requirement    Requirement
}

// Requirement identifies the selector and the placementLabel of a Readiness: for equal ones, the
// same objects count.
type Requirement struct {
	selector       unique.Handle[string]
	placementLabel string
}

// noSelector is not the text of a valid selector.
const noSelector = "!"

// ReadinessOf compiles spec.readiness of a policy; nil if there is none. With an invalid selector,
// no object matches, and the error is for the policy's Ready condition.
func ReadinessOf(policy *berthv1alpha1.DisruptionPolicy) (*Readiness, error) {
	spec := policy.Spec.Readiness
	if spec == nil {
		return nil, nil
	}
	r := &Readiness{Source: spec.Source, selector: labels.Everything(), placementLabel: spec.PlacementLabel}
	var invalid *field.Error
	if spec.Selector != nil {
		r.selector, invalid = v1alpha1.CompileSelector(spec.Selector, field.NewPath("spec", "readiness", "selector"))
	}
	if invalid != nil {
		r.selector, r.requirement = labels.Nothing(), Requirement{unique.Make(noSelector), spec.PlacementLabel}
		return r, fmt.Errorf("DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, invalid)
	}
	r.requirement = Requirement{unique.Make(r.selector.String()), spec.PlacementLabel}
	return r, nil
}

// Requirement returns the identity of the selector and the placementLabel.
func (r *Readiness) Requirement() Requirement { return r.requirement }

// Selects reports whether the selector matches an object with these labels.
func (r *Readiness) Selects(of labels.Labels) bool { return r.selector.Matches(of) }

// Value returns what an object that the selector matches counts for: the value of placementLabel,
// which may be empty, or the empty string without a placementLabel.
func (r *Readiness) Value(of labels.Labels) string {
	if r.placementLabel == "" {
		return ""
	}
	return of.Get(r.placementLabel)
}

// ValueFor returns the Value of objects that count for a Placement.
func (r *Readiness) ValueFor(placement string) string {
	if r.placementLabel == "" {
		return ""
	}
	return placement
}

// Matches reports whether an object with these labels counts for a Placement.
func (r *Readiness) Matches(placement string, of labels.Labels) bool {
	return r.Value(of) == r.ValueFor(placement) && r.Selects(of)
}

// Unready describes why a cluster is not ready, from the number of its objects and of those that
// are ready; empty if it is ready.
func (r *Readiness) Unready(objects, ready int) string {
	switch {
	case objects == 0:
		return r.Source + ": no object matches"
	case ready < objects:
		return fmt.Sprintf("%s: %d of %d objects ready", r.Source, ready, objects)
	}
	return ""
}
