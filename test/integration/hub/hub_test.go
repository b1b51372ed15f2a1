package hub

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/testhub"
)

// The specs share one data directory and run in order, because a start costs seconds.
var _ = Describe("The local hub", Ordered, func() {
	var (
		dataDir string
		running *hub
	)
	BeforeAll(func() {
		dataDir = filepath.Join(GinkgoT().TempDir(), "data") // berth makes it
		running = up(dataDir)
	})

	It("accepts only its owner's credentials", func(ctx SpecContext) {
		Expect(running.client.Create(ctx, newNamespace("kept"))).To(Succeed())
		Expect(running.client.Create(ctx, newConfigMap("kept", "kept"))).To(Succeed())

		info, err := os.Stat(filepath.Join(dataDir, "kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))

		stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dataDir, "kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		response, err := stranger.Get(config.Host + "/version")
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
		_, err = stranger.Get(etcdURL(dataDir) + "/version")
		Expect(err).To(MatchError(ContainSubstring("certificate required")))
	})

	It("refuses a second start and continues to run", func(ctx SpecContext) {
		second := begin(dataDir)
		Eventually(second, stopTimeout).Should(gexec.Exit(1))
		Expect(string(second.Err.Contents())).To(MatchRegexp(`^berth: .*already running on .*\(pid %d\).*\n$`, running.Command.Process.Pid))
		Expect(second.Out.Contents()).To(BeEmpty())
		Expect(running.client.Get(ctx, client.ObjectKey{Name: "kept", Namespace: "kept"}, &corev1.ConfigMap{})).To(Succeed())
		Expect(running.living()).To(ConsistOf("etcd", "kube-apiserver", "gc"))
	})

	It("prints commands that work in another terminal, with a kubectl of its own", func(ctx SpecContext) {
		Eventually(running).Should(gbytes.Say("Ctrl-C stops the hub"))
		_, printed, _ := strings.Cut(string(running.Out.Contents()), "Try in another terminal:\n")
		commands, _, _ := strings.Cut(printed, "\n\n")
		command := exec.CommandContext(ctx, "bash", "-ec", commands+"\ncommand -v kubectl\nkubectl version\nkubectl placement version")
		command.Dir = GinkgoT().TempDir()
		command.Env = []string{"HOME=" + command.Dir, "PATH=/usr/bin:/bin"}
		out, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s:\n%s", commands, out)
		Expect(string(out)).To(And(ContainSubstring("numberOfClusters"), ContainSubstring("/kubectl\n"), MatchRegexp(`(?m)^berth `)))
		versions := regexp.MustCompile(`(?m)^(?:Client|Server) Version: (.*)$`).FindAllStringSubmatch(string(out), -1)
		Expect(versions).To(HaveLen(2), "%s", out)
		Expect(versions[0][1]).To(Equal(versions[1][1]), "kubectl is not of the hub's version")
	})

	It("has the roles for people", func(ctx SpecContext) {
		kubectl := testhub.Connect(filepath.Join(dataDir, "kubeconfig")).Kubectl
		kubectl(ctx, "get", "clusterrole", "berth-viewer", "berth-editor", "berth-approver", "berth-evictor", "berth-disruption-policy-editor")
	})

	It("accepts config/default from kubectl, server-side and not, again and again", func(ctx SpecContext) {
		kubectl := testhub.Connect(filepath.Join(dataDir, "kubeconfig")).Kubectl
		manifests := filepath.Join("..", "..", "..", "config", "default")
		kubectl(ctx, "apply", "--server-side", "-k", manifests)
		kubectl(ctx, "apply", "-k", manifests)
		kubectl(ctx, "apply", "--server-side", "-k", manifests)
	})

	It("deletes the dependents of a deleted object", func(ctx SpecContext) {
		owner := newConfigMap("kept", "owner")
		Expect(running.client.Create(ctx, owner)).To(Succeed())
		dependant := newConfigMap("kept", "dependant")
		dependant.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		Expect(running.client.Create(ctx, dependant)).To(Succeed())
		Expect(running.client.Delete(ctx, owner)).To(Succeed())
		eventuallyGone(ctx, running.client, dependant)
	})

	It("does not let the garbage collector delete a Placement that only approvers can delete", func(ctx SpecContext) {
		guarded := newPlacement("kept", "guarded")
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "berth.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": map[string]any{"namespace": "kept", "name": "guarded"},
			"spec": map[string]any{"placements": []any{"guarded"}, "approval": "Required"},
		}}
		Expect(running.client.Create(ctx, policy)).To(Succeed())
		Expect(running.client.Create(ctx, guarded)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(running.client.Get(ctx, client.ObjectKeyFromObject(guarded), guarded)).To(Succeed())
			conditions, _, _ := unstructured.NestedSlice(guarded.Object, "status", "conditions")
			g.Expect(conditions).NotTo(BeEmpty())
		}).Should(Succeed())
		// An owner that never was is as good as one that is gone.
		ghost := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "ghost", UID: "11111111-2222-3333-4444-555555555555"}}
		patch := client.MergeFrom(guarded.DeepCopy())
		guarded.SetOwnerReferences(ghost)
		Expect(running.client.Patch(ctx, guarded, patch)).To(Succeed())
		dependant := newConfigMap("kept", "haunted")
		dependant.OwnerReferences = ghost
		Expect(running.client.Create(ctx, dependant)).To(Succeed())

		eventuallyGone(ctx, running.client, dependant)
		Eventually(func() (string, error) {
			log, err := os.ReadFile(filepath.Join(dataDir, "logs", "gc.log"))
			return string(log), err
		}).Should(MatchRegexp(`user system:serviceaccount:kube-system:generic-garbage-collector may not delete Placement guarded while DisruptionPolicy `))
		Expect(running.client.Get(ctx, client.ObjectKeyFromObject(guarded), guarded)).To(Succeed())
		Expect(guarded.GetDeletionTimestamp()).To(BeNil())
		Expect(running.client.Delete(ctx, guarded)).To(Succeed(), "an administrator may approve")
		eventuallyGone(ctx, running.client, guarded)
	})

	It("deletes the pages of a deleted Placement", func(ctx SpecContext) {
		placement := newPlacement("kept", "short-lived")
		Expect(running.client.Create(ctx, placement)).To(Succeed())
		page := newPage("kept", "short-lived-decision-1")
		Eventually(func() error { return running.client.Get(ctx, client.ObjectKeyFromObject(page), page) }).Should(Succeed())
		Expect(running.client.Delete(ctx, placement)).To(Succeed())
		eventuallyGone(ctx, running.client, page)
	})

	It("collects objects of kinds that are installed while it runs", func(ctx SpecContext) {
		crd := newBoatCRD()
		Expect(running.client.Create(ctx, crd)).To(Succeed())
		owner := newBoat("kept", "owner")
		Eventually(func() error { return running.client.Create(ctx, owner) }).Should(Succeed())
		dependant := newConfigMap("kept", "cargo")
		dependant.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		}}
		Expect(running.client.Create(ctx, dependant)).To(Succeed())
		Expect(running.client.Delete(ctx, owner)).To(Succeed())
		eventuallyGone(ctx, running.client, dependant)
		Expect(running.client.Delete(ctx, crd)).To(Succeed())
		eventuallyGone(ctx, running.client, crd)
	})

	It("deletes a namespace with its objects", func(ctx SpecContext) {
		namespace := newNamespace("gone")
		Expect(running.client.Create(ctx, namespace)).To(Succeed())
		Expect(running.client.Create(ctx, newConfigMap("gone", "content"))).To(Succeed())
		Expect(running.client.Create(ctx, newPlacement("gone", "content"))).To(Succeed())
		Expect(running.client.Delete(ctx, namespace)).To(Succeed())
		eventuallyGone(ctx, running.client, namespace)
	})

	It("stops everything on Ctrl-C", func() {
		// A terminal sends the signal to the whole process group of berth.
		Expect(syscall.Kill(-running.Command.Process.Pid, syscall.SIGINT)).To(Succeed())
		Eventually(running, stopTimeout).Should(gexec.Exit(0))
		Expect(running.living()).To(BeEmpty())
		Expect(running.Err.Contents()).To(BeEmpty())
		Expect(filepath.Glob(filepath.Join(dataDir, "run", "*"))).To(BeEmpty())
	})

	for _, name := range []string{"etcd", "kube-apiserver", "gc"} {
		It("keeps all data, and reports the reason, when "+name+" is killed", func(ctx SpecContext) {
			running = up(dataDir)
			Expect(running.client.Get(ctx, client.ObjectKey{Name: "kept", Namespace: "kept"}, &corev1.ConfigMap{})).To(Succeed())
			written := newConfigMap("kept", "before-the-end-of-"+name)
			Expect(running.client.Create(ctx, written)).To(Succeed())

			Expect(syscall.Kill(running.pids[name], syscall.SIGKILL)).To(Succeed())
			Eventually(running, stopTimeout).Should(gexec.Exit(1))
			Expect(running.Err).To(gbytes.Say(`^berth: %s \(pid %d\) ended unexpectedly: signal: killed; .*%s\.log`, name, running.pids[name], name))
			Expect(running.living()).To(BeEmpty())
		})
	}

	It("stops its processes when berth itself is killed", func() {
		running = up(dataDir)
		Expect(syscall.Kill(running.Command.Process.Pid, syscall.SIGKILL)).To(Succeed())
		Eventually(running, stopTimeout).Should(gexec.Exit())
		if runtime.GOOS == "linux" { // elsewhere the next start does it
			Eventually(running.living, stopTimeout).Should(BeEmpty())
		}
	})

	It("keeps all data after that", func(ctx SpecContext) {
		killed := running
		running = up(dataDir)
		Expect(killed.living()).To(BeEmpty())
		for _, name := range []string{"kept", "before-the-end-of-etcd", "before-the-end-of-kube-apiserver", "before-the-end-of-gc"} {
			Expect(running.client.Get(ctx, client.ObjectKey{Name: name, Namespace: "kept"}, &corev1.ConfigMap{})).To(Succeed())
		}
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))
		Expect(running.living()).To(BeEmpty())
	})
})

