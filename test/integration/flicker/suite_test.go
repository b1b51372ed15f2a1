package flicker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

// patience is how long a step may take on a busy machine.
const patience = 60 * time.Second

var (
	// hub reads and writes past all caches and past the proxy, in the consumers' versions.
	hub client.Client
	// direct and throughProxy are kubeconfig files.
	direct, throughProxy string
	// faulty stands between the controller and the hub.
	faulty *proxy
)

// TestMain is the observer when it is started as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(observerVariable); text != "" {
		if err := observe(text); err != nil {
			_, _ = os.Stderr.WriteString("observer: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
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

	hub, err = client.New(config, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	direct = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(direct, environment.KubeConfig, 0o600)).To(Succeed())
	faulty = startProxy(config)
	throughProxy = faulty.kubeconfig()
})

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types under one name: a mistake in the code
		}
	}
	return scheme
}
