package framework

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

// patience is how long anything may take on a busy machine; most take milliseconds, the end of a lease a quarter of a minute.
const patience = 40 * time.Second

var (
	config *rest.Config
	// kubeconfig is a file that leads to the hub.
	kubeconfig string
	// hub reads and writes past all caches, in the consumers' versions, with every right.
	hub client.WithWatch
)

// TestMain is the controller when it is started as one.
func TestMain(m *testing.M) {
	if path := os.Getenv(controllerVariable); path != "" {
		if err := control(path); err != nil {
			_, _ = os.Stderr.WriteString("controller: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFramework(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Framework")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "..", "bin", "hub")
	}
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	hub, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{
		"rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml", "admission/approval.yaml",
	} {
		applyFile(ctx, filepath.Join("..", "..", "..", "config", filepath.FromSlash(file)))
	}
})

// applyFile does what a user does with kubectl apply --server-side.
func applyFile(ctx context.Context, path string) {
	GinkgoHelper()
	file, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(file.Close()).To(Succeed()) }()
	documents := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); err != nil {
			Expect(err).To(MatchError(io.EOF))
			return
		}
		if len(object.Object) > 0 {
			Expect(hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("operator"))).To(Succeed())
		}
	}
}
