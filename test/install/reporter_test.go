package install

import (
	"os"
	"os/exec"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		// The log has only the request's own verb.
		delete(granted, "create leases.coordination.k8s.io")
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: "reported", Name: "managed-cluster-lease"}, object("coordination.k8s.io/v1", "Lease", "", ""))).To(Succeed())
		Eventually(func() map[string]bool { used, _ := requests(account + "-reporter"); return used }).Should(Equal(granted))
		_, refused := requests(account + "-reporter")
		Expect(refused).To(BeEmpty())

		By("being refused every other lease")
		thief, err := client.New(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}, BearerToken: token(ctx, "berth-reporter")}, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		for _, namespace := range []string{"kube-system", "kube-node-lease", "berth-system", "reported"} {
			for _, name := range []string{"berth.berth.dev", "kube-controller-manager", "node-1"} {
				lease := object("coordination.k8s.io/v1", "Lease", namespace, name)
				Expect(thief.Apply(ctx, client.ApplyConfigurationFromUnstructured(lease), client.FieldOwner("thief"))).To(Satisfy(apierrors.IsForbidden))
				Expect(thief.Create(ctx, lease)).To(Satisfy(apierrors.IsForbidden))
				Expect(thief.Update(ctx, lease)).To(Satisfy(apierrors.IsForbidden))
				Expect(thief.Delete(ctx, lease)).To(Satisfy(apierrors.IsForbidden))
			}
			named := object("coordination.k8s.io/v1", "Lease", namespace, "managed-cluster-lease")
			Expect(thief.Create(ctx, named)).To(Satisfy(apierrors.IsForbidden))
		}
	})
})
