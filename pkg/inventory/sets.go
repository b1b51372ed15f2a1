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
	name string
	spec v1alpha1.ManagedClusterSelector
	// selector is nil for a set whose members carry its name in their clusterset label.
	selector labels.Selector
	err      error
	members  framework.Bitset
	// frozen is what snapshots share; it has the members until one changes.
	frozen *framework.ClusterSet
}

func newClusterSet(object *v1alpha1.ManagedClusterSet) *clusterSet {
	spec := object.Spec.ClusterSelector
	s := &clusterSet{name: object.Name, spec: spec}
	switch spec.SelectorType {
	case "", v1alpha1.ExclusiveClusterSetLabel:
	case v1alpha1.LabelSelector:
		if s.selector, s.err = metav1.LabelSelectorAsSelector(spec.LabelSelector); s.err != nil {
			s.selector = labels.Nothing()
		}
	default:
		s.selector = labels.Nothing()
	}
	return s
}

// matches says whether the cluster is a member; one being deleted is none.
func (s *clusterSet) matches(c *framework.Cluster) bool {
	if !c.DeletionTimestamp.IsZero() {
		return false
	}
	if s.selector == nil {
		set, ok := c.Labels[v1alpha1.ClusterSetLabel]
		return ok && set == s.name
	}
	return s.selector.Matches(labels.Set(c.Labels))
}

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
		s.frozen = &framework.ClusterSet{Name: s.name, Members: s.members, Err: s.err, Admits: s.matches}
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

func (inv *Inventory) deleteSet(name string, woken wakeSet) {
	if inv.sets[name] == nil {
		return
	}
	delete(inv.sets, name)
	inv.wakeBound(name, woken)
}

// wakeBound wakes all Placements of the namespaces that a set is bound to. Those that do not want it see it, too: whether any
// valid binding is there decides what they say when none of theirs is.
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

// rebound puts the viewers of a set right after a binding came or went, and wakes the namespace: a Placement that does not
// want the set may still have to say that there is, or is not, any binding.
func (inv *Inventory) rebound(object *v1alpha1.ManagedClusterSetBinding, woken wakeSet) {
	for _, p := range inv.byNamespace[object.Namespace] {
		if p.wants(object.Name) {
			inv.view(object.Name, p, inv.bindings[object.Namespace][object.Name])
		}
	}
	woken.all(inv.byNamespace[object.Namespace])
}
