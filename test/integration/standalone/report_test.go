package standalone

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// outcome is what a command printed, and its exit code.
type outcome struct {
	out, err string
	code     int
}

// report runs `berth report`.
func report(ctx context.Context, args ...string) outcome {
	GinkgoHelper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, testhub.Binary(), append([]string{"report"}, args...)...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	return outcome{out: out.String(), err: errs.String(), code: command.ProcessState.ExitCode()}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

var _ = Describe("berth report", Ordered, ContinueOnFailure, func() {
	// The member is the hub itself.
	BeforeAll(func(ctx SpecContext) {
		anything := true
		_, err := envtest.InstallCRDs(alone.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{{
			ObjectMeta: metav1.ObjectMeta{Name: "clusterclaims." + v1alpha1.GroupName},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: v1alpha1.GroupName, Scope: apiextensionsv1.ClusterScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusterclaims", Singular: "clusterclaim", Kind: "ClusterClaim", ListKind: "ClusterClaimList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1alpha1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
					},
				}},
			},
		}}})
		Expect(err).NotTo(HaveOccurred())
		alone.ApplyYAML(ctx, `
{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: region}, spec: {value: north}}
---
{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: id.example.com}, spec: {value: "42"}}
---
{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: unset}, spec: {}}
`)
		for name, cordoned := range map[string]bool{"n1": false, "n2": false, "cordoned": true} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
			Expect(alone.Create(ctx, node)).To(Succeed())
			node.Status.Capacity, node.Status.Allocatable = resources("4", "16Gi"), resources("3500m", "15Gi")
			Expect(alone.Status().Update(ctx, node)).To(Succeed())
		}
	})

	args := func(name string, more ...string) []string {
		return append([]string{name, "--kubeconfig", alone.Kubeconfig, "--member-kubeconfig", alone.Kubeconfig, "--once"}, more...)
	}
	fetch := func(ctx context.Context, c *v1alpha1.ManagedCluster) {
		GinkgoHelper()
		Expect(alone.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
	}
	quantities := func(list v1alpha1.ResourceList) map[string]string {
		text := map[string]string{}
		for name, q := range list {
			text[string(name)] = q.String()
		}
		return text
	}

	It("writes the status of a member once, and keeps it when the member is gone", func(ctx SpecContext) {
		c := fixture.Cluster(unique("member")).Set("x").Obj()
		alone.make(ctx, c)
		server, err := discovery.NewDiscoveryClientForConfigOrDie(alone.Config).ServerVersion()
		Expect(err).NotTo(HaveOccurred())

		Expect(report(ctx, args(c.Name)...)).To(Equal(outcome{out: "ManagedCluster " + c.Name +
			": available True, allocatable cpu 7, memory 30Gi, 2 claims, version " + server.GitVersion + "\n"}))
		fetch(ctx, c)
		Expect(quantities(c.Status.Capacity)).To(Equal(map[string]string{"cpu": "12", "memory": "48Gi"}))
		Expect(quantities(c.Status.Allocatable)).To(Equal(map[string]string{"cpu": "7", "memory": "30Gi"}), "without the cordoned node")
		Expect(c.Status.ClusterClaims).To(Equal([]v1alpha1.ManagedClusterClaim{{Name: "id.example.com", Value: "42"}, {Name: "region", Value: "north"}}))
		Expect(c.Status.Version.Kubernetes).To(Equal(server.GitVersion))
		Expect(testhub.Condition(ctx, alone, c, v1alpha1.ManagedClusterConditionAvailable)).To(HavePrefix("True ManagedClusterAvailable: "))

		By("having nothing new to say")
		before := c.ResourceVersion
		Expect(report(ctx, args(c.Name)...)).To(Equal(outcome{}))
		fetch(ctx, c)
		Expect(c.ResourceVersion).To(Equal(before))

		By("not reaching the member")
		nowhere := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		lost, err := os.ReadFile(alone.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		lost = regexp.MustCompile(`server: .*`).ReplaceAll(lost, []byte("server: https://127.0.0.1:1"))
		Expect(os.WriteFile(nowhere, lost, 0o600)).To(Succeed())
		facts := c.Status.DeepCopy()
		got := report(ctx, args(c.Name, "--member-kubeconfig", nowhere)...)
		Expect(got.code).To(Equal(1))
		Expect(got.out).To(BeEmpty())
		Expect(got.err).To(MatchRegexp(`^berth: ManagedCluster \S+: the condition Available stays as it was: The member does not respond: .*connection refused\n$`))
		fetch(ctx, c)
		Expect(c.Status).To(Equal(*facts))

		By("not reaching it three times in a row")
		running := startReport(c.Name, "--kubeconfig", alone.Kubeconfig, "--member-kubeconfig", nowhere, "--interval", "1s", "--failure-threshold", "3")
		Eventually(running.out).Should(ContainSubstring("failure 2 of 3 in a row"))
		fetch(ctx, c)
		Expect(c.Status.Conditions).To(Equal(facts.Conditions), "after two failures")
		Eventually(func() []v1alpha1.Taint { fetch(ctx, c); return c.Spec.Taints }).Should(HaveExactElements(
			HaveField("Key", v1alpha1.ManagedClusterTaintUnreachable)))
		running.stop()
		condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
		Expect(condition).To(HaveValue(And(HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", "ManagedClusterUnreachable"),
			HaveField("Message", MatchRegexp("^The member does not respond: .*connection refused$")))))
		facts.Conditions, c.Status.Conditions = nil, nil
		Expect(c.Status).To(Equal(*facts))

		By("reaching it again")
		Expect(report(ctx, args(c.Name)...).out).To(ContainSubstring("available True"))
		Eventually(func() []v1alpha1.Taint { fetch(ctx, c); return c.Spec.Taints }).Should(BeEmpty())
	})

	It("fails if the ManagedCluster does not exist", func(ctx SpecContext) {
		got := report(ctx, args("stranger")...)
		Expect(got.code).To(Equal(1))
		Expect(got.out).To(BeEmpty())
		Expect(got.err).To(MatchRegexp(`^berth: reading ManagedCluster stranger: .*"stranger" not found\n$`))
	})

	It("fails if the kubeconfig does not exist", func(ctx SpecContext) {
		got := report(ctx, "c", "--kubeconfig", alone.Kubeconfig, "--member-kubeconfig", "/nonexistent", "--once")
		Expect(got.code).To(Equal(1))
		Expect(got.err).To(MatchRegexp(`^berth: finding the member: .*/nonexistent.*\n$`))
	})

	DescribeTable("refuses wrong usage", func(ctx SpecContext, line, want string) {
		got := report(ctx, strings.Fields(line)...)
		Expect(got.code).To(Equal(2))
		Expect(got.out).To(BeEmpty())
		Expect(got.err).To(And(HavePrefix("berth: "), ContainSubstring(want), HaveSuffix("(see berth report --help)\n")))
		Expect(strings.Count(got.err, "\n")).To(Equal(1))
	},
		Entry("without a name", "--member-kubeconfig f", "the NAME of the ManagedCluster is required, or --members-from-secrets"),
		Entry("with two names", "a b --member-kubeconfig f", "accepts at most 1 arg"),
		Entry("without a member kubeconfig", "a", "--member-kubeconfig is required"),
		Entry("with an interval below one second", "a --member-kubeconfig f --interval 1ms", "--interval: 1ms must be at least 1s"),
		Entry("without a failure", "a --member-kubeconfig f --failure-threshold 0", "--failure-threshold: 0 must be at least 1"),
		Entry("with a name and Secrets", "a --members-from-secrets fleet", `takes the names of the ManagedClusters from the Secrets: omit "a"`),
		Entry("with two sources", "--members-from-secrets fleet --member-kubeconfig f", "exclude each other"),
		Entry("with Secrets, once", "--members-from-secrets fleet --once", "--once reports one member"),
		Entry("with an unknown flag", "a --colour red", "unknown flag: --colour"),
	)
})
