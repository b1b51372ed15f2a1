package main

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

const freezeAnnotation = "example.com/freeze"

// Freeze keeps the decisions of a namespace as they are while the Namespace has an annotation.
type Freeze struct {
	handle *framework.Handle
	// hub reads from informers; nil in a simulation, where nothing is frozen.
	hub client.Reader
}

func newFreeze(_ context.Context, args json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(args, struct{}{})
	return &Freeze{handle: handle}, err
}

func (*Freeze) Name() string { return "Freeze" }

// Describe implements framework.Describer.
func (f *Freeze) Describe() framework.Traits { return framework.Traits{SetupWithManager: f.setUp} }

// setUp starts an informer for Namespaces, and logs the frozen ones when the controller
// becomes the leader.
func (f *Freeze) setUp(ctx context.Context, mgr manager.Manager) error {
	f.hub = mgr.GetClient()
	informer, err := mgr.GetCache().GetInformer(ctx, namespace())
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		if now := after.(client.Object); before.(client.Object).GetAnnotations()[freezeAnnotation] != now.GetAnnotations()[freezeAnnotation] {
			f.activate(ctx, now.GetName())
		}
	}})
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(namespace().GroupVersionKind())
		if err := f.hub.List(ctx, all); err != nil {
			return err
		}
		for _, n := range all.Items {
			if why := n.Annotations[freezeAnnotation]; why != "" {
				mgr.GetLogger().Info("Namespace is frozen", "namespace", n.Name, "why", why)
			}
		}
		return nil
	}))
}

// activate starts an attempt for each Placement of a namespace.
func (f *Freeze) activate(ctx context.Context, namespace string) {
	placements := &v1alpha1.PlacementList{}
	if err := f.hub.List(ctx, placements, client.InNamespace(namespace)); err != nil {
		return // The informer has stopped, and so has the controller.
	}
	for i := range placements.Items {
		f.handle.Activate(client.ObjectKeyFromObject(&placements.Items[i]))
	}
}

// PreEnqueue runs before any other plugin.
func (f *Freeze) PreEnqueue(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) *framework.Status {
	if f.hub == nil {
		return nil
	}
	n := namespace()
	if err := f.hub.Get(ctx, types.NamespacedName{Name: pl.Namespace}, n); err != nil {
		return framework.AsStatus(err)
	}
	if why := n.Annotations[freezeAnnotation]; why != "" {
		return framework.NewStatus(framework.Unschedulable, "the namespace is frozen: "+why)
	}
	return nil
}

// Recheck implements framework.Rechecker: changes of clusters do not matter.
func (*Freeze) Recheck(*framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, true
}

func namespace() *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(metav1.Unversioned.WithKind("Namespace"))
	return n
}
