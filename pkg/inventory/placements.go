package inventory

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// placement is a Placement with the cluster properties that its decision depends on.
type placement struct {
	key    Key
	object *v1alpha1.Placement
	reads  reads
	// readsKey is the key of the readerGroup.
	readsKey readsKey
	subject  *framework.Subject
	// disruption is nil if it is not known.
	disruption *disruption
	claim      claim
	// last is the last published decision; nil before the first one, and until it is read.
	last *framework.Published
	// delegated is true while other writers own the pages. before are the clusters that Berth had
	// published until then.
	delegated bool
	before    []string
	// specBefore is the spec that was published last, after an edit; nil if the present one was, or
	// if it is not known.
	specBefore *framework.SpecBefore
	// edits are the edits of pages by others that no attempt has seen, by page. The map is never
	// changed.
	edits map[string]framework.PageEdit
	// cause is the trigger of the next attempt; empty without one. causeSequence is the number of
	// its event.
	cause         string
	causeSequence int64
	// settled is what is needed to skip attempts that cannot change the answer; nil if each must
	// run. affectedAt is the number of the last event after which it must. survived is the last
	// change of a cluster (event of the inventory) that settled allows to skip.
	settled              *framework.Settled
	affectedAt, survived int64
	settledCheck         bool
	// corrections are the attempts that only a status which Berth did not write has started, since
	// an event of another kind did.
	corrections int
}

// wants is true if the Placement uses the set once it is bound.
func (p *placement) wants(set string) bool {
	return len(p.object.Spec.ClusterSets) == 0 || slices.Contains(p.object.Spec.ClusterSets, set)
}

// reads are the properties of a cluster that a Placement's decision depends on, in addition to
// taints and set membership.
type reads struct {
	labels, claims map[string]bool
	cpu, memory    bool
	// resources are those whose allocatable amount it uses.
	resources map[string]bool
	// scores are the names of the AddOnPlacementScores that it uses.
	scores map[string]bool
	// everything is true if a CEL expression may read any property, including scores.
	everything bool
}

func (r *reads) dependsOn(d difference) bool {
	return d.membership || d.taints || r.everything && d.anything || r.cpu && d.cpu || r.memory && d.memory ||
		intersect(r.labels, d.labels) || intersect(r.claims, d.claims) || intersect(r.resources, d.resources)
}

func intersect(a, b map[string]bool) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	for k := range b {
		if a[k] {
			return true
		}
	}
	return false
}

// readsOf returns what a spec reads. Invalid parts of a spec add nothing: only an edit of the spec
// can make them valid.
func readsOf(spec *v1alpha1.PlacementSpec) reads {
	r := reads{labels: map[string]bool{}, claims: map[string]bool{}, scores: map[string]bool{}, resources: map[string]bool{}}
	for _, p := range spec.Predicates {
		r.clusterSelector(&p.RequiredClusterSelector)
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

func (r *reads) clusterSelector(s *v1alpha1.ClusterSelector) {
	r.selector(s.LabelSelector, s.ClaimSelector)
	r.everything = r.everything || len(s.CelSelector.CelExpressions) > 0
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

func (inv *Inventory) updatePlacement(object *v1alpha1.Placement, e *event) {
	key := nameOf(object)
	old := inv.placements[key]
	if old != nil && older(object, old.object) {
		return
	}
	if old != nil && old.object.UID == object.UID && sameForDecisions(old.object, object) {
		inv.statusUpdated(object, key, e, old.object.Status, object.Status)
		inv.setStatus(old, object)
		return
	}
	inv.addObject(object)
	e.changed = "created"
	p, delegated := &placement{key: key, object: object}, delegates(old, object)
	if old == nil {
		inv.countPages(key, -1)
	} else {
		e.changed = edited(old.object, object)
		if old.object.UID == object.UID {
			p.last, p.delegated, p.before = old.last, old.delegated, old.before
			p.specBefore = specBefore(old, object)
			if !delegated {
				p.edits = old.edits
			}
		} else {
			inv.forgetPublished(old)
			inv.setReserved(old, nil, false)
		}
		p.claim = old.claim
		inv.removePlacement(old)
	}
	inv.updateReads(p)
	if inv.placements[key] = p; p.last == nil {
		inv.unread[key] = struct{}{}
	}
	if old == nil {
		inv.countPages(key, 1)
	}
	inv.setDelegated(p, delegated)
	inv.updateTarget(key)
	inv.byNamespace.set(key.Namespace, key, p)
	inv.setReaders(p, true)
	e.affected.add(key)
	inv.placementChanged(key)
}

// specBefore returns the spec for which the published clusters of a Placement were decided, given
// an edited state of it; nil if it is not known. Until the generation of the published clusters is
// known, it is the oldest one since the start.
func specBefore(old *placement, object *v1alpha1.Placement) *framework.SpecBefore {
	published := int64(0)
	if old.last != nil {
		published = old.last.Generation
	}
	switch before := old.specBefore; {
	case before != nil && (published == 0 || published == before.Generation):
		return before
	case old.object.Generation != object.Generation && (published == 0 || published == old.object.Generation):
		return &framework.SpecBefore{Generation: old.object.Generation, Spec: &old.object.Spec}
	}
	return nil
}

// removePlacement removes a Placement; its claim still counts.
func (inv *Inventory) removePlacement(p *placement) {
	inv.setReaders(p, false)
	delete(inv.placements, p.key)
	inv.byNamespace.remove(p.key.Namespace, p.key)
}

// forgetPublished ends what a Placement has published.
func (inv *Inventory) forgetPublished(p *placement) {
	inv.setLast(p, nil)
	inv.endLanded(p)
}

// edited names the first part in which two states of a Placement differ.
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
	revision, pinned := object.Annotations[berthv1alpha1.PinnedRevisionAnnotation]
	before, was := old.Annotations[berthv1alpha1.PinnedRevisionAnnotation]
	switch {
	case pinned && revision != before:
		return "pinned to revision " + revision
	case was && !pinned:
		return "unpinned"
	}
	return "annotations"
}

// sameForDecisions is true if two states of a Placement differ only in what decisions do not
// depend on, such as the status.
func sameForDecisions(a, b *v1alpha1.Placement) bool {
	return a.Generation == b.Generation && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
