package install

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var _ = Describe("berth generator as its service account", func() {
	It("has exactly the permissions that it uses", func(ctx SpecContext) {
		everything, err := kustomize("default")
		Expect(err).NotTo(HaveOccurred())
		objects, err := kustomize("generator-argocd")
		Expect(err).NotTo(HaveOccurred())
		create(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}`)
		var arguments []string
		for _, o := range append(everything, objects...) {
			switch o.GetKind() {
			case "CustomResourceDefinition", "Namespace":
				Expect(apply(ctx, o)).To(Succeed())
			case "Deployment":
				if o.GetName() == "berth-generator" {
					containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
					arguments, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
				}
			}
		}
		for _, o := range objects {
			// Nothing makes pods here, and the chart's Deployment has another selector.
			if o.GetKind() != "Deployment" {
				Expect(apply(ctx, o)).To(Succeed())
			}
		}
		create(ctx, `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, namespace: berth-system}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: berth-system},
 rules: [{apiGroups: [cluster.open-cluster-management.io], resources: [placementdecisions], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reader, namespace: berth-system},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}, subjects: [{kind: ServiceAccount, name: reader, namespace: berth-system}]}`)
		Expect(arguments).To(ContainElements("--secure=false", "--argocd-namespace=argocd"))

		address := freeAddress()
		command := exec.Command(binary(), append(arguments, "--address="+address, "--kubeconfig="+kubeconfigOf(token(ctx, "berth-generator")))...)
		// A client lists where the API server does not begin a watch with what there is.
		command.Env = append(os.Environ(), "KUBE_FEATURE_WatchListClient=false")
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Terminate().Wait() })
		bearer := token(ctx, "reader")
		code := func(ctx context.Context, path, bearer string) int {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Authorization", "Bearer "+bearer)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return 0
			}
			defer response.Body.Close()
			return response.StatusCode
		}
		Eventually(code).WithArguments(ctx, "/readyz", "").Should(Equal(http.StatusOK))
		Expect(code(ctx, "/api/v1/inputs?placement=berth-system/any", bearer)).To(Equal(http.StatusNotFound))
		Expect(code(ctx, "/api/v1/inputs?placement=default/any", bearer)).To(Equal(http.StatusForbidden))

		used, refused := requests("system:serviceaccount:berth-system:berth-generator")
		Expect(refused).To(BeEmpty(), "requests that were forbidden")
		Expect(used).To(Equal(rights(objects)))
		said := string(session.Out.Contents()) + string(session.Err.Contents())
		Expect(strings.Contains(said, bearer)).To(BeFalse(), "the token is in no log")
	})
})
