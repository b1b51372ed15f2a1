package standalone

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// binding is a binding as one of the served versions has it.
func binding(version, namespace, set string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupName + "/" + version, "kind": "ManagedClusterSetBinding",
		"metadata": map[string]any{"namespace": namespace, "name": set},
		"spec":     map[string]any{"clusterSet": set},
	}}
}

// cluster is a cluster as one of the served versions has it, in a set unless that is empty.
func cluster(version, name, set string) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupName + "/" + version, "kind": "ManagedCluster",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"hubAcceptsClient": true},
	}}
	if set != "" {
		c.SetLabels(map[string]string{v1alpha1.ClusterSetLabel: set})
	}
	return c
}

// forbidden matches the refusal of a user who lacks the right to do it to the set.
func forbidden(what, right string) OmegaMatcher {
	return And(WithTransform(apierrors.IsForbidden, BeTrue()),
		MatchError(And(ContainSubstring(what), ContainSubstring("managedclustersets/"+right))))
}

// move patches a cluster's set label; an empty one takes it away. Nothing is stored.
func move(ctx context.Context, user client.Client, version, name, set string) error {
	patch := `{"metadata":{"labels":{"` + v1alpha1.ClusterSetLabel + `":null}}}`
	if set != "" {
		patch = `{"metadata":{"labels":{"` + v1alpha1.ClusterSetLabel + `":"` + set + `"}}}`
	}
	return user.Patch(ctx, cluster(version, name, ""), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
}

var _ = Describe("The admission policies", Ordered, ContinueOnFailure, func() {
	var x, y, namespace string
	BeforeAll(func(ctx SpecContext) {
		x, y = unique("x"), unique("y")
		namespace = alone.namespace(ctx)
		// A new policy takes a moment to be enforced.
		anyone := alone.user(ctx, "bind")
		Eventually(func() error { return anyone.Create(ctx, binding("v1beta2", namespace, x), client.DryRunAll) }).Should(forbidden(x, "bind"))
		Eventually(func() error { return anyone.Create(ctx, cluster("v1", "c", x), client.DryRunAll) }).Should(forbidden(x, "join"))
	})

	DescribeTable("require permission to bind a set", func(ctx SpecContext, version string) {
		anyone, binder := alone.user(ctx, "bind"), alone.user(ctx, "bind", x)
		Expect(anyone.Create(ctx, binding(version, namespace, x))).To(forbidden(x, "bind"))
		Expect(binder.Create(ctx, binding(version, namespace, y))).To(forbidden(y, "bind"))
		mine := binding(version, namespace, x)
		Expect(binder.Create(ctx, mine)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(alone.Delete(ctx, mine)).To(Succeed()) })

		By("editing something else about it")
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		Expect(anyone.Patch(ctx, binding(version, namespace, x), label)).To(Succeed())
		By("making it no set's")
		none := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterSet":null}}`))
		Expect(binder.Patch(ctx, binding(version, namespace, x), none, client.DryRunAll)).To(MatchError(ContainSubstring("spec.clusterSet must equal metadata.name")))
		By("making it another set's")
		other := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterSet":"`+y+`"}}`))
		Expect(anyone.Patch(ctx, binding(version, namespace, x), other, client.DryRunAll)).NotTo(Succeed())
	}, Entry("in v1alpha1", "v1alpha1"), Entry("in v1beta2", "v1beta2"))

	It("do not let a user bind a set with the permission to join it", func(ctx SpecContext) {
		Expect(alone.user(ctx, "join", x).Create(ctx, binding("v1beta2", namespace, x), client.DryRunAll)).To(forbidden(x, "bind"))
	})

	DescribeTable("require permission to join both sets to move a cluster", func(ctx SpecContext, version string) {
		inX := fixture.Cluster(unique("c")).Set(x).Obj()
		alone.make(ctx, inX)
		anyone, ofX, ofY, ofBoth := alone.user(ctx, "join"), alone.user(ctx, "join", x), alone.user(ctx, "join", y), alone.user(ctx, "join", x, y)

		By("creating one")
		create := func(user client.Client, set string) error {
			return user.Create(ctx, cluster(version, unique("new"), set), client.DryRunAll)
		}
		Expect(create(anyone, "")).To(Succeed())
		Expect(create(anyone, x)).To(forbidden("into ManagedClusterSet "+x, "join"))
		Expect(create(ofY, x)).To(forbidden("into ManagedClusterSet "+x, "join"))
		Expect(create(ofX, x)).To(Succeed())

		By("moving one")
		Expect(move(ctx, anyone, version, inX.Name, y)).To(forbidden("ManagedClusterSet", "join"))
		Expect(move(ctx, ofX, version, inX.Name, y)).To(forbidden("into ManagedClusterSet "+y, "join"))
		Expect(move(ctx, ofY, version, inX.Name, y)).To(forbidden("out of ManagedClusterSet "+x, "join"))
		Expect(move(ctx, ofBoth, version, inX.Name, y)).To(Succeed())

		By("taking one out of all sets")
		Expect(move(ctx, ofY, version, inX.Name, "")).To(forbidden("out of ManagedClusterSet "+x, "join"))
		Expect(move(ctx, ofX, version, inX.Name, "")).To(Succeed())

		By("editing something else about it")
		other := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"taints":[{"key":"t","effect":"NoSelect"}]}}`))
		Expect(anyone.Patch(ctx, cluster(version, inX.Name, ""), other)).To(Succeed())
	}, Entry("in v1alpha1", "v1alpha1"), Entry("in v1", "v1"))

	It("let a server-side apply name no label and no annotation", func(ctx SpecContext) {
		empty := cluster("v1", unique("c"), "")
		for _, field := range []string{"labels", "annotations"} {
			Expect(unstructured.SetNestedMap(empty.Object, map[string]any{}, "metadata", field)).To(Succeed())
		}
		anyone := alone.user(ctx, "join")
		for range 2 {
			apply := client.ApplyConfigurationFromUnstructured(empty.DeepCopy())
			Expect(anyone.Apply(ctx, apply, client.FieldOwner("gitops"))).To(Succeed())
		}
		Expect(move(ctx, anyone, "v1", empty.GetName(), x)).To(forbidden("into ManagedClusterSet "+x, "join"))
	})

	It("apply to Berth's own account, which can join only the default set", func(ctx SpecContext) {
		inX := fixture.Cluster(unique("c")).Set(x).Obj()
		alone.make(ctx, inX)
		berth := alone.As(testhub.Account)
		Expect(move(ctx, berth, "v1", inX.Name, "default")).To(forbidden("out of ManagedClusterSet "+x, "join"))
		Expect(move(ctx, berth, "v1", inX.Name, y)).To(forbidden("ManagedClusterSet", "join"))
	})
})
