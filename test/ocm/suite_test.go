package ocm

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	root = "../.."
	// hubNamespace is where OCM's operator runs the managers of the hub, and account is the service
	// account of its placement controller.
	hubNamespace = "open-cluster-management-hub"
	account      = "placement-controller-sa"
	fleetSize    = 240
)

var (
	config *rest.Config
	// hub is the person who administers the hub.
	hub client.WithWatch
	// kubeconfig is the file of the service account.
	kubeconfig string
)

// rights are those of OCM's placement controller, as its documentation lists them.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "delete", "update"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
	{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "list", "update", "watch", "patch"}},
	{
		APIGroups: []string{clusterv1.GroupName},
		Resources: []string{"managedclusters", "managedclustersets", "managedclustersetbindings", "addonplacementscores", "placements"},
		Verbs:     []string{"get", "list", "watch"},
	},
	{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"placementdecisions"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
	{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"placements/status", "placementdecisions/status"}, Verbs: []string{"update", "patch"}},
	{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"placements/finalizers"}, Verbs: []string{"update"}},
	{APIGroups: []string{"config.openshift.io"}, Resources: []string{"infrastructures"}, Verbs: []string{"get"}},
}

func TestOCM(t *testing.T) {
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "Open Cluster Management")
}

// The hub checks owner references, as OpenShift does.
var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(GinkgoLogr)
	environment := &envtest.Environment{BinaryAssetsDirectory: assets(), CRDDirectoryPaths: crds()}
	environment.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "RBAC").
		Set("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.Install, clusterv1beta1.Install, clusterv1beta2.Install} {
		Expect(add(scheme)).To(Succeed())
	}
	hub, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubNamespace}})
	kubeconfig = placementAccount(ctx)
	createFleet(ctx)
})

// assets is the folder of etcd and kube-apiserver.
func assets() string {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return folder
	}
	return filepath.Join(root, "bin", "hub")
}

// crds are the folders with OCM's CRDs in its module.
func crds() []string {
	GinkgoHelper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/api").Output()
	Expect(err).NotTo(HaveOccurred())
	folders, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "cluster", "v1*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(folders).NotTo(BeEmpty())
	return folders
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(hub.Create(ctx, object)).To(Succeed())
	}
}

// placementAccount creates the service account with its rights and returns its kubeconfig.
func placementAccount(ctx context.Context) string {
	GinkgoHelper()
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: account}}
	create(ctx, user,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "placement"}, Rules: rights},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "placement"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "placement"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: hubNamespace, Name: account}},
		})
	token := &authenticationv1.TokenRequest{}
	Expect(hub.SubResource("token").Create(ctx, user, token)).To(Succeed())
	file := clientcmdapi.NewConfig()
	file.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	file.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: account}
	file.CurrentContext = "hub"
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}

// berth is a running Berth.
type berth struct {
	*gexec.Session
	address string // of metrics and probes
}

// startBerth runs Berth under the name and with the flags of OCM's placement controller, until the
// spec ends.
func startBerth(flags ...string) *berth {
	GinkgoHelper()
	b := runBerth(flags...)
	DeferCleanup(b.stop)
	return b
}

func runBerth(flags ...string) *berth {
	GinkgoHelper()
	program := os.Getenv("BERTH_BIN")
	if program == "" {
		program = filepath.Join(root, "bin", "berth")
	}
	program, err := filepath.Abs(program)
	Expect(err).NotTo(HaveOccurred())
	Expect(program).To(BeARegularFile(), "make build builds it")
	placement := filepath.Join(GinkgoT().TempDir(), "placement")
	Expect(os.Symlink(program, placement)).To(Succeed())
	b := &berth{address: freeAddress()}
	arguments := append([]string{"controller", "--kubeconfig=" + kubeconfig, "--namespace=" + hubNamespace, "--listen=" + b.address}, flags...)
	b.Session, err = gexec.Start(exec.Command(placement, arguments...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return b
}

// stop ends Berth as Kubernetes does, and waits until it has released its lease.
func (b *berth) stop() {
	GinkgoHelper()
	b.Signal(syscall.SIGTERM)
	Eventually(b.Session).Should(gexec.Exit(0))
}

func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// createFleet creates the clusters of the set "fleet"; label ring is canary for the first one.
func createFleet(ctx context.Context) {
	GinkgoHelper()
	create(ctx, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}})
	for i := range fleetSize {
		labels := map[string]string{clusterv1beta2.ClusterSetLabel: "fleet", "ring": "production"}
		if i == 0 {
			labels["ring"] = "canary"
		}
		create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster(i), Labels: labels}})
	}
}

func cluster(i int) string { return fmt.Sprintf("c%03d", i) }

// newNamespace creates a namespace that may use the fleet.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apps-"}}
	create(ctx, namespace)
	create(ctx, &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "fleet"},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "fleet"},
	})
	return namespace.Name
}
