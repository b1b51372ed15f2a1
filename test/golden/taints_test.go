package golden

import (
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// tolerance is the effect of a cluster's taints on a Placement: whether the cluster qualifies,
// whether it ranks last (an untolerated PreferNoSelect), and the seconds until the first used
// toleration expires.
type tolerance struct {
	excluded, lesser bool
	seconds          *float64
}

func tolerate(c *v1alpha1.ManagedCluster, spec *v1alpha1.PlacementSpec, now time.Time, incumbent bool) tolerance {
	var all tolerance
	for _, taint := range c.Spec.Taints {
		ok, left := stands(taint, spec.Tolerations, now)
		switch {
		case taint.Effect == v1alpha1.TaintEffectPreferNoSelect:
			all.lesser = all.lesser || !ok
		case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbent:
		case !ok:
			all.excluded = true
		case left != nil && (all.seconds == nil || *left < *all.seconds):
			all.seconds = left
		}
	}
	return all
}

// stands finds the first toleration that matches and is still valid. left is nil if it never
// expires.
func stands(taint v1alpha1.Taint, tolerations []v1alpha1.Toleration, now time.Time) (ok bool, left *float64) {
	for _, t := range tolerations {
		equal := (t.Operator == "" || t.Operator == v1alpha1.TolerationOpEqual) && t.Value == taint.Value
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key || !equal && t.Operator != v1alpha1.TolerationOpExists {
			continue
		}
		if t.TolerationSeconds == nil {
			return true, nil
		}
		// A taint without a time counts as added in the year 1.
		if taint.TimeAdded.IsZero() {
			continue
		}
		if seconds := taint.TimeAdded.Sub(now).Seconds() + float64(*t.TolerationSeconds); seconds > 0 {
			return true, &seconds
		}
	}
	return false, nil
}

// checkTolerations refuses invalid tolerations.
func checkTolerations(spec *v1alpha1.PlacementSpec) error {
	for _, t := range spec.Tolerations {
		exists := t.Operator == v1alpha1.TolerationOpExists
		if t.Key == "" && !exists || exists && t.Value != "" {
			return errMisconfigured
		}
	}
	return nil
}
