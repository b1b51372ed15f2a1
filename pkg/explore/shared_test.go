package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/pkg/simulator"
)

// tokenHub answers only who a token belongs to: "NAME-N" belongs to NAME.
type tokenHub struct {
	mu       sync.Mutex
	rejected map[string]bool
	reviews  int
}

func (h *tokenHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, number, found := strings.Cut(token, "-")
	w.Header().Set("Content-Type", "application/json")
	if !found || h.rejected[token] {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`))
		return
	}
	h.reviews++
	review := &authenticationv1.SelfSubjectReview{}
	review.Kind, review.APIVersion = "SelfSubjectReview", "authentication.k8s.io/v1"
	review.Status.UserInfo = authenticationv1.UserInfo{
		Username: name, Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {number}},
	}
	_ = json.NewEncoder(w).Encode(review)
}

// newTestTokenViewers returns viewers whose clock the test moves.
func newTestTokenViewers(t *testing.T) (all *tokenViewers, hub *tokenHub, started *int, pass func(time.Duration)) {
	t.Helper()
	return newTestViewersOf(t, func(handler http.Handler) (string, http.RoundTripper) {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL, nil
	})
}

// newTestViewersOf reaches the hub at the address, and with the transport, that serve returns.
func newTestViewersOf(
	t *testing.T, serve func(http.Handler) (string, http.RoundTripper),
) (all *tokenViewers, hub *tokenHub, started *int, pass func(time.Duration)) {
	t.Helper()
	hub, started = &tokenHub{rejected: map[string]bool{}}, new(int)
	address, transport := serve(hub)
	all = newTokenViewers(t.Context(), &rest.Config{Host: address, BearerToken: "of-the-server"}, func(*tokenViewer, *rest.Config, string) (*Viewer, error) {
		*started++
		return NewViewer(simulator.Options{}, newTestHub(t, small()), nil, ""), nil
	})
	all.config.Transport = transport
	var passed atomic.Int64
	now := time.Now()
	all.now = func() time.Time { return now.Add(time.Duration(passed.Load())) }
	return all, hub, started, func(by time.Duration) { passed.Add(int64(by)) }
}

func enter(t *testing.T, all *tokenViewers, token string) (*tokenViewer, func()) {
	t.Helper()
	v, leave, err := all.enter(t.Context(), token, "")
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return v, leave
}

// TestTokens: a viewer is a user, whatever the token; the newest token counts.
func TestTokens(t *testing.T) {
	all, hub, started, pass := newTestTokenViewers(t)
	ann, leave := enter(t, all, "ann-1")
	leave()
	again, leave := enter(t, all, "ann-1")
	leave()
	if again != ann || hub.reviews != 1 {
		t.Errorf("the same token: another viewer, or %d questions who it belongs to", hub.reviews)
	}
	refreshed, leave := enter(t, all, "ann-2")
	leave()
	if refreshed != ann || ann.token != "ann-2" || *started != 1 {
		t.Errorf("a new token of the same user: %d caches, token %s", *started, ann.token)
	}
	bob, leave := enter(t, all, "bob-1")
	leave()
	if bob == ann || bob.CSRF == ann.CSRF || bob.User != "bob" {
		t.Error("two users share a viewer, or its X-Berth-CSRF")
	}
	hub.rejected["ann-2"], hub.rejected["bob-1"] = true, true
	pass(identityAge)
	if _, _, err := all.enter(t.Context(), "ann-2", ""); !errors.Is(err, errToken) {
		t.Errorf("a token that ended: %v", err)
	}
	all.rejected(ann, "ann-1")
	if ann.ctx.Err() != nil {
		t.Error("an older token ended, and the viewer was dropped")
	}
	all.rejected(ann, "ann-2")
	if ann.ctx.Err() == nil {
		t.Error("the token ended, and the viewer was not dropped")
	}
	back, leave := enter(t, all, "ann-3")
	leave()
	if back == ann || back.CSRF != ann.CSRF {
		t.Error("a viewer who comes back has the old cache, or another X-Berth-CSRF")
	}
}

// TestRequestToken: a request has its own token, what is done beside requests the newest one.
func TestRequestToken(t *testing.T) {
	all, hub, _, pass := newTestTokenViewers(t)
	v, leave := enter(t, all, "ann-1")
	defer leave()
	var sent string
	transport := &tokenTransport{roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK}, nil
	}), v}
	_, leaveAgain := enter(t, all, "ann-2")
	defer leaveAgain()
	own := context.WithValue(t.Context(), bearerKey{}, &bearer{"ann-1", v})
	for want, ctx := range map[string]context.Context{"Bearer ann-1": own, "Bearer ann-2": t.Context()} {
		response, err := transport.RoundTrip(httptest.NewRequest(http.MethodPost, "/", http.NoBody).WithContext(ctx))
		if err != nil || sent != want {
			t.Errorf("sent with %q, want %q: %v", sent, want, err)
		} else if response.Body != nil {
			response.Body.Close()
		}
	}
	if !valid(own) || !valid(t.Context()) {
		t.Error("a token that the hub accepts is not valid")
	}
	hub.rejected["ann-1"] = true
	pass(identityAge)
	if valid(own) {
		t.Error("a token that ended is valid")
	}
	if valid(context.WithValue(t.Context(), bearerKey{}, &bearer{"bob-1", v})) {
		t.Error("the token of another user is valid")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStreamOfToken: a stream ends with the token of its request, although the viewer has another.
func TestStreamOfToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, hub, _, pass := newTestViewersOf(t, func(handler http.Handler) (string, http.RoundTripper) {
			return "http://hub.example", roundTripper(func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Result(), nil
			})
		})
		v, leave := enter(t, all, "ann-1")
		defer leave()
		_, leaveAgain := enter(t, all, "ann-2")
		defer leaveAgain()
		ended := make(chan struct{})
		r := httptest.NewRequest(http.MethodGet, "/?since="+strconv.FormatInt(v.Live.fleet().Version, 10), http.NoBody)
		r = r.WithContext(context.WithValue(t.Context(), bearerKey{}, &bearer{"ann-1", v}))
		go func() {
			defer close(ended)
			stream(httptest.NewRecorder(), r, v.Live)
		}()
		time.Sleep(2 * keepAlive)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the stream ended with a token that is valid")
		default:
		}
		hub.mu.Lock()
		hub.rejected["ann-1"] = true
		hub.mu.Unlock()
		pass(identityAge)
		time.Sleep(2 * keepAlive)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the stream goes on after its token ended")
		}
	})
}

// TestTooManyViewers: the 21st viewer has to wait until another one is idle.
func TestTooManyViewers(t *testing.T) {
	all, _, _, pass := newTestTokenViewers(t)
	leaves := map[int]func(){}
	for i := range maxViewers {
		_, leaves[i] = enter(t, all, fmt.Sprintf("user%d-1", i))
	}
	full := func() bool {
		_, leave, err := all.enter(t.Context(), "late-1", "")
		if err == nil {
			leave()
		} else if !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		return err != nil
	}
	pass(time.Hour)
	all.dropIdle(idleAfter)
	if !full() {
		t.Error("a viewer with an open stream was dropped")
	}
	leaves[7]()
	if !full() {
		t.Error("a viewer was dropped at once")
	}
	pass(spareAfter)
	if full() {
		t.Error("an idle viewer was not dropped")
	}
	if all.byUser[keyOfUser(authenticationv1.UserInfo{Username: "user7"})] != nil || len(all.byUser) != maxViewers {
		t.Error("not the idle viewer was dropped")
	}
	leaves[3]()
	pass(idleAfter)
	all.dropIdle(idleAfter)
	if len(all.byUser) != maxViewers-2 {
		t.Errorf("%d viewers are left, want %d: two are idle", len(all.byUser), maxViewers-2)
	}
}

// TestViewersOfNamespace: ServiceAccounts of one namespace cannot take all places.
func TestViewersOfNamespace(t *testing.T) {
	all, _, _, _ := newTestTokenViewers(t)
	for i := range maxOfNamespace {
		enter(t, all, fmt.Sprintf("system:serviceaccount:crowd:user%d-1", i))
	}
	if _, _, err := all.enter(t.Context(), "system:serviceaccount:crowd:more-1", ""); !errors.Is(err, errCrowd) {
		t.Errorf("one more of the namespace: %v", err)
	}
	enter(t, all, "system:serviceaccount:crowd:user0-1")
	enter(t, all, "system:serviceaccount:other:user-1")
	enter(t, all, "ann-1")
}

// TestRequestsOfViewer: one viewer cannot have very many requests in progress. Others can.
func TestRequestsOfViewer(t *testing.T) {
	all, _, _, _ := newTestTokenViewers(t)
	var leaves []func()
	for range maxOpen {
		_, leave := enter(t, all, "ann-1")
		leaves = append(leaves, leave)
	}
	_, _, err := all.enter(t.Context(), "ann-1", "")
	w := httptest.NewRecorder()
	if deny(w, err); !errors.Is(err, errMany) || w.Code != http.StatusTooManyRequests {
		t.Errorf("one more: %d, %v", w.Code, err)
	}
	enter(t, all, "ben-1")
	leaves[0]()
	enter(t, all, "ann-1")
}

// TestSharedGuard: only requests with a token get an answer, and other sites cannot use it.
func TestSharedGuard(t *testing.T) {
	all, _, _, _ := newTestTokenViewers(t)
	s := newServer(simulator.Options{})
	s.viewers = all
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tc := range map[string]struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		"the page":                 {"/", nil, http.StatusOK},
		"data":                     {"/api/fleet", nil, http.StatusOK},
		"a namespace":              {"/api/fleet?ns=shop", nil, http.StatusOK},
		"no namespace":             {"/api/fleet?ns=../x", nil, http.StatusBadRequest},
		"no token":                 {"/api/fleet", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"the page without a token": {"/", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"an empty token":           {"/api/fleet", header("Authorization", "Bearer "), http.StatusUnauthorized},
		"a password":               {"/api/fleet", header("Authorization", "Basic YTpi"), http.StatusUnauthorized},
		"a forged token":           {"/api/fleet", header("Authorization", "Bearer forged"), http.StatusUnauthorized},
		"another origin":           {"/api/fleet", header("Origin", "https://evil.example"), http.StatusForbidden},
		"behind a proxy": {"/api/fleet", func(r *http.Request) {
			r.Header.Set("Origin", "https://a.example")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}, http.StatusOK},
		"a proxy that tells it": {"/api/fleet", func(r *http.Request) {
			r.Header.Set("Origin", "https://a.example")
			r.Header.Set("X-Forwarded-Host", "a.example")
		}, http.StatusOK},
		"no origin": {"/api/fleet", header("Origin", "null"), http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, tc.path, http.NoBody)
			r.Header.Set("Authorization", "Bearer ann-1")
			if tc.change != nil {
				tc.change(r)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("code %d, want %d: %s", w.Code, tc.want, w.Body)
			}
			if strings.Contains(w.Body.String(), "forged") || strings.Contains(w.Body.String(), "YTpi") {
				t.Errorf("the answer has the token: %s", w.Body)
			}
		})
	}
}

// TestKeyOfUser: everything on which permissions can depend tells users apart, and nothing else.
func TestKeyOfUser(t *testing.T) {
	of := func(name, id string, extra map[string]authenticationv1.ExtraValue, groups ...string) string {
		return keyOfUser(authenticationv1.UserInfo{Username: name, UID: id, Groups: groups, Extra: extra})
	}
	credential := func(id string) map[string]authenticationv1.ExtraValue {
		return map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {id}}
	}
	if of("ann", "1", credential("a"), "x", "y") != of("ann", "1", credential("b"), "y", "x") {
		t.Error("a refreshed token, or another order of groups, makes another user")
	}
	scoped := map[string]authenticationv1.ExtraValue{"scopes.authorization.openshift.io": {"user:info"}}
	seen := map[string]bool{}
	for _, key := range []string{
		of("ann", "1", nil), of("bob", "1", nil), of("ann", "2", nil), of("ann", "1", nil, "x"), of("ann", "1", nil, "x", "y"), of("ann", "1", nil, "x,y"), of("ann", "1", scoped),
	} {
		if seen[key] {
			t.Errorf("two users have the key %s", key)
		}
		seen[key] = true
	}
}
