package explore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// small has a Placement of each kind: one whose change is held, one that takes all it may, one that
// is wrong, one that is switched off.
func small() simulator.Objects {
	o := simulator.Objects{fixture.Set("s"), fixture.Binding("ns", "s")}
	for _, name := range []string{"c1", "c2", "c3"} {
		o = append(o, fixture.Cluster(name).Set("s").Label("name", name).Obj())
	}
	return append(o,
		fixture.Cluster("c4").Set("s").Taint("k", "v", v1alpha1.TaintEffectNoSelect).Obj(),
		fixture.Cluster("c0").Obj(),
		fixture.Placement("ns", "held").Number(1).Predicate(fixture.MatchLabel("name", "c2")).Obj(),
		fixture.Placement("ns", "off").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj(),
		fixture.Placement("ns", "two").Number(2).Obj(),
		fixture.Placement("ns", "wrong").Predicate(fixture.MatchCEL("nonsense(")).Obj(),
		fixture.Page("ns", "held-decision-1").Of("held").OwnedBy("held").Lists("c3", "gone").Obj(),
		fixture.ApprovalPolicy("ns", "careful", "held"),
	)
}

func newTestServer(objects simulator.Objects) *Server {
	return NewServer(func(context.Context) (simulator.Objects, error) { return objects, nil }, simulator.Options{})
}

func get(s *Server, change func(*http.Request), path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, s.Path()+path, nil)
	r.Host = "127.0.0.1:8001"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestGuard: only a browser on this machine that was given the address gets an answer.
