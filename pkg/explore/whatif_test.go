package explore

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// askWhatIf sends a body as the page does; change may change the request.
func askWhatIf(s *Server, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, s.Path()+"api/what-if", strings.NewReader(body))
	r.Host = "127.0.0.1:8001"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Berth-CSRF", s.viewer.CSRF)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestWhatIf(t *testing.T) {
	for name, tc := range map[string]struct {
		edits string
		want  []string
	}{
		// The change of held, which is not published, removes c3 already.
		"drain": {`{"kind":"drain","cluster":"c3"}`, nil},
		"a taint": {
			`{"kind":"taint","cluster":"c1","key":"k","effect":"NoSelect"}`,
			[]string{"ns/two 2→2 +c3 −c1"},
		},
		"a taint that is removed": {`{"kind":"taint","cluster":"c4","key":"k","remove":true}`, nil},
		"a label":                 {`{"kind":"label","cluster":"c1","key":"name","value":"c2"}`, []string{"ns/held 1→1 +c1 −c2"}},
		"a lost domain":           {`{"kind":"lose","key":"name","value":"c2"}`, []string{"ns/held 1→0 −c2", "ns/two 2→2 +c3 −c2"}},
		"a number":                {`{"kind":"number","placement":"ns/two","number":3}`, []string{"ns/two 2→3 +c3"}},
		"a removed cluster":       {`{"kind":"remove","type":"cluster","name":"c2"}`, []string{"ns/held 1→0 −c2", "ns/two 2→2 +c3 −c2"}},
		"a text": {
			`{"kind":"replace","text":"{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: two, namespace: ns}, spec: {numberOfClusters: 3}}"}`,
			[]string{"ns/two 2→3 +c3"},
		},
		"all": {
			`{"kind":"number","placement":"ns/two","number":null},{"kind":"drain","cluster":"c1"}`,
			[]string{"ns/two 2→2 +c3 −c1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(t, small())
				var got WhatIf
				read(t, askWhatIf(s, `{"edits":[`+tc.edits+`]}`, nil), 200, &got)
				synctest.Wait()
				read(t, get(s, nil, "api/what-if?id="+got.ID), 200, &got)
				if !got.Done || got.Error != "" {
					t.Fatalf("done %t: %s", got.Done, got.Error)
				}
				var changes []string
				for _, c := range got.Comparison.Changes {
					text := fmt.Sprintf("%s %d→%d", c.Placement, c.Before, c.After)
					for _, name := range c.Added {
						text += " +" + name
					}
					for _, name := range c.Removed {
						text += " −" + name
					}
					if len(c.Added)+len(c.Removed) > 0 {
						changes = append(changes, text)
					}
				}
				if diff := cmp.Diff(tc.want, changes); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				read(t, get(s, nil, "api/fleet?world="+got.ID), 200, &Fleet{})
			})
		})
	}
}

func TestWhatIfMistakes(t *testing.T) {
	s := newTestServer(t, small())
	many := strings.Repeat(`{"kind":"drain","cluster":"c1"},`, maxEdits) + `{"kind":"drain","cluster":"c1"}`
	for name, tc := range map[string]struct {
		body string
		code int
		want string
	}{
		"nothing":          {`{"edits":[]}`, 400, "there is nothing to change"},
		"too many":         {`{"edits":[` + many + `]}`, 400, "101 edits, at most 100"},
		"a kind":           {`{"edits":[{"kind":"delete"}]}`, 400, `edits: not valid: kind: \"delete\" is not one of`},
		"a cluster":        {`{"edits":[{"kind":"drain","cluster":"c1"},{"kind":"drain","cluster":"c9"}]}`, 404, `there is no ManagedCluster c9`},
		"a Placement":      {`{"edits":[{"kind":"number","placement":"ns/none"}]}`, 404, `there is no Placement ns/none`},
		"a number":         {`{"edits":[{"kind":"number","placement":"ns/two","number":-1}]}`, 400, "-1 is negative"},
		"no number":        {`{"edits":[{"kind":"number","placement":"ns/two","number":1e99}]}`, 400, "the body: not valid"},
		"an effect":        {`{"edits":[{"kind":"taint","cluster":"c1","key":"k","effect":"Never"}]}`, 400, `effect \"Never\" is not one of`},
		"a key":            {`{"edits":[{"kind":"label","cluster":"c1","key":"-","value":"v"}]}`, 400, `the label \"-\"`},
		"a domain":         {`{"edits":[{"kind":"lose","key":"name","value":"none"}]}`, 404, "there is no cluster with label:name=none"},
		"a removed object": {`{"edits":[{"kind":"remove","type":"placement","name":"ns/none"}]}`, 404, "there is no Placement ns/none"},
		"no object":        {`{"edits":[{"kind":"replace","text":"{}"}]}`, 400, "edits: not valid: text: "},
		"no JSON":          {`edits`, 400, "the body: not valid"},
		"another field":    {`{"edits":[],"confirmed":true}`, 400, "unknown field"},
		"more than 64 Ki":  {`{"edits":[{"kind":"` + strings.Repeat("a", maxBody) + `"}]}`, 400, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w := askWhatIf(s, tc.body, nil)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("code %d, want %d: %.300s", w.Code, tc.code, w.Body)
			}
		})
	}
	for name, change := range map[string]func(*http.Request){
		"no token":      func(r *http.Request) { r.Header.Del("X-Berth-CSRF") },
		"another token": func(r *http.Request) { r.Header.Set("X-Berth-CSRF", strings.Repeat("A", 26)) },
		"another site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
	} {
		if w := askWhatIf(s, `{"edits":[{"kind":"drain","cluster":"c1"}]}`, change); w.Code != 403 {
			t.Errorf("%s: code %d: %s", name, w.Code, w.Body)
		}
	}
}

