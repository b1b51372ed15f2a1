package simulator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Overlay returns the objects as they would be once others stood in the place of their namesakes,
// and beside the rest: what kubectl replace, or create, would leave. One without a status keeps
// that of its namesake, and a taint that says not since when it is there is there since its
// namesake's, or since now.
func (o Objects) Overlay(with Objects, now time.Time) Objects {
	at := map[identity]int{}
	all := slices.Clone(o)
	for i, object := range all {
		at[identityOf(object)] = i
	}
	for _, object := range with {
		next := object.DeepCopyObject().(client.Object)
		i, replaces := at[identityOf(next)]
		if !replaces {
			at[identityOf(next)] = len(all)
			all = append(all, next)
			inherit(nil, next, metav1.NewTime(now))
			continue
		}
		keepMetadata(all[i], next)
		inherit(all[i], next, metav1.NewTime(now))
		all[i] = next
	}
	return all
}

// identity identifies an object.
type identity struct{ group, kind, namespace, name string }

func identityOf(object client.Object) identity {
	gk := object.GetObjectKind().GroupVersionKind().GroupKind()
	if kind, ok := kinds.Of(object); ok {
		gk = schema.GroupKind{Group: kind.GroupVersion.Group, Kind: kind.Name}
	}
	return identity{gk.Group, gk.Kind, object.GetNamespace(), object.GetName()}
}

// keepMetadata gives an object the metadata that a hub keeps of the object that it replaces.
func keepMetadata(old, next client.Object) {
	next.SetUID(old.GetUID())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetGeneration(old.GetGeneration())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	if len(next.GetOwnerReferences()) == 0 {
		next.SetOwnerReferences(old.GetOwnerReferences())
	}
}

// inherit gives an object of Berth's kinds what it does not say itself: from the object that it
// replaces, or from an empty one where old is nil.
func inherit(old, next client.Object, now metav1.Time) {
	kind, ok := kinds.Of(next)
	if !ok {
		return
	}
	if old == nil {
		old = kind.New()
	}
	kind.KeepStatus(old, next)
	switch next := next.(type) {
	case *v1alpha1.Placement:
		if !equality.Semantic.DeepEqual(old.(*v1alpha1.Placement).Spec, next.Spec) {
			next.Generation++
		}
	case *v1alpha1.ManagedCluster:
		dateTaints(next, old.(*v1alpha1.ManagedCluster).Spec.Taints, now)
	}
}

// dateTaints gives the taints that name no time that of the same taint before, or else another.
func dateTaints(cluster *v1alpha1.ManagedCluster, before []v1alpha1.Taint, otherwise metav1.Time) {
	for i := range cluster.Spec.Taints {
		taint := &cluster.Spec.Taints[i]
		if !taint.TimeAdded.IsZero() {
			continue
		}
		taint.TimeAdded = otherwise
		for _, old := range before {
			if old.Key == taint.Key && old.Value == taint.Value && old.Effect == taint.Effect {
				taint.TimeAdded = old.TimeAdded
			}
		}
	}
}

// EditCluster returns the objects with one cluster changed. A cluster that is not there is an
// error.
func (o Objects) EditCluster(name string, edit func(cluster *v1alpha1.ManagedCluster)) (Objects, error) {
	for i, object := range o {
		if cluster, ok := object.(*v1alpha1.ManagedCluster); ok && cluster.Name == name {
			cluster = cluster.DeepCopy()
			edit(cluster)
			changed := slices.Clone(o)
			changed[i] = cluster
			return changed, nil
		}
	}
	return o, fmt.Errorf("there is no ManagedCluster %s", name)
}

// Without returns the objects without one of a kind in the table; a cluster-scoped one has no
// namespace. With a Placement go the objects that it controls, as a hub's garbage collector would
// have it. One that is not there is an error.
func (o Objects) Without(kind kinds.Kind, namespace, name string) (Objects, error) {
	full := name
	if kind.Namespaced {
		full = namespace + "/" + name
	} else {
		namespace = ""
	}
	is := func(object client.Object) bool {
		return identityOf(object) == identity{kind.GroupVersion.Group, kind.Name, namespace, name}
	}
	i := slices.IndexFunc(o, is)
	if i < 0 {
		return o, fmt.Errorf("there is no %s %s", kind.Name, full)
	}
	gone := o[i]
	return slices.DeleteFunc(slices.Clone(o), func(object client.Object) bool {
		pl, owns := gone.(*v1alpha1.Placement)
		return is(object) || owns && object.GetNamespace() == namespace && pl.Controls(object)
	}), nil
}
