package explore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
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

func newTestHub(t *testing.T, objects simulator.Objects) *LiveWorld {
	t.Helper()
	hub, err := NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Fill(objects); err != nil {
		t.Fatal(err)
	}
	return hub
}

func newTestServer(t *testing.T, objects simulator.Objects) *Server {
	t.Helper()
	return NewServer(simulator.Options{}, NewViewer(simulator.Options{}, newTestHub(t, objects), nil, ""))
}

func get(s *Server, change func(*http.Request), path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, s.Path()+path, http.NoBody)
	r.Host = "127.0.0.1:8001"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// read decodes an answer with a code.
func read(t *testing.T, w *httptest.ResponseRecorder, code int, into any) {
	t.Helper()
	if w.Code != code {
		t.Fatalf("code %d, want %d: %s", w.Code, code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
}

// TestGuard: only a browser on this machine that was given the address gets an answer.
func TestGuard(t *testing.T) {
	s := newTestServer(t, small())
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
		"data without token": {func(r *http.Request) { r.URL.Path = "/api/fleet" }, 404},
		"PUT":                {func(r *http.Request) { r.Method = http.MethodPut }, 405},
		"POST of a page":     {func(r *http.Request) { r.Method = http.MethodPost }, 404},
		"HEAD":               {func(r *http.Request) { r.Method = http.MethodHead }, 405},
		"no such file":       {func(r *http.Request) { r.URL.Path += "server.go" }, 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(s, tc.change, "")
			if w.Code != tc.wantCode {
				t.Errorf("code %d, want %d: %s", w.Code, tc.wantCode, w.Body)
			}
			if shown := strings.Contains(w.Body.String(), "<title>Berth"); shown != (tc.wantCode == 200) {
				t.Errorf("the page is shown: %t", shown)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") || strings.Contains(csp, "unsafe") {
				t.Errorf("Content-Security-Policy %q", csp)
			}
		})
	}
	if newTestServer(t, small()).Path() == s.Path() {
		t.Error("two servers have one token")
	}
}

// TestFleet: the first request shows the state of each Placement, without a decision.
func TestFleet(t *testing.T) {
	var got Fleet
	read(t, get(newTestServer(t, small()), nil, "api/fleet"), 200, &got)
	var clusters, placements []string
	for _, c := range got.Clusters {
		clusters = append(clusters, fmt.Sprint(c.Name, c.Sets, c.Taints, c.Decisions))
	}
	if diff := cmp.Diff([]string{"c0[] 0 0", "c1[s] 0 0", "c2[s] 0 0", "c3[s] 0 1", "c4[s] 1 0", "gone[] 0 1"}, clusters); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	for _, p := range got.Placements {
		placements = append(placements, fmt.Sprint(p.Placement, " ", p.Selected, p.States, p.Sets))
	}
	want := []string{"ns/held 2 [undecided] [s]", "ns/off 0 [disabled] [s]", "ns/two 0 [undecided] [s]", "ns/wrong 0 [undecided] [s]"}
	if diff := cmp.Diff(want, placements); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	if got.Hub.State != Connected || got.Namespace != "" || len(got.Missing) > 0 {
		t.Errorf("hub %v, namespace %q, missing %q", got.Hub, got.Namespace, got.Missing)
	}
}

// TestColumns: published clusters are marked as such. Without records nothing is to be changed.
func TestColumns(t *testing.T) {
	var got Columns
	path := "api/columns?placement=ns/held&placement=ns/off&placement=ns/two&placement=ns/wrong&placement=ns/none"
	read(t, get(newTestServer(t, small()), nil, path), 200, &got)
	cells := map[string]string{}
	for _, c := range got.Columns {
		cells[c.Placement] = c.Cells
	}
	if diff := cmp.Diff([]string{"Predicate", "TaintToleration"}, got.Plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	want := map[string]string{"ns/held": "0A21A1", "ns/off": "000000", "ns/two": "0222B0", "ns/wrong": "055550"}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// TestYAML: an object as kubectl prints it, of the kinds that the page shows.
func TestYAML(t *testing.T) {
	s := newTestServer(t, small())
	for path, want := range map[string]string{
		"kind=Placement&name=ns/two":                      "kind: Placement\nmetadata:\n  generation: 1\n  name: two\n",
		"kind=ManagedCluster&name=c4":                     "  taints:\n  - effect: NoSelect\n    key: k\n",
		"kind=PlacementDecision&name=ns/held-decision-1":  "  - clusterName: c3\n",
		"kind=PlacementDecision&name=ns/held-decision-10": "404",
		"kind=Secret&name=ns/two":                         "400",
		"kind=Placement&name=ns/two&world=at-x":           "404",
	} {
		w := get(s, nil, "api/yaml?"+path)
		var got ObjectYAML
		_ = json.Unmarshal(w.Body.Bytes(), &got)
		if !strings.Contains(got.Text+fmt.Sprint(w.Code), want) || strings.Contains(got.Text, "managedFields") {
			t.Errorf("%s: %d, want %q in\n%s", path, w.Code, want, w.Body)
		}
	}
}
