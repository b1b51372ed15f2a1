package generator

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
)

// maxExpressions is the number of CEL expressions in the tiers of one policy.
const maxExpressions = 64

// tiers are the compiled tiers of a SelectionPolicy, in their order.
type tiers []tier

type tier struct {
	name           string
	labels, claims labels.Selector
	expressions    []*clustercel.Expression
}

// compileTiers returns no tiers without a policy, and for one with a mistake: the Placement then
// keeps clusters that an earlier policy selected.
func compileTiers(policy *berthv1alpha1.SelectionPolicy) tiers {
	if policy == nil {
		return nil
	}
	var all tiers
	count, path := 0, field.NewPath("spec", "tiers")
	for i := range policy.Spec.Tiers {
		spec := &policy.Spec.Tiers[i]
		t := tier{name: spec.Name}
		var mistake *field.Error
		if t.labels, mistake = v1alpha1.CompileSelector(&spec.ClusterSelector.LabelSelector, path); mistake != nil {
			return nil
		}
		if t.claims, mistake = spec.ClusterSelector.ClaimSelector.Compile(path); mistake != nil {
			return nil
		}
		for _, text := range spec.ClusterSelector.CelSelector.CelExpressions {
			if count++; count > maxExpressions {
				return nil
			}
			expression, err := clustercel.Compile(text)
			if err != nil {
				return nil
			}
			t.expressions = append(t.expressions, expression)
		}
		all = append(all, t)
	}
	return all
}

// of returns the name of the first tier that matches a cluster; empty if none does, and if an
// expression asks for scores, which are not known here.
func (all tiers) of(ctx context.Context, cluster *v1alpha1.ManagedCluster) string {
	claims := labels.Set{}
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	var object map[string]any
	for i := range all {
		t := &all[i]
		if !t.labels.Matches(labels.Set(cluster.Labels)) || !t.claims.Matches(claims) {
			continue
		}
		if len(t.expressions) == 0 {
			return t.name
		}
		if object == nil {
			var err error
			if object, err = clustercel.Render(cluster); err != nil {
				return ""
			}
		}
		switch matched, known := t.matches(ctx, cluster.Name, object); {
		case !known:
			return ""
		case matched:
			return t.name
		}
	}
	return ""
}

// matches evaluates the expressions of a tier. known is false if they ask for scores, and at the
// end of ctx.
func (t *tier) matches(ctx context.Context, name string, object map[string]any) (matched, known bool) {
	known = true
	for _, e := range t.expressions {
		ok, _, err := e.Matches(ctx, &clustercel.Cluster{Name: name, Object: object, Scores: func(string) *v1alpha1.AddOnPlacementScore {
			known = false
			return nil
		}})
		if !known || ctx.Err() != nil {
			return false, false
		}
		if err != nil || !ok {
			return false, true
		}
	}
	return true, true
}
