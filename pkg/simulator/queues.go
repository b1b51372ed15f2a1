package simulator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/inventory"
)

// queuesOf assigns the Placements to the queues of the ConfigMap with the usual name; nil without
// one. An invalid ConfigMap admits no Placement, as in the controller.
func queuesOf(objects Objects, inv *inventory.Inventory, now time.Time, userLabel string) (*admission.Queues, error) {
	var config *corev1.ConfigMap
	for _, o := range List[*unstructured.Unstructured](objects) {
		if o.GetAPIVersion() != "v1" || o.GetKind() != "ConfigMap" || o.GetName() != admission.QueueConfigName {
			continue
		}
		if config != nil {
			return nil, fmt.Errorf("ConfigMap %s exists twice, in the namespaces %s and %s", admission.QueueConfigName, config.Namespace, o.GetNamespace())
		}
		config = &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, config); err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
	}
	if config == nil {
		return nil, nil
	}
	queues := admission.NewQueues(admission.QueuesOptions{
		UserLabel: userLabel, Published: inv.Published, Recorded: inv.RecordedQueue,
		OnAffected: func([]types.NamespacedName) {}, Now: func() time.Time { return now }, Clusters: inv.MaxClusters,
	})
	if _, err := queues.Configure(config); err != nil {
		queues.Unconfigured(err.Error())
	}
	for _, o := range List[*unstructured.Unstructured](objects) {
		if isNamespace(o) {
			queues.Namespace(o.GetName(), o.GetAnnotations())
		}
	}
	for _, pl := range List[*v1alpha1.Placement](objects) {
		queues.Update(pl)
	}
	return queues, nil
}

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GetAPIVersion() == "v1" && o.GetKind() == "Namespace"
}

// forQueues reports whether queues are built from an object.
func forQueues(o *unstructured.Unstructured) bool {
	if o.GetAPIVersion() != "v1" || o.GetKind() != "ConfigMap" {
		return isNamespace(o)
	}
	_, has, err := unstructured.NestedString(o.Object, "data", admission.QueuesKey)
	return has && err == nil || o.GetName() == admission.QueueConfigName
}
