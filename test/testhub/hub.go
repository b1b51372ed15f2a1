package testhub

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/admission"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
)

// account is the service account of the controller, as in config/rbac.
const account = "system:serviceaccount:berth-system:berth"

// Hub is a running API server.
type Hub struct {
	// Config connects with every right.
	Config *rest.Config
	// WithWatch reads and writes past all caches, with every right.
	client.WithWatch
	// Kubeconfig is the path of a file that connects with every right.
	Kubeconfig string
}

// Start starts an API server with Berth's CRDs, roles and admission policies, and the garbage
// collector. All of it stops at the end of the node that calls it, usually BeforeSuite.
func Start(ctx context.Context) *Hub {
	GinkgoHelper()
	h := StartServer()
	h.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: berth-system}}")
	for _, file := range []string{"service_account.yaml", "role.yaml", "role_binding.yaml", "user_roles.yaml"} {
		manifests, err := os.ReadFile(filepath.Join(root(), "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		h.Apply(ctx, string(manifests))
	}
	for _, file := range []string{"approval.yaml", "cluster-sets.yaml"} {
		policies, err := admission.FS.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		h.Apply(ctx, string(policies))
	}
	h.StartCollector()
	return h
}

// StartServer starts an API server with RBAC and Berth's CRDs and nothing else, configured further
// by the functions given. It stops at the end of the node that calls it.
func StartServer(configure ...func(*envtest.Environment)) *Hub {
	GinkgoHelper()
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets(), CRDs: crds}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	for _, c := range configure {
		c(environment)
	}
	h := &Hub{}
	h.Config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	h.Config.QPS = -1
	h.WithWatch, err = client.NewWithWatch(h.Config, client.Options{Scheme: scheme()})
	Expect(err).NotTo(HaveOccurred())
	h.Kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(h.Kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	return h
}

// root is the repository's folder.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// assets is the folder of the API server's and etcd's binaries.
func assets() string {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return folder
	}
	return filepath.Join(root(), "bin", "hub")
}

func scheme() *k8sruntime.Scheme {
	GinkgoHelper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// StartCollector starts the garbage collector, which also empties deleted namespaces.
func (h *Hub) StartCollector() {
	GinkgoHelper()
	binary := filepath.Join(assets(), "gc")
	if _, err := os.Stat(binary); err != nil {
		binary = filepath.Join(root(), "bin", "hub", "gc")
	}
	gc := exec.Command(binary, "--kubeconfig", h.collectorKubeconfig())
	gc.Stdout, gc.Stderr = GinkgoWriter, GinkgoWriter
	Expect(gc.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(gc.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(gc.Wait()).To(Succeed())
	})
}

// collectorKubeconfig lets the administrator act as each of the two controllers that gc runs.
func (h *Hub) collectorKubeconfig() string {
	GinkgoHelper()
	file, err := clientcmd.LoadFromFile(h.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	admin := file.Contexts[file.CurrentContext]
	for _, name := range []string{"generic-garbage-collector", "namespace-controller"} {
		user := file.AuthInfos[admin.AuthInfo].DeepCopy()
		user.Impersonate = "system:serviceaccount:kube-system:" + name
		file.AuthInfos[name] = user
		file.Contexts[name] = &api.Context{Cluster: admin.Cluster, AuthInfo: name}
	}
	path := filepath.Join(filepath.Dir(h.Kubeconfig), "gc.kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}

// As is the hub as a user sees it.
func (h *Hub) As(user string, groups ...string) client.WithWatch {
	GinkgoHelper()
	config := rest.CopyConfig(h.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.NewWithWatch(config, client.Options{Scheme: h.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// Author is the hub as a user sees it who has the roles berth-viewer and berth-editor in one
// namespace and no other rights.
func (h *Hub) Author(ctx context.Context, namespace string) client.WithWatch {
	GinkgoHelper()
	user := "author-of-" + namespace
	for _, role := range []string{"berth-viewer", "berth-editor"} {
		Expect(client.IgnoreAlreadyExists(h.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}))).To(Succeed())
	}
	return h.As(user)
}

// Apply applies YAML documents server-side, with their status where they have one.
func (h *Hub) Apply(ctx context.Context, manifests string) {
	GinkgoHelper()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict(document, &object.Object)).To(Succeed(), string(document))
		if len(object.Object) > 0 {
			h.applyObject(ctx, object)
		}
	}
}

func (h *Hub) applyObject(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	owner := client.FieldOwner("test")
	status, hasStatus := object.Object["status"]
	main := object.DeepCopy()
	unstructured.RemoveNestedField(main.Object, "status")
	Expect(h.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(main), owner, client.ForceOwnership)).To(Succeed())
	if !hasStatus {
		return
	}
	sub := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	sub.SetGroupVersionKind(object.GroupVersionKind())
	sub.SetName(object.GetName())
	sub.SetNamespace(object.GetNamespace())
	Expect(h.WithWatch.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(sub), owner, client.ForceOwnership)).To(Succeed())
}

// Controller is one run of Berth's controller in this process.
type Controller struct {
	cancel  context.CancelFunc
	stopped chan error
}

// StartController runs Berth's controller with the rights of its service account and the options
// given; it serves neither metrics nor probes unless they name an address. Stop it.
func (h *Hub) StartController(o controllers.Options) *Controller {
	GinkgoHelper()
	config := rest.CopyConfig(h.Config)
	config.Impersonate.UserName = account
	if o.MetricsAddress == "" {
		o.MetricsAddress = "0"
	}
	if o.HealthAddress == "" {
		o.HealthAddress = "0"
	}
	o.Log = GinkgoLogr
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := controllers.NewManager(ctx, config, o)
	Expect(err).NotTo(HaveOccurred())
	c := &Controller{cancel: cancel, stopped: make(chan error, 1)}
	go func() { c.stopped <- manager.Start(ctx) }()
	return c
}

// Stop ends the run and waits for its end.
func (c *Controller) Stop() {
	GinkgoHelper()
	c.cancel()
	Eventually(c.stopped).Should(Receive(BeNil()))
}
