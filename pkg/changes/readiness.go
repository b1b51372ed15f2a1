package changes

import (
	"fmt"

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
}

// ReadinessOf compiles spec.readiness of a policy; nil if there is none. With an invalid selector,
// no object matches, and the error is for the policy's Ready condition.
func ReadinessOf(policy *berthv1alpha1.DisruptionPolicy) (*Readiness, error) {
	spec := policy.Spec.Readiness
	if spec == nil {
		return nil, nil
	}
	r := &Readiness{Source: spec.Source, selector: labels.Everything(), placementLabel: spec.PlacementLabel}
	if spec.Selector == nil {
		return r, nil
	}
	selector, err := v1alpha1.CompileSelector(spec.Selector, field.NewPath("spec", "readiness", "selector"))
	if err != nil {
		r.selector = labels.Nothing()
		return r, fmt.Errorf("DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	r.selector = selector
	return r, nil
}

// Matches reports whether an object with these labels counts for a Placement.
func (r *Readiness) Matches(placement string, of labels.Labels) bool {
	if r.placementLabel != "" && of.Get(r.placementLabel) != placement {
		return false
	}
	return r.selector.Matches(of)
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
