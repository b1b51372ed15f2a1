package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/config/crd"
)

// resource is a kind that the server serves, with its objects.
type resource struct {
	group, plural, singular, kind string
	shortNames                    []string
	namespaced                    bool
	// versions are served; storage is the one in which objects are kept.
	versions []*version
	storage  string
	// builtIn is true for a kind of Kubernetes: it has no schema, and its updates need no resource
	// version.
	builtIn bool
	objects map[string]*stored
	// log has the writes since the revision that the server forgot, oldest first.
	log []event
}

// version is a served version of a kind. Custom resources have a schema.
type version struct {
	name           string
	hasStatus      bool
	structural     *structuralschema.Structural
	schema, status crdvalidation.SchemaValidator
	rules          func() *cel.Validator
}

func (r *resource) version(name string) *version {
	i := slices.IndexFunc(r.versions, func(v *version) bool { return v.name == name })
	if i < 0 {
		return nil
	}
	return r.versions[i]
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.plural}
}

func (r *resource) apiVersion(version string) string {
	return schema.GroupVersion{Group: r.group, Version: version}.String()
}

// definitions parses the CRDs once a process, because that takes long.
var definitions = sync.OnceValues(func() ([]resource, error) {
	all, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	var resources []resource
	for _, d := range all {
		r := resource{
			group: d.Spec.Group, plural: d.Spec.Names.Plural, singular: d.Spec.Names.Singular, kind: d.Spec.Names.Kind,
			shortNames: d.Spec.Names.ShortNames, namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		}
		for i := range d.Spec.Versions {
			v, err := newVersion(&d.Spec.Versions[i])
			if err != nil {
				return nil, fmt.Errorf("reading the CRD %s: %w", d.Name, err)
			}
			if d.Spec.Versions[i].Storage {
				r.storage = v.name
			}
			r.versions = append(r.versions, v)
		}
		resources = append(resources, r)
	}
	return resources, nil
})

func newVersion(d *apiextensionsv1.CustomResourceDefinitionVersion) (*version, error) {
	v := &version{name: d.Name, hasStatus: d.Subresources != nil && d.Subresources.Status != nil}
	var props apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(d.Schema.OpenAPIV3Schema, &props, nil)
	if err != nil {
		return nil, err
	}
	if v.structural, err = structuralschema.NewStructural(&props); err != nil {
		return nil, err
	}
	if v.schema, _, err = crdvalidation.NewSchemaValidator(&props); err != nil {
		return nil, err
	}
	status := props.Properties["status"]
	if v.status, _, err = crdvalidation.NewSchemaValidator(&status); err != nil {
		return nil, err
	}
	v.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(v.structural, true, celconfig.PerCallLimit) })
	return v, nil
}

// builtIn are the kinds of Kubernetes that Berth reads and writes.
var builtIn = []resource{
	{plural: "namespaces", singular: "namespace", kind: "Namespace", storage: "v1"},
	{plural: "configmaps", singular: "configmap", kind: "ConfigMap", namespaced: true, storage: "v1"},
	{plural: "secrets", singular: "secret", kind: "Secret", namespaced: true, storage: "v1"},
	{plural: "events", singular: "event", kind: "Event", namespaced: true, storage: "v1"},
	{group: "coordination.k8s.io", plural: "leases", singular: "lease", kind: "Lease", namespaced: true, storage: "v1"},
	{group: "events.k8s.io", plural: "events", singular: "event", kind: "Event", namespaced: true, storage: "v1"},
}

// newResources returns all resources, without objects.
func newResources() ([]*resource, error) {
	custom, err := definitions()
	if err != nil {
		return nil, err
	}
	var all []*resource
	for _, r := range custom {
		all = append(all, &r)
	}
	for _, r := range builtIn {
		r.builtIn, r.versions = true, []*version{{name: r.storage, hasStatus: r.plural == "namespaces"}}
		all = append(all, &r)
	}
	for _, r := range all {
		r.objects = map[string]*stored{}
	}
	return all, nil
}

