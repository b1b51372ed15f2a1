package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/berth-dev/berth/test/fixture"
)

// reviewHub is a hub behind a guard, which logs to log and counts in next what it serves.
type reviewHub struct {
	*fixture.ReviewHub
	next int
	log  []string
}

func newReviewHub() *reviewHub { return &reviewHub{ReviewHub: fixture.NewReviewHub()} }

func (h *reviewHub) guard() *Guard {
	return &Guard{
		hub: h, reviews: newReviews(time.Now), log: funcr.New(func(_, line string) { h.log = append(h.log, line) }, funcr.Options{}),
		next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { h.next++ }),
	}
}

// metricsRequest asks for /metrics with an Authorization header.
func metricsRequest(authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", authorization)
	return r
}

func TestGuardAnswers(t *testing.T) {
	tests := map[string]struct {
		authorization        string
		does                 func(h *reviewHub)
		want                 int
		wantBody, wantHeader string
		wantToken            string
		wantLog              string
	}{
		"allowed":                      {authorization: "Bearer t", want: 200, wantToken: "t"},
		"a scheme in small letters":    {authorization: "bearer t", want: 200, wantToken: "t"},
		"spaces around the token":      {authorization: "Bearer   t ", want: 200, wantToken: "t"},
		"the longest token":            {authorization: "Bearer " + strings.Repeat("t", maxTokenLength), want: 200, wantToken: strings.Repeat("t", maxTokenLength)},
		"a token that is too long":     {authorization: "Bearer " + strings.Repeat("t", maxTokenLength+1), want: 401, wantBody: "the request needs a bearer token of the hub\n", wantHeader: "Bearer"},
		"no token":                     {authorization: "", want: 401, wantBody: "the request needs a bearer token of the hub\n", wantHeader: "Bearer"},
		"an empty token":               {authorization: "Bearer ", want: 401, wantBody: "the request needs a bearer token of the hub\n", wantHeader: "Bearer"},
		"another scheme":               {authorization: "Basic t", want: 401, wantBody: "the request needs a bearer token of the hub\n", wantHeader: "Bearer"},
		"a token that the hub refuses": {authorization: "Bearer t", does: func(h *reviewHub) { h.Unknown = true }, want: 401, wantToken: "t", wantBody: "the request needs a bearer token of the hub\n", wantHeader: "Bearer"},
		"not allowed": {
			authorization: "Bearer t", does: func(h *reviewHub) { h.Status.Allowed = false }, want: 403, wantToken: "t", wantBody: "user ann is not permitted to get /metrics on the hub\n",
		},
		"allowed and denied": {
			authorization: "Bearer t", does: func(h *reviewHub) { h.Status.Denied = true }, want: 403, wantToken: "t", wantBody: "user ann is not permitted to get /metrics on the hub\n",
		},
		"tokens cannot be reviewed": {
			authorization: "Bearer t", does: func(h *reviewHub) { h.TokenErr = errors.New("hub is down") }, want: 500, wantToken: "t",
			wantBody: "the hub could not review the access\n", wantLog: `"error"="reviewing a token: hub is down" "path"="/metrics"`,
		},
		"access cannot be reviewed": {
			authorization: "Bearer t", does: func(h *reviewHub) { h.AccessErr = errors.New("hub is down") }, want: 500, wantToken: "t",
			wantBody: "the hub could not review the access\n", wantLog: `"error"="reviewing the access of ann: hub is down" "path"="/metrics"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newReviewHub()
			if tc.does != nil {
				tc.does(h)
			}
			w := httptest.NewRecorder()
			h.guard().ServeHTTP(w, metricsRequest(tc.authorization))
			if w.Code != tc.want || w.Body.String() != tc.wantBody || w.Header().Get("WWW-Authenticate") != tc.wantHeader {
				t.Errorf("got %d %q %v, want %d %q", w.Code, w.Body, w.Header(), tc.want, tc.wantBody)
			}
			if h.Token != tc.wantToken || h.next == 1 != (tc.want == 200) {
				t.Errorf("token %.20q was reviewed, metrics were served %d times", h.Token, h.next)
			}
			if log := strings.Join(h.log, ""); !strings.Contains(log, tc.wantLog) || (log == "") != (tc.wantLog == "") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// TestGuardAsksTheHub: the review has all that the hub knows of the user, and the request.
func TestGuardAsksTheHub(t *testing.T) {
	h := newReviewHub()
	r := httptest.NewRequest(http.MethodPost, "/debug/x?y=z", nil)
	r.Header.Set("Authorization", "Bearer t")
	h.guard().ServeHTTP(httptest.NewRecorder(), r)
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "7", Groups: []string{"readers"}, Extra: map[string]authorizationv1.ExtraValue{"scope": {"a", "b"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/debug/x", Verb: "post"},
	}
	if diff := cmp.Diff(want, h.Access); diff != "" {
		t.Errorf("the review (-want +got):\n%s", diff)
	}
}

// TestGuardRemembersByQuestion: an answer counts for one token, verb and path.
func TestGuardRemembersByQuestion(t *testing.T) {
	h := newReviewHub()
	g := h.guard()
	for _, tc := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/metrics", "t", 1}, {"GET", "/metrics", "t", 1}, {"HEAD", "/metrics", "t", 2}, {"GET", "/other", "t", 3}, {"GET", "/metrics", "u", 4}, {"GET", "/metrics", "t", 4},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Header.Set("Authorization", "Bearer "+tc.token)
		g.ServeHTTP(httptest.NewRecorder(), r)
		if h.Tokens != tc.want || h.Accesses != tc.want {
			t.Errorf("%s %s by %s: %d and %d reviews, want %d", tc.method, tc.path, tc.token, h.Tokens, h.Accesses, tc.want)
		}
	}
}

// TestGuardLimitsAddresses: the port of the client does not count, and an address may have none.
func TestGuardLimitsAddresses(t *testing.T) {
	for name, addresses := range map[string][2]string{
		"ports": {"10.0.0.1:1", "10.0.0.2:1"}, "no ports": {"one", "another"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newReviewHub()
			h.Unknown = true
			g := h.guard()
			g.reviews = newReviews(func() time.Time { return time.Unix(0, 0) })
			ask := func(address, token string) *httptest.ResponseRecorder {
				r := metricsRequest("Bearer " + token)
				r.RemoteAddr = address
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				return w
			}
			for i := range reviewsAtOnce {
				address := strings.Replace(addresses[0], ":1", ":"+string(rune('1'+i%9)), 1)
				if w := ask(address, strings.Repeat("x", i+1)); w.Code != http.StatusUnauthorized {
					t.Fatalf("request %d: %d", i, w.Code)
				}
			}
			w := ask(addresses[0], "more")
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || w.Body.String() != "too many tokens from this address: try again in a second\n" {
				t.Errorf("got %d %v %q", w.Code, w.Header(), w.Body)
			}
			if w := ask(addresses[1], "more"); w.Code != http.StatusUnauthorized {
				t.Errorf("another address: %d", w.Code)
			}
			if len(h.log) > 0 {
				t.Errorf("the log is %v", h.log)
			}
		})
	}
}

// TestGuardBoundsTheWait: the hub may take accessTimeout, and a client that goes away ends the
// review.
func TestGuardBoundsTheWait(t *testing.T) {
	g := newReviewHub().guard()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	// Another request for the same answer is in progress.
	key := reviewKey(sha256.Sum256([]byte("get\x00/metrics\x00t")))
	g.reviews.find(key).asking <- struct{}{}
	g.ServeHTTP(w, metricsRequest("Bearer t").WithContext(ctx))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d", w.Code)
	}
}
