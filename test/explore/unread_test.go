package explore

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
)

// serveChanged serves small with another Fleet, serveObjects any objects.
func serveChanged(t *testing.T, change func(*explore.Fleet)) string {
	t.Helper()
	return serveObjects(t, small(), change)
}

func serveObjects(t *testing.T, objects simulator.Objects, change func(*explore.Fleet)) string {
	t.Helper()
	address, _ := serveUntil(t, objects, change)
	return address
}

// serveUntil serves until the test ends or stop is called.
func serveUntil(t *testing.T, objects simulator.Objects, change func(*explore.Fleet)) (at string, stop func()) {
	t.Helper()
	server := newServer(t, objects)
	address, stop := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/api/fleet") {
			server.ServeHTTP(w, r)
			return
		}
		recorded, fleet := httptest.NewRecorder(), explore.Fleet{}
		r.Header.Del("Accept-Encoding")
		server.ServeHTTP(recorded, r)
		if err := json.Unmarshal(recorded.Body.Bytes(), &fleet); err != nil {
			t.Error(err)
		}
		change(&fleet)
		_ = json.NewEncoder(w).Encode(fleet)
	}))
	return "http://" + address + server.Path(), stop
}

// TestUnreadHub: a hub that could not be read is not shown as one without objects.
func TestUnreadHub(t *testing.T) {
	b := newBrowser(t)
	address := serveChanged(t, func(f *explore.Fleet) {
		f.Hub = explore.HubState{State: explore.Lost, Problem: "it is on fire"}
		f.Clusters, f.Placements = nil, nil
	})
	for _, route := range []string{"", "#/?view=matrix", "#/?view=placement&placement=ns/web", "#/?filter=state:held"} {
		b.open("about:blank")
		b.open(address + route)
		b.wait(`document.querySelector('#bands').innerText.includes('it is on fire')`)
		b.wait(`document.querySelector('main').innerText.includes('The hub could not be read.')`)
		got := eval[string](b, `return document.body.innerText`)
		for _, wrong := range []string{"There are no", "There is no", "deleted", "No changes", "Nothing matches", "no problem"} {
			if strings.Contains(got, wrong) {
				t.Errorf("%q says %q:\n%s", route, wrong, got)
			}
		}
	}
}

// TestPartOfHub: the first sentence of the page says that not all is known.
func TestPartOfHub(t *testing.T) {
	b := newBrowser(t)
	for name, change := range map[string]func(*explore.Fleet){
		"a problem":            func(f *explore.Fleet) { f.Hub.Problem = "watching Placements: no" },
		"a missing permission": func(f *explore.Fleet) { f.Missing = []string{"list managedclusters"} },
	} {
		address := serveChanged(t, func(f *explore.Fleet) {
			f.Placements[0].States = []changes.StateName{changes.StateSatisfied}
			change(f)
		})
		const want = "Of what is known of the hub: nothing needs attention: 1 Placement on 1 cluster.verdict"
		got := ""
		// The first event has the real state of the hub: it must not come after the changed fleet.
		for tries := 0; got != want && tries < 10; tries++ {
			b.open("about:blank")
			b.open(address)
			b.wait(`document.querySelector('#overview .verdict')`)
			got = eval[string](b, `return document.querySelector('#overview .verdict').textContent + document.querySelector('#overview .verdict').className`)
		}
		if got != want {
			t.Errorf("%s: it says %q, want %q", name, got, want)
		}
	}
}
