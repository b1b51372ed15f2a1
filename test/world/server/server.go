package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Server keeps all objects. One lock orders everything that happens.
type Server struct {
	mu        sync.Mutex
	resources []*resource
	// revision is the resource version of the last write; created counts the objects that were
	// created.
	revision, created int64
	// A watch that begins before the revision forgotten gets 410.
	forgotten int64
	watches   []*watch
	// writer is the client of the present request, late whether it has not waited for the answer.
	writer string
	late   bool

	// OnWrite is called with each write, in order; nil for none.
	OnWrite func(*Write)
}

// stored is an object in the storage version.
type stored struct {
	content map[string]any
}

// event is one write: the object after it, or as it was before a deletion.
type event struct {
	revision      int64
	resource      *resource
	kind          string // ADDED, MODIFIED or DELETED
	object, older map[string]any
}

// New returns a server without objects.
func New() (*Server, error) {
	resources, err := newResources()
	return &Server{resources: resources}, err
}

// Config returns the configuration of clients of the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "http://world.invalid", Transport: s, QPS: -1}
}

// request is a parsed request for a resource.
type request struct {
	http      *http.Request
	resource  *resource
	version   *version
	namespace string
	name      string
	status    bool
	body      []byte
	// client is nil for one without a schedule.
	client *Transport
}

// RoundTrip implements http.RoundTripper: requests are done at once.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	return s.serve(nil, r, body)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }()
	return io.ReadAll(r.Body)
}

// serve does a request. Events of a watch take turns in the schedule of the client, if it has one.
func (s *Server) serve(t *Transport, r *http.Request, body []byte) (*http.Response, error) {
	result, err := s.do(t, r, body)
	if err != nil {
		status := apierrors.NewInternalError(err).ErrStatus
		if known, ok := err.(apierrors.APIStatus); ok {
			status = known.Status()
		}
		status.Kind, status.APIVersion = "Status", "v1"
		return respond(r, int(status.Code), &status), nil
	}
	if b, ok := result.(*stream); ok {
		response := respond(r, http.StatusOK, nil)
		response.Body, response.ContentLength = b, -1
		return response, nil
	}
	code := http.StatusOK
	if _, ok := result.(created); ok {
		code = http.StatusCreated
	}
	return respond(r, code, result), nil
}

// Revision is the resource version of the last write.
func (s *Server) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func respond(r *http.Request, code int, answer any) *http.Response {
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}

// do does a request. The answer is an object, a list, or the stream of a watch.
func (s *Server) do(t *Transport, r *http.Request, body []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer, s.late = "", r.Context().Value(lateKey{}) == true; t != nil {
		s.writer = t.client
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if document, err := s.discovery(parts); document != nil || err != nil {
		return document, err
	}
	q, err := s.parse(parts)
	if err != nil {
		return nil, err
	}
	q.http, q.body, q.client = r, body, t
	switch r.Method {
	case http.MethodGet:
		if q.name != "" {
			return s.get(q)
		}
		if r.URL.Query().Get("watch") != "" {
			return s.watch(q)
		}
		return s.list(q)
	case http.MethodPost:
		return s.create(q)
	case http.MethodPut:
		return s.update(q)
	case http.MethodPatch:
		return s.patch(q)
	case http.MethodDelete:
		if q.name == "" {
			return s.deleteAll(q)
		}
		return s.delete(q)
	}
	return nil, apierrors.NewMethodNotSupported(q.resource.groupResource(), r.Method)
}

// discovery returns the document at a path that says what is served; nil if the path is none.
func (s *Server) discovery(parts []string) (any, error) {
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case len(parts) == 1 && parts[0] == "apis":
		return s.apiGroups(), nil
	case len(parts) == 2 && parts[0] == "api":
		return s.apiResources("", parts[1]), nil
	case len(parts) == 3 && parts[0] == "apis":
		list := s.apiResources(parts[1], parts[2])
		if len(list.APIResources) == 0 {
			return nil, notServed()
		}
		return list, nil
	}
	return nil, nil
}

func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource",
	}}
}

// parse reads a path:
// [api v1 | apis group version] [namespaces namespace] resource [name [status]].
func (s *Server) parse(parts []string) (*request, error) {
	group, rest := "", parts
	switch {
	case len(parts) > 2 && parts[0] == "api":
		rest = parts[1:]
	case len(parts) > 3 && parts[0] == "apis":
		group, rest = parts[1], parts[2:]
	default:
		return nil, notServed()
	}
	q := &request{}
	name := rest[0]
	if rest = rest[1:]; len(rest) > 2 && rest[0] == "namespaces" {
		q.namespace, rest = rest[1], rest[2:]
	}
	i := slices.IndexFunc(s.resources, func(r *resource) bool { return r.group == group && r.plural == rest[0] })
	if i < 0 {
		return nil, notServed()
	}
	q.resource = s.resources[i]
	if q.version = q.resource.version(name); q.version == nil {
		return nil, notServed()
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	if len(rest) > 2 {
		if q.status = rest[2] == "status"; !q.status || !q.version.hasStatus {
			return nil, notServed()
		}
	}
	return q, nil
}

// object reads the object in the body of a request: JSON or, for kinds of Kubernetes, protobuf.
func (q *request) object() (content map[string]any, err error) {
	if strings.HasPrefix(q.http.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(q.body, nil, nil)
		if err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	}
	err = decode(q.body, &content)
	return content, err
}

// decode reads JSON.
func decode(body []byte, into any) error {
	// As the API server does, it turns numbers into int64 or float64.
	if err := utiljson.Unmarshal(body, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
