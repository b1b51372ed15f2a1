package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

func metadata(content map[string]any) map[string]any {
	of, _ := content["metadata"].(map[string]any)
	if of == nil {
		of = map[string]any{}
		content["metadata"] = of
	}
	return of
}

func (q *request) invalid(name string, problems field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: q.resource.group, Kind: q.resource.kind}, name, problems)
}

func (s *Server) create(q *request) (any, error) {
	content, err := q.object()
	if err != nil {
		return nil, err
	}
	return s.add(q, content)
}

// created is an object that a request has created.
type created map[string]any

func (s *Server) add(q *request, content map[string]any) (any, error) {
	if err := q.clean(content); err != nil {
		return nil, err
	}
	o := unstructured.Unstructured{Object: content}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), s.created))
	}
	if q.resource.namespaced {
		o.SetNamespace(q.namespace)
		if err := s.checkNamespace(q, o.GetName()); err != nil {
			return nil, err
		}
	}
	if o.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	s.created++
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.created)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if q.resource.kind == "Namespace" {
		metadata(content)["labels"] = labelled(o.GetLabels(), "kubernetes.io/metadata.name", o.GetName())
		content["spec"], content["status"] = map[string]any{"finalizers": []any{"kubernetes"}}, map[string]any{"phase": "Active"}
	}
	if !q.resource.builtIn {
		o.SetGeneration(1)
		if q.version.hasStatus {
			delete(content, "status")
		}
		q.version.prune(content)
		if problems := q.version.validate(q.http.Context(), content, nil, false); len(problems) > 0 {
			return nil, q.invalid(o.GetName(), problems)
		}
	}
	if q.resource.objects[key(q.namespace, o.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(q.resource.groupResource(), o.GetName())
	}
	s.store(q.resource, content, nil)
	if isOrphan(&o, s.existing()) {
		s.collectSoon()
	}
	return created(q.shown(content)), nil
}

// checkNamespace returns an error unless objects can be created in the namespace of a request.
func (s *Server) checkNamespace(q *request, name string) error {
	found := s.find("", "namespaces").objects[key("", q.namespace)]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, q.namespace)
	}
	if (&unstructured.Unstructured{Object: found.content}).GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(q.resource.groupResource(), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", q.namespace), Field: "metadata.namespace",
	})
	return err
}

func labelled(labels map[string]string, name, value string) map[string]any {
	all := map[string]any{name: value}
	for name, value := range labels {
		all[name] = value
	}
	return all
}

func (s *Server) find(group, plural string) *resource {
	i := slices.IndexFunc(s.resources, func(r *resource) bool { return r.group == group && r.plural == plural })
	return s.resources[i]
}

// store keeps an object, with a new resource version.
func (s *Server) store(r *resource, content, older map[string]any) {
	s.revision++
	content["apiVersion"], content["kind"] = r.apiVersion(r.storage), r.kind
	metadata(content)["resourceVersion"] = fmt.Sprint(s.revision)
	o := unstructured.Unstructured{Object: content}
	r.objects[key(o.GetNamespace(), o.GetName())] = &stored{content: content}
	kind := "MODIFIED"
	if older == nil {
		kind = "ADDED"
	}
	s.publish(event{s.revision, r, kind, content, older})
}

