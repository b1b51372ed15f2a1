package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// reviewer is a Guard, the hub that it asks, and a clock.
type reviewer struct {
	*Guard
	// tokens and accesses count the reviews.
	tokens, accesses atomic.Int32
	// down is the hub's answer to everything, if it is not 0.
	down atomic.Int32
	mu   sync.Mutex
	time time.Time
}

// newReviewer knows the tokens "good", which may get /metrics, and "weak", which may not.
func newReviewer(t *testing.T) *reviewer {
	r := &reviewer{time: time.Unix(0, 0)}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		isToken := strings.HasSuffix(request.URL.Path, "/tokenreviews")
		if isToken {
			r.tokens.Add(1)
		} else {
			r.accesses.Add(1)
		}
		if code := r.down.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		var answer any
		if isToken {
			review := &authenticationv1.TokenReview{}
			_ = json.NewDecoder(request.Body).Decode(review)
			review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
			review.Status.Authenticated = review.Spec.Token == "good" || review.Spec.Token == "weak"
			review.Status.User.Username = review.Spec.Token
			answer = review
		} else {
			review := &authorizationv1.SubjectAccessReview{}
			_ = json.NewDecoder(request.Body).Decode(review)
			review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
			review.Status.Allowed = review.Spec.User == "good"
			answer = review
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(hub.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: hub.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	r.Guard = &Guard{hub: client, log: logr.Discard(), next: next, reviews: newReviews(r.now)}
	return r
}

func (r *reviewer) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.time
}

func (r *reviewer) wait(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time = r.time.Add(d)
}

// get asks for the metrics; without a token it shows none.
func (r *reviewer) get(address, token string) int {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.RemoteAddr = address + ":1234"
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	return w.Code
}

func TestMetricsAccess(t *testing.T) {
	type step struct {
		wait     time.Duration
		address  string
		token    string
		requests int
		// want is the last answer; wantTokens and wantAccesses are the reviews of this step.
		want                     int
		wantTokens, wantAccesses int32
	}
	tests := map[string][]step{
		"no token":            {{requests: 100, want: 401}},
		"a token beyond all":  {{token: strings.Repeat("x", maxTokenLength+1), requests: 100, want: 401}},
		"a good one":          {{token: "good", requests: 1000, want: 200, wantTokens: 1, wantAccesses: 1}},
		"one that is unknown": {{token: "bad", requests: 1000, want: 401, wantTokens: 1}},
		"one that may not":    {{token: "weak", requests: 1000, want: 403, wantTokens: 1, wantAccesses: 1}},
		"answers end": {
			{token: "good", requests: 5, want: 200, wantTokens: 1, wantAccesses: 1},
			{wait: allowedTime - 1, token: "good", requests: 5, want: 200},
			{wait: 1, token: "good", requests: 5, want: 200, wantTokens: 1, wantAccesses: 1},
			{token: "bad", requests: 5, want: 401, wantTokens: 1},
			{wait: refusedTime, token: "bad", requests: 5, want: 401, wantTokens: 1},
		},
		"others' answers are theirs": {
			{token: "good", requests: 5, want: 200, wantTokens: 1, wantAccesses: 1},
			{token: "weak", requests: 5, want: 403, wantTokens: 1, wantAccesses: 1},
			{token: "good", requests: 5, want: 200},
		},
		"many tokens of one address": {
			{token: "good", requests: 1, want: 200, wantTokens: 1, wantAccesses: 1},
			{token: "guess-%d", requests: 1000, want: 429, wantTokens: reviewsAtOnce - 1},
			{wait: time.Second, token: "more-%d", requests: 1000, want: 429, wantTokens: 1},
			// The token that was let in before is reviewed again, and so is one from another
			// address.
			{wait: allowedTime - time.Second, token: "last-%d", requests: 1000, want: 429, wantTokens: reviewsAtOnce},
			{token: "good", requests: 5, want: 200, wantTokens: 1, wantAccesses: 1},
			{address: "10.0.0.2", token: "weak", requests: 5, want: 403, wantTokens: 1, wantAccesses: 1},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReviewer(t)
			for i, s := range steps {
				r.wait(s.wait)
				tokens, accesses, got := r.tokens.Load(), r.accesses.Load(), 0
				for n := range s.requests {
					token := s.token
					if strings.Contains(token, "%d") {
						token = fmt.Sprintf(token, n)
					}
					address := s.address
					if address == "" {
						address = "10.0.0.1"
					}
					got = r.get(address, token)
				}
				if got != s.want {
					t.Errorf("step %d: got %d, want %d", i, got, s.want)
				}
				tokens, accesses = r.tokens.Load()-tokens, r.accesses.Load()-accesses
				if tokens != s.wantTokens || accesses != s.wantAccesses {
					t.Errorf("step %d: %d requests cost %d and %d reviews, want %d and %d", i, s.requests, tokens, accesses, s.wantTokens, s.wantAccesses)
				}
			}
		})
	}
}

