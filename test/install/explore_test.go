package install

import (
	"io"
	"net/http"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var _ = Describe("The explorer for many people", func() {
	It("has no permissions of its own, and uses those of each bearer token", func(ctx SpecContext) {
		everything, err := kustomize("default")
		Expect(err).NotTo(HaveOccurred())
		explore, err := kustomize("explore")
		Expect(err).NotTo(HaveOccurred())
		var arguments []string
		for _, o := range append(everything, explore...) {
			switch o.GetKind() {
			case "CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole":
				Expect(apply(ctx, o)).To(Succeed())
			case "Deployment":
				if o.GetName() == "berth-explore" {
					containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
					arguments, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
				}
			}
		}
		for _, o := range explore {
			Expect(o.GetKind()).To(BeElementOf("ServiceAccount", "Deployment", "Service"))
		}
		Expect(arguments).To(ContainElement("--in-cluster"))
		create(ctx, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: looker, namespace: berth-system}}`)
		create(ctx, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: looker},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-fleet-viewer},
			subjects: [{kind: ServiceAccount, name: looker, namespace: berth-system}]}`)

		By("with a kubeconfig of the administrator, whose credentials are not used")
		address := freeAddress()
		command := exec.Command(binary(), append(arguments, "--address="+address, "--kubeconfig="+adminKubeconfig())...)
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Terminate().Wait() })
		ask := func(bearer string) (int, string) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/fleet", http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			if bearer != "" {
				request.Header.Set("Authorization", "Bearer "+bearer)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return 0, err.Error()
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			Expect(err).NotTo(HaveOccurred())
			return response.StatusCode, string(text)
		}
		code := func(bearer string) func() int {
			return func() int { code, _ := ask(bearer); return code }
		}
		Eventually(code("")).Should(Equal(http.StatusUnauthorized))
		Expect(code("forged")()).To(Equal(http.StatusUnauthorized))
		bearer := token(ctx, "looker")
		Eventually(func() string { _, text := ask(bearer); return text }).Should(ContainSubstring(`"state":"Connected"`))
		used, _ := requests("system:serviceaccount:berth-system:looker")
		Expect(used).To(HaveKey(right("watch", "placements", "cluster.open-cluster-management.io", "")))
		own, refused := requests("system:serviceaccount:berth-system:berth-explore")
		Expect(own).To(BeEmpty())
		Expect(refused).To(BeEmpty())
		said := string(session.Out.Contents()) + string(session.Err.Contents())
		Expect(strings.Contains(said, bearer)).To(BeFalse(), "the token is in no log")
	})
})
