package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/access"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// debugPath is the path of the debugger of Open Cluster Management's placement controller.
const debugPath = "/debug/placements/"

const (
	// maxDebugBody bounds the Placement of a request, in bytes.
	maxDebugBody = 448 << 10
	// debugTimeout bounds one request: reading it, its reviews and its decision.
	debugTimeout = 30 * time.Second
	// maxDebugRequests bounds the requests in progress of all namespaces.
	maxDebugRequests = 8
)

// debugHandler answers the requests of the debugger: GET /debug/placements/NAMESPACE/NAME explains
// a Placement, POST /debug/placements/ a Placement that does not exist. It is not served without
// guardedDebugger.
type debugHandler struct {
	explainer *explanation.Explainer
	ready     func() bool
	log       logr.Logger

	mu sync.Mutex
	// busy are the namespaces with a request in progress.
	busy map[string]bool
}

func newDebugHandler(explainer *explanation.Explainer, ready func() bool, log logr.Logger) *debugHandler {
	return &debugHandler{explainer: explainer, ready: ready, log: log, busy: map[string]bool{}}
}

// ServeHTTP implements http.Handler.
func (*debugHandler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	writeDebug(w, http.StatusForbidden, &explanation.DebugResult{Error: "access is not guarded"})
}

// guardedDebugger serves requests of users that may create PlacementExplanations in the namespace.
// It caches the hub's answers as the guard of the metrics does.
type guardedDebugger struct {
	guard *access.Guard
	*debugHandler
}

// debugError is an error with the status code of the response.
type debugError struct {
	code int
	text string
}

func (e *debugError) Error() string { return e.text }

// ServeHTTP implements http.Handler.
func (g *guardedDebugger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), debugTimeout)
	defer cancel()
	// A connection of a test may have no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(debugTimeout))
	result, err := g.answer(ctx, w, r)
	refused := (*debugError)(nil)
	switch {
	case err == nil:
		writeDebug(w, http.StatusOK, result)
	case errors.As(err, &refused):
		switch refused.code {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
		}
		writeDebug(w, refused.code, &explanation.DebugResult{Error: refused.text})
	default:
		g.log.Error(err, "A request of the debugger could not be answered", "path", r.URL.Path)
		writeDebug(w, http.StatusInternalServerError, &explanation.DebugResult{Error: "the request could not be answered"})
	}
}

