package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// selectionPolicy is a SelectionPolicy with its compiled affinity.
type selectionPolicy struct {
	object          *berthv1alpha1.SelectionPolicy
	with, apartFrom []affinityTerm
}

// affinityTerm is one term of an affinity. Its selector is nil for a term with a name. cost is the
// number of requirements that a Placement is compared with, at least 1.
type affinityTerm struct {
	path      string
	placement string
	selector  labels.Selector
	cost      int
}

// sameTerms reports whether both are of the same state of a policy.
func sameTerms(a, b []affinityTerm) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// names reports whether the term names a Placement.
func (t *affinityTerm) names(p *placement) bool {
	if t.selector == nil {
		return t.placement == p.key.Name
	}
	return t.selector.Matches(labels.Set(p.object.Labels))
}

// termFor returns the path of the first term that names a Placement; empty if none does.
func termFor(terms []affinityTerm, p *placement) string {
	for i := range terms {
		if terms[i].names(p) {
			return terms[i].path
		}
	}
	return ""
}

// relation is how an affinity names a Placement.
type relation struct{ with, apart bool }

// relationTo returns how the affinity names a Placement; p may be nil.
func (s *selectionPolicy) relationTo(p *placement) relation {
	if p == nil {
		return relation{}
	}
	return relation{termFor(s.with, p) != "", termFor(s.apartFrom, p) != ""}
}

func (s *selectionPolicy) hasAffinity() bool { return len(s.with)+len(s.apartFrom) > 0 }

// hasTiers reports whether the policy of a Placement has tiers, which depend on how many clusters
// qualify.
func (t *selectionTable) hasTiers(placement Key) bool {
	for _, s := range t.byPlacement[placement] {
		if len(s.object.Spec.Tiers) > 0 {
			return true
		}
	}
	return false
}

// dependsOnClaims reports whether decisions depend on the clusters that Placements have.
func (s *selectionPolicy) dependsOnClaims() bool {
	return s.hasAffinity() || len(s.object.Spec.Requests) > 0
}

// clusterNames are the names of clusters in the policy. status.unknownNames depends on which of
// them are in bound sets.
func (s *selectionPolicy) clusterNames() []string {
	return slices.Concat(s.object.Spec.ClusterNames.Include, s.object.Spec.ClusterNames.Exclude)
}

// addNaming adds the Placements with a policy that names a cluster, which joined or left a set that
// is bound to their namespace.
func (inv *Inventory) addNaming(cluster, set string, affected affectedSet) {
	for s := range inv.selections.naming[cluster].all {
		_, placement := selectionKeys(s.object)
		if inv.bindings[placement.Namespace][set] && inv.placements[placement] != nil {
			affected.add(placement)
		}
	}
}

func newSelectionPolicy(object *berthv1alpha1.SelectionPolicy) *selectionPolicy {
	tooMany := object.Spec.Affinity.Requirements() > berthv1alpha1.MaxAffinityRequirements
	compile := func(list string, references []berthv1alpha1.PlacementReference) []affinityTerm {
		var terms []affinityTerm
		for i := range references {
			t := affinityTerm{path: fmt.Sprintf("spec.affinity.%s[%d]", list, i), placement: references[i].Placement, cost: 1}
			if s := references[i].PlacementSelector; s != nil {
				t.cost = max(1, len(s.MatchLabels)+len(s.MatchExpressions))
				var invalid *field.Error
				t.selector, invalid = v1alpha1.CompileSelector(s, nil)
				if invalid != nil || tooMany || max(len(s.MatchLabels), len(s.MatchExpressions)) > berthv1alpha1.MaxPlacementRequirements {
					// The plugin reports an invalid selector. It names no Placement.
					t.selector, t.cost = labels.Nothing(), 1
				}
			}
			terms = append(terms, t)
		}
		return terms
	}
	return &selectionPolicy{object, compile("with", object.Spec.Affinity.With), compile("apartFrom", object.Spec.Affinity.ApartFrom)}
}

// selectionTable holds the SelectionPolicies by the Placement that they name, which need not exist,
// and then by name.
type selectionTable struct {
	byOwner[*selectionPolicy]
	// dependent counts the policies of each namespace that depend on claims.
	dependent map[string]int
	// affinities are the policies with affinity of Placements with one policy, by namespace.
	affinities nested[string, Key, *selectionPolicy]
	// naming holds the policies that name a cluster in clusterNames, by the cluster's name.
	naming map[string]few[*selectionPolicy]
}

func selectionKeys(object *berthv1alpha1.SelectionPolicy) (own, placement Key) {
	return nameOf(object), Key{Namespace: object.Namespace, Name: object.Spec.Placement}
}

// of returns the policies of a Placement, sorted by name.
func (t *selectionTable) of(placement Key) []*selectionPolicy {
	return slices.SortedFunc(maps.Values(t.byPlacement[placement]), func(a, b *selectionPolicy) int { return cmp.Compare(a.object.Name, b.object.Name) })
}

// objects is of, as objects.
func (t *selectionTable) objects(placement Key) (all []*berthv1alpha1.SelectionPolicy) {
	for _, s := range t.of(placement) {
		all = append(all, s.object)
	}
	return all
}

// affinityOf returns the policy of a Placement if it has affinity; otherwise nil.
func (t *selectionTable) affinityOf(placement Key) *selectionPolicy {
	return t.affinities[placement.Namespace][placement]
}

