package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
)

// admitted is the result of admitting one object, like an API server.
type admitted struct {
	// ref names the object for people: "Placement ns1/p1".
	ref string
	// known is true if the kind is one of Berth's.
	known bool
	// value is the typed object, an Unstructured if queues need it, or nil if no decision depends
	// on the kind or it cannot be decoded.
	value client.Object
	// refused is why the API server would not store the object; empty if it would.
	refused string
}

// admit prunes, defaults, validates and decodes one object, like an API server that creates it with
// its status. strict also refuses unknown and repeated fields, which an API server drops with a
// warning. An error means that item is no object.
func admit(item object, strict bool) (admitted, error) {
	content := map[string]any{}
	repeated, err := kjson.UnmarshalStrict(item.text, &content)
	if err != nil {
		return admitted{}, err
	}
	if content == nil {
		return admitted{}, errors.New("an object is required, not null")
	}
	content["apiVersion"], content["kind"] = item.apiVersion, item.kind
	gv, err := schema.ParseGroupVersion(item.apiVersion)
	if err != nil {
		return admitted{}, fmt.Errorf("apiVersion: Invalid value: %q: must be group/version", item.apiVersion)
	}
	known, err := knownKinds()
	if err != nil {
		return admitted{}, err
	}
	kind, ok := known[schema.GroupKind{Group: gv.Group, Kind: item.kind}]
	if !ok {
		got := admitted{ref: refOf(content, item.kind, true)}
		if right, err := rightKind(gv.Group, item.kind); err != nil {
			return got, err
		} else if right != item.kind {
			got.refused = field.NotSupported(field.NewPath("kind"), item.kind, []string{right}).Error()
		}
		if o := (&unstructured.Unstructured{Object: content}); forQueues(o) {
			got.value = o
		}
		return got, nil
	}
	if fields, ok := content["metadata"].(map[string]any); ok && item.namespace != "" && fields["namespace"] == nil {
		fields["namespace"] = item.namespace
	}
	return kind.admit(content, gv.Version, strict, repeated), nil
}

func (k *kind) admit(content map[string]any, version string, strict bool, repeated []error) admitted {
	meta, unknown, problems := k.prepare(content)
	got := admitted{ref: refOf(content, k.name, k.namespaced), known: true}
	if !k.served[version] {
		problems = append(problems, field.NotSupported(field.NewPath("apiVersion"), k.group+"/"+version, k.servedVersions()))
	}
	if strict {
		for _, path := range unknown {
			problems = append(problems, field.Invalid(nil, nil, fmt.Sprintf("unknown field %q", path)))
		}
		for _, err := range repeated {
			problems = append(problems, field.Invalid(nil, nil, err.Error()))
		}
	}
	if meta != nil {
		problems = append(problems, k.validate(content, meta)...)
	}
	got.refused = describe(problems)

	// The controller reads every kind in the stored version. CEL sees the whole object, so it must
	// have that version here, too.
	content["apiVersion"] = k.group + "/" + k.storage
	value := k.new()
	if err := decode(content, value); err != nil {
		// No client could decode it. Part of the object could have the opposite meaning, so the
		// object is omitted.
		if got.refused == "" {
			got.refused = err.Error()
		}
		return got
	}
	got.value = value
	return got
}

// prepare converts content to its stored form. It returns its metadata, nil if that is unreadable,
// and the paths of fields that the schema does not define.
func (k *kind) prepare(content map[string]any) (*metav1.ObjectMeta, []string, field.ErrorList) {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	fields, isMap := content["metadata"].(map[string]any)
	if !found || !isMap {
		meta, fields = &metav1.ObjectMeta{}, map[string]any{}
		content["metadata"] = fields
	}
	switch {
	case !k.namespaced:
		meta.Namespace = ""
		delete(fields, "namespace")
	case meta.Namespace == "":
		meta.Namespace = metav1.NamespaceDefault
		fields["namespace"] = meta.Namespace
	}
	unknown = append(unknown, pruning.PruneWithOptions(content, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, k.structural)
	defaulting.Default(content, k.structural)
	return meta, unknown, nil
}

// validate runs the checks of an API server for a created object, in its order.
func (k *kind) validate(content map[string]any, meta *metav1.ObjectMeta) field.ErrorList {
	problems := validation.ValidateObjectMetaAccessor(meta, k.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	problems = append(problems, crdvalidation.ValidateCustomResource(nil, content, k.schema)...)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, k.structural, content)...)
	for _, problem := range problems {
		switch problem.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return problems // CEL rules rely on the shape that these say is wrong.
		}
	}
	if rules := k.rules(); rules != nil {
		broken, _ := rules.Validate(context.Background(), nil, k.structural, content, nil, celconfig.RuntimeCELCostBudget)
		problems = append(problems, broken...)
	}
	return problems
}

// describe lists one problem for each field, in the order of the fields (validators walk maps),
// like an API server but without repeated field names. A problem without a field comes last, unless
// it repeats another.
func describe(problems field.ErrorList) string {
	for _, problem := range problems {
		if problem.Field == "<nil>" {
			problem.Field = ""
		}
		if path, detail, ok := strings.Cut(problem.Detail, " in body "); ok && !strings.Contains(path, " ") {
			problem.Detail = detail
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	var texts, rootTexts []string
	last := ""
	for _, problem := range problems {
		if problem.Field == "" {
			said := func(other *field.Error) bool {
				return other.Field != "" && strings.Contains(problem.Detail, other.Field)
			}
			if !slices.Contains(rootTexts, problem.Detail) && !slices.ContainsFunc(problems, said) {
				rootTexts = append(rootTexts, problem.Detail)
			}
			continue
		}
		if problem.Field != last {
			texts = append(texts, problem.Error())
		}
		last = problem.Field
	}
	return strings.Join(append(texts, rootTexts...), "; ")
}

// decode converts through JSON, because like the API server it must accept 2.0 for an integer.
func decode(content map[string]any, into any) error {
	text, err := utiljson.Marshal(content)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(text, into)
}

func refOf(content map[string]any, kind string, namespaced bool) string {
	metadata, _ := content["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if name == "" {
		name = "(no name)"
	}
	if namespaced && namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}
