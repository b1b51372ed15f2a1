package controllers

import (
	"maps"
	"net/http"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// cacheOptions returns the options of the cache, and adds the kinds of Kubernetes that it holds to
// the scheme: the leases of clusters with housekeeping, and the queues' ConfigMap.
func cacheOptions(o Options, scheme *runtime.Scheme) (cache.Options, error) {
	byObject := map[client.Object]cache.ByObject{}
	if len(o.Housekeeping) > 0 {
		if err := coordinationv1.AddToScheme(scheme); err != nil {
			return cache.Options{}, err
		}
		byObject[&coordinationv1.Lease{}] = cachedLeases()
	}
	if o.QueueConfig.Name != "" {
		if err := corev1.AddToScheme(scheme); err != nil {
			return cache.Options{}, err
		}
		byObject[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: map[string]cache.Config{
			o.QueueConfig.Namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, o.QueueConfig.Name)},
		}}
	}
	return cache.Options{DefaultTransform: compact, ByObject: byObject}, nil
}

// mapperFor returns the mapper of the manager. It asks for the kind that the cache looks up when it
// is built, because the cache does not repeat a failed request.
func mapperFor(cfg *rest.Config, c *http.Client, cached cache.Options) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, c)
	if err != nil {
		return nil, err
	}
	for object := range cached.ByObject {
		if _, ok := object.(*coordinationv1.Lease); ok {
			kind := coordinationv1.SchemeGroupVersion.WithKind("Lease")
			err = atStart(func() error {
				_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
				return err
			})
		}
	}
	return mapper, err
}

// compact removes what the cache need not keep: managed fields, except the name of another writer
// of a page; of a PlacementExplanation, all but its name, times and conditions. It packs Published
// and Superseded records. Of a ManagedCluster it keeps only MaxResources entries of status.capacity
// and of status.allocatable, because each heartbeat compares them; only other CRDs than Berth's
// allow more.
func compact(object any) (any, error) {
	if page, ok := object.(*v1alpha1.PlacementDecision); ok {
		framework.KeepOtherWriter(page)
	} else if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	if e, ok := object.(*berthv1alpha1.PlacementExplanation); ok {
		e.Labels, e.Annotations, e.OwnerReferences, e.Finalizers = nil, nil, nil, nil
		e.Spec = berthv1alpha1.PlacementExplanationSpec{}
		e.Status = berthv1alpha1.PlacementExplanationStatus{Conditions: e.Status.Conditions}
	}
	if cluster, ok := object.(*v1alpha1.ManagedCluster); ok {
		cluster.Status.Capacity, cluster.Status.Allocatable = cutResources(cluster.Status.Capacity), cutResources(cluster.Status.Allocatable)
	}
	if record, ok := object.(*berthv1alpha1.PlacementChange); ok {
		if packed := changes.PackRecord(record); packed != nil {
			return packed, nil
		}
	}
	return object, nil
}

// cutResources returns the list without the entries beyond MaxResources, in the order of the names,
// so that the same list is always cut in the same way.
func cutResources(list v1alpha1.ResourceList) v1alpha1.ResourceList {
	if len(list) <= v1alpha1.MaxResources {
		return list
	}
	kept := make(v1alpha1.ResourceList, v1alpha1.MaxResources)
	for _, name := range slices.Sorted(maps.Keys(list))[:v1alpha1.MaxResources] {
		kept[name] = list[name]
	}
	return kept
}
