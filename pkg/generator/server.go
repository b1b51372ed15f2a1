package generator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/access"
	"github.com/berth-dev/berth/pkg/client"
)

// Limits of requests and answers.
const (
	maxBody = 64 << 10
	// maxFluxAnswer is the largest answer that the Flux Operator reads.
	maxFluxAnswer = 900 << 10
	// answerTimeout bounds the reviews and the work of one request.
	answerTimeout = 10 * time.Second
)

// Paths and names of the two formats.
const (
	ArgoCDPath = "/api/v1/getparams.execute"
	FluxPath   = "/api/v1/inputs"
	argoCD     = "argocd"
	flux       = "flux"
)

// Options of a Server.
type Options struct {
	// Config is for the hub, with the permissions of config/generator.
	Config *rest.Config
	// ArgoCDNamespace is the namespace of Argo CD's cluster secrets, which have the servers of the
	// clusters; empty for no servers.
	ArgoCDNamespace string
	Log             logr.Logger
}

// Server answers with the clusters of Placements. Run must run, too.
type Server struct {
	log     logr.Logger
	fleet   *fleet
	guard   *access.Guard
	slots   slots
	handler http.Handler
}

// New returns a Server.
func New(o Options) (*Server, error) {
	objects, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	f, err := newFleet(objects, o.ArgoCDNamespace)
	if err != nil {
		return nil, err
	}
	hub, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	return newServer(f, hub, o.Log), nil
}

func newServer(f *fleet, hub kubernetes.Interface, log logr.Logger) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(Metrics()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &Server{log: log, fleet: f, guard: access.NewGuard(hub, log, nil)}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	guarded := access.NewGuard(hub, log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		viewComplete.Set(0)
		if s.fleet.check() == nil {
			viewComplete.Set(1)
		}
		metrics.ServeHTTP(w, r)
	}))
	mux := http.NewServeMux()
	mux.Handle("POST "+ArgoCDPath, s.answering(argoCD, readArgoCD, writeArgoCD))
	mux.Handle("GET "+FluxPath, s.answering(flux, readFlux, writeFlux))
	mux.Handle("GET /metrics", guarded)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.fleet.check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s.handler = mux
	return s
}

// Run follows the hub until ctx ends.
func (s *Server) Run(ctx context.Context) { s.fleet.run(ctx) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// problem is an answer that is an error, with its status code.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answering returns the handler of a format. read returns the Placement that a request asks for,
// write encodes the answer.
func (s *Server) answering(
	format string, read func(http.ResponseWriter, *http.Request) (types.NamespacedName, error), write func([]entry) ([]byte, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		code := http.StatusOK
		var taken *slot
		user, key, err := s.permitted(ctx, w, r, read)
		if err == nil {
			taken, err = s.slots.take(user, key.Namespace)
		}
		defer taken.sent()
		var body []byte
		if err == nil {
			body, err = s.answer(key, taken, write)
		}
		if err != nil {
			code, body = s.explain(w, err)
		}
		requestSeconds.WithLabelValues(format, strconv.Itoa(code)).Observe(time.Since(began).Seconds())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		_, _ = w.Write(body)
	})
}

// answer makes the answer to a permitted request.
func (s *Server) answer(key types.NamespacedName, taken *slot, write func([]entry) ([]byte, error)) ([]byte, error) {
	defer taken.made()
	entries, err := s.fleet.entries(key)
	switch {
	case errors.Is(err, client.ErrNoPlacement):
		return nil, &problem{http.StatusNotFound, fmt.Sprintf("the Placement %s does not exist", key)}
	case errors.Is(err, client.ErrNoDecision), errors.Is(err, errIncomplete):
		return nil, &problem{http.StatusServiceUnavailable, err.Error()}
	case err != nil:
		return nil, err
	}
	return write(entries)
}

