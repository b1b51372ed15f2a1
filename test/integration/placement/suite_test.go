// Package placement tests the controller against a real kube-apiserver, with the hub's garbage collector beside it: what is
// decided, published, said in conditions and events, repaired, and left alone.
package placement

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
)

// patience is how long a decision may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

var (
	config *rest.Config
	// kubeconfig is a file that leads to the hub.
	kubeconfig string
	// hub reads and writes past all caches, in the consumers' versions.
	hub client.WithWatch
	// berth is the controller under test.
	berth = &controller{}
)

func TestPlacement(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Placement")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = builtHub
	}
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, apiextensionsv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	hub, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	startCollector(assets)
	berth.start()
	DeferCleanup(berth.stop)
})

// builtHub is where `make hub` puts the hub's binaries.
var builtHub = filepath.Join("..", "..", "..", "bin", "hub")

// startCollector starts the garbage collector, which also empties deleted namespaces.
func startCollector(assets string) {
	binary := filepath.Join(assets, "gc")
	if _, err := os.Stat(binary); err != nil {
		binary = filepath.Join(builtHub, "gc")
	}
	gc := exec.Command(binary, "--kubeconfig", kubeconfigOfGC())
	gc.Stdout, gc.Stderr = GinkgoWriter, GinkgoWriter
	Expect(gc.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(gc.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(gc.Wait()).To(Succeed())
	})
}

// kubeconfigOfGC has the administrator act as each of the two controllers that gc runs.
func kubeconfigOfGC() string {
	GinkgoHelper()
	file, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	admin := file.Contexts[file.CurrentContext]
	for _, name := range []string{"generic-garbage-collector", "namespace-controller"} {
		user := file.AuthInfos[admin.AuthInfo].DeepCopy()
		user.Impersonate = "system:serviceaccount:kube-system:" + name
		file.AuthInfos[name] = user
		file.Contexts[name] = &api.Context{Cluster: admin.Cluster, AuthInfo: name}
	}
	path := filepath.Join(filepath.Dir(kubeconfig), "gc.kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}

// controller is one run of Berth's controller after the other, in this process.
type controller struct {
	cancel  context.CancelFunc
	stopped chan error
}

func (c *controller) start() {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := controllers.NewManager(ctx, config, controllers.Options{MetricsAddress: "0", HealthAddress: "0", Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	c.cancel, c.stopped = cancel, make(chan error, 1)
	go func() { c.stopped <- manager.Start(ctx) }()
}

func (c *controller) stop() {
	GinkgoHelper()
	c.cancel()
	Eventually(c.stopped).Should(Receive(BeNil()))
}
