package explore

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// maxViewers is how many viewers one server has at a time. Each has a cache.
	maxViewers = 20
	// maxOfNamespace is how many of them may be ServiceAccounts of one namespace, so that a user
	// who can create ServiceAccounts does not keep all others out.
	maxOfNamespace = 5
	// maxOpen is how many requests of one viewer may be in progress, with streams.
	maxOpen = 64
	// idleAfter is how long a viewer without requests and open streams is kept. If there are too
	// many viewers, one that is spareAfter idle makes room.
	idleAfter  = 5 * time.Minute
	spareAfter = 30 * time.Second
	// identityAge is how long the hub's answer who a token belongs to is remembered.
	identityAge = time.Minute
	// maxReviews is how many tokens are looked at at a time, maxIdentities how many are remembered.
	maxReviews    = 8
	maxIdentities = 1000
	// reviewTimeout is how long the hub may take to say who a token belongs to.
	reviewTimeout = 10 * time.Second
)

var (
	errToken = errors.New("the request needs a bearer token that the hub accepts, in the header Authorization")
	errFull  = fmt.Errorf("%d people look at the fleet already, and that is all this server has room for. Try again in some minutes", maxViewers)
	errMany  = fmt.Errorf("%d requests of this user are in progress already", maxOpen)
	errCrowd = fmt.Errorf("%d ServiceAccounts of this namespace look at the fleet already. Try again in some minutes", maxOfNamespace)
)

// tokenViewers are the viewers of a shared server, each with the permissions of a bearer token.
type tokenViewers struct {
	ctx    context.Context
	config *rest.Config // without credentials
	start  func(v *tokenViewer, cfg *rest.Config, namespace string) (*Viewer, error)
	now    func() time.Time
	secret []byte
	// reviews bounds the requests that ask who a token belongs to.
	reviews chan struct{}

	mu         sync.Mutex
	identities map[[sha256.Size]byte]identity
	byUser     map[string]*tokenViewer
}

// identity is who a token belongs to, as the hub said.
type identity struct {
	key, user string
	// namespace is that of a ServiceAccount; empty for other users.
	namespace string
	at        time.Time
}

// tokenViewer is one viewer of a shared server.
type tokenViewer struct {
	*Viewer
	key string
	// namespace is that of a ServiceAccount; empty for other users.
	namespace string

	ctx  context.Context
	stop context.CancelFunc
	all  *tokenViewers
	// ready is closed when Viewer or err is set.
	ready chan struct{}
	err   error

	// tokenViewers.mu protects what follows.
	token string
	open  int // requests and streams
	used  time.Time
}

func newTokenViewers(ctx context.Context, cfg *rest.Config, start func(*tokenViewer, *rest.Config, string) (*Viewer, error)) *tokenViewers {
	all := &tokenViewers{
		ctx: ctx, config: rest.AnonymousClientConfig(cfg), start: start, now: time.Now, secret: []byte(rand.Text()), reviews: make(chan struct{}, maxReviews),
		identities: map[[sha256.Size]byte]identity{}, byUser: map[string]*tokenViewer{},
	}
	go func() {
		tick := time.NewTicker(idleAfter / 20)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all.dropIdle(idleAfter)
			}
		}
	}()
	return all
}

// enter returns the viewer of a token. leave must be called when the request has ended.
func (all *tokenViewers) enter(ctx context.Context, token, namespace string) (v *tokenViewer, leave func(), err error) {
	who, err := all.identify(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	v, isNew, err := all.find(who, token)
	if err != nil {
		return nil, nil, err
	}
	leave = func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		v.open--
		v.used = all.now()
	}
	if isNew {
		v.Viewer, v.err = all.start(v, v.configOf(all.config), namespace)
		if v.err == nil {
			v.User = who.user
			v.CSRF = all.csrf(who.key)
		}
		close(v.ready)
	}
	select {
	case <-v.ready:
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
	if v.err != nil {
		leave()
		all.drop(v)
		return nil, nil, v.err
	}
	return v, leave, nil
}

// csrf is what the POST requests of a viewer must repeat. It stays the same if the viewer is
// dropped and comes back.
func (all *tokenViewers) csrf(key string) string {
	mac := hmac.New(sha256.New, all.secret)
	_, _ = mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil))
}

