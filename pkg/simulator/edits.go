package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TaintEffects are the effects that a taint can have.
var TaintEffects = []string{
	string(v1alpha1.TaintEffectNoSelect), string(v1alpha1.TaintEffectPreferNoSelect), string(v1alpha1.TaintEffectNoSelectIfNew),
}

// CheckLabel returns why a label cannot be set; empty if it can. A label that is removed has no
// value.
func CheckLabel(key, value string) string {
	return strings.Join(append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...), "; ")
}

// CheckTaint returns why a taint cannot be set; empty if it can. The effect may be empty if it is
// removed.
func CheckTaint(key, effect string, removed bool) string {
	if (effect != "" || !removed) && !slices.Contains(TaintEffects, effect) {
		return fmt.Sprintf("effect %q is not one of %s", effect, strings.Join(TaintEffects, ", "))
	}
	return strings.Join(validation.IsQualifiedName(key), "; ")
}

// SetLabel sets a label of a cluster, or removes it.
func SetLabel(c *v1alpha1.ManagedCluster, key, value string, remove bool) {
	if remove {
		delete(c.Labels, key)
		return
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[key] = value
}

// SetTaint sets a taint of a cluster, or removes it: those of all effects if the effect is empty.
func SetTaint(c *v1alpha1.ManagedCluster, taint v1alpha1.Taint, remove bool, now time.Time) {
	taint.TimeAdded = metav1.NewTime(now)
	c.Spec.Taints = slices.DeleteFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool {
		same := t.Key == taint.Key && (taint.Effect == "" || t.Effect == taint.Effect)
		if same && !remove && t.Value == taint.Value {
			taint.TimeAdded = t.TimeAdded
		}
		return same
	})
	if !remove {
		c.Spec.Taints = append(c.Spec.Taints, taint)
	}
}
