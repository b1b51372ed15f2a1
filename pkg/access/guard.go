package access

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
)

// Timeout bounds the reviews of one request.
const Timeout = 10 * time.Second

// Guard serves next to requests with a valid token of the hub whose user may get the path. It
// answers 401 without a valid token, 403 without the permission, 429 after too many reviews for a
// client address, and 500 if the hub could not be asked. It caches the hub's answers for a
// while. controller-runtime's filter does the same with the API server's libraries, but their gRPC
// and tracing would make the program half as large again.
type Guard struct {
	hub     kubernetes.Interface
	log     logr.Logger
	next    http.Handler
	reviews *reviews
}

// NewGuard returns a Guard. With User and Permitted alone, log and next are not used.
func NewGuard(hub kubernetes.Interface, log logr.Logger, next http.Handler) *Guard {
	return &Guard{hub: hub, log: log, next: next, reviews: newReviews(time.Now)}
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), Timeout)
	defer cancel()
	granted, err := g.decide(ctx, r)
	switch {
	case errors.Is(err, ErrTooMany):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		g.log.Error(err, "Reviewing the access to the metrics failed", "path", r.URL.Path)
		http.Error(w, "the hub could not review the access", http.StatusInternalServerError)
	case granted.User == nil:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request needs a bearer token of the hub", http.StatusUnauthorized)
	case !granted.Allowed:
		http.Error(w, fmt.Sprintf("user %s is not permitted to %s %s on the hub", granted.User.Username, verb(r), r.URL.Path), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// decide returns the user of a request, and whether the user has the permission.
func (g *Guard) decide(ctx context.Context, r *http.Request) (Access, error) {
	return g.askOnce(ctx, r, verb(r)+"\x00"+r.URL.Path, func(ctx context.Context, token string) (Access, error) {
		user, err := g.authenticate(ctx, token)
		if err != nil || user == nil {
			return Access{}, err
		}
		allowed, err := g.authorize(ctx, user, authorizationv1.SubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: verb(r)},
		})
		return Access{User: user, Allowed: allowed}, err
	})
}

// User returns the user of a request; Allowed is true for a valid token.
func (g *Guard) User(ctx context.Context, r *http.Request) (Access, error) {
	return g.askOnce(ctx, r, "user", func(ctx context.Context, token string) (Access, error) {
		user, err := g.authenticate(ctx, token)
		return Access{User: user, Allowed: user != nil}, err
	})
}

// Permitted returns the user of a request, and whether the user has the permission for a resource.
// A valid token may ask for many resources: only the reviews of tokens count for the address.
func (g *Guard) Permitted(ctx context.Context, r *http.Request, resource authorizationv1.ResourceAttributes) (Access, error) {
	user, err := g.User(ctx, r)
	if err != nil || user.User == nil {
		return Access{}, err
	}
	question := fmt.Sprintf("%q", []string{resource.Verb, resource.Group, resource.Resource, resource.Namespace, resource.Name})
	return g.review(ctx, question, tokenOf(r), source{"user " + user.User.Username, userReviewsPerSecond, userReviewsAtOnce},
		func(ctx context.Context, _ string) (Access, error) {
			allowed, err := g.authorize(ctx, user.User, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &resource})
			return Access{User: user.User, Allowed: allowed}, err
		})
}

// askOnce returns the answer of ask for the token of a request, or a cached one. what identifies
// the question. Without a token the answer has no user.
func (g *Guard) askOnce(ctx context.Context, r *http.Request, what string, ask func(context.Context, string) (Access, error)) (Access, error) {
	token := tokenOf(r)
	if token == "" {
		return Access{}, nil
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return g.review(ctx, what, token, source{address, reviewsPerSecond, reviewsAtOnce}, ask)
}

func (g *Guard) review(ctx context.Context, what, token string, from source, ask func(context.Context, string) (Access, error)) (Access, error) {
	key := sha256.Sum256([]byte(what + "\x00" + token))
	return g.reviews.decide(ctx, key, from, func(ctx context.Context) (Access, error) { return ask(ctx, token) })
}

// tokenOf returns the bearer token of a request; empty for none, and for one that is too long.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || len(token) > maxTokenLength {
		return ""
	}
	return token
}

// authenticate returns no user for an invalid token.
func (g *Guard) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
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
func (g *Guard) authorize(ctx context.Context, user *authenticationv1.UserInfo, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
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