// find returns the viewer of an identity, whose requests from now on have the token.
func (all *tokenViewers) find(who identity, token string) (v *tokenViewer, isNew bool, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	v = all.byUser[who.key]
	if v == nil {
		if all.countOf(who.namespace) >= maxOfNamespace {
			return nil, false, errCrowd
		}
		if len(all.byUser) >= maxViewers && !all.makeRoom() {
			return nil, false, errFull
		}
		ctx, stop := context.WithCancel(all.ctx)
		v = &tokenViewer{key: who.key, namespace: who.namespace, ctx: ctx, stop: stop, all: all, ready: make(chan struct{})}
		all.byUser[who.key], isNew = v, true
	}
	if v.open >= maxOpen {
		return nil, false, errMany
	}
	v.token, v.used = token, all.now()
	v.open++
	return v, isNew, nil
}

// countOf counts the viewers that are ServiceAccounts of a namespace; 0 for other users.
func (all *tokenViewers) countOf(namespace string) (n int) {
	for _, v := range all.byUser {
		if namespace != "" && v.namespace == namespace {
			n++
		}
	}
	return n
}

// makeRoom drops the viewer who is idle for the longest time, if that is long enough.
func (all *tokenViewers) makeRoom() bool {
	var last *tokenViewer
	for _, v := range all.byUser {
		if v.open == 0 && (last == nil || v.used.Before(last.used)) {
			last = v
		}
	}
	if last == nil || all.now().Sub(last.used) < spareAfter {
		return false
	}
	all.remove(last)
	return true
}

// dropIdle drops the viewers without requests for a time.
func (all *tokenViewers) dropIdle(after time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, v := range all.byUser {
		if v.open == 0 && all.now().Sub(v.used) >= after {
			all.remove(v)
		}
	}
}

func (all *tokenViewers) drop(v *tokenViewer) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(v)
}

// remove ends the watches, streams and computations of a viewer.
func (all *tokenViewers) remove(v *tokenViewer) {
	if all.byUser[v.key] == v {
		delete(all.byUser, v.key)
	}
	v.stop()
}

// rejected drops the viewer whose token the hub does not accept any more.
func (all *tokenViewers) rejected(v *tokenViewer, token string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.identities, sha256.Sum256([]byte(token)))
	if v.token == token {
		all.remove(v)
	}
}

// identify asks the hub who a token belongs to.
func (all *tokenViewers) identify(ctx context.Context, token string) (identity, error) {
	sum := sha256.Sum256([]byte(token))
	all.mu.Lock()
	known, ok := all.identities[sum]
	all.mu.Unlock()
	if ok && all.now().Sub(known.at) < identityAge {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case all.reviews <- struct{}{}:
		defer func() { <-all.reviews }()
	case <-ctx.Done():
		return identity{}, fmt.Errorf("asking the hub who the bearer token belongs to: %w", ctx.Err())
	}
	cfg := rest.CopyConfig(all.config)
	cfg.BearerToken = token
	hub, err := authenticationclient.NewForConfig(cfg)
	if err != nil {
		return identity{}, err
	}
	began := all.now()
	review, err := hub.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		all.mu.Lock()
		delete(all.identities, sum)
		all.mu.Unlock()
		return identity{}, errToken
	case err != nil:
		return identity{}, fmt.Errorf("asking the hub who the bearer token belongs to: %w", err)
	}
	user := review.Status.UserInfo
	who := identity{key: keyOfUser(user), user: user.Username, at: began}
	if namespace, _, err := serviceaccount.SplitUsername(user.Username); err == nil {
		who.namespace = namespace
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.identities) >= maxIdentities {
		maps.DeleteFunc(all.identities, func(_ [sha256.Size]byte, old identity) bool { return began.Sub(old.at) >= identityAge })
	}
	if len(all.identities) < maxIdentities {
		all.identities[sum] = who
	}
	return who, nil
}

