package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/access"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

// newExplainer knows namespace ns with clusters c1 and c2 and these Placements: p selects one
// cluster, frozen is disabled, wrong is misconfigured.
func newExplainer(t *testing.T) *explanation.Explainer {
	t.Helper()
	profiles, err := builtin.Profiles(t.Context(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("ns"))
	inv.Update(fixture.Binding("ns", "ns"))
	for _, name := range []string{"c1", "c2"} {
		inv.Update(fixture.Cluster(name).Set("ns").Obj())
	}
	inv.Update(fixture.Placement("ns", "p").Number(1).Obj())
	inv.Update(fixture.Placement("ns", "frozen").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj())
	inv.Update(fixture.Placement("ns", "wrong").Number(-1).Obj())
	return &explanation.Explainer{Inventory: inv, Scheduler: scheduler.New(profiles, nil), Now: func() time.Time { return fixture.Now }}
}

// useClock gives the engine a cycle timeout of 100 ms and a clock. inFilter runs in each cycle.
func useClock(e *explanation.Explainer, inFilter func(*clocktesting.FakeClock)) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	e.Scheduler.CycleTimeout, e.Scheduler.Clock = 100*time.Millisecond, clock
	e.Scheduler.Timer = func(_, point string) func() {
		if point == "Filter" {
			inFilter(clock)
		}
		return func() {}
	}
}

// debugRequest is a request of user ann to the debugger.
func debugRequest(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, debugPath+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	return r
}

// newDebugger is the debugger that answers from newExplainer with the permissions of a hub.
func newDebugger(t *testing.T, h *reviewHub) *guardedDebugger {
	t.Helper()
	guard := h.guard()
	handler := newDebugHandler(newExplainer(t), func() bool { return true }, h.logger())
	return &guardedDebugger{guard: guard, debugHandler: handler}
}

