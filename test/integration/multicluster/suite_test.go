// Package multicluster tests the PlacementDecisions of ClusterProfiles against a real kube-apiserver: that they appear, follow the
// answer, never lack a cluster that stays, and survive a controller that is killed.
package multicluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/faults"
)

// patience is how long a step may take on a busy machine.
const patience = 30 * time.Second

var (
	// hub reads and writes past all caches.
	hub client.Client
	// kubeconfig is a file that leads to the hub.
	kubeconfig string
)

// controllerVariable holds the kubeconfig of a test binary that is to be the controller, and argsVariable DecisionPublisher's arguments.
const (
	controllerVariable = "BERTH_TEST_CONTROLLER"
	argsVariable       = "BERTH_TEST_ARGS"
)

// TestMain is the controller when it is started as one.
func TestMain(m *testing.M) {
	if path := os.Getenv(controllerVariable); path != "" {
		if err := control(path, os.Getenv(argsVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func control(path, args string) error {
	hub, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("finding the hub: %w", err)
	}
	conf := &config.PlacementSchedulerConfiguration{}
	if args != "" {
		raw, err := yaml.YAMLToJSON([]byte(args))
		if err != nil {
			return fmt.Errorf("reading the arguments: %w", err)
		}
		conf.Profiles = []config.Profile{{Name: config.DefaultProfile, PluginConfig: []config.PluginConfig{{Name: "DecisionPublisher", Args: json.RawMessage(raw)}}}}
	}
	ctx := context.Background()
	manager, err := controllers.NewManager(ctx, hub, controllers.Options{MetricsAddress: "0", HealthAddress: "0", Config: conf, Log: logr.Discard()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// startController runs the controller in a process of its own until it is killed, or the spec ends. The function kills it.
func startController(args string) (kill func()) {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	process := exec.Command(self)
	process.Env = append(os.Environ(), controllerVariable+"="+kubeconfig, argsVariable+"="+args)
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		// It ends by SIGKILL, never well.
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	DeferCleanup(kill)
	return kill
}

func TestMulticluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Multicluster")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "..", "bin", "hub")
	}
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	hubConfig, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	hubConfig.QPS = -1
	hub, err = client.New(hubConfig, client.Options{Scheme: faults.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
})

// installCRD brings SIG-Multicluster's kind.
func installCRD(ctx context.Context) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "multicluster", "crd.yaml"))
	Expect(err).NotTo(HaveOccurred())
	object := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(text, object)).To(Succeed())
	Expect(hub.Create(ctx, object)).To(Succeed())
}
