package explore

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
)

// TestOtherRows: columns in the order of other clusters than those of the page are not shown, and
// not asked for again at once.
func TestOtherRows(t *testing.T) {
	server := newServer(t, small())
	var mu sync.Mutex
	var times []time.Time
	const wrong = 2
	address, _ := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/api/columns") {
			server.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if times = append(times, time.Now()); len(times) > wrong {
			server.ServeHTTP(w, r)
			return
		}
		recorded, answer := httptest.NewRecorder(), explore.Columns{}
		r.Header.Del("Accept-Encoding")
		server.ServeHTTP(recorded, r)
		if err := json.Unmarshal(recorded.Body.Bytes(), &answer); err != nil {
			t.Error(err)
		}
		answer.Rows++
		_ = json.NewEncoder(w).Encode(answer)
	}))
	b := newBrowser(t)
	b.open("http://" + address + server.Path() + "#/?view=matrix&group=none")
	b.wait(read)
	mu.Lock()
	defer mu.Unlock()
	if took := times[wrong].Sub(times[0]); took < wrong*time.Second {
		t.Errorf("the page asked %d times within %s", wrong+1, took)
	}
}

// TestFailedAnswers: what could not be read once is read a moment later.
func TestFailedAnswers(t *testing.T) {
	hub, err := explore.NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Fill(small()); err != nil {
		t.Fatal(err)
	}
	server := explore.NewServer(simulator.Options{}, explore.NewViewer(simulator.Options{}, hub, nil, filepath.Join("..", "..", "examples", "recording")))
	failed := sync.Map{}
	address, _ := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := path.Base(r.URL.Path); name {
		case "columns", "scores", "placement", "time":
			if _, again := failed.LoadOrStore(name, true); !again {
				http.Error(w, `{"error":"the hub is on fire"}`, http.StatusBadGateway)
				return
			}
		}
		server.ServeHTTP(w, r)
	}))
	b := newBrowser(t)
	b.open("http://" + address + server.Path() + "#/?view=placement&beside=matrix&group=none&sort=score&by=ns/web&placement=ns/web")
	b.wait(`document.querySelector('#details').innerText.includes('the hub is on fire')`)
	b.wait(`document.querySelector('#details .verdict')`)
	b.wait(`document.querySelector('.cell.m2') && !document.querySelector('.cell.m6')`)
	b.wait(`document.querySelector('#time .slider')`)
	b.wait(`performance.getEntriesByType('resource').filter((e) => e.name.includes('api/scores')).length >= 2`)
}

// TestAllColumns: details are read again when everything may have changed.
func TestAllColumns(t *testing.T) {
	b := newBrowser(t)
	b.at(serve(t, small()), "view", "cell", "placement", "ns/web", "cluster", "c1")
	const asked = `performance.getEntriesByType('resource').filter((e) => e.name.includes('api/cell')).length === `
	b.wait(asked + "1")
	eval[any](b, `import('./store.js').then(({ apply, store: { fleet } }) => apply({ version: fleet.version + 1, at: fleet.at, hub: fleet.hub, rows: fleet.rows, allColumns: true }))`)
	b.wait(asked + "2")
}
