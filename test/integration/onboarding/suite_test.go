// Package onboarding runs every block of docs/onboarding.md on a real API server, which is also
// the member of all reports, and checks what each section promises. `berth` runs as a process;
// BERTH_BIN selects another binary.
package onboarding

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const root = "../../.."

var (
	hub *testhub.Hub
	// folder has the files that the page writes and names, and a link to config.
	folder string
)

func TestOnboarding(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Onboarding")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.Start(ctx)
	hub.InstallCRD(ctx, testhub.Klusterlets)
	hub.InstallCRD(ctx, testhub.ClusterProfiles)
	metrics := testhub.FreeAddress()
	berth := exec.Command(testhub.Binary(), "controller", "--kubeconfig", hub.Kubeconfig, "--leader-elect=false", "--health-probe-bind-address=0",
		"--metrics-bind-address", metrics, "--housekeeping=*,cluster-profile", "--cluster-profile-namespace=fleet")
	berth.Stdout, berth.Stderr = GinkgoWriter, GinkgoWriter
	Expect(berth.Start()).To(Succeed())
	DeferCleanup(func() {
		testhub.ExpectRest(func() (float64, error) { return testhub.MetricAt(metrics, testhub.AttemptsMetric) }, func() string { return "see its metrics" })
		Expect(berth.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(berth.Wait()).To(Succeed())
	})

	folder = GinkgoT().TempDir()
	kubeconfig, err := os.ReadFile(hub.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"hub", "paris", "rome", "oslo"} {
		Expect(os.WriteFile(filepath.Join(folder, name+".kubeconfig"), kubeconfig, 0o600)).To(Succeed())
	}
	config, err := filepath.Abs(filepath.Join(root, "config"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Symlink(config, filepath.Join(folder, "config"))).To(Succeed())

	// What an agent made when it registered.
	Expect(hub.Create(ctx, fixture.Cluster("madrid").Obj())).To(Succeed())
	Expect(hub.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "madrid-x", Labels: map[string]string{"open-cluster-management.io/cluster-name": "madrid"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: certificateRequest(), SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	})).To(Succeed())
	// The account of Argo CD on a member.
	Expect(hub.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "argocd-manager"}})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "argocd-manager"}},
	})).To(Succeed())
})

func certificateRequest() []byte {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "agent", Organization: []string{"agents"}}}, key)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}
