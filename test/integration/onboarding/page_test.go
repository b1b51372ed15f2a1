package onboarding

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// section is a section of the page; its blocks have a language and a text.
type section struct {
	title  string
	blocks [][2]string
}

// sectionsOf reads the page.
func sectionsOf() []section {
	page, err := os.ReadFile(filepath.Join(root, "docs", "onboarding.md"))
	if err != nil {
		panic(err) // the tree of specs is made of it
	}
	var sections []section
	for i, text := range strings.Split(string(page), "\n## ") {
		title, rest, _ := strings.Cut(text, "\n")
		s := section{title: title}
		for _, block := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(rest, -1) {
			s.blocks = append(s.blocks, [2]string{block[1], block[2]})
		}
		if i > 0 || len(s.blocks) > 0 {
			sections = append(sections, s)
		}
	}
	return sections
}

// start starts commands of the page in a process group of their own.
func start(ctx context.Context, text string) *exec.Cmd {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "bash", "-e", "-c", text)
	path := strings.Join([]string{filepath.Dir(testhub.Binary()), testhub.KubectlFolder(), os.Getenv("PATH")}, string(os.PathListSeparator))
	command.Dir, command.Env = folder, append(os.Environ(), "KUBECONFIG="+hub.Kubeconfig, "PATH="+path)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// follow does what a block says: it writes a file, runs commands, or runs a reporter until the end
// of the section.
func follow(ctx context.Context, language, text string) {
	GinkgoHelper()
	By(text)
	switch {
	case language == "yaml":
		first, rest, _ := strings.Cut(text, "\n")
		Expect(first).To(HavePrefix("# "))
		file := filepath.Join(folder, strings.TrimPrefix(first, "# "))
		Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, []byte(rest), 0o600)).To(Succeed())
	case strings.HasPrefix(text, "berth report "):
		report := start(context.Background(), "exec "+strings.TrimSpace(text)+" --interval 1s")
		report.Stdout, report.Stderr = GinkgoWriter, GinkgoWriter
		Expect(report.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(report.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Expect(report.Wait()).To(Succeed())
		})
	default:
		Expect(language).To(Equal("sh"))
		out, err := start(ctx, text).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		GinkgoWriter.Println(string(out))
	}
}

// cluster is a check for Eventually: the status of the Available condition and the reason.
func available(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		return testhub.Condition(ctx, hub, fixture.Cluster(name).Obj(), v1alpha1.ManagedClusterConditionAvailable)
	}
}

const reported = "True ManagedClusterAvailable: "

