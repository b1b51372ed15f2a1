package extenders

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var key = framework.ExtenderKey{Profile: "default", Name: "cost"}

// question asks for all clusters a, b and c.
func question(t *testing.T) *framework.ExtenderQuestion {
	t.Helper()
	inv := inventory.New(inventory.Options{})
	for _, name := range []string{"c", "a", "b"} {
		inv.Update(fixture.Cluster(name).Label("region", "eu").Claim("zone", "z1").Allocatable("cpu", "4").Obj())
	}
	fleet, _ := inv.View()
	q := &framework.ExtenderQuestion{Extender: key, Placement: fixture.Placement("shop", "web").Generation(3).Obj(), Fleet: fleet, All: true}
	q.Placement.UID = "u"
	for i := range fleet.Clusters.Len() {
		q.Clusters = q.Clusters.Set(i)
	}
	return q
}

// asked is one request that a test server got.
type asked struct {
	Path string
	Request
	// done is closed when the client has gone.
	done <-chan struct{}
}

// serve starts an extender with the answers of a function, and returns it with the list of its
// requests.
func serve(t *testing.T, handle func(w http.ResponseWriter, a asked)) (e config.Extender, requests func() []asked) {
	t.Helper()
	var mu sync.Mutex
	var all []asked
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{Path: r.Method + " " + r.URL.Path, done: r.Context().Done()}
		if err := json.NewDecoder(r.Body).Decode(&a.Request); err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, a)
		mu.Unlock()
		handle(w, a)
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	e = config.Extender{Name: "cost", URLPrefix: server.URL + "/v1/", FilterVerb: "filter", TLSConfig: &config.TLSFiles{CAFile: ca}}
	return e, func() []asked { mu.Lock(); defer mu.Unlock(); return all }
}

// newServer returns what asks an extender.
func newServer(t *testing.T, e config.Extender, now func() time.Time) *server {
	t.Helper()
	asker, err := New(&config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: "default", Extenders: []config.Extender{e}}}},
		Options{Now: now, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	return asker.servers[key]
}

func fixedNow() time.Time { return fixture.Now }

// describe shows an answer in one line.
func describe(a *framework.ExtenderAnswer) string {
	var parts []string
	for _, c := range a.Clusters {
		text := c.Name
		if c.Score != nil {
			text += fmt.Sprintf("=%d", *c.Score)
		}
		if c.Excluded {
			text += " excluded"
		}
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		parts = append(parts, text)
	}
	if len(a.Missing) > 0 {
		parts = append(parts, "missing: "+strings.Join(a.Missing, " "))
	}
	return strings.Join(parts, ", ")
}