// TestManyAtOnceCostOneReview: those who ask while the hub is asked wait for its answer.
func TestManyAtOnceCostOneReview(t *testing.T) {
	r := newReviewer(t)
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() {
			if got := r.get("10.0.0.1", "good"); got != http.StatusOK {
				t.Errorf("got %d", got)
			}
		})
	}
	asking.Wait()
	if tokens, accesses := r.tokens.Load(), r.accesses.Load(); tokens != 1 || accesses != 1 {
		t.Errorf("%d token reviews, %d access reviews", tokens, accesses)
	}
}

// TestHubThatFails is asked again soon, not for each request.
func TestHubThatFails(t *testing.T) {
	r := newReviewer(t)
	r.down.Store(http.StatusForbidden)
	for range 100 {
		if got := r.get("10.0.0.1", "good"); got != http.StatusInternalServerError {
			t.Fatalf("got %d", got)
		}
	}
	if n := r.tokens.Load(); n != 1 {
		t.Errorf("100 requests cost %d reviews", n)
	}
	r.down.Store(0)
	r.wait(failedTime)
	if got := r.get("10.0.0.1", "good"); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}

// TestExpiredRefusalsAreForgottenFirst: when there are too many answers, a refusal that is still
// valid stays.
func TestExpiredRefusalsAreForgottenFirst(t *testing.T) {
	r := newReviewer(t)
	for i := range maxReviews - 1 {
		r.get(fmt.Sprintf("10.1.%d.%d", i/256, i%256), fmt.Sprintf("guess-%d", i))
	}
	r.wait(refusedTime + 1)
	r.get("10.0.0.1", "weak")
	r.get("10.0.0.1", "one more")
	before := r.tokens.Load()
	if got := r.get("10.0.0.1", "weak"); got != http.StatusForbidden || r.tokens.Load() != before || len(r.reviews.byKey) != 2 {
		t.Errorf("got %d, with %d reviews more; remembers %d answers", got, r.tokens.Load()-before, len(r.reviews.byKey))
	}
}

// TestReviewsAreBounded: however many tokens and addresses come, few are remembered, and those that
// were let in longest.
func TestReviewsAreBounded(t *testing.T) {
	r := newReviewer(t)
	r.get("10.0.0.1", "good")
	for i := range 5 * maxReviews {
		r.get(fmt.Sprintf("10.1.%d.%d", i/256, i%256), fmt.Sprintf("guess-%d", i))
	}
	if len(r.reviews.byKey) > maxReviews || len(r.reviews.sources) > maxAddresses {
		t.Errorf("remembers %d answers and %d addresses", len(r.reviews.byKey), len(r.reviews.sources))
	}
	before := r.tokens.Load()
	if got := r.get("10.0.0.1", "good"); got != http.StatusOK || r.tokens.Load() != before {
		t.Errorf("got %d, with %d reviews more", got, r.tokens.Load()-before)
	}
}

// TestIdleAddressesAreForgotten when there are too many, and busy ones are not.
func TestIdleAddressesAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	for name, tc := range map[string]struct{ busy, want bool }{"idle": {want: true}, "busy": {busy: true}} {
		t.Run(name, func(t *testing.T) {
			r := &reviews{sources: map[string]*rate.Limiter{}}
			for i := range maxAddresses {
				limiter := rate.NewLimiter(reviewsPerSecond, reviewsAtOnce)
				if tc.busy {
					limiter.AllowN(now, 1)
				}
				r.sources[fmt.Sprint(i)] = limiter
			}
			if got := r.allowReview(source{"new", reviewsPerSecond, reviewsAtOnce}, now); got != tc.want {
				t.Errorf("got %t with %d addresses", got, len(r.sources))
			}
		})
	}
}
