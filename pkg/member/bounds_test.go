package member

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// endless writes until the client has read enough.
func endless(w http.ResponseWriter, start, repeated string) {
	_, _ = io.WriteString(w, start)
	chunk := bytes.Repeat([]byte(repeated), 1+(64<<10)/len(repeated))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func nodes(next, items string) string {
	return fmt.Sprintf(`{"kind": "NodeList", "metadata": {"continue": %q}, "items": [%s]}`, next, items)
}

// TestHostileMember: what a member answers costs the reporter a bounded time and memory, and is an
// error of this member.
func TestHostileMember(t *testing.T) {
	t.Parallel()
	const list, claimsPath = "/api/v1/nodes", "/apis/cluster.open-cluster-management.io/v1alpha1/clusterclaims"
	var resources, claims []string
	for i := range maxResources {
		resources = append(resources, fmt.Sprintf(`"r%d": "1"`, i))
	}
	for i := range maxClaims + 1 {
		claims = append(claims, fmt.Sprintf(`{"metadata": {"name": "c%d"}, "spec": {"value": "1"}}`, i))
	}
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for name, tc := range map[string]struct {
		path   string
		answer http.HandlerFunc
		want   string
	}{
		"readyz without end": {"/readyz", func(w http.ResponseWriter, _ *http.Request) { endless(w, "", "ok ") }, "more than 8 MiB"},
		"a failure without end": {"/readyz", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, "", "failed ")
		}, "The member answers /readyz with 500"},
		"a redirect": {"/readyz", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/version", http.StatusFound)
		}, "it answers with 302, and redirects are not followed"},
		"version without end": {"/version", func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"gitVersion": "`, "v") }, "more than 8 MiB"},
		"a long version":      {"/version", write(`{"gitVersion": "` + strings.Repeat("v", 300) + `"}`), "more than 256 bytes"},
		"nodes without end":   {list, func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"items": [`, `{},`) }, "more than 8 MiB"},
		"pages without end":   {list, write(nodes("more", "")), "more than 100 pages of 100"},
		"large pages":         {list, write(nodes("more", `{"x": "`+strings.Repeat("x", 7<<20)+`"}`)), "the answers have more than 256 MiB"},
		"deep nesting":        {list, func(w http.ResponseWriter, _ *http.Request) { endless(w, "", `{"items":[`) }, "more than 8 MiB"},
		"too many resources":  {list, write(nodes("", `{"status": {"capacity": {`+strings.Join(resources, ",")+`}}}`)), "more than 1000 resources"},
		"too many claims":     {claimsPath, write(`{"kind": "ClusterClaimList", "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "items": [` + strings.Join(claims, ",") + `]}`), "more than 1000"},
		"claims without end":  {claimsPath, func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"items": [`, `{},`) }, "more than 8 MiB"},
		"amounts that are long to parse are left out": {list, write(nodes("", `{"status": {"capacity": {"cpu": "1e2147483647", "memory": "1e-2147483647", "pods": "10"}}}`)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("/readyz", write("ok"))
			mux.HandleFunc("/version", write(`{"gitVersion": "v1.36.3"}`))
			mux.HandleFunc(list, write(nodes("", "")))
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				counted := countingWriter{w, &sent}
				if r.URL.Path == tc.path {
					tc.answer(counted, r)
				} else {
					mux.ServeHTTP(counted, r)
				}
			}))
			defer server.Close()
			p, err := newProber(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			seen, failed := p.probe(t.Context())
			if tc.want == "" {
				if failed != nil || amountText(seen.capacity, "cpu") != "0" || amountText(seen.capacity, "pods") != "10" {
					t.Errorf("got %v, error %v", seen, failed)
				}
				return
			}
			if failed == nil || !strings.Contains(failed.message, tc.want) || failed.notReady != strings.Contains(tc.want, "500") {
				t.Errorf("got error %v, want %q", failed, tc.want)
			}
			if most := int64(maxProbe + 2*maxAnswer); sent.Load() > most {
				t.Errorf("the member could send %d bytes", sent.Load())
			}
		})
	}
}

type countingWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent.Add(int64(n))
	return n, err
}