// checks look at what the blocks of a section did.
var checks = map[string]func(ctx context.Context){
	"Clusters with a kubeconfig": func(ctx context.Context) {
		for _, name := range []string{"paris", "rome", "oslo"} {
			Eventually(available(ctx, name)).Should(HavePrefix(reported))
		}

		By("adding one again, and one with mistakes")
		add := func(words string) string {
			out, err := start(ctx, "berth add-cluster "+words+" --member-kubeconfig paris.kubeconfig --members-from-secrets members").CombinedOutput()
			if err != nil {
				return err.Error() + ": " + string(out)
			}
			return string(out)
		}
		Expect(add("paris")).To(HavePrefix("Namespace paris unchanged\nNamespace members unchanged\nManagedCluster paris unchanged\nSecret members/paris unchanged\n"))
		Expect(add("lyon --set default --dry-run")).To(Equal("Namespace lyon created (dry run)\nNamespace members unchanged (dry run)\n" +
			"ManagedCluster lyon created (dry run)\nSecret members/lyon created (dry run)\nNo Placement uses the set default.\n"))
		Expect(add("lyon --set nobody")).To(Equal("exit status 1: berth: there is no ManagedClusterSet nobody: create it first\n"))
		Expect(add("lyon --as eve")).To(HavePrefix("exit status 1: berth: "))
		Expect(hub.Kubectl(ctx, "get", "managedclusters", "-o", "name")).NotTo(ContainSubstring("lyon"))
	},
	"Open Cluster Management's agent": func(ctx context.Context) {
		request := &certificatesv1.CertificateSigningRequest{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "madrid-x"}, request)).To(Succeed())
		Expect(request.Status.Conditions).To(ConsistOf(HaveField("Type", certificatesv1.CertificateApproved)))
		c := &v1alpha1.ManagedCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "madrid"}, c)).To(Succeed())
		Expect(c.Spec.HubAcceptsClient).To(BeTrue())
	},
	"ClusterProfiles": func(ctx context.Context) {
		Expect(hub.Kubectl(ctx, "get", "deployment", "berth", "-n", "berth-system", "-o", "jsonpath={.spec.template.spec.containers[0].args}")).
			To(And(ContainSubstring(`"--housekeeping=*,cluster-profile"`), ContainSubstring(`"--cluster-profile-namespace=fleet"`)))
		c := &v1alpha1.ManagedCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "berlin"}, c)).To(Succeed())
		Expect(c.Labels).To(And(HaveKeyWithValue("env", "prod"), HaveKeyWithValue("x-k8s.io/cluster-manager", "example")))
		Expect(c.Status.ClusterClaims).To(Equal([]v1alpha1.ManagedClusterClaim{{Name: "region.example.com", Value: "eu-central"}}))
		Expect(c.Status.Version.Kubernetes).To(Equal("v1.36.1"))
		Expect(hub.Kubectl(ctx, "get", "managedclusters", "-l", v1alpha1.ClusterProfileNamespaceLabel, "-o", "name")).To(HaveSuffix("/berlin\n"))
	},
	"By hand": func(ctx context.Context) {
		Expect(available(ctx, "edge1")()).To(HavePrefix("True Told: "))
	},
	"Cluster sets": func(ctx context.Context) {
		// The clusters of the first section are not reported any more.
		Eventually(func() string {
			return hub.Kubectl(ctx, "get", "placementdecisions", "-n", "shop", "-o", "jsonpath={.items[*].status.decisions[*].clusterName}")
		}).Should(Or(Equal("berlin edge1 paris"), Equal("berlin edge1")))
	},
	"Argo CD cluster secrets": func(ctx context.Context) {
		secret := &corev1.Secret{}
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: "argocd", Name: "cluster-paris"}, secret)).To(Succeed())
		Expect(secret.Labels).To(HaveKeyWithValue("argocd.argoproj.io/secret-type", "cluster"))
		// madrid has an address, but no credentials.
		Expect(hub.Kubectl(ctx, "get", "secrets", "-n", "argocd", "-o", "name")).To(Equal("secret/cluster-paris\n"))

		By("refusing what a hostile agent writes")
		evil := fixture.Cluster("evil").Obj()
		evil.Spec.ManagedClusterClientConfigs = []v1alpha1.ClientConfig{{URL: "https://evil.example.com\n  config: '{\"execProviderConfig\":{}}'"}}
		Expect(hub.Create(ctx, evil)).To(Succeed())
		hub.ApplyYAML(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: evil}}")
		Expect(hub.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "argocd-manager"}, StringData: map[string]string{"token": "t"}})).To(Succeed())
		out, err := start(ctx, "berth argocd-clusters").CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(out)).To(And(ContainSubstring("ManagedCluster evil: spec.managedClusterClientConfigs[0].url: is no address"), ContainSubstring("Secret argocd/cluster-paris applied")))
		Expect(hub.Kubectl(ctx, "get", "secrets", "-n", "argocd", "-o", "name")).To(Equal("secret/cluster-paris\n"))

		By("connecting with it")
		rome := secret.DeepCopy()
		rome.ObjectMeta = metav1.ObjectMeta{Namespace: "argocd", Name: "again", Labels: secret.Labels}
		rome.Data["name"] = []byte("connected")
		Expect(hub.Delete(ctx, secret)).To(Succeed())
		Expect(hub.Create(ctx, rome)).To(Succeed())
		hub.ApplyYAML(ctx, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: connected}}")
		follow(ctx, "sh", "berth report --kubeconfig hub.kubeconfig --members-from-secrets argocd\n")
		Eventually(available(ctx, "connected")).Should(HavePrefix(reported))
	},
}

// before prepares what a section expects.
var before = map[string]func(ctx context.Context){
	"Argo CD cluster secrets": func(ctx context.Context) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "argocd-manager"}}
		request := &authenticationv1.TokenRequest{}
		Expect(hub.SubResource("token").Create(ctx, account, request)).To(Succeed())
		Expect(hub.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "argocd-manager"}, StringData: map[string]string{"token": request.Status.Token},
		})).To(Succeed())
		hub.Kubectl(ctx, "patch", "managedcluster", "madrid", "--type=merge", "-p", `{"spec":{"managedClusterClientConfigs":[{"url":"https://madrid.example.com:6443"}]}}`)
	},
}

var _ = Describe("docs/onboarding.md", Ordered, func() {
	It("has a check for each section", func() {
		var titles []string
		for _, s := range sectionsOf() {
			titles = append(titles, s.title)
		}
		Expect(titles).To(ConsistOf(slices.Collect(maps.Keys(checks))))
	})

	for _, s := range sectionsOf() {
		It(s.title, func(ctx SpecContext) {
			if prepare := before[s.title]; prepare != nil {
				prepare(ctx)
			}
			for _, block := range s.blocks {
				follow(ctx, block[0], block[1])
			}
			checks[s.title](ctx)
		})
	}
})
