package install

import (
	"os"
	"os/exec"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var _ = Describe("The reporter as its service account", func() {
	It("reports a member with exactly its permissions", func(ctx SpecContext) {
		everything, err := kustomize("default")
		Expect(err).NotTo(HaveOccurred())
		reporter, err := kustomize("reporter")
		Expect(err).NotTo(HaveOccurred())
		arguments := []string{"--interval=1s"}
		for _, o := range slices.Concat(everything, reporter) {
			switch o.GetKind() {
			case "CustomResourceDefinition", "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
				Expect(apply(ctx, o)).To(Succeed())
			case "Deployment":
				if o.GetName() == "berth-reporter" {
					containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
					given, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
					arguments = append(given, arguments...)
				}
			}
		}
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: reported, labels: {`+ocm+`/clusterset: elsewhere}}}`)
		create(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: reported}}`)

		By("reading the member's kubeconfig from a Secret; the member is the hub itself")
		text, err := os.ReadFile(adminKubeconfig())
		Expect(err).NotTo(HaveOccurred())
		secret := object("v1", "Secret", "berth-system", "reported")
		secret.SetLabels(map[string]string{"berth.dev/member": "reported"})
		Expect(unstructured.SetNestedStringMap(secret.Object, map[string]string{"kubeconfig": string(text)}, "stringData")).To(Succeed())
		Expect(apply(ctx, secret)).To(Succeed())

		command := exec.Command(binary(), append(arguments, "--kubeconfig="+kubeconfigOf(token(ctx, "berth-reporter")))...)
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Terminate().Wait() })
		Eventually(availability(ctx, "reported")).Should(Equal("True ManagedClusterAvailable"))
		Expect(string(session.Out.Contents())).NotTo(ContainSubstring("PRIVATE KEY"))

		granted := rights(reporter)
		Eventually(func() map[string]bool { used, _ := requests(account + "-reporter"); return used }).Should(Equal(granted))
		_, refused := requests(account + "-reporter")
		Expect(refused).To(BeEmpty())
	})
})
