package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// accessTimeout bounds the reviews of one request for metrics.
const accessTimeout = 10 * time.Second

// Permissions that a guarded metrics endpoint needs.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create,roleName=berth-metrics-access
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create,roleName=berth-metrics-access

// guard serves metrics to requests with a valid token of the hub whose user may get the path. It
// answers 401 without a valid token, 403 without the permission, 429 after too many reviews for a
// client address, and 500 if the hub could not be asked. It caches the hub's answers for a
// while. controller-runtime's filter does the same with the API server's libraries, but their gRPC
// and tracing would make the program half as large again.
type guard struct {
	hub     kubernetes.Interface
	log     logr.Logger
	next    http.Handler
	reviews *reviews
}

// guardMetrics is a server.Options.FilterProvider. It does not use the manager's HTTP client, whose
// timeouts are for watches.
func guardMetrics(cfg *rest.Config, _ *http.Client) (server.Filter, error) {
	hub, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the client that asks who may read metrics: %w", err)
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		g := &guard{hub: hub, log: log, next: next, reviews: newReviews(time.Now)}
		if debug, ok := next.(*debugHandler); ok {
			return &guardedDebugger{guard: g, debugHandler: debug}, nil
		}
		return g, nil
	}, nil
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), accessTimeout)
	defer cancel()
	granted, err := g.decide(ctx, r)
	switch {
	case errors.Is(err, errTooMany):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		g.log.Error(err, "Reviewing the access to the metrics failed", "path", r.URL.Path)
		http.Error(w, "the hub could not review the access", http.StatusInternalServerError)
	case granted.user == nil:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request needs a bearer token of the hub", http.StatusUnauthorized)
	case !granted.allowed:
		http.Error(w, fmt.Sprintf("user %s is not permitted to %s %s on the hub", granted.user.Username, verb(r), r.URL.Path), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// decide returns the user of a request, and whether the user has the permission.
func (g *guard) decide(ctx context.Context, r *http.Request) (access, error) {
	return g.review(ctx, r, verb(r)+"\x00"+r.URL.Path, func(ctx context.Context, token string) (access, error) {
		user, err := g.authenticate(ctx, token)
		if err != nil || user == nil {
			return access{}, err
		}
		allowed, err := g.authorize(ctx, user, authorizationv1.SubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: verb(r)},
		})
		return access{user: user, allowed: allowed}, err
	})
}

// review returns the answer of ask for the token of a request, or a cached one. what identifies the
// question. Without a token the answer has no user.
func (g *guard) review(ctx context.Context, r *http.Request, what string, ask func(context.Context, string) (access, error)) (access, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenLength {
		return access{}, nil
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	key := sha256.Sum256([]byte(what + "\x00" + token))
	return g.reviews.decide(ctx, key, address, func(ctx context.Context) (access, error) { return ask(ctx, token) })
}

// authenticate returns no user for an invalid token.
func (g *guard) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review, err := g.hub.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, nil
	}
	return &review.Status.User, nil
}

// authorize asks whether the user has the permission that spec describes.
func (g *guard) authorize(ctx context.Context, user *authenticationv1.UserInfo, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User, spec.Groups, spec.UID, spec.Extra = user.Username, user.Groups, user.UID, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := g.hub.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// verb is the RBAC verb of a request to a path.
func verb(r *http.Request) string { return strings.ToLower(r.Method) }