func writeDebug(w http.ResponseWriter, code int, result *explanation.DebugResult) {
	text, err := json.Marshal(result)
	if err != nil {
		http.Error(w, "the result could not be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// answer authenticates, reads the request, checks the permission and only then looks at the fleet.
func (g *guardedDebugger) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (*explanation.DebugResult, error) {
	user, err := g.user(ctx, r)
	if err != nil {
		return nil, err
	}
	question, err := readDebug(w, r, user)
	if err != nil {
		return nil, err
	}
	namespace := question.Key().Namespace
	if err := g.permitted(ctx, r, namespace); err != nil {
		return nil, err
	}
	if !g.ready() {
		return nil, &debugError{http.StatusServiceUnavailable, "this replica does not decide, or does not know the fleet yet"}
	}
	if !g.begin(namespace) {
		return nil, &debugError{http.StatusTooManyRequests, "another request is in progress"}
	}
	defer g.end(namespace)
	return g.decide(ctx, question)
}

func (g *guardedDebugger) user(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	said, err := g.guard.User(ctx, r)
	switch {
	case errors.Is(err, access.ErrTooMany):
		return nil, &debugError{http.StatusTooManyRequests, err.Error()}
	case err != nil:
		return nil, err
	case said.User == nil:
		return nil, &debugError{http.StatusUnauthorized, "a bearer token of the hub is needed"}
	}
	return said.User, nil
}

func (g *guardedDebugger) permitted(ctx context.Context, r *http.Request, namespace string) error {
	granted, err := g.guard.Permitted(ctx, r, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "create", Group: berthv1alpha1.GroupName, Version: berthv1alpha1.GroupVersion.Version,
		Resource: "placementexplanations",
	})
	switch {
	case errors.Is(err, access.ErrTooMany):
		return &debugError{http.StatusTooManyRequests, err.Error()}
	case err != nil:
		return err
	case !granted.Allowed:
		return &debugError{http.StatusForbidden,
			fmt.Sprintf("user %s may not create placementexplanations in namespace %s", granted.User.Username, namespace)}
	}
	return nil
}

// readDebug reads what a request asks.
func readDebug(w http.ResponseWriter, r *http.Request, user *authenticationv1.UserInfo) (explanation.Question, error) {
	path := strings.TrimPrefix(r.URL.Path, debugPath)
	switch r.Method {
	case http.MethodGet:
		namespace, name, ok := strings.Cut(path, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return explanation.Question{}, &debugError{http.StatusBadRequest, "the path must be " + debugPath + "NAMESPACE/NAME"}
		}
		return explanation.Question{Placement: types.NamespacedName{Namespace: namespace, Name: name}, Limit: 1}, nil
	case http.MethodPost:
		if path != "" {
			return explanation.Question{}, &debugError{http.StatusBadRequest, "POST needs the path " + debugPath + " and a Placement as the body"}
		}
	default:
		return explanation.Question{}, &debugError{http.StatusMethodNotAllowed, "the methods are GET and POST"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDebugBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return explanation.Question{}, &debugError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the Placement has more than %d bytes of JSON", maxDebugBody)}
	}
	pl := &v1alpha1.Placement{}
	if err == nil {
		err = json.Unmarshal(body, pl)
	}
	switch {
	case err != nil:
		return explanation.Question{}, &debugError{http.StatusBadRequest, "the body is not a Placement: " + v1alpha1.CutText(err.Error(), 200)}
	case pl.Namespace == "":
		return explanation.Question{}, &debugError{http.StatusBadRequest, "metadata.namespace is required"}
	}
	submitter := identity.Identity{User: user.Username, Groups: user.Groups}
	return explanation.Question{
		New: &v1alpha1.Placement{
			// The name under which it is decided is one that no Placement and no other request has.
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pl.Namespace, Name: string(uuid.NewUUID()), UID: uuid.NewUUID(), Generation: 1,
				Labels: pl.Labels, Annotations: pl.Annotations,
			},
			Spec: pl.Spec,
		},
		ShownName: pl.Name,
		Submitted: &metav1.ObjectMeta{Annotations: map[string]string{identity.UserInfoAnnotation: submitter.String()}},
		Limit:     1,
	}, nil
}

// decide runs cycles until there is an answer.
func (h *debugHandler) decide(ctx context.Context, q explanation.Question) (*explanation.DebugResult, error) {
	defer h.explainer.Scheduler.Forget(q.Key())
	shown := q.New
	if shown == nil {
		shown = h.explainer.Inventory.Placement(q.Placement)
	}
	began := time.Now()
	for {
		a := h.explainer.Explain(ctx, &q)
		if a.Retry == 0 {
			explanationSeconds.WithLabelValues("Debugger", resultOf(&a)).Observe(time.Since(began).Seconds())
		}
		switch {
		case a.NotFound || shown == nil:
			return nil, &debugError{http.StatusNotFound, fmt.Sprintf("placement '%s' not found", q.Placement.Name)}
		case a.Failure != nil:
			return nil, &debugError{http.StatusInternalServerError, a.Failure.Error()}
		case a.Throttled:
			return nil, &debugError{http.StatusTooManyRequests, "the explanations of this namespace took so much time that the next one has to wait"}
		case a.Report != nil:
			if q.New != nil {
				shown = shown.DeepCopy()
				shown.Name = q.ShownName
			}
			return explanation.DebugResultOf(shown, &a), nil
		}
		timer := time.NewTimer(a.Retry)
		select {
		case <-ctx.Done():
			timer.Stop()
			explanationSeconds.WithLabelValues("Debugger", berthv1alpha1.ReasonTimedOut).Observe(time.Since(began).Seconds())
			return nil, &debugError{http.StatusServiceUnavailable, "the decision took too long"}
		case <-timer.C:
		}
	}
}

// begin marks a namespace as busy. It returns false if a request is in progress for it, or too many
// are in progress for others.
func (h *debugHandler) begin(namespace string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[namespace] || len(h.busy) >= maxDebugRequests {
		return false
	}
	h.busy[namespace] = true
	return true
}

func (h *debugHandler) end(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, namespace)
}
