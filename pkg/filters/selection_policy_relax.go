package filters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Relax returns the changes of the policy, and for each tier and group the labels and claims, with
// which the cluster could be selected.
func (p *SelectionPolicy) Relax(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	policy, c := state.Snapshot().Subject.SelectionPolicy(), p.compiled[nameOf(pl)]
	if policy == nil || c == nil {
		return nil
	}
	var all []framework.Relaxation
	change := func(text string, edit func(*berthv1alpha1.SelectionPolicySpec)) {
		changed := policy.DeepCopy()
		edit(&changed.Spec)
		all = append(all, framework.Relaxation{Text: "SelectionPolicy " + text, Policy: changed})
	}
	switch {
	case c.exclude[cluster.Name]:
		change("without "+cluster.Name+" in clusterNames.exclude", func(spec *berthv1alpha1.SelectionPolicySpec) {
			spec.ClusterNames.Exclude = slices.DeleteFunc(spec.ClusterNames.Exclude, func(name string) bool { return name == cluster.Name })
		})
	case c.nameProblem(cluster.Name) != "":
		change("with "+cluster.Name+" in clusterNames.include", func(spec *berthv1alpha1.SelectionPolicySpec) {
			spec.ClusterNames.Include = append(spec.ClusterNames.Include, cluster.Name)
		})
	}
	for _, s := range c.tiers {
		all = append(all, s.predicates[0].moveInto(ctx, state.Snapshot(), cluster)...)
	}
	for i, s := range c.groups {
		g := &c.spec.Groups[i]
		if _, most := g.Bounds(); most >= 0 && s.predicates[0].mismatch(ctx, state.Snapshot(), cluster) == "" {
			field, next := "max", new(int32(most+1))
			if g.Count != nil {
				field = "count"
			}
			change(fmt.Sprintf("with %s %d for group %s", field, *next, g.Name), func(spec *berthv1alpha1.SelectionPolicySpec) {
				if g.Count != nil {
					spec.Groups[i].Count = next
				} else {
					spec.Groups[i].Max = next
				}
			})
			break
		}
	}
	return all
}

// moveInto returns the change of labels and claims with which the selector matches a cluster; none
// if it matches already, or if no such change is known.
func (p *predicate) moveInto(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) []framework.Relaxation {
	changed, texts, ok := p.satisfied(cluster)
	if !ok || len(texts) == 0 {
		return nil
	}
	for _, e := range p.expressions {
		if matched, _, err := matchesCEL(ctx, e, snapshot, changed, false); err != nil || !matched {
			return nil
		}
	}
	return []framework.Relaxation{{Text: strings.Join(texts, " and "), Cluster: changed}}
}
