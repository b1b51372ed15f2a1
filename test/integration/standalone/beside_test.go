package standalone

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/berth-dev/berth/config/crd"
)

// foreignCRDs are what Open Cluster Management installs: its versions and no v1alpha1 beside them, its fields with its
// constraints and no rules over several fields, and not Berth's to replace.
func foreignCRDs() []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	for _, c := range crds {
		c.Labels = nil
		var versions []apiextensionsv1.CustomResourceDefinitionVersion
		for _, v := range c.Spec.Versions {
			if v.Name == "v1alpha1" && !v.Storage {
				continue
			}
			Expect(v.Subresources.Status).NotTo(BeNil())
			loosen("", v.Schema.OpenAPIV3Schema)
			versions = append(versions, v)
		}
		Expect(versions).To(HaveLen(1))
		c.Spec.Versions = versions
	}
	return crds
}

// loosen takes away the constraints that are Berth's own.
func loosen(field string, schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations = nil
	switch field {
	case "numberOfClusters":
		schema.Minimum = nil
	case "operator", "mode":
		schema.Enum = nil
	}
	for name, property := range schema.Properties {
		loosen(name, &property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		loosen("", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		loosen("", schema.AdditionalProperties.Schema)
	}
}
