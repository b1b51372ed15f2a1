package argocd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	log "github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Second
)

var (
	config *rest.Config
	scheme = runtime.NewScheme()
	// hub is the person who administers the hub; kubeconfig is that person's file.
	hub        client.WithWatch
	kubeconfig string
)

func TestArgoCD(t *testing.T) {
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Argo CD")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetOutput(GinkgoWriter)
	log.SetLevel(log.ErrorLevel)
	ctrl.SetLogger(GinkgoLogr)
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(argov1alpha1.AddToScheme(scheme)).To(Succeed())

	config = up(filepath.Join(GinkgoT().TempDir(), "data"))
	var err error
	hub, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	installArgoCD(ctx)
})

// withRefresh is the default profile with the plugin ArgoCDRefresh.
const withRefresh = `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: ArgoCDRefresh}]}}
`

func binary() string {
	GinkgoHelper()
	berth := os.Getenv("BERTH_BIN")
	if berth == "" {
		berth = filepath.Join("..", "..", "bin", "berth")
	}
	berth, err := filepath.Abs(berth)
	Expect(err).NotTo(HaveOccurred())
	Expect(berth).To(BeARegularFile(), "make build builds it")
	return berth
}

// up runs `berth up` on the data directory until the suite ends.
func up(dataDir string) *rest.Config {
	GinkgoHelper()
	configuration := dataDir + ".yaml"
	Expect(os.WriteFile(configuration, []byte(withRefresh), 0o600)).To(Succeed())
	session, err := gexec.Start(exec.Command(binary(), "up", "--data-dir", dataDir, "--config", configuration), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		session.Signal(syscall.SIGTERM)
		Eventually(session, stopTimeout).Should(gexec.Exit(0))
	})
	Eventually(session, startTimeout).Should(Or(gbytes.Say("Try in another terminal"), gexec.Exit()))
	Expect(session.ExitCode()).To(Equal(-1), "berth up ended: %s", session.Err.Contents())
	kubeconfig = filepath.Join(dataDir, "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return config
}

// installArgoCD applies what its own manifests say of kinds and rights, and the project that is
// there by default.
func installArgoCD(ctx context.Context) {
	GinkgoHelper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3").Output()
	Expect(err).NotTo(HaveOccurred())
	manifests := filepath.Join(strings.TrimSpace(string(out)), "manifests")
	for _, kind := range []string{"application", "applicationset", "appproject"} {
		applyFile(ctx, filepath.Join(manifests, "crds", kind+"-crd.yaml"), "")
	}
	// New kinds are served a moment later.
	for _, list := range []client.ObjectList{&argov1alpha1.ApplicationList{}, &argov1alpha1.ApplicationSetList{}, &argov1alpha1.AppProjectList{}} {
		Eventually(func() error { return hub.List(ctx, list) }).Should(Succeed())
	}
	apply(ctx, parse(`{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}`)[0])
	for _, object := range []string{"sa", "role", "rolebinding"} {
		file := fmt.Sprintf("argocd-applicationset-controller-%s.yaml", object)
		applyFile(ctx, filepath.Join(manifests, "base", "applicationset-controller", file), namespace)
	}
	for _, object := range parse(`
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: "*"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
`) {
		apply(ctx, object)
	}
}
