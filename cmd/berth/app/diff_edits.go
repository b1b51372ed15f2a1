package app

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
)

// edit returns changed objects. It does not modify its input.
type edit func(objects simulator.Objects, namespace string, now time.Time) (simulator.Objects, error)

// edits returns the edits of the flags, in addition to the files.
func (o *diffOptions) edits() ([]edit, error) {
	var edits []edit
	for _, kind := range []struct {
		texts []string
		parse func(text string) (edit, error)
	}{{o.labels, labelEdit}, {o.taints, taintEdit}, {o.removed, removal}} {
		for _, text := range kind.texts {
			e, err := kind.parse(text)
			if err != nil {
				return nil, err
			}
			edits = append(edits, e)
		}
	}
	return edits, nil
}

// onCluster returns the edit of a cluster that a flag names.
func onCluster(flag, text string, change func(cluster *v1alpha1.ManagedCluster, now time.Time)) (edit, error) {
	name, err := clusterName(flag, text)
	return func(objects simulator.Objects, _ string, now time.Time) (simulator.Objects, error) {
		return objects.EditCluster(name, func(cluster *v1alpha1.ManagedCluster) { change(cluster, now) })
	}, err
}

// labelEdit reads CLUSTER:KEY=VALUE or CLUSTER:KEY-.
func labelEdit(text string) (edit, error) {
	cluster, label, found := strings.Cut(text, ":")
	key, value, sets := strings.Cut(label, "=")
	if !sets {
		var removes bool
		key, removes = strings.CutSuffix(label, "-")
		found = found && removes
	}
	if !found || cluster == "" || key == "" {
		return nil, usagef("--label: %q is neither CLUSTER:KEY=VALUE nor CLUSTER:KEY-", text)
	}
	problems := validation.IsQualifiedName(key)
	if sets {
		problems = append(problems, validation.IsValidLabelValue(value)...)
	}
	if len(problems) > 0 {
		return nil, usagef("--label: %q: %s", text, strings.Join(problems, "; "))
	}
	return onCluster("label", cluster, func(c *v1alpha1.ManagedCluster, _ time.Time) {
		if !sets {
			delete(c.Labels, key)
			return
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[key] = value
	})
}

var taintEffects = []string{
	string(v1alpha1.TaintEffectNoSelect), string(v1alpha1.TaintEffectPreferNoSelect), string(v1alpha1.TaintEffectNoSelectIfNew),
}

// taintEdit reads CLUSTER:KEY[=VALUE]:EFFECT or CLUSTER:KEY[:EFFECT]-.
func taintEdit(text string) (edit, error) {
	cluster, rest, found := strings.Cut(text, ":")
	rest, removes := strings.CutSuffix(rest, "-")
	pair, effect, hasEffect := strings.Cut(rest, ":")
	key, value, _ := strings.Cut(pair, "=")
	if !found || cluster == "" || key == "" || !removes && !hasEffect {
		return nil, usagef("--taint: %q is neither CLUSTER:KEY[=VALUE]:EFFECT nor CLUSTER:KEY[:EFFECT]-", text)
	}
	if hasEffect && !slices.Contains(taintEffects, effect) {
		return nil, usagef("--taint: %q: effect %q is not one of %s", text, effect, strings.Join(taintEffects, ", "))
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return nil, usagef("--taint: %q: %s", text, strings.Join(problems, "; "))
	}
	return onCluster("taint", cluster, func(c *v1alpha1.ManagedCluster, now time.Time) {
		added := metav1.NewTime(now)
		c.Spec.Taints = slices.DeleteFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool {
			same := t.Key == key && (effect == "" || string(t.Effect) == effect)
			if same && !removes && t.Value == value {
				added = t.TimeAdded
			}
			return same
		})
		if !removes {
			c.Spec.Taints = append(c.Spec.Taints, v1alpha1.Taint{Key: key, Value: value, Effect: v1alpha1.TaintEffect(effect), TimeAdded: added})
		}
	})
}

// removal reads TYPE/NAME.
func removal(text string) (edit, error) {
	word, name, _ := strings.Cut(text, "/")
	kind, known := kinds.Named(word)
	if !known || name == "" {
		return nil, usagef("--remove: %q is not TYPE/NAME; the types are %s", text, strings.Join(kinds.Names(), ", "))
	}
	return func(objects simulator.Objects, namespace string, _ time.Time) (simulator.Objects, error) {
		return objects.Without(kind, namespace, name)
	}, nil
}
