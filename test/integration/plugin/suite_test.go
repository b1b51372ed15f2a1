package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 40 * time.Second

// The names under which the plugin is found.
const (
	pluginName     = "kubectl-placement"
	completionName = "kubectl_complete-placement"
)

var (
	root = filepath.Join("..", "..", "..")
	// programs is a folder with the plugin under its names.
	programs string
	// hub reads and writes past all caches, in the consumers' versions, with every right.
	hub client.Client
)

// TestMain is the plugin when it is started as one.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case pluginName, completionName:
		os.Exit(app.Run(app.NewCommand(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plugin")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "hub")
	}
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	hub, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{
		"rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml", "admission/approval.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(file)))
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, string(text), false)
	}
	runController(config)

	programs = GinkgoT().TempDir()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{pluginName, completionName} {
		Expect(os.Symlink(self, filepath.Join(programs, name))).To(Succeed())
	}
	kubeconfig := filepath.Join(programs, "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	Expect(os.Setenv("KUBECONFIG", kubeconfig)).To(Succeed())
})

// runController decides until the suite ends, with the rights of the account in config/rbac.
func runController(config *rest.Config) {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = "system:serviceaccount:berth-system:berth"
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := controllers.NewManager(ctx, config, controllers.Options{MetricsAddress: "0", HealthAddress: "0", Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
}

// apply does what a user does with kubectl apply --server-side, and --subresource=status.
func apply(ctx context.Context, text string, status bool) {
	GinkgoHelper()
	documents := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); err != nil {
			Expect(err).To(MatchError(io.EOF))
			return
		}
		switch configuration := client.ApplyConfigurationFromUnstructured(object); {
		case len(object.Object) == 0:
		case status:
			Expect(hub.Status().Apply(ctx, configuration, client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
		default:
			Expect(hub.Apply(ctx, configuration, client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
		}
	}
}

// result is what a run of the plugin came to.
type result struct {
	code     int
	out, err string
}

// run runs `kubectl placement` with words, and gives it what it reads.
func run(ctx context.Context, in string, words ...string) result {
	GinkgoHelper()
	return runAs(ctx, pluginName, in, words...)
}

func runAs(ctx context.Context, name, in string, words ...string) result {
	GinkgoHelper()
	command := exec.CommandContext(ctx, filepath.Join(programs, name), words...)
	var out, err bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(in), &out, &err
	if failure := command.Run(); failure != nil {
		exit := (*exec.ExitError)(nil)
		Expect(errors.As(failure, &exit)).To(BeTrue(), "%v", failure)
	}
	return result{command.ProcessState.ExitCode(), out.String(), err.String()}
}
