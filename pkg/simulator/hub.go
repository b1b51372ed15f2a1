package simulator

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
)

// ReadHub lists the objects that decisions depend on; queues is as for ReadQueues.
func ReadHub(ctx context.Context, hub client.Reader, queues types.NamespacedName) (Objects, error) {
	objects, err := ReadKinds(ctx, hub, kinds.All()...)
	if err != nil {
		return nil, err
	}
	others, err := ReadQueues(ctx, hub, queues, objects)
	return append(objects, others...), err
}

// ReadKinds lists the objects of some kinds. A hub with only Open Cluster Management's CRDs need
// not serve Berth's own kinds.
func ReadKinds(ctx context.Context, hub client.Reader, some ...kinds.Kind) (Objects, error) {
	objects := Objects{}
	for _, kind := range some {
		list := kind.NewList()
		err := hub.List(ctx, list)
		switch {
		case kind.Optional() && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the hub: %w", err)
		}
		items, err := kinds.Items(list)
		if err != nil {
			return nil, fmt.Errorf("reading the hub: %s: %w", kind.Plural, err)
		}
		for _, item := range items {
			objects = append(objects, item)
		}
	}
	return objects, nil
}

// ReadQueues reads what queues depend on beside Placements: the ConfigMap with their configuration,
// under its usual name, and the Namespaces. It returns nothing unless the condition of a Placement
// shows that the controller uses queues.
func ReadQueues(ctx context.Context, hub client.Reader, queues types.NamespacedName, placements Objects) (Objects, error) {
	if !slices.ContainsFunc(List[*v1alpha1.Placement](placements), func(pl *v1alpha1.Placement) bool {
		return meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted) != nil
	}) {
		return nil, nil
	}
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err := hub.Get(ctx, queues, config); err != nil {
		return nil, fmt.Errorf("reading the queues: %w (--queue-config names their ConfigMap)", err)
	}
	config.SetName(admission.QueueConfigName)
	objects, err := ReadNamespaces(ctx, hub)
	return append(objects, config), err
}

// ReadNamespaces lists the Namespaces.
func ReadNamespaces(ctx context.Context, hub client.Reader) (Objects, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := hub.List(ctx, list); err != nil {
		return nil, fmt.Errorf("reading the namespaces: %w", err)
	}
	var objects Objects
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}
