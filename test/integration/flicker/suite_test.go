package flicker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/test/faults"
)

// patience is how long a step may take on a busy machine.
const patience = 60 * time.Second

var (
	// hub reads and writes past all caches and past the proxy, in the consumers' versions.
	hub client.Client
	// direct and throughProxy are kubeconfig files.
	direct, throughProxy string
	// faulty stands between the controller and the hub.
	faulty *faults.Proxy
)

// TestMain is the observer when it is started as one.
func TestMain(m *testing.M) {
	faults.ObserveIfAsked()
	os.Exit(m.Run())
}

func TestFlicker(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Flicker")
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
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1

	hub, err = client.New(config, client.Options{Scheme: faults.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	direct = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(direct, environment.KubeConfig, 0o600)).To(Succeed())
	faulty = faults.StartProxy(config)
	throughProxy = faulty.Kubeconfig()
})
