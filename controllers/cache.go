package controllers

import (
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/changes"
)

// cacheOptions returns the options of the cache, and adds the kinds of Kubernetes that it holds to
// the scheme: the leases of clusters with housekeeping, and the queues' ConfigMap.
func cacheOptions(o Options, scheme *runtime.Scheme) (cache.Options, error) {
	byObject := map[client.Object]cache.ByObject{}
	if len(o.Housekeeping) > 0 {
		if err := coordinationv1.AddToScheme(scheme); err != nil {
			return cache.Options{}, err
		}
		byObject[&coordinationv1.Lease{}] = cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.ManagedClusterLeaseName)}
	}
	if o.QueueConfig.Name != "" {
		if err := corev1.AddToScheme(scheme); err != nil {
			return cache.Options{}, err
		}
		byObject[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: map[string]cache.Config{
			o.QueueConfig.Namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, o.QueueConfig.Name)},
		}}
	}
	ignored := func(namespace string) {
		o.Log.Info("A namespace has too many AddOnPlacementScores: only those whose names sort first count", "namespace", namespace, "count", caches.MaxScores)
	}
	newInformer := caches.NewInformer(ignored)
	if change := o.Informers; change != nil {
		limited := newInformer
		newInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return change(limited(lw, object, resync, indexers))
		}
	}
	return cache.Options{DefaultTransform: compact, ByObject: byObject, NewInformer: newInformer}, nil
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

// trimCached removes from objects what the cache need not keep.
var trimCached = caches.Transform(caches.Controller)

// compact is the transform of the cache. It packs Published and Superseded records.
func compact(object any) (any, error) {
	if record, ok := object.(*berthv1alpha1.PlacementChange); ok {
		record.SetManagedFields(nil)
		if packed := changes.PackRecord(record); packed != nil {
			return packed, nil
		}
	}
	return trimCached(object)
}
