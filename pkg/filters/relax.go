package filters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Relax returns, for each predicate, the labels and claims that the cluster would need and the CEL
// expressions to remove.
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
	var found []costed
	for i := range c.predicates {
		r, cost, ok := c.predicates[i].relax(ctx, state.Snapshot(), pl, i, cluster)
		if ok && cost > 0 {
			found = append(found, costed{r, cost})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].cost < found[j].cost })
	relaxations := make([]framework.Relaxation, len(found))
	for i, f := range found {
		relaxations[i] = f.Relaxation
	}
	return relaxations
}

// relax returns the changes for predicate i and their number, the cost.
func (p *predicate) relax(ctx context.Context, snapshot *framework.Snapshot, pl *v1alpha1.Placement, i int, cluster *framework.Cluster) (framework.Relaxation, int, bool) {
	changed, texts, ok := p.satisfied(cluster)
	if !ok {
		return framework.Relaxation{}, 0, false
	}
	r := framework.Relaxation{}
	if len(texts) > 0 {
		r.Cluster = changed
	}
	var kept []string
	for _, e := range p.expressions {
		if ok, _, err := matchesCEL(ctx, e, snapshot, changed, false); err == nil && ok {
			kept = append(kept, e.Text())
			continue
		}
		texts = append(texts, fmt.Sprintf("without CEL %q", e.Text()))
	}
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
			texts = append(texts, fmt.Sprintf("%s %s=%s", kind, r.Key(), values[r.Key()]))
		case selection.Exists:
			values[r.Key()] = "true"
			texts = append(texts, fmt.Sprintf("%s %s=true", kind, r.Key()))
		default:
			delete(values, r.Key())
			texts = append(texts, fmt.Sprintf("no %s %s", kind, r.Key()))
		}
	}
	// Requirements on one key may contradict each other.
	return values, texts, selector.Matches(labels.Set(values))
}
