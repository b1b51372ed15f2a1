// Package api tests the CRDs against a real kube-apiserver: what is refused at the door, what is defaulted, that all
// versions show the same object, and that a stored object which the rules of today would refuse can still be worked on.
package api

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

const (
	namespace = "team"
	// soon is how long the API server may take to serve a CRD it has accepted.
	soon = 20 * time.Second
)

var (
	// hub reads and writes the consumers' versions, as the controller does.
	hub client.Client
	// pages writes PlacementDecisions through v1alpha1, as the publisher does.
	pages client.Client
)

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
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

	hub, err = client.New(config, client.Options{Scheme: schemeOf(
		clusterv1alpha1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme)})
	Expect(err).NotTo(HaveOccurred())
	pages, err = client.New(config, client.Options{Scheme: schemeOf(clusterv1alpha1.AddPagesToScheme)})
	Expect(err).NotTo(HaveOccurred())

	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
})

func schemeOf(add ...func(*runtime.Scheme) error) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, a := range add {
		Expect(a(scheme)).To(Succeed())
	}
	return scheme
}

// versionsOf returns the versions served of a kind; the first is the one stored.
func versionsOf(kind string) []string {
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	for _, c := range crds {
		if c.Spec.Names.Kind == kind {
			versions := make([]string, 0, len(c.Spec.Versions))
			for _, v := range c.Spec.Versions {
				versions = append(versions, v.Name)
			}
			return versions
		}
	}
	Fail("no CRD of kind " + kind)
	return nil
}

// parse reads an object from YAML that gives no apiVersion, for the given version.
func parse(body, version string) *unstructured.Unstructured {
	json, err := yaml.YAMLToJSON([]byte(body))
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{}
	Expect(object.UnmarshalJSON(json)).To(Succeed())
	object.SetAPIVersion(clusterv1alpha1.GroupName + "/" + version)
	switch object.GetKind() {
	case "ManagedCluster", "ManagedClusterSet":
	default:
		object.SetNamespace(namespace)
	}
	return object
}

// create stores the object for the length of the spec.
func create(ctx context.Context, object client.Object, options ...client.CreateOption) {
	GinkgoHelper()
	Expect(hub.Create(ctx, object, options...)).To(Succeed())
	deleteAfterwards(object)
}

func deleteAfterwards(object client.Object) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, object))).To(Succeed())
	})
}
