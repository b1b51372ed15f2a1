package changes

import (
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// standIn is a CRD of another project with the fields that Berth reads.
const standIn = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  names: {plural: %[1]s, singular: %[3]s, kind: %[4]s, listKind: %[4]sList}
  scope: Namespaced
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var _ = Describe("config/readiness", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		hub.ApplyYAML(ctx, fmt.Sprintf(standIn, "applications", "argoproj.io", "application", "Application", "v1alpha1"))
		hub.ApplyYAML(ctx, fmt.Sprintf(standIn, "manifestworks", "work.open-cluster-management.io", "manifestwork", "ManifestWork", "v1"))
		DeferCleanup(func(ctx SpecContext) {
			hub.Kubectl(ctx, "delete", "crd", "applications.argoproj.io", "manifestworks.work.open-cluster-management.io")
		})
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	DescribeTable("gives the controller the rights to read a source, and no others",
		func(ctx SpecContext, source string, kind schema.GroupVersionKind, inClusters bool, ready string) {
			ns := fleet(ctx, 4)
			careful := policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: source}
			})
			Eventually(statusOf(ctx, careful)).Should(Equal("0 False ReadinessSourceNotReady"))
			account := hub.As(testhub.Account)
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			Expect(account.List(ctx, list)).To(forbidden("cannot list"))

			roles := filepath.Join("..", "..", "..", "config", "readiness", source)
			hub.Kubectl(ctx, "apply", "-k", roles)
			DeferCleanup(func(ctx SpecContext) { hub.Kubectl(ctx, "delete", "-k", roles) })
			Eventually(statusOf(ctx, careful)).Should(Equal("0 False NoPlacementsSelected"))
			Expect(account.List(ctx, list)).To(Succeed())
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			object.SetNamespace(ns)
			object.SetName("any")
			Expect(account.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())).To(forbidden("cannot get"))
			Expect(account.Create(ctx, object.DeepCopy())).To(forbidden("cannot create"))
			Expect(account.Delete(ctx, object.DeepCopy())).To(forbidden("cannot delete"))

			By("waiting for the objects of the source")
			pl := fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "old")).Obj()
			Expect(hub.Create(ctx, pl)).To(Succeed())
			Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal([]string{ns + "-0", ns + "-2"}))
			deploy := func(cluster string) {
				hub.ApplyYAML(ctx, fmt.Sprintf(ready, cluster, ns))
			}
			if inClusters {
				for i := range 4 {
					hub.ApplyYAML(ctx, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-%d}}", ns, i))
				}
			}
			deploy(ns + "-0")
			deploy(ns + "-2")
			testhub.Edit(ctx, hub, pl, func(pl *v1alpha1.Placement) {
				pl.Spec = fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "new")).Obj().Spec
			})
			Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).
				Should(ContainSubstring("waiting for " + ns + "-1 (" + source + ": no object matches)"))
			Expect(listed(ctx, ns)).To(Equal([]string{ns + "-0", ns + "-1", ns + "-2"}))
			deploy(ns + "-1")
			deploy(ns + "-3")
			Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal([]string{ns + "-1", ns + "-3"}))
		},
		Entry("argocd", "argocd", schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}, false, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: "%[1]s", namespace: "%[2]s"}
spec: {destination: {name: "%[1]s"}}
status: {health: {status: Healthy}, sync: {status: Synced}}
`),
		Entry("manifestwork", "manifestwork", schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"}, true, `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: "%[2]s", namespace: "%[1]s", labels: {work.open-cluster-management.io/manifestworkreplicaset: "%[2]s.web"}}
status: {conditions: [{type: Available, status: "True", observedGeneration: 1}]}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: "other-%[2]s", namespace: "%[1]s", labels: {work.open-cluster-management.io/manifestworkreplicaset: "other-%[2]s.web"}}
status: {conditions: [{type: Available, status: "False", observedGeneration: 1}]}
`),
	)
})
