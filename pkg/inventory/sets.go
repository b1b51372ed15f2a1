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
	// set is what the members are found by; it has none itself.
	set     framework.ClusterSet
	members framework.Bitset
	// frozen is what snapshots share; it has the members until one changes.
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

// matches is true if the cluster is a member.
func (s *clusterSet) matches(c *framework.Cluster) bool { return s.set.Admits(c) }

func (s *clusterSet) put(i int, member bool) {
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

func (inv *Inventory) updateSet(object *v1alpha1.ManagedClusterSet, woken wakeSet) {
	old := inv.sets[object.Name]
	if old != nil && reflect.DeepEqual(old.spec, object.Spec.ClusterSelector) {
		return
	}
	set := newClusterSet(object)
	for i := range inv.clusters.Len() {
		if c := inv.clusters.Get(i); c != nil && set.matches(c) {
			set.put(i, true)
		}
	}
	inv.sets[object.Name] = set
	inv.viewers[object.Name].wake(woken)
	if old == nil {
		inv.wakeBound(object.Name, woken)
		return
	}
	for i := range old.members.Without(set.members).All {
		inv.wakePublishers(i, woken)
	}
}

func (inv *Inventory) deleteSet(object *v1alpha1.ManagedClusterSet, woken wakeSet) {
	if inv.sets[object.Name] == nil {
		return
	}
	delete(inv.sets, object.Name)
	inv.wakeBound(object.Name, woken)
}

// wakeBound wakes all Placements of the namespaces that a set is bound to. Those that do not want
// it see it, too: whether any valid binding is there decides what they say when none of theirs is.
func (inv *Inventory) wakeBound(set string, woken wakeSet) {
	for namespace, bound := range inv.bindings {
		if bound[set] {
			woken.all(inv.byNamespace[namespace])
		}
	}
}

// updateBinding takes in a binding. One whose name is not its set's, or that names no set, is
// ignored: the right to bind is checked for the set that it names.
func (inv *Inventory) updateBinding(object *v1alpha1.ManagedClusterSetBinding, woken wakeSet) {
	if object.Spec.ClusterSet != object.Name {
		inv.deleteBinding(object, woken)
		return
	}
	bound := inv.bindings[object.Namespace]
	if bound[object.Name] {
		return
	}
	if bound == nil {
		bound = map[string]bool{}
		inv.bindings[object.Namespace] = bound
	}
	bound[object.Name] = true
	inv.rebound(object, woken)
}

func (inv *Inventory) deleteBinding(object *v1alpha1.ManagedClusterSetBinding, woken wakeSet) {
	bound := inv.bindings[object.Namespace]
	if !bound[object.Name] {
		return
	}
	delete(bound, object.Name)
	if len(bound) == 0 {
		delete(inv.bindings, object.Namespace)
	}
	inv.rebound(object, woken)
}

// rebound puts the viewers of a set right after a binding came or went, and wakes the namespace: a
// Placement that does not want the set may still have to say that there is, or is not, any binding.
func (inv *Inventory) rebound(object *v1alpha1.ManagedClusterSetBinding, woken wakeSet) {
	for _, p := range inv.byNamespace[object.Namespace] {
		if p.wants(object.Name) {
			inv.view(object.Name, p, inv.bindings[object.Namespace][object.Name])
		}
	}
	woken.all(inv.byNamespace[object.Namespace])
}
