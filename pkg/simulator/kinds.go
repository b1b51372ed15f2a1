package simulator

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

// kind is one of Berth's kinds with its CRD made ready for use.
type kind struct {
	name       string
	namespaced bool
	served     map[string]bool
	// storage is the version stored. Its schema stands for all: the CRDs hold them equal.
	storage    string
	structural *structuralschema.Structural
	schema     crdvalidation.SchemaValidator
	// rules compiles the CEL rules when first asked; nil if there are none.
	rules func() *cel.Validator
	new   func() any
}

// constructors are the kinds that have a Go type.
var constructors = map[string]func() any{
	"Placement":                func() any { return &v1alpha1.Placement{} },
	"PlacementDecision":        func() any { return &v1alpha1.PlacementDecision{} },
	"ManagedCluster":           func() any { return &v1alpha1.ManagedCluster{} },
	"ManagedClusterSet":        func() any { return &v1alpha1.ManagedClusterSet{} },
	"ManagedClusterSetBinding": func() any { return &v1alpha1.ManagedClusterSetBinding{} },
	"AddOnPlacementScore":      func() any { return &v1alpha1.AddOnPlacementScore{} },
}

// knownKinds reads the CRDs, once a process.
var knownKinds = sync.OnceValues(func() (map[string]*kind, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("reading the built-in CRDs: %w", err)
	}
	kinds := map[string]*kind{}
	for _, definition := range definitions {
		name := definition.Spec.Names.Kind
		construct, ok := constructors[name]
		if !ok {
			continue
		}
		kind, err := newKind(definition, construct)
		if err != nil {
			return nil, fmt.Errorf("reading the CRD of %s: %w", name, err)
		}
		kinds[name] = kind
	}
	return kinds, nil
})

func newKind(definition *apiextensionsv1.CustomResourceDefinition, construct func() any) (*kind, error) {
	k := &kind{
		name:       definition.Spec.Names.Kind,
		namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
		served:     map[string]bool{},
		new:        construct,
	}
	var props apiextensions.JSONSchemaProps
	for _, version := range definition.Spec.Versions {
		k.served[version.Name] = version.Served
		if !version.Storage {
			continue
		}
		k.storage = version.Name
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil)
		if err != nil {
			return nil, err
		}
	}
	var err error
	if k.structural, err = structuralschema.NewStructural(&props); err != nil {
		return nil, err
	}
	if k.schema, _, err = crdvalidation.NewSchemaValidator(&props); err != nil {
		return nil, err
	}
	k.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(k.structural, true, celconfig.PerCallLimit) })
	return k, nil
}

func (k *kind) servedVersions() []string {
	var versions []string
	for version, served := range k.served {
		if served {
			versions = append(versions, v1alpha1.GroupName+"/"+version)
		}
	}
	slices.Sort(versions)
	return versions
}
