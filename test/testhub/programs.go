package testhub

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Programs that suites start collect garbage as everywhere, other than the suites.
func init() { _, _ = os.Unsetenv("GOGC"), os.Unsetenv("GOMEMLIMIT") }

// rootFolder is found at the start, in the folder of the tested package: tests may change to
// another one.
var rootFolder = findRoot()

// root is the root folder of the repository.
func root() string { return rootFolder }

// findRoot returns the nearest parent folder with this package. Binaries do not have the path of
// their source, so that the build cache serves all clones.
func findRoot() string {
	folder, _ := os.Getwd()
	for ; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "test", "testhub", "programs.go")); err == nil || folder == filepath.Dir(folder) {
			return folder
		}
	}
}

// Assets is the folder of etcd and kube-apiserver: KUBEBUILDER_ASSETS, or the output of make hub.
func Assets() string {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return folder
	}
	return filepath.Join(root(), "bin", "hub")
}

// Binary is the path of the tested program: BERTH_BIN, or the output of make build.
func Binary() string {
	GinkgoHelper()
	path := os.Getenv("BERTH_BIN")
	if path == "" {
		path = filepath.Join(root(), "bin", "berth")
	}
	path, err := filepath.Abs(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(BeARegularFile(), "make build builds it")
	return path
}

// program is the path of a program of the hub, which Assets of other tools may lack.
func program(name string) string {
	GinkgoHelper()
	path := filepath.Join(Assets(), name)
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(root(), "bin", "hub", name)
	}
	Expect(path).To(BeARegularFile(), "make hub builds it")
	return path
}

// KubectlFolder is the folder of kubectl, for a PATH.
func KubectlFolder() string {
	GinkgoHelper()
	return filepath.Dir(program("kubectl"))
}

// Kubectl runs kubectl as the administrator and returns what it prints. It fails if kubectl does.
func (h *Hub) Kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, program("kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.Kubeconfig)
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %v: %s", args, out)
	return string(out)
}

// StartCollector starts the garbage collector, which also empties deleted namespaces.
func (h *Hub) StartCollector() {
	GinkgoHelper()
	gc := exec.Command(program("gc"), "--kubeconfig", h.collectorKubeconfig())
	gc.Stdout, gc.Stderr = GinkgoWriter, GinkgoWriter
	Expect(gc.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(gc.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(gc.Wait()).To(Succeed())
	})
}

// collectorKubeconfig lets the administrator impersonate the two controllers that gc runs.
func (h *Hub) collectorKubeconfig() string {
	GinkgoHelper()
	file, err := clientcmd.LoadFromFile(h.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	admin := file.Contexts[file.CurrentContext]
	for _, name := range []string{"generic-garbage-collector", "namespace-controller"} {
		user := file.AuthInfos[admin.AuthInfo].DeepCopy()
		user.Impersonate = "system:serviceaccount:kube-system:" + name
		file.AuthInfos[name] = user
		file.Contexts[name] = &api.Context{Cluster: admin.Cluster, AuthInfo: name}
	}
	path := filepath.Join(filepath.Dir(h.Kubeconfig), "gc.kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}
