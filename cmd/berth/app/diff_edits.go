package app

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/simulator"
)

// diffEdits are the flags that edit the hub, in addition to the files.
type diffEdits struct {
	labels, taints, drained, lost, numbers, removed []string
}

func (d *diffEdits) add(cmd *cobra.Command, hub *hubFlags) {
	flags := cmd.Flags()
	flags.StringArrayVar(&d.labels, "label", nil, "label of a cluster, as CLUSTER:KEY=VALUE, or CLUSTER:KEY- to remove it; repeatable")
	flags.StringArrayVar(&d.taints, "taint", nil, "taint of a cluster, as CLUSTER:KEY[=VALUE]:EFFECT, or CLUSTER:KEY[:EFFECT]- to remove it; repeatable")
	flags.StringArrayVar(&d.drained, "drain", nil, "cluster to drain; repeatable")
	flags.StringArrayVar(&d.lost, "lose", nil, "clusters to lose, by label:KEY=VALUE or claim:NAME=VALUE; repeatable")
	flags.StringArrayVar(&d.numbers, "number", nil, "numberOfClusters, as [NAMESPACE/]NAME=NUMBER or =all; repeatable")
	flags.StringArrayVar(&d.removed, "remove", nil, "object to delete, as TYPE/NAME; repeatable")
	complete(cmd, "label", hub.completeClusterEdits)
	complete(cmd, "taint", hub.completeClusterEdits)
	complete(cmd, "drain", hub.completeClusters)
}

func (d *diffEdits) any() bool {
	return len(d.labels)+len(d.taints)+len(d.drained)+len(d.lost)+len(d.numbers)+len(d.removed) > 0
}

// all returns the edits; namespace is that of names without one.
func (d *diffEdits) all(namespace string) ([]simulator.Edit, error) {
	var edits []simulator.Edit
	for _, flag := range []struct {
		name  string
		texts []string
		read  func(text, namespace string) (edit simulator.Edit, form string)
	}{
		{"label", d.labels, labelEdit}, {"taint", d.taints, taintEdit}, {"drain", d.drained, drainEdit},
		{"lose", d.lost, loseEdit}, {"number", d.numbers, numberEdit}, {"remove", d.removed, removeEdit},
	} {
		for _, text := range flag.texts {
			edit, form := flag.read(text, namespace)
			if form != "" {
				return nil, usagef("--%s: %q is %s", flag.name, text, form)
			}
			if err := edit.Check(); err != nil {
				return nil, usagef("--%s: %q: %w", flag.name, text, err)
			}
			if edit.Cluster != "" {
				var err error
				if edit.Cluster, err = clusterName(flag.name, edit.Cluster); err != nil {
					return nil, err
				}
			}
			edits = append(edits, edit)
		}
	}
	return edits, nil
}

// labelEdit reads CLUSTER:KEY=VALUE or CLUSTER:KEY-.
func labelEdit(text, _ string) (edit simulator.Edit, form string) {
	cluster, label, found := strings.Cut(text, ":")
	key, value, sets := strings.Cut(label, "=")
	if !sets {
		var removes bool
		key, removes = strings.CutSuffix(label, "-")
		found = found && removes
	}
	if !found || cluster == "" || key == "" {
		return edit, "neither CLUSTER:KEY=VALUE nor CLUSTER:KEY-"
	}
	return simulator.Edit{Kind: simulator.EditLabel, Cluster: cluster, Key: key, Value: value, Remove: !sets}, ""
}

// taintEdit reads CLUSTER:KEY[=VALUE]:EFFECT or CLUSTER:KEY[:EFFECT]-.
func taintEdit(text, _ string) (edit simulator.Edit, form string) {
	cluster, rest, found := strings.Cut(text, ":")
	rest, removes := strings.CutSuffix(rest, "-")
	pair, effect, hasEffect := strings.Cut(rest, ":")
	key, value, _ := strings.Cut(pair, "=")
	if !found || cluster == "" || key == "" || !removes && !hasEffect || hasEffect && effect == "" {
		return edit, "neither CLUSTER:KEY[=VALUE]:EFFECT nor CLUSTER:KEY[:EFFECT]-"
	}
	return simulator.Edit{Kind: simulator.EditTaint, Cluster: cluster, Key: key, Value: value, Effect: effect, Remove: removes}, ""
}

func drainEdit(text, _ string) (edit simulator.Edit, form string) {
	if text == "" {
		return edit, "not the name of a cluster"
	}
	return simulator.Edit{Kind: simulator.EditDrain, Cluster: text}, ""
}

// loseEdit reads label:KEY=VALUE or claim:NAME=VALUE.
func loseEdit(text, _ string) (edit simulator.Edit, form string) {
	key, value, found := strings.Cut(text, "=")
	if !found || !strings.Contains(key, ":") || value == "" {
		return edit, "neither label:KEY=VALUE nor claim:NAME=VALUE"
	}
	return simulator.Edit{Kind: simulator.EditLose, Key: key, Value: value}, ""
}

// numberEdit reads [NAMESPACE/]NAME=NUMBER.
func numberEdit(text, namespace string) (edit simulator.Edit, form string) {
	name, number, found := strings.Cut(text, "=")
	edit = simulator.Edit{Kind: simulator.EditNumber, Placement: name}
	n, err := strconv.ParseInt(number, 10, 32)
	if !found || name == "" || err != nil && number != "all" {
		return edit, "neither [NAMESPACE/]NAME=NUMBER nor [NAMESPACE/]NAME=all"
	}
	if err == nil {
		edit.Number = new(int32(n))
	}
	if !strings.Contains(name, "/") {
		edit.Placement = namespace + "/" + name
	}
	return edit, ""
}

// removeEdit reads TYPE/NAME.
func removeEdit(text, namespace string) (edit simulator.Edit, form string) {
	word, name, _ := strings.Cut(text, "/")
	kind, known := kinds.Named(word)
	if !known || name == "" {
		return edit, "not TYPE/NAME; the types are " + strings.Join(kinds.Names(), ", ")
	}
	edit = simulator.Edit{Kind: simulator.EditRemove, Type: kind.Name, Name: name}
	if kind.Namespaced {
		// Before the hub is asked, any namespace will do.
		if namespace == "" {
			namespace = "default"
		}
		edit.Name = namespace + "/" + name
	}
	return edit, ""
}
