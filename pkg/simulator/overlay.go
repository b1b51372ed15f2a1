package simulator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Overlay returns the objects as they would be once others stood in the place of their namesakes, and beside the rest: what
// kubectl replace, or create, would leave. One without a status keeps that of its namesake, and a taint that says not since when it is
// there is there since its namesake's, or since now.
func (o Objects) Overlay(with Objects, now time.Time) Objects {
	o.Placements = overlay(o.Placements, with.Placements, func(old, pl *v1alpha1.Placement) {
		inherit(&old.Status, &pl.Status)
		if !equality.Semantic.DeepEqual(old.Spec, pl.Spec) {
			pl.Generation++
		}
	})
	o.Decisions = overlay(o.Decisions, with.Decisions, func(old, page *v1alpha1.PlacementDecision) {
		inherit(&old.Status, &page.Status)
	})
	o.Clusters = overlay(o.Clusters, with.Clusters, func(old, cluster *v1alpha1.ManagedCluster) {
		inherit(&old.Status, &cluster.Status)
		dateTaints(cluster, old.Spec.Taints, metav1.NewTime(now))
	})
	o.Sets = overlay(o.Sets, with.Sets, func(old, set *v1alpha1.ManagedClusterSet) { inherit(&old.Status, &set.Status) })
	o.Bindings = overlay(o.Bindings, with.Bindings, func(old, binding *v1alpha1.ManagedClusterSetBinding) {
		inherit(&old.Status, &binding.Status)
	})
	o.Scores = overlay(o.Scores, with.Scores, func(old, score *v1alpha1.AddOnPlacementScore) { inherit(&old.Status, &score.Status) })
	o.Other = overlay(o.Other, with.Other, func(_, _ *unstructured.Unstructured) {})
	return o
}

// overlay puts copies of objects in the place of those with their names, and the others at the end. Each inherits what it does not say
// itself, a new one from an empty object.
func overlay[S any, T interface {
	*S
	client.Object
}](have, with []T, inherit func(old, next T)) []T {
	at := map[[4]string]int{}
	all := slices.Clone(have)
	for i, object := range all {
		at[identity(object)] = i
	}
	for _, object := range with {
		next := object.DeepCopyObject().(T)
		i, replaces := at[identity(next)]
		if !replaces {
			inherit(new(S), next)
			at[identity(next)] = len(all)
			all = append(all, next)
			continue
		}
		old := all[i]
		next.SetUID(old.GetUID())
		next.SetResourceVersion(old.GetResourceVersion())
		next.SetGeneration(old.GetGeneration())
		next.SetCreationTimestamp(old.GetCreationTimestamp())
		next.SetDeletionTimestamp(old.GetDeletionTimestamp())
		if len(next.GetOwnerReferences()) == 0 {
			next.SetOwnerReferences(old.GetOwnerReferences())
		}
		inherit(old, next)
		all[i] = next
	}
	return all
}

// identity tells an object from all others; Berth's kinds are kept by kind, and so need none.
func identity(object client.Object) [4]string {
	kind := object.GetObjectKind().GroupVersionKind()
	if _, plain := object.(*unstructured.Unstructured); !plain {
		kind.Group, kind.Kind = "", ""
	}
	return [4]string{kind.Group, kind.Kind, object.GetNamespace(), object.GetName()}
}

func inherit[S any](old, next *S) {
	var none S
	if equality.Semantic.DeepEqual(*next, none) {
		*next = *old
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

// EditCluster returns the objects with one cluster changed. A cluster that is not there is an error.
func (o Objects) EditCluster(name string, edit func(cluster *v1alpha1.ManagedCluster)) (Objects, error) {
	for i, cluster := range o.Clusters {
		if cluster.Name == name {
			o.Clusters = slices.Clone(o.Clusters)
			o.Clusters[i] = cluster.DeepCopy()
			edit(o.Clusters[i])
			return o, nil
		}
	}
	return o, fmt.Errorf("there is no ManagedCluster %s", name)
}

// Without returns the objects without one of a kind of Berth's; a cluster-scoped one has no namespace. With a Placement go the pages it owns, as a hub's
// garbage collector would have it. One that is not there is an error, and so is an unknown kind.
func (o Objects) Without(kind, namespace, name string) (Objects, error) {
	var found bool
	switch kind {
	case "Placement":
		var gone *v1alpha1.Placement
		o.Placements, gone, found = without(o.Placements, namespace, name)
		if found {
			o.Decisions = slices.DeleteFunc(slices.Clone(o.Decisions), func(page *v1alpha1.PlacementDecision) bool {
				return page.Namespace == namespace && metav1.IsControlledBy(page, gone)
			})
		}
	case "ManagedCluster":
		o.Clusters, _, found = without(o.Clusters, "", name)
	case "ManagedClusterSet":
		o.Sets, _, found = without(o.Sets, "", name)
	case "ManagedClusterSetBinding":
		o.Bindings, _, found = without(o.Bindings, namespace, name)
	case "AddOnPlacementScore":
		o.Scores, _, found = without(o.Scores, namespace, name)
	default:
		return o, fmt.Errorf("a %s cannot be removed", kind)
	}
	switch {
	case found:
		return o, nil
	case namespace != "":
		return o, fmt.Errorf("there is no %s %s/%s", kind, namespace, name)
	}
	return o, fmt.Errorf("there is no %s %s", kind, name)
}

func without[T client.Object](have []T, namespace, name string) (rest []T, gone T, found bool) {
	for i, object := range have {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return slices.Delete(slices.Clone(have), i, i+1), object, true
		}
	}
	return have, gone, false
}