// ask returns the response to a request.
func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestDebuggerAnswers(t *testing.T) {
	const get, post = http.MethodGet, http.MethodPost
	const badPath = `{"error":"the path must be /debug/placements/NAMESPACE/NAME"}`
	const noToken = `{"error":"a bearer token of the hub is needed"}`
	const noAnswer = `{"error":"the request could not be answered"}`
	tests := map[string]struct {
		method, path, body string
		does               func(h *reviewHub, g *guardedDebugger, r *http.Request)
		want               int
		// wantBody is in the body, wantLog in the log.
		wantBody, wantLog string
		// wantHeader is WWW-Authenticate or Retry-After.
		wantHeader string
	}{
		"a Placement":                  {method: get, path: "ns/p", want: 200, wantBody: `"aggregatedScores":[{"clusterName":"c1","score":`},
		"a disabled Placement":         {method: get, path: "ns/frozen", want: 200, wantBody: `"error":"the Placement is left alone: disabled"}`},
		"a misconfigured Placement":    {method: get, path: "ns/wrong", want: 200, wantBody: `"error":"spec.numberOfClusters: Invalid value: -1: `},
		"a Placement in the body":      {method: post, body: `{"metadata":{"namespace":"ns","name":"try"},"spec":{}}`, want: 200, wantBody: `"metadata":{"name":"try","namespace":"ns"}`},
		"a Placement that is missing":  {method: get, path: "ns/nosuch", want: 404, wantBody: `{"error":"placement 'nosuch' not found"}`},
		"a path without a name":        {method: get, path: "ns", want: 400, wantBody: badPath},
		"a path with an empty name":    {method: get, path: "ns/", want: 400, wantBody: badPath},
		"a path that is too long":      {method: get, path: "ns/p/q", want: 400, wantBody: badPath},
		"a path and a body":            {method: post, path: "ns/p", body: `{}`, want: 400, wantBody: "POST needs the path /debug/placements/ and a Placement as the body"},
		"another method":               {method: http.MethodDelete, path: "ns/p", want: 405, wantBody: "the methods are GET and POST"},
		"a body that is no JSON":       {method: post, body: `{`, want: 400, wantBody: "the body is not a Placement: unexpected end of JSON input"},
		"a body without a namespace":   {method: post, body: `{"spec":{}}`, want: 400, wantBody: "metadata.namespace is required"},
		"a body that is too large":     {method: post, body: strings.Repeat(" ", maxDebugBody+1), want: 413, wantBody: "the Placement has more than 458752 bytes of JSON"},
		"no token":                     {method: get, path: "ns/p", does: func(_ *reviewHub, _ *guardedDebugger, r *http.Request) { r.Header.Del("Authorization") }, want: 401, wantBody: noToken, wantHeader: "Bearer"},
		"a token that the hub refuses": {method: get, path: "ns/p", does: func(h *reviewHub, _ *guardedDebugger, _ *http.Request) { h.Unknown = true }, want: 401, wantBody: noToken, wantHeader: "Bearer"},
		"no permission": {
			method: get, path: "ns/p", does: func(h *reviewHub, _ *guardedDebugger, _ *http.Request) { h.Status.Allowed = false },
			want: 403, wantBody: "user ann may not create placementexplanations in namespace ns",
		},
		"no permission, and a Placement that is missing": {
			method: get, path: "ns/nosuch", does: func(h *reviewHub, _ *guardedDebugger, _ *http.Request) { h.Status.Allowed = false },
			want: 403, wantBody: "user ann may not create placementexplanations in namespace ns",
		},
		"too many tokens": {
			method: get, path: "ns/p", want: 429, wantBody: access.ErrTooMany.Error(), wantHeader: "1",
			does: func(_ *reviewHub, g *guardedDebugger, _ *http.Request) {
				for i := range 10 {
					other := debugRequest(get, "ns/p", "")
					other.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
					ask(g, other)
				}
			},
		},
		"tokens cannot be reviewed": {
			method: get, path: "ns/p", does: func(h *reviewHub, _ *guardedDebugger, _ *http.Request) { h.TokenErr = errors.New("hub is down") },
			want: 500, wantBody: noAnswer, wantLog: `"error"="reviewing a token: hub is down" "path"="/debug/placements/ns/p"`,
		},
		"access cannot be reviewed": {
			method: get, path: "ns/p", does: func(h *reviewHub, _ *guardedDebugger, _ *http.Request) { h.AccessErr = errors.New("hub is down") },
			want: 500, wantBody: noAnswer, wantLog: `"error"="reviewing the access of ann: hub is down" "path"="/debug/placements/ns/p"`,
		},
		"a replica that does not decide": {
			method: get, path: "ns/p", does: func(_ *reviewHub, g *guardedDebugger, _ *http.Request) { g.ready = func() bool { return false } },
			want: 503, wantBody: "this replica does not decide, or does not know the fleet yet", wantHeader: "1",
		},
		"another request of the namespace": {
			method: get, path: "ns/p", does: func(_ *reviewHub, g *guardedDebugger, _ *http.Request) { g.begin("ns") },
			want: 429, wantBody: "another request is in progress", wantHeader: "1",
		},
		"requests of many other namespaces": {
			method: get, path: "ns/p", want: 429, wantBody: "another request is in progress", wantHeader: "1",
			does: func(_ *reviewHub, g *guardedDebugger, _ *http.Request) {
				for i := range maxDebugRequests {
					g.begin(fmt.Sprint("other", i))
				}
			},
		},
		"a client that waits no longer": {
			method: get, path: "ns/p", want: 503, wantBody: "the decision took too long", wantHeader: "1",
			does: func(_ *reviewHub, g *guardedDebugger, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				*r = *r.WithContext(ctx)
				useClock(g.explainer, func(clock *clocktesting.FakeClock) {
					clock.Step(150 * time.Millisecond)
					cancel()
				})
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newReviewHub()
			g, r := newDebugger(t, h), debugRequest(tc.method, tc.path, tc.body)
			if tc.does != nil {
				tc.does(h, g, r)
			}
			w := ask(g, r)
			if w.Code != tc.want || !strings.Contains(w.Body.String(), tc.wantBody) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s %v, want %d %s", w.Code, w.Body, w.Header(), tc.want, tc.wantBody)
			}
			if got := w.Header().Get("WWW-Authenticate") + w.Header().Get("Retry-After"); got != tc.wantHeader {
				t.Errorf("the header is %q, want %q", got, tc.wantHeader)
			}
			if log := strings.Join(h.log, ""); !strings.Contains(log, tc.wantLog) || (log == "") != (tc.wantLog == "") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// TestDebuggerThrottles: slow requests use up the share of their namespace.
func TestDebuggerThrottles(t *testing.T) {
	g := newDebugger(t, newReviewHub())
	useClock(g.explainer, func(clock *clocktesting.FakeClock) { clock.Step(90 * time.Millisecond) })
	for asked := 1; ; asked++ {
		w := ask(g, debugRequest(http.MethodGet, "ns/p", ""))
		if w.Code == http.StatusTooManyRequests {
			if !strings.Contains(w.Body.String(), "the next one has to wait") || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s %v", w.Body, w.Header())
			}
			break
		}
		if w.Code != http.StatusOK || asked > 20 {
			t.Fatalf("request %d: %d %s", asked, w.Code, w.Body)
		}
	}
}

// TestDebuggerAsksForPermission: the hub is asked for the permission to explain in the namespace of
// the request, once.
func TestDebuggerAsksForPermission(t *testing.T) {
	h := newReviewHub()
	g := newDebugger(t, h)
	for _, r := range []*http.Request{
		debugRequest(http.MethodGet, "ns/p", ""), debugRequest(http.MethodPost, "", `{"metadata":{"namespace":"ns"}}`),
	} {
		if w := ask(g, r); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if h.Tokens != 1 || h.Accesses != 1 {
		t.Errorf("%d tokens and %d permissions were reviewed", h.Tokens, h.Accesses)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "7", Groups: []string{"readers"}, Extra: map[string]authorizationv1.ExtraValue{"scope": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "ns", Verb: "create", Group: "berth.dev", Version: "v1alpha1", Resource: "placementexplanations",
		},
	}
	if diff := cmp.Diff(want, h.Access); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := ask(g, debugRequest(http.MethodGet, "other/p", "")); w.Code != http.StatusNotFound || h.Access.ResourceAttributes.Namespace != "other" || h.Tokens != 1 {
		t.Errorf("%d %s, after a review of %v", w.Code, w.Body, h.Access.ResourceAttributes)
	}
}

// TestDebuggerDecidesForTheUser: the submitter of a Placement in the body is the user who asks, not
// one that the Placement names.
func TestDebuggerDecidesForTheUser(t *testing.T) {
	user := &authenticationv1.UserInfo{Username: "ann", Groups: []string{"readers"}}
	body, err := json.Marshal(fixture.Placement("ns", "try").Annotation(identity.UserInfoAnnotation, `{"user":"root"}`).Obj())
	if err != nil {
		t.Fatal(err)
	}
	q, err := readDebug(httptest.NewRecorder(), debugRequest(http.MethodPost, "", string(body)), user)
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Submitted.GetAnnotations()[identity.UserInfoAnnotation]; got != (identity.Identity{User: "ann", Groups: []string{"readers"}}).String() {
		t.Errorf("the submitter is %s", got)
	}
	if q.ShownName != "try" || q.New.Name == "try" || q.New.UID == "ns/try" {
		t.Errorf("decided as %s %s, shown as %s", q.New.Name, q.New.UID, q.ShownName)
	}
}

// TestDebuggerIsGuarded: the debugger answers only behind the guard of the metrics.
func TestDebuggerIsGuarded(t *testing.T) {
	handler := newDebugHandler(newExplainer(t), func() bool { return true }, logr.Discard())
	if w := ask(handler, debugRequest(http.MethodGet, "ns/p", "")); w.Code != http.StatusForbidden || w.Body.String() != `{"error":"access is not guarded"}` {
		t.Errorf("without the guard: %d %s", w.Code, w.Body)
	}
	filter, err := guardMetrics(&rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := filter(logr.Discard(), handler)
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := guarded.(*guardedDebugger); !ok || g.guard == nil || g.debugHandler != handler {
		t.Errorf("the guard made %T", guarded)
	}
}