// permitted authenticates before it reads the request. It returns the user, and the Placement that
// the user asks for and may read. Nothing looks at the fleet before it, so a user without the
// permission cannot tell which Placements exist.
func (s *Server) permitted(
	ctx context.Context, w http.ResponseWriter, r *http.Request, read func(http.ResponseWriter, *http.Request) (types.NamespacedName, error),
) (user string, key types.NamespacedName, err error) {
	who, err := s.guard.User(ctx, r)
	switch {
	case err != nil:
		return "", key, err
	case who.User == nil:
		return "", key, &problem{http.StatusUnauthorized, "the request needs a bearer token of the hub"}
	}
	if key, err = read(w, r); err != nil {
		return "", key, err
	}
	granted, err := s.guard.Permitted(ctx, r, authorizationv1.ResourceAttributes{
		Namespace: key.Namespace, Verb: "get", Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersionV1Beta1.Version, Resource: "placementdecisions",
	})
	switch {
	case err != nil:
		return "", key, err
	case !granted.Allowed:
		return "", key, &problem{http.StatusForbidden, fmt.Sprintf("user %s may not get placementdecisions in namespace %s", who.User.Username, key.Namespace)}
	}
	return who.User.Username, key, nil
}

// explain returns the code and the body of an error. Argo CD shows the field error.
func (s *Server) explain(w http.ResponseWriter, err error) (code int, body []byte) {
	p := &problem{http.StatusServiceUnavailable, "the hub could not be asked"}
	switch {
	case errors.As(err, &p):
	case errors.Is(err, errFull):
		p = &problem{http.StatusServiceUnavailable, err.Error()}
	case errors.Is(err, access.ErrTooMany), errors.Is(err, errUser), errors.Is(err, errNamespace):
		p = &problem{http.StatusTooManyRequests, err.Error()}
	default:
		s.log.Error(err, "A request could not be answered")
	}
	switch p.code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	body, _ = json.Marshal(map[string]string{"error": p.text}) // a string cannot fail
	return p.code, body
}

// readArgoCD reads a request of Argo CD's plugin generator. Other parameters are for templates.
func readArgoCD(w http.ResponseWriter, r *http.Request) (types.NamespacedName, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return types.NamespacedName{}, &problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", maxBody)}
	}
	if err != nil {
		return types.NamespacedName{}, badRequest("the request could not be read")
	}
	var request struct {
		Input struct {
			Parameters struct {
				Placement string `json:"placement"`
				Namespace string `json:"namespace"`
			} `json:"parameters"`
		} `json:"input"`
	}
	if err := json.Unmarshal(text, &request); err != nil {
		return types.NamespacedName{}, badRequest("the request must be JSON with input.parameters.placement: a text, NAMESPACE/NAME")
	}
	asked := request.Input.Parameters
	return placementKey("input.parameters.", asked.Placement, asked.Namespace)
}

// readFlux reads a request of the Flux Operator.
func readFlux(_ http.ResponseWriter, r *http.Request) (types.NamespacedName, error) {
	query := r.URL.Query()
	return placementKey("", query.Get("placement"), query.Get("namespace"))
}

// placementKey parses NAMESPACE/NAME, or a name and its namespace. where is the path of both.
func placementKey(where, placement, namespace string) (types.NamespacedName, error) {
	key := types.NamespacedName{Namespace: namespace, Name: placement}
	if before, after, ok := strings.Cut(placement, "/"); ok {
		if namespace != "" && namespace != before {
			return key, badRequest("%splacement and %snamespace name different namespaces", where, where)
		}
		key = types.NamespacedName{Namespace: before, Name: after}
	}
	if len(validation.IsDNS1123Label(key.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(key.Name)) > 0 {
		return key, badRequest("%splacement must be NAMESPACE/NAME, or NAME with %snamespace", where, where)
	}
	return key, nil
}

// writeArgoCD encodes the answer for Argo CD's plugin generator.
func writeArgoCD(entries []entry) ([]byte, error) {
	return json.Marshal(map[string]any{"output": map[string]any{"parameters": entries}})
}

// writeFlux encodes the answer for the Flux Operator, which needs a unique id for each input.
func writeFlux(entries []entry) ([]byte, error) {
	for i := range entries {
		entries[i].ID = entries[i].Name
	}
	body, err := json.Marshal(map[string]any{"inputs": entries})
	if err == nil && len(body) > maxFluxAnswer {
		return nil, &problem{http.StatusInsufficientStorage, fmt.Sprintf("the answer has %d bytes, and the Flux Operator reads at most %d", len(body), maxFluxAnswer)}
	}
	return body, err
}