// clean removes what Go types do not know: from the metadata and, for a kind of Kubernetes, from
// the whole object.
func (q *request) clean(content map[string]any) error {
	part, typed := metadata(content), any(&metav1.ObjectMeta{})
	if q.resource.builtIn {
		content["apiVersion"], content["kind"] = q.resource.apiVersion(q.version.name), q.resource.kind
		var err error
		if typed, err = scheme.Scheme.New(schema.GroupVersionKind{Group: q.resource.group, Version: q.version.name, Kind: q.resource.kind}); err != nil {
			return err
		}
		part = content
	}
	clean, err := converted(part, typed)
	if err != nil {
		return err
	}
	clear(part)
	maps.Copy(part, clean)
	delete(metadata(content), "managedFields")
	return nil
}

// converted returns what of a value a Go type knows.
func converted(content map[string]any, typed any) (map[string]any, error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// prune removes unknown fields of a custom resource and sets defaults.
func (v *version) prune(content map[string]any) {
	if v.structural == nil {
		return
	}
	pruning.Prune(content, v.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, v.structural)
	defaulting.Default(content, v.structural)
}

// validate checks a custom resource, or only its status, as package customresource of
// apiextensions-apiserver does, which needs etcd's packages. old is nil for a new object.
func (v *version) validate(ctx context.Context, content, old map[string]any, status bool) field.ErrorList {
	var problems field.ErrorList
	var oldObject any
	var rules []cel.Option
	ratchet := common.NewCorrelatedObject(content, old, &model.Structural{Structural: v.structural})
	listProblems := listtype.ValidateListSetsAndMaps(nil, v.structural, content)
	switch {
	case old == nil:
		problems = append(crdvalidation.ValidateCustomResource(nil, content, v.schema), listProblems...)
	case status && content["status"] == nil:
		oldObject, rules = old, append(rules, cel.WithRatcheting(ratchet))
	default:
		oldObject, rules = old, append(rules, cel.WithRatcheting(ratchet))
		if status {
			problems = crdvalidation.ValidateCustomResourceUpdate(field.NewPath("status"), content["status"], old["status"], v.status, crdvalidation.WithRatcheting(ratchet.Key("status")))
		} else {
			problems = crdvalidation.ValidateCustomResourceUpdate(nil, content, old, v.schema, crdvalidation.WithRatcheting(ratchet))
		}
		if len(listtype.ValidateListSetsAndMaps(nil, v.structural, old)) == 0 {
			problems = append(problems, listProblems...)
		}
	}
	validator := v.rules()
	if validator == nil {
		return problems
	}
	for _, problem := range problems {
		switch problem.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(problems, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	broken, _ := validator.Validate(ctx, nil, v.structural, content, oldObject, celconfig.RuntimeCELCostBudget, rules...)
	return append(problems, broken...)
}

// apiResources is the discovery document of a group version.
func (s *Server) apiResources(group, name string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: schema.GroupVersion{Group: group, Version: name}.String(),
	}
	verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	for _, r := range s.resources {
		v := r.version(name)
		if r.group != group || v == nil {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.plural, SingularName: r.singular, ShortNames: r.shortNames, Namespaced: r.namespaced, Kind: r.kind, Verbs: verbs,
		})
		if v.hasStatus {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.plural + "/status", Namespaced: r.namespaced, Kind: r.kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return list
}

// apiGroups is the list of groups.
func (s *Server) apiGroups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, r := range s.resources {
		if r.group == "" {
			continue
		}
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == r.group })
		if i < 0 {
			i = len(list.Groups)
			list.Groups = append(list.Groups, metav1.APIGroup{Name: r.group})
		}
		g := &list.Groups[i]
		for _, v := range r.versions {
			of := metav1.GroupVersionForDiscovery{GroupVersion: r.apiVersion(v.name), Version: v.name}
			if !slices.Contains(g.Versions, of) {
				g.Versions = append(g.Versions, of)
			}
			if v.name == r.storage && g.PreferredVersion.Version == "" {
				g.PreferredVersion = of
			}
		}
	}
	return list
}
