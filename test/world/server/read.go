package server

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// selector says which objects a list or a watch returns.
type selector struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func selectorOf(q *request) (*selector, error) {
	values := q.http.URL.Query()
	of := &selector{namespace: q.namespace}
	var err error
	if of.labels, err = labels.Parse(values.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if of.fields, err = fields.ParseSelector(values.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, required := range of.fields.Requirements() {
		if required.Field != "metadata.name" && required.Field != "metadata.namespace" {
			return nil, apierrors.NewBadRequest("field label not supported: " + required.Field)
		}
	}
	return of, nil
}

func (s *selector) matches(content map[string]any) bool {
	if content == nil {
		return false
	}
	o := unstructured.Unstructured{Object: content}
	return (s.namespace == "" || o.GetNamespace() == s.namespace) &&
		(s.fields.Empty() || s.fields.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(o.GetLabels())))
}

// shown returns an object as a client sees it, in the version of its request.
func (q *request) shown(content map[string]any) map[string]any {
	if strings.Contains(q.http.Header.Get("Accept"), "as=PartialObjectMetadata;") {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": content["metadata"]}
	}
	all := maps.Clone(content)
	all["apiVersion"] = q.resource.apiVersion(q.version.name)
	return all
}

// item returns an object as part of a list: those of Kubernetes have no kind there.
func (q *request) item(content map[string]any) map[string]any {
	all := q.shown(content)
	if q.resource.builtIn && all["kind"] == q.resource.kind {
		delete(all, "apiVersion")
		delete(all, "kind")
	}
	return all
}

func (s *Server) get(q *request) (any, error) {
	found := q.resource.objects[key(q.namespace, q.name)]
	if found == nil {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	return q.shown(found.content), nil
}

func key(namespace, name string) string { return namespace + "/" + name }

// list returns the matching objects by namespace and name, a page of them if limit is set.
func (s *Server) list(q *request) (any, error) {
	of, err := selectorOf(q)
	if err != nil {
		return nil, err
	}
	values := q.http.URL.Query()
	limit, _ := strconv.Atoi(values.Get("limit"))
	revision, after := s.revision, ""
	if from, last, ok := strings.Cut(values.Get("continue"), " "); ok {
		revision, _ = strconv.ParseInt(from, 10, 64)
		after = last
	}
	if revision < s.forgotten {
		return nil, apierrors.NewResourceExpired("The provided continue parameter is too old")
	}
	objects := s.at(q.resource, revision)
	items, remaining, next := []any{}, 0, ""
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		switch {
		case name <= after || !of.matches(objects[name]):
		case limit > 0 && len(items) == limit:
			remaining++
		default:
			items, next = append(items, q.item(objects[name])), fmt.Sprintf("%d %s", revision, name)
		}
	}
	metadata := map[string]any{"resourceVersion": fmt.Sprint(revision)}
	if remaining > 0 {
		metadata["continue"] = next
		if of.labels.Empty() && of.fields.Empty() {
			metadata["remainingItemCount"] = remaining
		}
	}
	kind, apiVersion := q.resource.kind+"List", q.resource.apiVersion(q.version.name)
	if strings.Contains(q.http.Header.Get("Accept"), "as=PartialObjectMetadataList;") {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
		for i, item := range items {
			items[i] = map[string]any{"apiVersion": apiVersion, "kind": "PartialObjectMetadata", "metadata": item.(map[string]any)["metadata"]}
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "items": items}, nil
}

// at returns the objects of a kind as they were at a resource version that is not forgotten.
func (s *Server) at(r *resource, revision int64) map[string]map[string]any {
	objects := map[string]map[string]any{}
	for name, object := range r.objects {
		objects[name] = object.content
	}
	for _, e := range slices.Backward(r.log) {
		if e.revision <= revision {
			break
		}
		o := unstructured.Unstructured{Object: e.object}
		if objects[key(o.GetNamespace(), o.GetName())] = e.older; e.older == nil {
			delete(objects, key(o.GetNamespace(), o.GetName()))
		}
	}
	return objects
}

// watch is an open watch.
type watch struct {
	*selector
	request *request
	out     *stream
	// last is the last event in the schedule; nil before the first.
	last *turn
}

// watch begins to send the writes after a resource version; without one, first all objects.
func (s *Server) watch(q *request) (any, error) {
	of, err := selectorOf(q)
	if err != nil {
		return nil, err
	}
	values := q.http.URL.Query()
	from, _ := strconv.ParseInt(values.Get("resourceVersion"), 10, 64)
	w := &watch{selector: of, request: q, out: newStream(q.http.Context())}
	initial := values.Get("sendInitialEvents") == "true"
	if initial && from != 0 && q.client != nil {
		// Clients would handle what they have missed in the random order of a map. They list
		// instead.
		return nil, q.invalid("", field.ErrorList{field.Forbidden(field.NewPath("sendInitialEvents"), "the schedule needs one order of events")})
	}
	switch {
	case initial || from == 0:
		for _, name := range slices.Sorted(maps.Keys(q.resource.objects)) {
			if object := q.resource.objects[name].content; of.matches(object) {
				w.send("ADDED", q.shown(object))
			}
		}
		if initial {
			w.bookmark(s.revision, true)
		}
	case from < s.forgotten:
		status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, s.forgotten+1)).Status()
		w.sendError(&status)
		return w.out, nil
	default:
		for _, e := range q.resource.log {
			if e.revision > from {
				w.sendWrite(&e)
			}
		}
	}
	s.watches = append(s.watches, w)
	if values.Get("timeoutSeconds") != "" {
		time.AfterFunc(watchTime(q.http.URL.Path, s.revision), func() { _ = w.out.Close() })
	}
	return w.out, nil
}