// updateAffinity stores affinityOf after a change of the policies of a Placement.
func (t *selectionTable) updateAffinity(placement Key) {
	t.affinities.remove(placement.Namespace, placement)
	for _, s := range t.byPlacement[placement] {
		if len(t.byPlacement[placement]) == 1 && s.hasAffinity() {
			t.affinities.set(placement.Namespace, placement, s)
		}
	}
}

func (t *selectionTable) store(s *selectionPolicy) {
	key, placement := selectionKeys(s.object)
	t.set(key, placement, s)
	t.updateAffinity(placement)
	if s.dependsOnClaims() {
		t.dependent[key.Namespace]++
	}
	for _, name := range s.clusterNames() {
		addTo(t.naming, name, s)
	}
}

func (t *selectionTable) drop(s *selectionPolicy) {
	key, placement := selectionKeys(s.object)
	t.remove(key, placement)
	t.updateAffinity(placement)
	if s.dependsOnClaims() {
		if t.dependent[key.Namespace]--; t.dependent[key.Namespace] == 0 {
			delete(t.dependent, key.Namespace)
		}
	}
	for _, name := range s.clusterNames() {
		removeFrom(t.naming, name, s)
	}
}

// updateSelection affects the Placement that the policy names, and the one that it named before.
// Neither needs to exist: the reconciliation then reports that in the policy's status.
func (inv *Inventory) updateSelection(object *berthv1alpha1.SelectionPolicy, e *event) {
	key, placement := selectionKeys(object)
	old := inv.selections.byName[key]
	if old != nil && older(object, old.object) {
		return
	}
	if old == nil || !sameVersion(old.object, object) {
		inv.addObject(object)
	}
	e.changed = "spec"
	switch {
	case old == nil:
	case sameSelection(old.object, object):
		inv.statusUpdated(object, placement, e, old.object.Status, object.Status)
		old.object = object
		inv.dropSubject(placement)
		return
	default:
		inv.selections.drop(old)
		if _, before := selectionKeys(old.object); before != placement {
			inv.selectionChanged(before, e.affected)
		}
	}
	inv.selections.store(newSelectionPolicy(object))
	inv.selectionChanged(placement, e.affected)
}

// sameSelection reports whether two states of a policy differ only in the status and metadata that
// no decision depends on.
func sameSelection(a, b *berthv1alpha1.SelectionPolicy) bool {
	return a.UID == b.UID && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() && a.Annotations[berthv1alpha1.FailbackRequestedAnnotation] == b.Annotations[berthv1alpha1.FailbackRequestedAnnotation] &&
		a.Spec.Equal(&b.Spec)
}

func (inv *Inventory) deleteSelection(object *berthv1alpha1.SelectionPolicy, e *event) {
	if old := inv.selections.byName[nameOf(object)]; old != nil && old.object.UID == object.UID {
		inv.addDeleted(old.object)
		_, placement := selectionKeys(old.object)
		inv.selections.drop(old)
		inv.selectionChanged(placement, e.affected)
	}
}

// selectionChanged processes a policy of a Placement that was added, changed or removed.
func (inv *Inventory) selectionChanged(placement Key, affected affectedSet) {
	if p := inv.placements[placement]; p != nil {
		p.subject = nil
		inv.setReaders(p, false)
		inv.updateReads(p)
		inv.setReaders(p, true)
	}
	affected.add(placement)
	inv.holdings.policyChanged(placement)
}

// updateReads computes again what a Placement reads: of its spec, its policies and the plugins of
// its profile.
func (inv *Inventory) updateReads(p *placement) {
	p.reads = readsOf(&p.object.Spec)
	for _, s := range inv.selections.byPlacement[p.key] {
		p.reads.selectionPolicy(&s.object.Spec)
	}
	if inv.options.Reads != nil {
		p.reads.add(inv.options.Reads(p.object))
	}
	p.readsKey = p.reads.key()
}

// selectionPolicy adds what a SelectionPolicy reads.
func (r *reads) selectionPolicy(spec *berthv1alpha1.SelectionPolicySpec) {
	for i := range spec.Preferences {
		r.clusterSelector(&spec.Preferences[i].ClusterSelector)
	}
	for i := range spec.Tiers {
		r.clusterSelector(&spec.Tiers[i].ClusterSelector)
	}
	for i := range spec.Groups {
		r.clusterSelector(&spec.Groups[i].ClusterSelector)
	}
	for name := range spec.Requests {
		r.resources[string(name)] = true
	}
}

// SelectionPolicies returns the policies that name a Placement, sorted by name.
func (inv *Inventory) SelectionPolicies(placement Key) []*berthv1alpha1.SelectionPolicy {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.selections.objects(placement)
}

// peersOf returns the Placements that the affinity of a Placement names, sorted by name.
func (inv *Inventory) peersOf(p *placement) []framework.Peer {
	s := inv.selections.affinityOf(p.key)
	if s == nil {
		return nil
	}
	var peers []framework.Peer
	for key, other := range inv.byNamespace[p.key.Namespace] {
		if other == p {
			continue
		}
		peer := framework.Peer{Name: key.Name, With: termFor(s.with, other), ApartFrom: termFor(s.apartFrom, other)}
		if peer.With == "" && peer.ApartFrom == "" {
			continue
		}
		if theirs := inv.selections.affinityOf(key); theirs != nil {
			peer.Mutual = termFor(theirs.apartFrom, p) != ""
		}
		peer.Older = other.capacityRequest().Before(p.capacityRequest())
		if h := inv.holdings.byPlacement[key]; h != nil {
			if peer.Clusters = h.has; peer.ApartFrom == "" {
				peer.Clusters = h.followed
			}
		}
		peers = append(peers, peer)
	}
	slices.SortFunc(peers, func(a, b framework.Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}
