package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// Namespaces, and the sets of the same names that they can use.
const (
	namespace      = "load"
	churnNamespace = "load-churn"
)

// Amounts of memory. Placements that ask for the most memory select the leaders, unless one cluster
// has more.
const (
	ordinary = "16Gi"
	leading  = "48Gi"
	leaping  = "64Gi"
)

// shape is the spec of all Placements except one, which always asks for the most memory: the first,
// or with the shape last, the last.
type shape int

const (
	// plain: any clusters, by the default prioritizers, which do not read allocatable.
	plain shape = iota
	// predicate: any clusters with a label that all clusters have; also for the first Placement.
	predicate
	// steady: memory counts, but Steady counts more.
	steady
	// last: as steady.
	last
	// memory: the most memory.
	memory
)

// fleet has clusters of one set, and Placements that can use all of them.
type fleet struct {
	size
	hub   *hub
	per   int
	shape shape
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%05d", i) }

func (f *fleet) key(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("placement-%05d", i)}
}

// keys returns all Placements, the first one first.
func (f *fleet) keys() []types.NamespacedName {
	keys := make([]types.NamespacedName, f.Placements)
	for i := range keys {
		keys[i] = f.key(i)
	}
	return keys
}

// cluster is a ManagedCluster with a status like an agent's. The first ones are the leaders.
func (f *fleet) cluster(i int) *v1alpha1.ManagedCluster {
	amount := ordinary
	if i < f.per {
		amount = leading
	}
	c := fixture.Cluster(clusterName(i)).Set(namespace).Label("tier", "gold").Label("region", fmt.Sprintf("region-%d", i%7)).
		Label("vendor", "OpenShift").Allocatable("cpu", "16").Allocatable("memory", amount).Allocatable("pods", "500").
		Claim("id.k8s.io", clusterName(i)).Claim("platform", "AWS").
		Condition("HubAcceptedManagedCluster", metav1.ConditionTrue, metav1.Now()).
		Condition("ManagedClusterJoined", metav1.ConditionTrue, metav1.Now()).
		Condition("ManagedClusterConditionAvailable", metav1.ConditionTrue, metav1.Now()).Obj()
	c.Spec.HubAcceptsClient = true
	c.Status.Version.Kubernetes = "v1.36.3"
	return c
}

func (f *fleet) create(ctx context.Context) error {
	for _, name := range []string{namespace, churnNamespace} {
		for _, object := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, fixture.Set(name), fixture.Binding(name, name),
		} {
			if err := f.hub.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %s: %w", name, err)
			}
		}
	}
	err := each(f.Clusters, func(i int) error {
		c := f.cluster(i)
		status := c.Status
		if err := f.hub.Create(ctx, c); err != nil {
			return err
		}
		c.Status = status
		return f.hub.Status().Update(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("creating clusters: %w", err)
	}
	return nil
}

// remove deletes the fleet from a hub that the harness did not start.
func (f *fleet) remove(ctx context.Context) error {
	var errs []error
	for _, name := range []string{namespace, churnNamespace, floorNamespace} {
		errs = append(errs, f.hub.removeAll(ctx, name, &v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}, &v1alpha1.ManagedClusterSetBinding{}),
			client.IgnoreNotFound(f.hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})),
			f.hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: name}),
			client.IgnoreNotFound(f.hub.Delete(ctx, fixture.Set(name))))
	}
	return errors.Join(errs...)
}

// placement is the i-th Placement with a shape.
func (f *fleet) placement(i int, s shape) *v1alpha1.Placement {
	b := fixture.Placement(namespace, f.key(i).Name).Number(int32(f.per))
	if s == predicate {
		b = b.Predicate(fixture.MatchLabel("tier", "gold"))
	}
	switch {
	case i == f.mover(s) || s == memory:
		b = b.Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1)
	case s == steady || s == last:
		b = b.Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1).
			Prioritizer(v1alpha1.PrioritizerSteady, 10)
	}
	p := b.Obj()
	p.UID, p.Generation = "", 0
	return p
}

// mover is the Placement that asks for the most memory.
func (f *fleet) mover(s shape) int {
	if s == last {
		return f.Placements - 1
	}
	return 0
}

// place creates the Placements.
func (f *fleet) place(ctx context.Context) error {
	f.shape = plain
	if err := each(f.Placements, func(i int) error { return f.hub.Create(ctx, f.placement(i, plain)) }); err != nil {
		return fmt.Errorf("creating Placements: %w", err)
	}
	return nil
}

// setShape changes the spec of the Placements.
func (f *fleet) setShape(ctx context.Context, s shape) error {
	if f.shape == s {
		return nil
	}
	before := f.shape
	f.shape = s
	err := each(f.Placements, func(i int) error {
		return f.hub.Patch(ctx, f.placement(i, s), client.MergeFrom(f.placement(i, before)))
	})
	if err != nil {
		return fmt.Errorf("changing Placements: %w", err)
	}
	return nil
}

// report patches the i-th cluster's status as an agent does.
func (f *fleet) report(ctx context.Context, i int, status string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":%s}`, status))
	if err := f.hub.Status().Patch(ctx, fixture.Cluster(clusterName(i)).Obj(), patch); err != nil {
		return fmt.Errorf("patching %s: %w", clusterName(i), err)
	}
	return nil
}

// setMemory sets the i-th cluster's memory.
func (f *fleet) setMemory(ctx context.Context, i int, amount string) error {
	return f.report(ctx, i, fmt.Sprintf(`{"allocatable":{"memory":%q}}`, amount))
}