var _ = Describe("The local hub during its start", func() {
	It("can be interrupted", func() {
		dataDir := GinkgoT().TempDir()
		session := begin(dataDir)
		Eventually(filepath.Join(dataDir, "run", "kube-apiserver.pid"), startTimeout).Should(BeARegularFile())
		starting := &hub{Session: session, pids: map[string]int{
			"etcd":           childPID(dataDir, "etcd"),
			"kube-apiserver": childPID(dataDir, "kube-apiserver"),
		}}
		Eventually(session.Interrupt(), stopTimeout).Should(gexec.Exit(1))
		Expect(string(session.Err.Contents())).To(Equal("berth: waiting for the API server: interrupted\n"))
		Expect(starting.living()).To(BeEmpty())
	})

	It("decides before gc and kubectl are built, and starts gc then", func() {
		// Beside this copy of berth is no folder with the hub's other programs.
		binary, err := os.ReadFile(testhub.Binary())
		Expect(err).NotTo(HaveOccurred())
		folder, dataDir, assets := GinkgoT().TempDir(), GinkgoT().TempDir(), linkAssets("etcd", "kube-apiserver")
		Expect(os.WriteFile(filepath.Join(folder, "berth"), binary, 0o700)).To(Succeed())
		GinkgoT().Setenv("BERTH_BIN", filepath.Join(folder, "berth"))
		GinkgoT().Setenv("KUBEBUILDER_ASSETS", assets)

		session := begin(dataDir, "--samples")
		Eventually(session, startTimeout).Should(gbytes.Say(`NAMESPACE +PLACEMENT`))
		Eventually(session).Should(gbytes.Say("Not built yet: gc and kubectl. `make run` builds them now"))
		Expect(filepath.Join(dataDir, "run", "gc.pid")).NotTo(BeAnExistingFile())

		collector := filepath.Join(testhub.KubectlFolder(), "gc")
		Expect(os.Symlink(collector, filepath.Join(assets, "gc"))).To(Succeed())
		Eventually(filepath.Join(dataDir, "run", "gc.pid")).Should(BeARegularFile())
		Consistently(session.Out, "300ms").ShouldNot(gbytes.Say("Try in another terminal"))
		Expect(os.Symlink(collector, filepath.Join(assets, "kubectl"))).To(Succeed())
		Eventually(session).Should(gbytes.Say("PATH=" + folder + ":" + assets + ":"))

		Expect(syscall.Kill(childPID(dataDir, "gc"), syscall.SIGKILL)).To(Succeed())
		Eventually(session, stopTimeout).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say(`^berth: gc \(pid \d+\) ended unexpectedly: signal: killed`))
	})

	It("reports the process that exited, not the errors that follow", func() {
		assets := linkAssets("etcd", "kube-apiserver")
		script := []byte("#!/bin/sh\necho gc cannot run\nexit 7\n")
		Expect(os.WriteFile(filepath.Join(assets, "gc"), script, 0o700)).To(Succeed())
		GinkgoT().Setenv("KUBEBUILDER_ASSETS", assets)

		session := begin(GinkgoT().TempDir())
		Eventually(session, startTimeout).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say(`^berth: gc \(pid \d+\) ended unexpectedly: exit status 7; the last lines of .*gc\.log:\n +gc cannot run\n$`))
	})
})

// linkAssets returns a new folder with only these programs of the hub.
func linkAssets(names ...string) string {
	GinkgoHelper()
	assets := GinkgoT().TempDir()
	for _, name := range names {
		Expect(os.Symlink(filepath.Join(testhub.Assets(), name), filepath.Join(assets, name))).To(Succeed())
	}
	return assets
}

func eventuallyGone(ctx context.Context, c client.Client, object client.Object) {
	GinkgoHelper()
	Eventually(ctx, testhub.IsGone, time.Minute).WithArguments(c, object).Should(BeTrue())
}
