package filters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Relax returns, for each predicate, the requirements to remove from it; then the labels and claims
// that the cluster would need, with the CEL expressions to remove.
func (p *Predicate) Relax(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	c := p.of(state.Snapshot())
	if c == nil {
		// Another explanation of the Placement has ended, and its compiled form is dropped.
		return nil
	}
	type costed struct {
		framework.Relaxation
		cost int
	}
	var relaxations []framework.Relaxation
	for _, change := range []func(*predicate, context.Context, *framework.Snapshot, *v1alpha1.Placement, int, *framework.Cluster) (framework.Relaxation, int, bool){
		(*predicate).loosen, (*predicate).relax,
	} {
		var found []costed
		for i := range c.predicates {
			r, cost, ok := change(&c.predicates[i], ctx, state.Snapshot(), pl, i, cluster)
			if ok && cost > 0 {
				found = append(found, costed{r, cost})
			}
		}
		sort.SliceStable(found, func(i, j int) bool { return found[i].cost < found[j].cost })
		for _, f := range found {
			relaxations = append(relaxations, f.Relaxation)
		}
	}
	return relaxations
}

// loosen returns the requirements of predicate i that the cluster does not meet, to remove, and
// their number. It returns false if there are none.
func (p *predicate) loosen(ctx context.Context, snapshot *framework.Snapshot, pl *v1alpha1.Placement, i int, cluster *framework.Cluster) (framework.Relaxation, int, bool) {
	changed := pl.DeepCopy()
	selector := &changed.Spec.Predicates[i].RequiredClusterSelector
	byLabel := unmet(&selector.LabelSelector, cluster.Labels, "label")
	claims := metav1.LabelSelector{MatchExpressions: selector.ClaimSelector.MatchExpressions}
	byClaim := unmet(&claims, cluster.Claims, "claim")
	selector.ClaimSelector.MatchExpressions = claims.MatchExpressions
	kept, byCEL := p.metExpressions(ctx, snapshot, cluster)
	selector.CelSelector.CelExpressions = kept
	texts := append(byLabel, byClaim...)
	for at := range texts {
		if len(pl.Spec.Predicates) > 1 {
			texts[at] = fmt.Sprintf("predicates[%d] %s", i, texts[at])
		} else {
			texts[at] = "predicate " + texts[at]
		}
	}
	texts = append(texts, byCEL...)
	return framework.Relaxation{Text: strings.Join(texts, " and "), Placement: changed}, len(texts), true
}

// unmet removes the requirements of a selector that the values do not meet. It returns a text for
// each key.
func unmet(selector *metav1.LabelSelector, have map[string]string, kind string) []string {
	keys := map[string]bool{}
	maps.DeleteFunc(selector.MatchLabels, func(key, value string) bool {
		has, ok := have[key]
		if !ok || has != value {
			keys[key] = true
		}
		return keys[key]
	})
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		one, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
		fails := err == nil && !one.Matches(labels.Set(have))
		if fails {
			keys[e.Key] = true
		}
		return fails
	})
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		texts = append(texts, fmt.Sprintf("without %s %s", kind, key))
	}
	return texts
}

// metExpressions returns the CEL expressions that are true for the cluster, and a text for each
// other one.
func (p *predicate) metExpressions(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) (kept, texts []string) {
	for _, e := range p.expressions {
		if ok, _, err := matchesCEL(ctx, e, snapshot, cluster, false); err == nil && ok {
			kept = append(kept, e.Text())
			continue
		}
		texts = append(texts, fmt.Sprintf("without CEL %q", e.Text()))
	}
	return kept, texts
}

// relax returns the changes of the cluster for predicate i, with the CEL expressions to remove, and
// their number, the cost. It returns false if the cluster needs no change.
func (p *predicate) relax(ctx context.Context, snapshot *framework.Snapshot, pl *v1alpha1.Placement, i int, cluster *framework.Cluster) (framework.Relaxation, int, bool) {
	changed, texts, ok := p.satisfied(cluster)
	if !ok || len(texts) == 0 {
		return framework.Relaxation{}, 0, false
	}
	r := framework.Relaxation{Cluster: changed}
	kept, byCEL := p.metExpressions(ctx, snapshot, changed)
	texts = append(texts, byCEL...)
	if len(kept) < len(p.expressions) {
		r.Placement = pl.DeepCopy()
		r.Placement.Spec.Predicates[i].RequiredClusterSelector.CelSelector.CelExpressions = kept
	}
	r.Text = strings.Join(texts, " and ")
	return r, len(texts), true
}

// satisfied returns the cluster with the fewest changes of labels and claims that make the
// selectors match, and a text for each change. It returns false if there are none.
func (p *predicate) satisfied(cluster *framework.Cluster) (*framework.Cluster, []string, bool) {
	byLabel, textsL, okL := satisfy(p.labels, cluster.Labels, "label")
	byClaim, textsC, okC := satisfy(p.claims, cluster.Claims, "claim")
	if !okL || !okC {
		return nil, nil, false
	}
	texts := append(textsL, textsC...)
	if len(texts) == 0 {
		return cluster, nil, true
	}
	object := *cluster.ManagedCluster
	object.Labels = byLabel
	changed := cluster.Changed(&object)
	changed.Claims = byClaim
	object.Status.ClusterClaims = nil
	for _, name := range slices.Sorted(maps.Keys(byClaim)) {
		object.Status.ClusterClaims = append(object.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: name, Value: byClaim[name]})
	}
	return changed, texts, true
}

// satisfy returns the values with the fewest changes that make a selector match, and a text for
// each change. It returns false if the selector can never match or selects by the cluster set
// label.
func satisfy(selector labels.Selector, have map[string]string, kind string) (map[string]string, []string, bool) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, nil, false
	}
	values := maps.Clone(have)
	if values == nil {
		values = map[string]string{}
	}
	var texts []string
	for _, r := range requirements {
		if r.Matches(labels.Set(values)) {
			continue
		}
		if r.Key() == v1alpha1.ClusterSetLabel {
			return nil, nil, false
		}
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			values[r.Key()] = slices.Sorted(maps.Keys(r.Values()))[0]
			texts = append(texts, fmt.Sprintf("cluster %s %s=%s", kind, r.Key(), values[r.Key()]))
		case selection.Exists:
			values[r.Key()] = "true"
			texts = append(texts, fmt.Sprintf("cluster %s %s=true", kind, r.Key()))
		default:
			delete(values, r.Key())
			texts = append(texts, fmt.Sprintf("no cluster %s %s", kind, r.Key()))
		}
	}
	// Requirements on one key may contradict each other.
	return values, texts, selector.Matches(labels.Set(values))
}