func TestGuard(t *testing.T) {
	s := newTestServer(small())
	for name, tc := range map[string]struct {
		change   func(*http.Request)
		wantCode int
	}{
		"the page":           {nil, 200},
		"localhost":          {func(r *http.Request) { r.Host = "localhost:8001" }, 200},
		"IPv6":               {func(r *http.Request) { r.Host = "[::1]:8001" }, 200},
		"no port":            {func(r *http.Request) { r.Host = "localhost" }, 200},
		"own origin":         {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8001") }, 200},
		"a name rebound":     {func(r *http.Request) { r.Host = "evil.example:8001" }, 403},
		"a lookalike":        {func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		"no host":            {func(r *http.Request) { r.Host = "" }, 403},
		"another origin":     {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"another port":       {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9") }, 403},
		"an opaque origin":   {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"no token":           {func(r *http.Request) { r.URL.Path = "/" }, 404},
		"a wrong token":      {func(r *http.Request) { r.URL.Path = "/" + strings.Repeat("A", 26) + "/" }, 404},
		"data without token": {func(r *http.Request) { r.URL.Path = "/api/matrix" }, 404},
		"POST":               {func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"HEAD":               {func(r *http.Request) { r.Method = http.MethodHead }, 405},
		"no such file":       {func(r *http.Request) { r.URL.Path += "server.go" }, 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(s, tc.change, "")
			if w.Code != tc.wantCode {
				t.Errorf("code %d, want %d: %s", w.Code, tc.wantCode, w.Body)
			}
			if shown := strings.Contains(w.Body.String(), "explore.js"); shown != (tc.wantCode == 200) {
				t.Errorf("the page is shown: %t", shown)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") || strings.Contains(csp, "unsafe") {
				t.Errorf("Content-Security-Policy %q", csp)
			}
		})
	}
	if newTestServer(small()).Path() == s.Path() {
		t.Error("two servers have one token")
	}
}

func TestMatrix(t *testing.T) {
	s := newTestServer(small())
	if w := get(s, nil, "api/cell?placement=ns/two&cluster=c1"); w.Code != 404 {
		t.Errorf("before the matrix: %d %s", w.Code, w.Body)
	}
	var got Matrix
	read(t, get(s, nil, "api/matrix"), 200, &got)
	cells := map[string]string{}
	for _, p := range got.Placements {
		state := ""
		if p.Held {
			state = " held"
		}
		cells[p.Placement] = p.Cells + state + p.Skipped
	}
	if diff := cmp.Diff([]string{"c0", "c1", "c2", "c3", "c4"}, got.Clusters); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Predicate", "TaintToleration"}, got.Plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	want := map[string]string{"ns/held": "0A34A held", "ns/off": "00000disabled", "ns/two": "0112B", "ns/wrong": cells["ns/wrong"]}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if strings.ContainsAny(cells["ns/wrong"], "1234") {
		t.Errorf("a wrong Placement selects: %s", cells["ns/wrong"])
	}
}

func TestCell(t *testing.T) {
	s := newTestServer(small())
	read(t, get(s, nil, "api/matrix"), 200, &Matrix{})
	for name, tc := range map[string]struct {
		placement, cluster string
		wantCode           int
		want               []string
	}{
		"selected":         {"ns/two", "c1", 200, []string{`"selected":true`, `"rank":1`, `"Balance":1`}},
		"left out":         {"ns/two", "c3", 200, []string{`"selected":false`, `"rank":3`, `"selectedWith":"`}},
		"excluded":         {"ns/two", "c4", 200, []string{`"plugin":"TaintToleration"`, `"reason":"`}},
		"no candidate":     {"ns/two", "c0", 200, []string{`"note":"No candidate: `}},
		"a held addition":  {"ns/held", "c2", 200, []string{`"pending":"`, `requires approval`}},
		"switched off":     {"ns/off", "c1", 200, []string{`it is disabled`}},
		"wrong":            {"ns/wrong", "c1", 200, []string{`"note":"`, `Misconfigured`}},
		"no such cluster":  {"ns/two", "gone", 404, []string{`the cluster \"gone\": not found`}},
		"no such name":     {"ns/none", "c1", 404, []string{`the Placement \"ns/none\": not found`}},
		"nothing asked of": {"", "", 404, []string{`not found`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(s, func(r *http.Request) { r.URL.RawQuery = "placement=" + tc.placement + "&cluster=" + tc.cluster }, "api/cell")
			if w.Code != tc.wantCode {
				t.Errorf("code %d, want %d", w.Code, tc.wantCode)
			}
			for _, want := range tc.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s\nwithout %s", w.Body, want)
				}
			}
		})
	}
}

func TestPlacement(t *testing.T) {
	s := newTestServer(small())
	read(t, get(s, nil, "api/placement?placement=ns/held"), 404, &struct{}{})
	read(t, get(s, nil, "api/matrix"), 200, &Matrix{})
	var got Placement
	read(t, get(s, nil, "api/placement?placement=ns/held"), 200, &got)
	if got.Pending == nil || len(got.Conditions) == 0 {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff([][]string{{"c2"}, {"c3", "gone"}}, [][]string{got.Pending.Added, got.Pending.Removed}); diff != "" {
		t.Errorf("added and removed (-want +got):\n%s", diff)
	}
}

// TestUnreachable: what the hub says is what the page gets to show, and the matrix before stays to
// be asked about.
func TestUnreachable(t *testing.T) {
	var refused error
	s := NewServer(func(context.Context) (simulator.Objects, error) { return small(), refused }, simulator.Options{})
	read(t, get(s, nil, "api/matrix"), 200, &Matrix{})
	refused = errors.New("reading the hub: placements is forbidden")
	var got struct{ Error string }
	read(t, get(s, nil, "api/matrix"), 502, &got)
	if got.Error != refused.Error() {
		t.Errorf("error %q", got.Error)
	}
	read(t, get(s, nil, "api/cell?placement=ns/two&cluster=c1"), 200, &Cell{})
}

func read(t *testing.T, w *httptest.ResponseRecorder, wantCode int, into any) {
	t.Helper()
	if w.Code != wantCode {
		t.Fatalf("code %d, want %d: %s", w.Code, wantCode, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

// TestResilience: the result is computed after the matrix, and is empty without a key.
func TestResilience(t *testing.T) {
	read := func(s *Server) (r Resilience) {
		if err := json.Unmarshal(get(s, nil, "api/resilience").Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if diff := cmp.Diff(Resilience{Done: true}, read(newTestServer(small()))); diff != "" {
		t.Errorf("without a key (-want +got):\n%s", diff)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(small())
		key, err := resilience.ParseKey("label:name")
		if err != nil {
			t.Fatal(err)
		}
		s.By = &key
		get(s, nil, "api/matrix")
		if by := read(s).By; by != "label:name" {
			t.Errorf("by %q", by)
		}
		synctest.Wait()
		want := map[string]Survival{
			"ns/held": {true, "2 of 3 domains of label name can be lost; not c2: 1 of 1 clusters would be missing (Predicate excludes 3; relaxing Predicate is enough)"},
			"ns/off":  {false, "not decided: disabled"},
			"ns/two":  {false, "3 of 3 domains of label name can be lost; weakest is c1: 1 of 2 clusters lost, 1 replaced"},
		}
		got := read(s)
		if !strings.HasPrefix(got.Placements["ns/wrong"].Message, "not satisfied before a loss: ") {
			t.Errorf("wrong: %v", got.Placements["ns/wrong"])
		}
		delete(got.Placements, "ns/wrong")
		if diff := cmp.Diff(want, got.Placements); diff != "" || !got.Done {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