func (s *Server) update(q *request) (any, error) {
	content, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := q.mismatch(&unstructured.Unstructured{Object: content}); err != nil {
		return nil, err
	}
	found := q.resource.objects[key(q.namespace, q.name)]
	if found == nil && q.resource.kind == "Lease" {
		if uid := (&unstructured.Unstructured{Object: content}).GetUID(); uid != "" {
			return nil, q.broken("UID", string(uid), "")
		}
		delete(metadata(content), "resourceVersion")
		return s.add(q, content)
	}
	if found == nil {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	return s.replace(q, found.content, content)
}

// replace stores the next state of an object: its status, or all but its status.
func (s *Server) replace(q *request, older, content map[string]any) (any, error) {
	if err := q.clean(content); err != nil {
		return nil, err
	}
	before, o := unstructured.Unstructured{Object: older}, unstructured.Unstructured{Object: content}
	if uid := o.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, q.broken("UID", string(uid), string(before.GetUID()))
	}
	if o.GetResourceVersion() == "" && q.http.Method == http.MethodPut && (!q.resource.builtIn || q.resource.kind == "Lease") {
		return nil, q.invalid(q.name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	if version := o.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(q.resource.groupResource(), q.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	keepSystemFields(metadata(content), metadata(older))
	content, problems := q.prepare(content, older)
	if len(problems) > 0 {
		return nil, q.invalid(q.name, problems)
	}
	if reflect.DeepEqual(content, older) {
		return q.shown(older), nil
	}
	if after := (unstructured.Unstructured{Object: content}); after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		s.remove(q.resource, older)
		return q.shown(content), nil
	}
	s.store(q.resource, content, older)
	return q.shown(content), nil
}

// broken is the error of a precondition that an object does not meet.
func (q *request) broken(name, want, is string) error {
	return apierrors.NewConflict(q.resource.groupResource(), q.name, fmt.Errorf(
		"%s: %s in precondition: %s, %s in object meta: %s", "Precondition failed", name, want, name, is))
}

// mismatch says how a body contradicts the path of its request.
func (q *request) mismatch(o *unstructured.Unstructured) error {
	switch want := q.resource.apiVersion(q.version.name); {
	case o.GetKind() != q.resource.kind:
		return apierrors.NewBadRequest(fmt.Sprintf("the kind in the data (%s) does not match the expected kind (%s)", o.GetKind(), q.resource.kind))
	case o.GetAPIVersion() != want:
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", o.GetAPIVersion(), want))
	case o.GetName() != q.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.name))
	case o.GetNamespace() != "" && o.GetNamespace() != q.namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// keepSystemFields restores the fields of metadata that only the server writes.
func keepSystemFields(next, older map[string]any) {
	for _, name := range []string{"name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generateName"} {
		if next[name] = older[name]; older[name] == nil {
			delete(next, name)
		}
	}
	for name, value := range next {
		if value == nil {
			delete(next, name)
		}
	}
}

// prepare takes from an update only what it may change, and validates it.
func (q *request) prepare(content, older map[string]any) (map[string]any, field.ErrorList) {
	if q.resource.builtIn {
		if q.status {
			next := runtime.DeepCopyJSON(older)
			next["status"] = content["status"]
			return next, nil
		}
		if q.version.hasStatus {
			content["status"] = older["status"]
		}
		return content, nil
	}
	q.version.prune(content)
	next, before := unstructured.Unstructured{Object: content}, maps.Clone(older)
	before["apiVersion"] = q.resource.apiVersion(q.version.name)
	if q.status {
		next.Object = runtime.DeepCopyJSON(before)
		setOrDelete(next.Object, "status", content["status"])
	} else {
		if q.version.hasStatus {
			setOrDelete(next.Object, "status", older["status"])
		}
		if !sameButMetadata(next.Object, before) {
			next.SetGeneration(next.GetGeneration() + 1)
		}
	}
	problems := q.version.validate(q.http.Context(), next.Object, before, q.status)
	next.SetAPIVersion(q.resource.apiVersion(q.resource.storage))
	return next.Object, problems
}

func setOrDelete(content map[string]any, name string, value any) {
	if content[name] = value; value == nil {
		delete(content, name)
	}
}

func sameButMetadata(a, b map[string]any) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, "metadata")
	delete(b, "metadata")
	return reflect.DeepEqual(a, b)
}

func (s *Server) patch(q *request) (any, error) {
	found := q.resource.objects[key(q.namespace, q.name)]
	if found == nil {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	shown := maps.Clone(found.content)
	shown["apiVersion"] = q.resource.apiVersion(q.version.name)
	now, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	next, err := q.patched(now)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	content := map[string]any{}
	if err := decode(next, &content); err != nil {
		return nil, err
	}
	return s.replace(q, found.content, content)
}

func (q *request) patched(now []byte) ([]byte, error) {
	switch kind, _, _ := strings.Cut(q.http.Header.Get("Content-Type"), ";"); types.PatchType(kind) {
	case types.MergePatchType:
		return jsonpatch.MergePatch(now, q.body)
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, err
		}
		return patch.Apply(now)
	case types.StrategicMergePatchType:
		typed, err := scheme.Scheme.New(schema.GroupVersionKind{Group: q.resource.group, Version: q.version.name, Kind: q.resource.kind})
		if err != nil {
			return nil, err
		}
		return strategicpatch.StrategicMergePatch(now, q.body, typed)
	default:
		return nil, fmt.Errorf("the model does not know patches of type %s", kind)
	}
}

