package testhub

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/admission"
	"github.com/berth-dev/berth/config/crd"
)

// Hub is a running API server.
type Hub struct {
	// Config connects as the administrator.
	Config *rest.Config
	// WithWatch reads and writes without a cache, as the administrator.
	client.WithWatch
	// Kubeconfig is the path of a kubeconfig of the administrator.
	Kubeconfig string
}

// Start starts an API server with Berth's CRDs, roles and admission policies, and the garbage
// collector. All of it stops at the end of the node that calls it, usually BeforeSuite.
func Start(ctx context.Context) *Hub {
	GinkgoHelper()
	h := StartServer()
	h.InstallRoles(ctx)
	h.InstallPolicies(ctx)
	h.StartCollector()
	return h
}

// StartServer starts an API server with only RBAC and Berth's CRDs. The given functions configure
// it. It stops at the end of the node that calls it.
func StartServer(configure ...func(*envtest.Environment)) *Hub {
	GinkgoHelper()
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: Assets(), CRDs: crds}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	for _, c := range configure {
		c(environment)
	}
	Expect(startWithFewCollections(environment)).To(Succeed())
	DeferCleanup(environment.Stop)
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	return Connect(kubeconfig)
}

// startWithFewCollections starts the servers with GOGC and GOMEMLIMIT for up to 1 GiB each, which
// saves a quarter of their CPU time. Programs that start later do not get these variables.
func startWithFewCollections(environment *envtest.Environment) error {
	for name, value := range map[string]string{"GOGC": "400", "GOMEMLIMIT": "1GiB"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer func() { _ = os.Unsetenv(name) }()
	}
	_, err := environment.Start()
	return err
}

// Connect returns the hub of a kubeconfig.
func Connect(kubeconfig string) *Hub {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme()})
	Expect(err).NotTo(HaveOccurred())
	return &Hub{Config: config, WithWatch: c, Kubeconfig: kubeconfig}
}

// InstallRoles creates the namespace berth-system, the controller's service account with its
// permissions, and the roles for users.
func (h *Hub) InstallRoles(ctx context.Context) {
	GinkgoHelper()
	for _, file := range []string{"service_account.yaml", "role.yaml", "role_binding.yaml", "user_roles.yaml"} {
		manifests, err := os.ReadFile(filepath.Join(root(), "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		h.ApplyYAML(ctx, string(manifests))
	}
}

// InstallEditorPolicy creates the policy that records who edits Placements, and waits until it is
// enforced.
func (h *Hub) InstallEditorPolicy(ctx context.Context) {
	GinkgoHelper()
	policy, err := admission.Editor.ReadFile("editor/editor.yaml")
	Expect(err).NotTo(HaveOccurred())
	h.ApplyYAML(ctx, string(policy))
	Eventually(func() (map[string]string, error) {
		pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"}}
		err := h.Create(ctx, pl, client.DryRunAll)
		return pl.Annotations, err
	}).WithContext(ctx).WithTimeout(time.Minute).Should(HaveKey(berthv1alpha1.EditedByAnnotation))
}

// InstallPolicies creates Berth's admission policies.
func (h *Hub) InstallPolicies(ctx context.Context) {
	GinkgoHelper()
	files, err := admission.FS.ReadDir(".")
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		policies, err := admission.FS.ReadFile(file.Name())
		Expect(err).NotTo(HaveOccurred())
		h.ApplyYAML(ctx, string(policies))
	}
}

func scheme() *k8sruntime.Scheme {
	GinkgoHelper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, berthv1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// As returns a client that impersonates the user.
func (h *Hub) As(user string, groups ...string) client.WithWatch {
	GinkgoHelper()
	config := rest.CopyConfig(h.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.NewWithWatch(config, client.Options{Scheme: h.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// Author returns a client of a user with the roles berth-viewer and berth-editor in one namespace
// and no other permissions.
func (h *Hub) Author(ctx context.Context, namespace string) client.WithWatch {
	GinkgoHelper()
	user := "author-of-" + namespace
	for _, role := range []string{"berth-viewer", "berth-editor"} {
		Grant(ctx, h, namespace, user, role)
	}
	return h.As(user)
}

// Row is the row that kubectl prints of the object at a path of the API server.
func (h *Hub) Row(ctx context.Context, path string) (columns []string, cells []any) {
	GinkgoHelper()
	get := Must(kubernetes.NewForConfig(h.Config)).RESTClient().Get().AbsPath(path)
	text := Must(get.SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx))
	var table metav1.Table
	Expect(json.Unmarshal(text, &table)).To(Succeed())
	Expect(table.Rows).To(HaveLen(1))
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	return columns, table.Rows[0].Cells
}

// Parse decodes YAML documents and skips empty ones.
func Parse(manifests string) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict(document, &object.Object)).To(Succeed(), string(document))
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// ApplyYAML applies YAML documents server-side, with their status if they have one.
func (h *Hub) ApplyYAML(ctx context.Context, manifests string) {
	GinkgoHelper()
	for _, object := range Parse(manifests) {
		h.ApplyObject(ctx, object)
	}
}

// ApplyObject applies an object server-side, and its status, if it has one, by a second request.
func (h *Hub) ApplyObject(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	owner := client.FieldOwner("test")
	main := object.DeepCopy()
	unstructured.RemoveNestedField(main.Object, "status")
	Expect(h.Apply(ctx, client.ApplyConfigurationFromUnstructured(main), owner, client.ForceOwnership)).To(Succeed())
	status, ok := object.Object["status"]
	if !ok {
		return
	}
	sub := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	sub.SetGroupVersionKind(object.GroupVersionKind())
	sub.SetName(object.GetName())
	sub.SetNamespace(object.GetNamespace())
	Expect(h.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(sub), owner, client.ForceOwnership)).To(Succeed())
}
