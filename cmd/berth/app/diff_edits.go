package app

import (
	"strings"
	"time"

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
	if problem := simulator.CheckLabel(key, value); problem != "" {
		return nil, usagef("--label: %q: %s", text, problem)
	}
	return onCluster("label", cluster, func(c *v1alpha1.ManagedCluster, _ time.Time) { simulator.SetLabel(c, key, value, !sets) })
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
	if problem := simulator.CheckTaint(key, effect, removes && !hasEffect); problem != "" {
		return nil, usagef("--taint: %q: %s", text, problem)
	}
	taint := v1alpha1.Taint{Key: key, Value: value, Effect: v1alpha1.TaintEffect(effect)}
	return onCluster("taint", cluster, func(c *v1alpha1.ManagedCluster, now time.Time) { simulator.SetTaint(c, taint, removes, now) })
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