// keyOfUser tells users apart by everything on which permissions can depend. Extra values of
// Kubernetes itself describe the token and not the user.
func keyOfUser(u authenticationv1.UserInfo) string {
	extra := maps.Clone(u.Extra)
	maps.DeleteFunc(extra, func(name string, _ authenticationv1.ExtraValue) bool {
		return strings.HasPrefix(name, "authentication.kubernetes.io/")
	})
	groups := slices.Sorted(slices.Values(u.Groups))
	text, err := json.Marshal([]any{u.Username, u.UID, groups, extra})
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// configOf returns the configuration for requests with the current token of the viewer.
func (v *tokenViewer) configOf(anonymous *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(anonymous)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tokenTransport{next, v} })
	return cfg
}

// bearerKey is the key of the bearer in the context of a request.
type bearerKey struct{}

// bearer is the token of one request.
type bearer struct {
	token string
	v     *tokenViewer
}

// valid is false if the hub says that the token of a request has ended, or is that of another user.
func valid(ctx context.Context) bool {
	b, ok := ctx.Value(bearerKey{}).(*bearer)
	if !ok {
		return true
	}
	who, err := b.v.all.identify(ctx, b.token)
	return err == nil && who.key == b.v.key || err != nil && !errors.Is(err, errToken)
}

// tokenTransport sends what belongs to a request with the token of the request, and all else with
// the current token of a viewer. It drops the viewer when the hub does not accept that.
type tokenTransport struct {
	next http.RoundTripper
	v    *tokenViewer
}

func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.v.all.mu.Lock()
	token := t.v.token
	t.v.all.mu.Unlock()
	if b, ok := r.Context().Value(bearerKey{}).(*bearer); ok {
		token = b.token
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		t.v.all.rejected(t.v, token)
	}
	return response, err
}

// NewSharedServer returns a Server for many viewers. Every request must have a bearer token, with
// which the server reads, watches and writes for it; a reverse proxy adds it. cfg is the hub; its
// credentials are not used. queues is as in Follower. The watches end with ctx.
func NewSharedServer(ctx context.Context, o simulator.Options, cfg *rest.Config, queues ReadQueues) *Server {
	s := newServer(o)
	slots := make(chan struct{}, maxComparisons)
	s.viewers = newTokenViewers(ctx, cfg, func(v *tokenViewer, cfg *rest.Config, namespace string) (*Viewer, error) {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			namespace = ""
		}
		viewer, err := newFollowingViewer(v.ctx, o, Follower{Config: cfg, Namespace: namespace, Queues: queues, final: true}, "", func() { v.all.drop(v) })
		if err == nil {
			viewer.slots = slots
		}
		return viewer, err
	})
	return s
}

// serveShared answers a request to a shared server.
func (s *Server) serveShared(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == "" {
		deny(w, errToken)
		return
	}
	r.Header.Del("Authorization")
	if !fromPage(r) {
		http.Error(w, "requests from other origins are not allowed", http.StatusForbidden)
		return
	}
	if path := strings.TrimPrefix(r.URL.Path, "/"); r.Method != http.MethodPost && !strings.HasPrefix(path, "api/") {
		// The page is the same for all: only data needs a viewer.
		if _, err := s.viewers.identify(r.Context(), token); err != nil {
			deny(w, err)
			return
		}
		s.serve(w, r, nil, path)
		return
	}
	v, leave, err := s.viewers.enter(r.Context(), token, r.URL.Query().Get("ns"))
	if err != nil {
		deny(w, err)
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	ctx = context.WithValue(ctx, bearerKey{}, &bearer{token, v})
	s.serve(w, r.WithContext(ctx), v.Viewer, strings.TrimPrefix(r.URL.Path, "/"))
}

// deny answers a request of a client that is no viewer.
func deny(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errToken):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case errors.Is(err, errMany):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.Is(err, errFull), errors.Is(err, errCrowd):
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// fromPage is false for a request of another site. Reverse proxies may change Host; then the
// browser's Sec-Fetch-Site counts, which no site can set.
func fromPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (u.Host == r.Host || u.Host == r.Header.Get("X-Forwarded-Host"))
}
