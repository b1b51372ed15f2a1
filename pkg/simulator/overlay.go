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

// Overlay returns the objects after others replaced those of the same name, or were added, like
// kubectl replace or create. An object without a status keeps that of the replaced one. A taint
// without timeAdded gets that of the same taint on the replaced cluster, or now.
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

// keepMetadata copies the metadata that a hub keeps when an object is replaced.
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

// inherit completes an object of Berth's kinds with the fields that it does not set: from the
// object that it replaces, or from an empty one if old is nil.
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

// dateTaints sets timeAdded on taints that lack it: that of the same taint before, or the given
// time.
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

// EditCluster returns the objects with one cluster changed. It returns an error if the cluster does
// not exist.
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

// Without returns the objects without one object of a kind in the table; namespace is empty for
// cluster-scoped kinds. It also removes the objects that a removed Placement controls, like a hub's
// garbage collector. It returns an error if the object does not exist.
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
