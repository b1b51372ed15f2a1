package standalone

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const reported = "True ManagedClusterAvailable: The member answers and is ready"

// reporter is a running `berth report`.
type reporter struct {
	command *exec.Cmd
	mu      sync.Mutex
	text    bytes.Buffer
}

// startReport runs `berth report` until it is stopped or the spec ends.
func startReport(args ...string) *reporter {
	GinkgoHelper()
	r := &reporter{command: exec.Command(testhub.Binary(), append([]string{"report"}, args...)...)}
	r.command.Stdout, r.command.Stderr = r, r
	Expect(r.command.Start()).To(Succeed())
	DeferCleanup(r.stop)
	return r
}

func (r *reporter) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(text)
}

// out is everything that was printed.
func (r *reporter) out() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *reporter) stop() {
	GinkgoHelper()
	if r.command.ProcessState == nil {
		Expect(r.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(r.command.Wait()).To(Succeed(), r.out())
	}
}

// kill ends the process as a crash does.
func (r *reporter) kill() {
	GinkgoHelper()
	Expect(r.command.Process.Kill()).To(Succeed())
	Expect(r.command.Wait()).NotTo(Succeed())
}

var _ = Describe("The lease of a reported cluster", func() {
	It("is renewed by the reporter; when that stops, the cluster is Unknown and tainted, until it is back", func(ctx SpecContext) {
		c := alone.makeMember(ctx, unique("member"))
		args := []string{c.Name, "--kubeconfig", alone.Kubeconfig, "--member-kubeconfig", alone.Kubeconfig, "--interval", "1s"}
		running := startReport(args...)
		Eventually(alone.availability(ctx, c.Name)).Should(Equal(reported))
		var l coordinationv1.Lease
		Expect(alone.Get(ctx, client.ObjectKey{Namespace: c.Name, Name: "managed-cluster-lease"}, &l)).To(Succeed())
		Expect(l.Labels).To(HaveKeyWithValue("open-cluster-management.io/cluster-name", c.Name))
		Consistently(alone.availability(ctx, c.Name)).WithTimeout(7*time.Second).Should(Equal(reported), "for longer than the lease's end")

		By("killing it")
		running.kill()
		Eventually(alone.availability(ctx, c.Name)).Should(Equal(leaseStopped))
		Eventually(func() []v1alpha1.Taint {
			Expect(alone.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			return c.Spec.Taints
		}).Should(HaveExactElements(HaveField("Key", v1alpha1.ManagedClusterTaintUnreachable)))

		By("starting it again")
		startReport(args...)
		Eventually(alone.availability(ctx, c.Name)).Should(Equal(reported))
		Consistently(alone.availability(ctx, c.Name)).Should(Equal(reported))
	})

	It("needs a namespace: its absence is said once, and the report goes on", func(ctx SpecContext) {
		c := fixture.Cluster(unique("homeless")).Set("x").Obj()
		alone.make(ctx, c)
		running := startReport(c.Name, "--kubeconfig", alone.Kubeconfig, "--member-kubeconfig", alone.Kubeconfig, "--interval", "1s")
		Eventually(running.out).Should(ContainSubstring("the hub has no namespace " + c.Name + ": create it with kubectl create namespace " + c.Name))
		Eventually(alone.availability(ctx, c.Name)).Should(Equal(reported))
	})
})

var _ = Describe("berth report --members-from-secrets", func() {
	It("follows Secrets that come, change and go; a bad one harms no other", func(ctx SpecContext) {
		fleet := unique("fleet")
		testhub.CreateNamespace(ctx, alone, fleet)
		one, two, argo := alone.makeMember(ctx, unique("one")).Name, alone.makeMember(ctx, unique("two")).Name, alone.makeMember(ctx, unique("argo")).Name
		kubeconfig, err := os.ReadFile(alone.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		secret := func(name string, labels map[string]string, data map[string][]byte) *corev1.Secret {
			GinkgoHelper()
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name, Labels: labels}, Data: data}
			Expect(alone.Create(ctx, s)).To(Succeed())
			return s
		}
		secret("one", map[string]string{"berth.dev/member": one}, map[string][]byte{"kubeconfig": kubeconfig})
		bad := secret("two", map[string]string{"berth.dev/member": two}, map[string][]byte{"kubeconfig": []byte("hunter2")})
		secret("unrelated", nil, map[string][]byte{"kubeconfig": kubeconfig})

		running := startReport("--kubeconfig", alone.Kubeconfig, "--members-from-secrets", fleet, "--interval", "1s")
		Eventually(alone.availability(ctx, one)).Should(Equal(reported))
		Eventually(running.out).Should(And(
			ContainSubstring("Secret "+fleet+"/two, key kubeconfig: is no kubeconfig\n"), ContainSubstring("members: 1, invalid Secrets: 1\n")))

		By("adding a cluster of Argo CD")
		config, err := json.Marshal(map[string]any{"tlsClientConfig": map[string][]byte{
			"caData": alone.Config.CAData, "certData": alone.Config.CertData, "keyData": alone.Config.KeyData,
		}})
		Expect(err).NotTo(HaveOccurred())
		secret("cluster-argo", map[string]string{"argocd.argoproj.io/secret-type": "cluster"},
			map[string][]byte{"name": []byte(argo), "server": []byte(alone.Config.Host), "config": config})
		Eventually(alone.availability(ctx, argo)).Should(Equal(reported))

		By("repairing the bad one")
		bad.Data["kubeconfig"] = kubeconfig
		Expect(alone.Update(ctx, bad)).To(Succeed())
		Eventually(alone.availability(ctx, two)).Should(Equal(reported))
		Eventually(running.out).Should(ContainSubstring("members: 3, invalid Secrets: 0\n"))

		By("deleting one")
		Expect(alone.Delete(ctx, bad)).To(Succeed())
		Eventually(alone.availability(ctx, two)).Should(Equal(leaseStopped))
		Expect(alone.availability(ctx, one)()).To(Equal(reported))
		running.stop()
		Expect(running.out()).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("PRIVATE KEY")))
	})

	It("fails in a namespace whose Secrets it may not list", func(ctx SpecContext) {
		got := report(ctx, "--kubeconfig", powerless(), "--members-from-secrets", "fleet")
		Expect(got.code).To(Equal(1))
		Expect(got.err).To(MatchRegexp(`^berth: listing the Secrets of namespace fleet: .*\n$`))
	})
})

// powerless is a kubeconfig without credentials.
func powerless() string {
	GinkgoHelper()
	path := GinkgoT().TempDir() + "/kubeconfig"
	Expect(os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "`+alone.Config.Host+`", insecure-skip-tls-verify: true}}], users: [{name: u, user: {}}]}`), 0o600)).To(Succeed())
	return path
}
