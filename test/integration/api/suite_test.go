// Package api tests the CRDs on a real kube-apiserver: validation, defaults, and that all versions
// show the same object. A stored object that the current rules would refuse must still be editable.
package api

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	namespace = "team"
	// soon is how long the API server may take to serve a CRD it has accepted.
	soon = 20 * time.Second
)

var (
	hub *testhub.Hub
	// pages writes PlacementDecisions through v1alpha1, as the publisher does.
	pages client.Client
)

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	hub = testhub.StartServer()
	scheme := runtime.NewScheme()
	Expect(clusterv1alpha1.AddPagesToScheme(scheme)).To(Succeed())
	var err error
	pages, err = client.New(hub.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	testhub.CreateNamespace(ctx, hub, namespace)
})

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
func create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(hub.Create(ctx, object)).To(Succeed())
	testhub.DeleteAfterwards(hub, object)
}