// watchTime is how long a watch with a timeout lasts: 5 to 10 minutes, as clients ask for. What
// they ask for is random in another order each time.
func watchTime(path string, revision int64) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, path, revision)
	return 5*time.Minute + time.Duration(h.Sum32()%300_000)*time.Millisecond
}

// sendWrite sends one write as the watch sees it: an object that begins to match is ADDED, one that
// ends to match is DELETED.
func (w *watch) sendWrite(e *event) {
	was, is := w.matches(e.older), w.matches(e.object) && e.kind != "DELETED"
	switch {
	case is && was:
		w.send("MODIFIED", w.request.shown(e.object))
	case is:
		w.send("ADDED", w.request.shown(e.object))
	case was:
		object := runtime.DeepCopyJSON(e.older)
		metadata(object)["resourceVersion"] = fmt.Sprint(e.revision)
		w.send("DELETED", w.request.shown(object))
	}
}

func (w *watch) bookmark(revision int64, initial bool) {
	about := map[string]any{"resourceVersion": fmt.Sprint(revision), "creationTimestamp": nil}
	if initial {
		about["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	w.send("BOOKMARK", w.request.shown(map[string]any{"kind": w.request.resource.kind, "metadata": about}))
}

func (w *watch) send(kind string, object map[string]any) {
	text, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err)
	}
	text = append(text, '\n')
	if w.request.client == nil {
		w.out.write(text)
		return
	}
	o := unstructured.Unstructured{Object: object}
	w.last = w.request.client.deliver(w, fmt.Sprintf("%s %s/%s @%s", kind, o.GetNamespace(), o.GetName(), o.GetResourceVersion()), text)
}

// sendError ends a watch with an error.
func (w *watch) sendError(status *metav1.Status) {
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(map[string]any{"type": "ERROR", "object": status})
	if err != nil {
		panic(err)
	}
	w.out.write(append(text, '\n'))
	_ = w.out.Close()
}

// Write is one write, for observers. They must not change the objects. Object is the object after
// it, or as it was before a deletion; Older is nil for a new object.
type Write struct {
	Revision      int64
	Kind          string
	Type          string // ADDED, MODIFIED or DELETED
	Object, Older map[string]any
	// Writer is the client; empty for the server itself. Late is true if it has not waited for the
	// answer, because it gave up or was frozen.
	Writer string
	Late   bool
}

// publish logs a write and sends it to the watches.
func (s *Server) publish(e event) {
	e.resource.log = append(e.resource.log, e)
	if s.OnWrite != nil {
		s.OnWrite(&Write{Revision: e.revision, Kind: e.resource.kind, Type: e.kind, Object: e.object, Older: e.older, Writer: s.writer, Late: s.late})
	}
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool { return w.out.isClosed() })
	for _, w := range s.watches {
		if w.request.resource == e.resource {
			w.sendWrite(&e)
		}
	}
}

// Forget drops the log, so that watches that begin before get 410 Expired.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.resources {
		r.log = nil
	}
	s.forgotten = s.revision
}

// CloseWatches ends all open watches, in a schedule one after another.
func (s *Server) CloseWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.request.client != nil {
			w.request.client.end(w)
			continue
		}
		_ = w.out.Close()
	}
}
