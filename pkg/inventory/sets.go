package inventory

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// clusterSet is a ManagedClusterSet with its members kept up to date.
type clusterSet struct {
	spec v1alpha1.ManagedClusterSelector
	// set selects the members; its own Members are unset.
	set     framework.ClusterSet
	members framework.Bitset
	// frozen is the copy that Snapshots share; nil after a member changed.
	frozen *framework.ClusterSet
}

func newClusterSet(object *v1alpha1.ManagedClusterSet) *clusterSet {
	s := &clusterSet{spec: object.Spec.ClusterSelector, set: framework.ClusterSet{Name: object.Name}}
	switch s.spec.SelectorType {
	case "", v1alpha1.ExclusiveClusterSetLabel:
	case v1alpha1.LabelSelector:
		if s.set.Selector, s.set.Err = metav1.LabelSelectorAsSelector(s.spec.LabelSelector); s.set.Err != nil {
			s.set.Selector = labels.Nothing()
		}
	default:
		s.set.Selector = labels.Nothing()
	}
	return s
}

func (s *clusterSet) setMember(i int, member bool) {
	if s.frozen != nil {
		s.members, s.frozen = s.members.Clone(), nil
	}
	if member {
		s.members = s.members.Set(i)
	} else {
		s.members.Unset(i)
	}
}

func (s *clusterSet) freeze() *framework.ClusterSet {
	if s.frozen == nil {
		frozen := s.set
		frozen.Members, s.frozen = s.members, &frozen
	}
	return s.frozen
}

func (inv *Inventory) updateSet(object *v1alpha1.ManagedClusterSet, e *event) {
	old := inv.sets[object.Name]
	if old != nil && reflect.DeepEqual(old.spec, object.Spec.ClusterSelector) {
		return
	}
	inv.addObject(object)
	set := newClusterSet(object)
	for i := range inv.clusters.Len() {
		if c := inv.clusters.Get(i); c != nil && set.set.Matches(c) {
			set.setMember(i, true)
		}
	}
	inv.sets[object.Name] = set
	inv.addReaders(object.Name, nil, e.affected)
	if old == nil {
		inv.addBound(object.Name, e.affected)
		return
	}
	left, joined := old.members.Without(set.members), set.members.Without(old.members)
	for i := range left.All {
		inv.addPublishers(i, e.affected)
	}
	for i := range left.Or(joined).All {
		inv.addNaming(inv.clusters.Get(i).Name, object.Name, e.affected)
	}
}

func (inv *Inventory) deleteSet(object *v1alpha1.ManagedClusterSet, e *event) {
	if inv.sets[object.Name] == nil {
		return
	}
	inv.addDeleted(object)
	delete(inv.sets, object.Name)
	inv.addBound(object.Name, e.affected)
}

// addBound adds all Placements of the namespaces that a set is bound to, including those that do
// not use the set: their conditions depend on whether the namespace has any valid binding.
func (inv *Inventory) addBound(set string, affected affectedSet) {
	for namespace, bound := range inv.bindings {
		if bound[set] {
			affected.all(inv.byNamespace[namespace])
		}
	}
}

// updateBinding stores a binding. It ignores one whose name is not its spec.clusterSet, because the
// permission to bind is checked by the name, and one that is being deleted: a finalizer must not
// delay what revokes a set.
func (inv *Inventory) updateBinding(object *v1alpha1.ManagedClusterSetBinding, e *event) {
	if object.Spec.ClusterSet != object.Name || !object.DeletionTimestamp.IsZero() {
		inv.deleteBinding(object, e)
		return
	}
	if inv.bindings[object.Namespace][object.Name] {
		return
	}
	inv.addObject(object)
	inv.bindings.set(object.Namespace, object.Name, true)
	inv.bindingChanged(object, e.affected)
}

func (inv *Inventory) deleteBinding(object *v1alpha1.ManagedClusterSetBinding, e *event) {
	if !inv.bindings[object.Namespace][object.Name] {
		return
	}
	inv.addDeleted(object)
	inv.bindings.remove(object.Namespace, object.Name)
	inv.bindingChanged(object, e.affected)
}

// bindingChanged updates the readers of a set after a binding was created or deleted, and adds all
// Placements of the namespace: the conditions of those that do not use the set depend on whether
// there is any binding.
func (inv *Inventory) bindingChanged(object *v1alpha1.ManagedClusterSetBinding, affected affectedSet) {
	for _, p := range inv.byNamespace[object.Namespace] {
		inv.setReader(object.Name, p, inv.bindings[object.Namespace][object.Name])
	}
	affected.all(inv.byNamespace[object.Namespace])
}