// TestWhatIfsKept: the oldest result is dropped.
func TestWhatIfsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, small())
		var all []WhatIf
		for range maxWhatIfs + 1 {
			w := WhatIf{}
			read(t, askWhatIf(s, `{"edits":[{"kind":"drain","cluster":"c1"}]}`, nil), 200, &w)
			all = append(all, w)
		}
		synctest.Wait()
		if w := get(s, nil, "api/what-if?id="+all[0].ID); w.Code != 404 || !strings.Contains(w.Body.String(), "no longer kept") {
			t.Errorf("the first: %d %s", w.Code, w.Body)
		}
		rows := map[int64]bool{}
		for _, w := range all[1:] {
			c, f := Columns{}, Fleet{}
			read(t, get(s, nil, "api/columns?placement=ns/two&world="+w.ID), 200, &c)
			read(t, get(s, nil, "api/fleet?world="+w.ID), 200, &f)
			if rows[f.Rows] = true; c.Rows != f.Rows {
				t.Errorf("%s: cells in order %d, clusters in order %d", w.ID, c.Rows, f.Rows)
			}
		}
		if len(rows) != maxWhatIfs {
			t.Errorf("%d what-ifs have %d numbers of their order", maxWhatIfs, len(rows))
		}
		other := newTestServer(t, small())
		read(t, askWhatIf(other, `{"edits":[{"kind":"drain","cluster":"c2"}]}`, nil), 200, &WhatIf{})
		synctest.Wait()
		if w := get(other, nil, "api/fleet?world="+all[1].ID); w.Code != 404 {
			t.Errorf("another viewer has a what-if of this ID: %d", w.Code)
		}
		if w := get(s, nil, "api/fleet?world=what-if-9"); w.Code != 404 {
			t.Errorf("an unknown one: %d %s", w.Code, w.Body)
		}
	})
}

// TestWhatIfsWait: one what-if of a viewer runs at a time, and no more than some of all viewers.
// A viewer who is gone begins none.
func TestWhatIfsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, small())
		begin := func() (id string) {
			t.Helper()
			w := WhatIf{}
			read(t, askWhatIf(s, `{"edits":[{"kind":"drain","cluster":"c1"}]}`, nil), 200, &w)
			return w.ID
		}
		state := func(id string) (w WhatIf) {
			t.Helper()
			synctest.Wait()
			read(t, get(s, nil, "api/what-if?id="+id), 200, &w)
			return w
		}
		for name, slots := range map[string]chan struct{}{"of the viewer": s.viewer.whatIfs.running, "of all viewers": s.viewer.slots} {
			for range cap(slots) {
				slots <- struct{}{}
			}
			id := begin()
			if got := state(id); got.Done {
				t.Errorf("it does not wait for those %s: %+v", name, got)
			}
			for range cap(slots) {
				<-slots
			}
			if got := state(id); !got.Done || got.Error != "" {
				t.Errorf("after those %s it is %+v", name, got)
			}
		}
		s.viewer.whatIfs.running <- struct{}{}
		id := begin()
		s.viewer.close()
		if got := state(id); !got.Done || got.Error == "" {
			t.Errorf("the viewer is gone, and it is %+v", got)
		}
		if w := askWhatIf(s, `{"edits":[{"kind":"drain","cluster":"c1"}]}`, nil); w.Code == 200 {
			t.Errorf("the viewer is gone, and one begins: %s", w.Body)
		}
	})
}
