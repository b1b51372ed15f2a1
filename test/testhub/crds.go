package testhub

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
)

// CRDs of other projects, in the versions of crds/go.mod.
const (
	inventoryAPI = "sigs.k8s.io/cluster-inventory-api config/crd/bases/multicluster.x-k8s.io_"
	// Klusterlets is Open Cluster Management's.
	Klusterlets = "open-cluster-management.io/api operator/v1/0000_00_operator.open-cluster-management.io_klusterlets.crd.yaml"
	// ClusterProfiles and ProfileDecisions are SIG-Multicluster's.
	ClusterProfiles  = inventoryAPI + "clusterprofiles.yaml"
	ProfileDecisions = inventoryAPI + "placementdecisions.yaml"
)

// ForeignCRD returns one of these CRDs.
func ForeignCRD(of string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	name, file, _ := strings.Cut(of, " ")
	out, err := exec.Command("go", "-C", filepath.Join(root(), "test", "testhub", "crds"), "mod", "download", "-json", name).Output()
	Expect(err).NotTo(HaveOccurred(), string(out))
	module := struct{ Dir string }{}
	Expect(json.Unmarshal(out, &module)).To(Succeed())
	text, err := os.ReadFile(filepath.Join(module.Dir, file))
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(text, crd)).To(Succeed())
	return crd
}

// InstallCRD creates one of these CRDs and waits until it is served, and discovery lists it, which
// may be later.
func (h *Hub) InstallCRD(ctx context.Context, of string) {
	GinkgoHelper()
	crd := ForeignCRD(of)
	Expect(h.Create(ctx, crd)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(h.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		g.Expect(slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})).To(BeTrue())
		for _, version := range crd.Spec.Versions {
			if version.Served {
				_, err := h.RESTMapper().RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, version.Name)
				g.Expect(err).NotTo(HaveOccurred())
			}
		}
	}).Should(Succeed())
}

// ReplaceCRDs sets the spec of each CRD on the hub to Berth's, with its schemas edited.
func (h *Hub) ReplaceCRDs(ctx context.Context, edit func(field string, schema *apiextensionsv1.JSONSchemaProps)) {
	GinkgoHelper()
	for _, wanted := range Must(crd.All()) {
		for i := range wanted.Spec.Versions {
			EditSchemas("", wanted.Spec.Versions[i].Schema.OpenAPIV3Schema, edit)
		}
		spec := *wanted.Spec.DeepCopy()
		Edit(ctx, h, wanted, func(stored *apiextensionsv1.CustomResourceDefinition) { stored.Spec = spec })
	}
}

// EditSchemas calls edit with the schema of a field and the schemas in it.
func EditSchemas(field string, schema *apiextensionsv1.JSONSchemaProps, edit func(field string, schema *apiextensionsv1.JSONSchemaProps)) {
	edit(field, schema)
	for name, property := range schema.Properties {
		EditSchemas(name, &property, edit)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		EditSchemas("", schema.Items.Schema, edit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		EditSchemas("", schema.AdditionalProperties.Schema, edit)
	}
}
