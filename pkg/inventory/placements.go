package inventory

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// placement is a Placement and what it looks at.
type placement struct {
	key    Key
	object *v1alpha1.Placement
	reads  reads
	// kind is the same for all that read the same.
	kind    string
	subject *framework.Subject
	// last is what was published last; nil while nothing is.
	last *framework.Published
	// cause is what triggered the next attempt; empty if nothing did. causeSequence is its number.
	cause         string
	causeSequence int64
}

// wants says whether the Placement uses the set once it is bound.
func (p *placement) wants(set string) bool {
	return len(p.object.Spec.ClusterSets) == 0 || slices.Contains(p.object.Spec.ClusterSets, set)
}

// reads says which properties of a cluster a Placement's answer depends on. Taints and membership
// it always does.
type reads struct {
	labels, claims map[string]bool
	cpu, memory    bool
	// scores are the names of the AddOnPlacementScores it weighs.
	scores map[string]bool
	// everything is what an expression may read, scores included.
	everything bool
}

func (r *reads) touchedBy(d difference) bool {
	return d.membership || d.taints || r.everything && d.anything || r.cpu && d.cpu || r.memory && d.memory ||
		intersect(r.labels, d.labels) || intersect(r.claims, d.claims)
}

func intersect(a, b map[string]bool) bool {
	for k := range b {
		if a[k] {
			return true
		}
	}
	return false
}

// readsOf looks through a spec. A spec that is misconfigured reads nothing wrong: it waits for its
// own edit.
func readsOf(spec *v1alpha1.PlacementSpec) reads {
	r := reads{labels: map[string]bool{}, claims: map[string]bool{}, scores: map[string]bool{}}
	for _, p := range spec.Predicates {
		s := p.RequiredClusterSelector
		r.selector(s.LabelSelector, s.ClaimSelector)
		r.everything = r.everything || len(s.CelSelector.CelExpressions) > 0
	}
	for _, g := range spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		r.selector(g.ClusterSelector.LabelSelector, g.ClusterSelector.ClaimSelector)
	}
	for _, c := range spec.SpreadPolicy.SpreadConstraints {
		if c.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
			r.claims[c.TopologyKey] = true
		} else {
			r.labels[c.TopologyKey] = true
		}
	}
	for _, c := range spec.PrioritizerPolicy.Configurations {
		coordinate := c.ScoreCoordinate
		if coordinate == nil {
			continue
		}
		r.cpu = r.cpu || coordinate.BuiltIn == v1alpha1.PrioritizerResourceAllocatableCPU
		r.memory = r.memory || coordinate.BuiltIn == v1alpha1.PrioritizerResourceAllocatableMemory
		if coordinate.AddOn != nil {
			r.scores[coordinate.AddOn.ResourceName] = true
		}
	}
	return r
}

func (r *reads) add(more framework.Reads) {
	for _, k := range more.Labels {
		r.labels[k] = true
	}
	for _, k := range more.Claims {
		r.claims[k] = true
	}
	for _, k := range more.Scores {
		r.scores[k] = true
	}
	r.cpu, r.memory, r.everything = r.cpu || more.CPU, r.memory || more.Memory, r.everything || more.Everything
}

func (r *reads) selector(byLabel metav1.LabelSelector, byClaim v1alpha1.ClusterClaimSelector) {
	for k := range byLabel.MatchLabels {
		r.labels[k] = true
	}
	for _, e := range byLabel.MatchExpressions {
		r.labels[e.Key] = true
	}
	for _, e := range byClaim.MatchExpressions {
		r.claims[e.Key] = true
	}
}

func (inv *Inventory) updatePlacement(object *v1alpha1.Placement, woken wakeSet) {
	key := Key{Namespace: object.Namespace, Name: object.Name}
	old := inv.placements[key]
	if old != nil && older(object, old.object) {
		return
	}
	if old != nil && old.object.UID == object.UID && sameQuestion(old.object, object) {
		// A status write, most often Berth's own: remembered, asked for nothing.
		old.object, old.subject = object, nil
		return
	}
	inv.what = "created"
	var last *framework.Published
	if old != nil {
		inv.what = edited(old.object, object)
		if old.object.UID == object.UID {
			last = old.last
		}
		inv.deletePlacement(key)
	}
	p := &placement{last: last, key: key, object: object, reads: readsOf(&object.Spec)}
	if inv.options.Reads != nil {
		p.reads.add(inv.options.Reads(object))
	}
	p.kind = p.reads.String()
	inv.placements[key] = p
	if inv.byNamespace[key.Namespace] == nil {
		inv.byNamespace[key.Namespace] = map[Key]*placement{}
	}
	inv.byNamespace[key.Namespace][key] = p
	for set := range inv.bindings[key.Namespace] {
		if p.wants(set) {
			inv.view(set, p, true)
		}
	}
	woken[key] = true
}

func (inv *Inventory) deletePlacement(key Key) {
	p := inv.placements[key]
	if p == nil {
		return
	}
	for set := range inv.bindings[key.Namespace] {
		inv.view(set, p, false)
	}
	delete(inv.placements, key)
	delete(inv.byNamespace[key.Namespace], key)
	if len(inv.byNamespace[key.Namespace]) == 0 {
		delete(inv.byNamespace, key.Namespace)
	}
}

// edited says what differs between two states of a Placement.
func edited(old, object *v1alpha1.Placement) string {
	switch {
	case old.UID != object.UID:
		return "created"
	case !equality.Semantic.DeepEqual(old.Spec, object.Spec):
		return "spec"
	case old.DeletionTimestamp.IsZero() != object.DeletionTimestamp.IsZero():
		return "deleted"
	case !equality.Semantic.DeepEqual(old.Labels, object.Labels):
		return "labels"
	}
	return "annotations"
}

// sameQuestion says whether two states of a Placement ask for the same.
func sameQuestion(a, b *v1alpha1.Placement) bool {
	return a.Generation == b.Generation && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
