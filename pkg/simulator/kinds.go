package simulator

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/config/crd"
)

// kind is one of Berth's kinds with its parsed CRD.
type kind struct {
	group, name string
	namespaced  bool
	served      map[string]bool
	// storage is the stored version. Its schema is used for all versions, because they are equal.
	storage    string
	structural *structuralschema.Structural
	schema     crdvalidation.SchemaValidator
	// rules compiles the CEL rules on the first call; nil if there are none.
	rules func() *cel.Validator
	new   func() kinds.Object
}

// knownKinds reads the CRDs of the kinds in the table, once per process.
var knownKinds = sync.OnceValues(func() (map[schema.GroupKind]*kind, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("reading the built-in CRDs: %w", err)
	}
	known := map[schema.GroupKind]*kind{}
	for _, definition := range definitions {
		listed, ok := kinds.Get(definition.Spec.Group, definition.Spec.Names.Kind)
		if !ok {
			continue
		}
		kind, err := newKind(definition, listed)
		if err != nil {
			return nil, fmt.Errorf("reading the CRD of %s: %w", listed.Name, err)
		}
		known[schema.GroupKind{Group: kind.group, Kind: kind.name}] = kind
	}
	return known, nil
})

func newKind(definition *apiextensionsv1.CustomResourceDefinition, listed kinds.Kind) (*kind, error) {
	k := &kind{
		group: definition.Spec.Group, name: listed.Name, namespaced: listed.Namespaced,
		served: map[string]bool{}, new: listed.New,
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
			versions = append(versions, k.group+"/"+version)
		}
	}
	slices.Sort(versions)
	return versions
}

// words has, for each API group, the kind for each lower-case word that is almost it: its name, its
// plural, its list.
var words = sync.OnceValues(func() (map[schema.GroupKind]string, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("reading the built-in CRDs: %w", err)
	}
	words := map[schema.GroupKind]string{
		{Kind: "configmap"}: "ConfigMap", {Kind: "configmaps"}: "ConfigMap", {Kind: "namespace"}: "Namespace", {Kind: "namespaces"}: "Namespace",
		{Kind: "list"}: "List", {Kind: "lists"}: "List",
	}
	for _, definition := range definitions {
		group, of := definition.Spec.Group, definition.Spec.Names
		for _, word := range []string{of.Kind, of.Plural, of.Kind + "s"} {
			words[schema.GroupKind{Group: group, Kind: strings.ToLower(word)}] = of.Kind
		}
		words[schema.GroupKind{Group: group, Kind: strings.ToLower(of.ListKind)}] = of.ListKind
	}
	return words, nil
})

// rightKind returns the kind that was meant by one that differs by case or plural from a kind that
// a hub serves; other kinds as they are.
func rightKind(group, kind string) (string, error) {
	words, err := words()
	if right, ok := words[schema.GroupKind{Group: group, Kind: strings.ToLower(kind)}]; ok {
		return right, err
	}
	return kind, err
}
