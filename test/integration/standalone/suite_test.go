// Package standalone tests Berth on two hubs. On one it is alone, and keeps sets, bindings and clusters in order, under the
// admission policies, with an account that has no rights but those of config/rbac. The other has the CRDs of Open Cluster
// Management, and Berth does there what is its own and no more. `berth report` runs as a process; BERTH_BIN names another.
package standalone

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/admission"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

// account is who the controllers are on both hubs.
const account = "system:serviceaccount:berth-system:berth"

var (
	// alone has nothing but Berth.
	alone = &server{}
	// beside has the CRDs of Open Cluster Management.
	beside = &server{}
)

func TestStandalone(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Standalone")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	alone.start(ctx, crds)
	policies, err := admission.FS.ReadFile("cluster-sets.yaml")
	Expect(err).NotTo(HaveOccurred())
	alone.apply(ctx, string(policies))
	beside.start(ctx, foreignCRDs())

	alone.startBerth("*")
	DeferCleanup(alone.stopBerth)
	beside.startBerth("*")
	DeferCleanup(beside.stopBerth)
})

// server is an API server, and Berth's controller on it.
type server struct {
	config *rest.Config
	// Client reads and writes past all caches, in the consumers' versions, with every right.
	client.WithWatch
	// kubeconfig is a file that leads to the server.
	kubeconfig string

	cancel  context.CancelFunc
	stopped chan error
}

func (s *server) start(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "..", "bin", "hub")
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	var err error
	s.config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	s.config.QPS = -1
	s.WithWatch, err = client.NewWithWatch(s.config, client.Options{Scheme: scheme()})
	Expect(err).NotTo(HaveOccurred())
	s.kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(s.kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())

	for _, file := range []string{"service_account.yaml", "role.yaml", "role_binding.yaml"} {
		manifests, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		s.apply(ctx, string(manifests))
	}
}

func scheme() *runtime.Scheme {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, authorizationv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// as is the server as a user meets it.
func (s *server) as(user string) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.Impersonate.UserName = user
	return config
}

func (s *server) startBerth(housekeeping ...string) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := controllers.NewManager(ctx, s.as(account), controllers.Options{
		MetricsAddress: "0", HealthAddress: "0", Log: GinkgoLogr, Housekeeping: housekeeping,
	})
	Expect(err).NotTo(HaveOccurred())
	s.cancel, s.stopped = cancel, make(chan error, 1)
	go func() { s.stopped <- manager.Start(ctx) }()
}

func (s *server) stopBerth() {
	GinkgoHelper()
	s.cancel()
	Eventually(s.stopped).Should(Receive(BeNil()))
}

// restartBerth runs Berth with other housekeeping until the spec ends.
func (s *server) restartBerth(housekeeping ...string) {
	GinkgoHelper()
	s.stopBerth()
	s.startBerth(housekeeping...)
	DeferCleanup(func() {
		s.stopBerth()
		s.startBerth("*")
	})
}
