package install

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The rendered manifests", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		// Nothing can be tried in a namespace that is not there.
		create(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}`)
		objects, err := kustomize("rbac")
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			if o.GetKind() == "Namespace" || o.GetKind() == "ServiceAccount" {
				Expect(apply(ctx, o)).To(Succeed())
			}
		}
	})

	for _, name := range slices.Sorted(maps.Keys(renderings)) {
		It("are accepted by an API server: "+name, func(ctx SpecContext) {
			objects, err := renderings[name]()
			Expect(err).NotTo(HaveOccurred())
			Expect(objects).NotTo(BeEmpty())
			for _, o := range objects {
				if !known(o) {
					continue
				}
				warnings.Reset()
				err := hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.DryRunAll, client.FieldOwner("installer"), client.ForceOwnership)
				Expect(err).NotTo(HaveOccurred(), title(o))
				Expect(warnings.String()).To(BeEmpty(), title(o))
				if o.GetKind() == "Deployment" {
					Expect(hub.Create(ctx, pod(o), client.DryRunAll, client.FieldValidation("Strict"))).To(Succeed(), "the restricted pods of "+title(o))
				}
			}
		})
	}

	It("are refused by the API server if they contain a mistake", func(ctx SpecContext) {
		objects, err := kustomize("manager")
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			if o.GetKind() != "Deployment" {
				continue
			}
			bad := pod(o)
			Expect(unstructured.SetNestedField(bad.Object, false, "spec", "securityContext", "runAsNonRoot")).To(Succeed())
			Expect(hub.Create(ctx, bad, client.DryRunAll)).To(MatchError(ContainSubstring("runAsNonRoot")))
			o = o.DeepCopy()
			Expect(unstructured.SetNestedField(o.Object, "two", "spec", "replicas")).To(Succeed())
			Expect(apply(ctx, o, client.DryRunAll)).To(MatchError(And(ContainSubstring("Deployment.apps berth-system/berth"), ContainSubstring("replicas"))))
		}
	})
})

// pod is the pod of a Deployment. Pod security refuses a pod, but only warns of a Deployment.
func pod(deployment *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	Expect(err).NotTo(HaveOccurred())
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(deployment.GetNamespace())
	pod.SetName(fmt.Sprintf("%s-try", deployment.GetName()))
	return pod
}