func TestAsk(t *testing.T) {
	both := func(e *config.Extender) { e.PrioritizeVerb = "score" }
	tests := map[string]struct {
		change func(e *config.Extender)
		// answers are by path; the second one is for a second request to the same path.
		answers map[string][]string
		ask     func(q *framework.ExtenderQuestion)
		want    string
		// requests are the path and the clusters of each request.
		requests []string
	}{
		"a filter": {
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{"a":{},"b":{"excluded":true,"reason":"no contract"},"c":{"score":9}}}`}},
			want:     "a, b excluded (no contract), c",
			requests: []string{"POST /v1/filter a b c"},
		},
		"scores are rounded and limited": {
			change:   func(e *config.Extender) { e.FilterVerb, e.PrioritizeVerb = "", "score" },
			answers:  map[string][]string{"POST /v1/score": {`{"clusters":{"a":{"score":1e300},"b":{"score":-2.5,"excluded":true},"c":{"score":-101}}}`}},
			want:     "a=100, b=-3, c=-100",
			requests: []string{"POST /v1/score a b c"},
		},
		"a filter, then scores of what it does not exclude": {
			change: both,
			answers: map[string][]string{
				"POST /v1/filter": {`{"clusters":{"a":{},"b":{"excluded":true},"c":{}}}`},
				"POST /v1/score":  {`{"clusters":{"a":{"score":5,"reason":"cheap"},"b":{"score":7},"c":{}}}`},
			},
			want:     "a=5 (cheap), b excluded, c",
			requests: []string{"POST /v1/filter a b c", "POST /v1/score a c"},
		},
		"one verb for both": {
			change:   func(e *config.Extender) { e.PrioritizeVerb = "filter" },
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{"a":{"score":5},"b":{"excluded":true},"c":{"score":null}}}`}},
			want:     "a=5, b excluded, c",
			requests: []string{"POST /v1/filter a b c"},
		},
		"what is missing is asked for alone": {
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{"a":{}}}`, `{"clusters":{"b":{}}}`}},
			want:     "a, b, missing: c",
			requests: []string{"POST /v1/filter a b c", "POST /v1/filter b c"},
		},
		"everything is missing": {
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{}}`}},
			want:     "missing: a b c",
			requests: []string{"POST /v1/filter a b c"},
		},
		"unknown clusters and fields are ignored": {
			answers:  map[string][]string{"POST /v1/filter": {`{"more":[1],"clusters":{"a":{"x":{}},"b":{},"c":{},"z":{"excluded":true}}}`}},
			want:     "a, b, c",
			requests: []string{"POST /v1/filter a b c"},
		},
		"reasons are one short line": {
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{"a":{"excluded":true,"reason":"a\u001b[31m\nb\u202e"},"b":{"reason":"` + strings.Repeat("x", 40<<10) + `"},"c":{}}}`}},
			want:     "a excluded (a [31m b), b (" + strings.Repeat("x", 200) + "), c",
			requests: []string{"POST /v1/filter a b c"},
		},
		"one more cluster": {
			ask: func(q *framework.ExtenderQuestion) {
				q.All = false
				q.Before = &framework.ExtenderAnswer{Generation: 2, Time: fixture.Now.Add(-time.Minute), Clusters: []framework.ExtenderCluster{{Name: "a", Excluded: true}, {Name: "z"}}, Missing: []string{"b", "y"}}
				q.Clusters.Unset(q.Fleet.Cluster("a").Index)
			},
			answers:  map[string][]string{"POST /v1/filter": {`{"clusters":{"b":{}}}`, `{"clusters":{}}`}},
			want:     "a excluded, b, z, missing: c y",
			requests: []string{"POST /v1/filter b c", "POST /v1/filter c"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			e, requests := serve(t, func(w http.ResponseWriter, a asked) {
				mu.Lock()
				defer mu.Unlock()
				if left := tc.answers[a.Path]; len(left) > 0 {
					_, _ = io.WriteString(w, left[0])
					tc.answers[a.Path] = left[1:]
				}
			})
			if tc.change != nil {
				tc.change(&e)
			}
			q := question(t)
			if tc.ask != nil {
				tc.ask(q)
			}
			answer, err := newServer(t, e, fixedNow).ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, describe(answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			wantTime, wantGeneration := fixture.Now, int64(3)
			if !q.All {
				wantTime, wantGeneration = q.Before.Time, 2
			}
			if !answer.Time.Equal(wantTime) || answer.Generation != wantGeneration || answer.Failure != nil {
				t.Errorf("answer of %s for generation %d, failure %v", answer.Time, answer.Generation, answer.Failure)
			}
			var sent []string
			for _, r := range requests() {
				text := r.Path
				for _, c := range r.Clusters {
					text += " " + c.Name
				}
				sent = append(sent, text)
			}
			if diff := cmp.Diff(tc.requests, sent); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequestBody: only the fields that the configuration names are sent.
func TestRequestBody(t *testing.T) {
	for fields, want := range map[string]string{
		"labels":             `{"name":"a","labels":{"region":"eu"}}`,
		"claims,allocatable": `{"name":"a","claims":{"zone":"z1"},"allocatable":{"cpu":"4"}}`,
		"":                   `{"name":"a","labels":{"region":"eu"},"claims":{"zone":"z1"},"allocatable":{"cpu":"4"}}`,
	} {
		e, requests := serve(t, func(w http.ResponseWriter, _ asked) { _, _ = io.WriteString(w, `{"clusters":{}}`) })
		if fields != "" {
			e.ClusterFields = strings.Split(fields, ",")
		}
		q := question(t)
		q.Placement.Labels, q.Placement.Annotations = map[string]string{"team": "shop"}, map[string]string{"note": "x"}
		if _, err := newServer(t, e, fixedNow).ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		sent := requests()[0]
		text, err := json.Marshal(sent.Clusters[0])
		if err != nil || string(text) != want {
			t.Errorf("%q: cluster %s, want %s (%v)", fields, text, want, err)
		}
		pl := sent.Placement
		if pl.Namespace != "shop" || pl.Name != "web" || pl.Labels["team"] != "shop" || pl.Annotations["note"] != "x" {
			t.Errorf("Placement %+v", pl)
		}
	}
}

// secret is part of every address in the tests of failures.
const secret = "s3cret"

// TestFailures: each failure is one plain text, without addresses.
func TestFailures(t *testing.T) {
	say := func(text string) func(http.ResponseWriter, asked) {
		return func(w http.ResponseWriter, _ asked) { _, _ = io.WriteString(w, text) }
	}
	const invalid = "its answer is not valid JSON of the form {clusters: {name: {score, excluded, reason}}}"
	tests := map[string]struct {
		handle func(http.ResponseWriter, asked)
		change func(t *testing.T, e *config.Extender)
		want   string
	}{
		"nothing":          {handle: say(""), want: invalid},
		"no clusters":      {handle: say("{}"), want: "its answer has no clusters"},
		"null":             {handle: say(`{"clusters":null}`), want: "its answer has no clusters"},
		"NaN":              {handle: say(`{"clusters":{"a":{"score":NaN}}}`), want: invalid},
		"infinite":         {handle: say(`{"clusters":{"a":{"score":1e999}}}`), want: invalid},
		"a score in words": {handle: say(`{"clusters":{"a":{"score":"` + secret + `"}}}`), want: invalid},
		"garbage":          {handle: say("\x00\xff<html>"), want: invalid},
		"nested deeply":    {handle: say(strings.Repeat(`{"a":`, 20000)), want: invalid},
		"two answers":      {handle: say(`{"clusters":{}}{"clusters":{}}`), want: invalid},
		"17 MiB": {handle: func(w http.ResponseWriter, _ asked) { _, _ = w.Write(bytes.Repeat([]byte(" "), 17<<20)) },
			want: "its answer is larger than 16384 KiB"},
		"a redirect": {handle: func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Location", "https://example.com/"+secret)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, want: "it answered with a redirect (307), which is not followed"},
		"an error":    {handle: func(w http.ResponseWriter, _ asked) { http.Error(w, secret, http.StatusInternalServerError) }, want: "it answered with status 500"},
		"no content":  {handle: func(w http.ResponseWriter, _ asked) { w.WriteHeader(http.StatusNoContent) }, want: "it answered with status 204"},
		"it hangs up": {handle: func(http.ResponseWriter, asked) { panic(http.ErrAbortHandler) }, want: "it closed the connection"},
		"half of an answer": {handle: func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, want: "it closed the connection"},
		"it takes its time": {handle: func(_ http.ResponseWriter, a asked) { <-a.done }, want: "no answer within 50ms"},
		"drop by drop": {handle: func(w http.ResponseWriter, a asked) {
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			<-a.done
		}, want: "no answer within 50ms"},
		"another certificate": {change: func(t *testing.T, e *config.Extender) { e.TLSConfig = nil }, want: "its certificate is not valid for Berth"},
		"nobody listens":      {change: func(t *testing.T, e *config.Extender) { e.URLPrefix = "https://127.0.0.1:1/" + secret }, want: "it refuses connections"},
		"no such host":        {change: func(t *testing.T, e *config.Extender) { e.URLPrefix = "https://" + secret + ".invalid" }, want: "the name of its host cannot be resolved"},
		"plain HTTP":          {change: func(t *testing.T, e *config.Extender) { e.URLPrefix = strings.Replace(e.URLPrefix, "https", "http", 1) }, want: "it answered with status 400"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := serve(t, func(w http.ResponseWriter, a asked) {
				if tc.handle != nil {
					tc.handle(w, a)
				}
			})
			e.URLPrefix += secret
			e.HTTPTimeout = &metav1.Duration{Duration: 5 * time.Second}
			if strings.Contains(tc.want, "50ms") {
				e.HTTPTimeout.Duration = 50 * time.Millisecond
			}
			if tc.change != nil {
				tc.change(t, &e)
			}
			answer, err := newServer(t, e, fixedNow).ask(t.Context(), question(t))
			if answer != nil || err == nil || err.Error() != tc.want {
				t.Errorf("%v, %v; want %s", answer, err, tc.want)
			}
		})
	}
}

// TestTLSFiles: mistakes are found before anything starts, and new files are used without a
// restart.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]config.TLSFiles{
		"caFile cannot be read":     {CAFile: filepath.Join(dir, "missing")},
		"caFile has no certificate": {CAFile: empty},
		"certFile and keyFile cannot be read, or do not belong together": {CertFile: empty, KeyFile: empty},
	} {
		_, err := newClient(&config.Extender{URLPrefix: "https://x", TLSConfig: &files})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	e, _ := serve(t, func(w http.ResponseWriter, _ asked) { _, _ = io.WriteString(w, `{"clusters":{}}`) })
	right, err := os.ReadFile(e.TLSConfig.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	wrong, _, err := cert.GenerateSelfSignedCertKey("other", nil, nil)
	if err == nil {
		err = os.WriteFile(e.TLSConfig.CAFile, wrong, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, e, fixedNow)
	if _, err := s.ask(t.Context(), question(t)); err == nil || err.Error() != "its certificate is not valid for Berth" {
		t.Fatalf("with another CA: %v", err)
	}
	if err := os.WriteFile(e.TLSConfig.CAFile, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(e.TLSConfig.CAFile, fixture.Now, fixture.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(t.Context(), question(t)); err != nil {
		t.Errorf("with the new CA: %v", err)
	}
}

// TestBreaker pauses after five failures, then tries one request at a time.
func TestBreaker(t *testing.T) {
	now := fixture.Now
	b := breaker{now: func() time.Time { return now }}
	fail := fmt.Errorf("no")
	for i := range failuresToOpen {
		if _, err := b.begin(); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if retryAt, changed := b.end(fail); changed != (i == 0) || !retryAt.Equal(now.Add(minPause)) {
			t.Errorf("failure %d: again at %s, changed %v", i, retryAt, changed)
		}
	}
	pause := minPause
	for range 8 {
		if retryAt, err := b.begin(); err == nil || !retryAt.Equal(b.until) {
			t.Fatalf("in the pause: %s, %v", retryAt, err)
		}
		now = b.until
		if _, err := b.begin(); err != nil {
			t.Fatal(err)
		}
		if retryAt, err := b.begin(); err == nil || !retryAt.Equal(now.Add(minPause)) {
			t.Fatalf("while one tries: %s, %v", retryAt, err)
		}
		pause = min(2*pause, maxPause)
		if retryAt, _ := b.end(fail); !retryAt.Equal(now.Add(pause)) {
			t.Errorf("pause of %s, want %s", retryAt.Sub(now), pause)
		}
	}
	now = b.until
	if _, err := b.begin(); err != nil {
		t.Fatal(err)
	}
	if _, changed := b.end(nil); !changed || b.paused() {
		t.Error("it does not answer again")
	}
	if _, err := b.begin(); err != nil {
		t.Error(err)
	}
}

// TestAskerAsksOncePerPlacement: while a question is being asked, only one that knows a newer
// answer waits; each Placement has one, and nothing of an address is logged.
func TestAskerAsksOncePerPlacement(t *testing.T) {
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		var stored []string
		var mu sync.Mutex
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		e := config.Extender{Name: "cost", URLPrefix: "https://" + secret + ".invalid", FilterVerb: "filter"}
		asker, err := New(&config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: "default", Extenders: []config.Extender{e}}}}, Options{
			Now: time.Now, Log: log, Store: func(q *framework.ExtenderQuestion, a *framework.ExtenderAnswer) {
				mu.Lock()
				defer mu.Unlock()
				stored = append(stored, q.Placement.Name+": "+a.Failure.Message)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := asker.servers[key]
		answers := make(chan error)
		s.client = stub(answers)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- asker.Start(ctx) }()
		first := question(t)
		asker.Ask(first)
		synctest.Wait()
		asker.Ask(question(t)) // Dropped: it does not know the answer.
		newer := question(t)
		newer.Before = &framework.ExtenderAnswer{}
		asker.Ask(newer)
		asker.Ask(newer)
		asker.Ask(&framework.ExtenderQuestion{Extender: framework.ExtenderKey{Profile: "x", Name: "y"}})
		synctest.Wait()
		for range 2 {
			answers <- errTest
			synctest.Wait()
		}
		select {
		case answers <- nil:
			t.Error("a third request was sent")
		default:
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"web: no answer within 2s", "web: no answer within 2s"}, stored); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
	if text := strings.Join(lines, "\n"); strings.Contains(text, secret) || len(lines) != 1 {
		t.Errorf("log: %s", text)
	}
}

// stub fails each request with the next error.
type stub chan error

func (s stub) post(context.Context, string, *Request) (*Answer, error) { return nil, <-s }

var errTest = errors.New("no answer within 2s")

// TestFailedAnswerKeepsTheLast: a failure leaves the answers, and counts from the first one in a
// row.
func TestFailedAnswerKeepsTheLast(t *testing.T) {
	q := question(t)
	q.Before = &framework.ExtenderAnswer{Generation: 2, Time: fixture.Now, Clusters: []framework.ExtenderCluster{{Name: "a"}}, Failure: &framework.ExtenderFailure{Since: fixture.Now, Generation: 2}}
	later := fixture.Now.Add(time.Hour)
	got := failed(q, later, later.Add(minPause), errTest)
	want := &framework.ExtenderAnswer{Generation: 2, Time: fixture.Now, Clusters: []framework.ExtenderCluster{{Name: "a"}},
		Failure: &framework.ExtenderFailure{Generation: 3, Message: errTest.Error(), Since: fixture.Now, RetryAt: later.Add(minPause)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	times := map[time.Time]bool{}
	for i := range 100 {
		q.Placement.UID = types.UID(fmt.Sprint(i))
		at := spread(fixture.Now, q)
		if times[at] = true; at.Before(fixture.Now) || at.After(fixture.Now.Add(15*time.Second)) {
			t.Errorf("again at %s", at)
		}
	}
	if len(times) < 90 {
		t.Errorf("100 Placements are asked for at only %d times", len(times))
	}
}

// FuzzParse: no answer makes parse panic, and scores stay in their range.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"clusters":{"a":{"score":1,"excluded":true,"reason":"x"}}}`, `{"clusters":{}}`, `[]`, `{"clusters":{"a":{"score":1e400}}}`, `{"clusters":{"":{"score":-0.5}}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		answer, err := parse(text)
		if err != nil {
			return
		}
		for _, c := range answer.AnswerAt(fixture.Placement("n", "p").Obj(), fixture.Now).Clusters {
			if c.Score != nil && (int64(*c.Score) < framework.MinScore || int64(*c.Score) > framework.MaxScore) || len(c.Reason) > maxReason || strings.ContainsAny(c.Reason, "\n\x1b") {
				t.Errorf("%+v", c)
			}
		}
	})
}