func (s *Server) delete(q *request) (any, error) {
	found := q.resource.objects[key(q.namespace, q.name)]
	if found == nil {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	options := metav1.DeleteOptions{}
	if len(q.body) > 0 {
		content, err := q.object()
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	o := unstructured.Unstructured{Object: found.content}
	if p := options.Preconditions; p != nil {
		switch {
		case p.UID != nil && *p.UID != o.GetUID():
			return nil, q.broken("UID", string(*p.UID), string(o.GetUID()))
		case p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion():
			return nil, q.broken("ResourceVersion", *p.ResourceVersion, o.GetResourceVersion())
		}
	}
	if s.terminate(q.resource, found.content) {
		return q.shown(q.resource.objects[key(q.namespace, q.name)].content), nil
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, nil
}

// terminate deletes an object, or marks it as terminating while it has finalizers: then it returns
// true.
func (s *Server) terminate(r *resource, content map[string]any) (stays bool) {
	o := unstructured.Unstructured{Object: content}
	isNamespace := r.builtIn && r.kind == "Namespace"
	if len(o.GetFinalizers()) == 0 && !isNamespace {
		s.remove(r, content)
		return false
	}
	if o.GetDeletionTimestamp() != nil {
		return true
	}
	next := unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	next.SetDeletionTimestamp(&now)
	switch {
	case isNamespace:
		next.Object["status"] = map[string]any{"phase": string(corev1.NamespaceTerminating)}
		s.emptySoon(o.GetName())
	case r.builtIn:
		next.SetDeletionGracePeriodSeconds(new(int64(0)))
	default:
		next.SetDeletionGracePeriodSeconds(new(int64(0)))
		next.SetGeneration(o.GetGeneration() + 1)
	}
	s.store(r, next.Object, content)
	return true
}

// emptyInterval is how long the namespace controller needs.
const emptyInterval = 2 * time.Second

// emptySoon deletes the objects in a terminating namespace and, when all are gone, the namespace,
// as the namespace controller does.
func (s *Server) emptySoon(namespace string) {
	time.AfterFunc(emptyInterval, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writer, s.late = "", false
		empty := true
		for _, r := range s.resources {
			for _, name := range slices.Sorted(maps.Keys(r.objects)) {
				content := r.objects[name].content
				if r.namespaced && (&unstructured.Unstructured{Object: content}).GetNamespace() == namespace {
					empty = !s.terminate(r, content) && empty
				}
			}
		}
		namespaces := s.find("", "namespaces")
		if !empty {
			s.emptySoon(namespace)
		} else if found := namespaces.objects[key("", namespace)]; found != nil {
			s.remove(namespaces, found.content)
		}
	})
}

// remove removes an object, and a second later what it owned.
func (s *Server) remove(r *resource, content map[string]any) {
	o := unstructured.Unstructured{Object: content}
	delete(r.objects, key(o.GetNamespace(), o.GetName()))
	s.revision++
	s.publish(event{s.revision, r, "DELETED", content, content})
	s.collectSoon()
}

// collectSoon removes, a second later, the objects whose owners are gone or never were, as the
// garbage collector does.
func (s *Server) collectSoon() {
	time.AfterFunc(time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writer, s.late = "", false
		exist := s.existing()
		for _, r := range s.resources {
			for _, name := range slices.Sorted(maps.Keys(r.objects)) {
				if o := (&unstructured.Unstructured{Object: r.objects[name].content}); isOrphan(o, exist) {
					s.terminate(r, o.Object)
				}
			}
		}
	})
}

// existing returns the UIDs of all objects.
func (s *Server) existing() map[types.UID]bool {
	exist := map[types.UID]bool{}
	for _, r := range s.resources {
		for _, found := range r.objects {
			exist[(&unstructured.Unstructured{Object: found.content}).GetUID()] = true
		}
	}
	return exist
}

// isOrphan reports whether an object has owners, none of which exists.
func isOrphan(o *unstructured.Unstructured, exist map[types.UID]bool) bool {
	owners := o.GetOwnerReferences()
	return len(owners) > 0 && !slices.ContainsFunc(owners, func(of metav1.OwnerReference) bool { return exist[of.UID] })
}

func (s *Server) deleteAll(q *request) (any, error) {
	of, err := selectorOf(q)
	if err != nil {
		return nil, err
	}
	deleted := []any{}
	for _, name := range slices.Sorted(maps.Keys(q.resource.objects)) {
		if content := q.resource.objects[name].content; of.matches(content) {
			deleted = append(deleted, q.item(content))
			s.terminate(q.resource, content)
		}
	}
	return map[string]any{"apiVersion": q.resource.apiVersion(q.version.name), "kind": q.resource.kind + "List", "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.revision)}, "items": deleted}, nil
}
