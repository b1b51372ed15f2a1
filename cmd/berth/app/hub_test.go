package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
)

// servedHub is an API server with fixed objects, which counts requests of objects.
type servedHub struct {
	server, kubeconfig string
	mu                 sync.Mutex
	requests           []string
	// writes are the methods, paths, queries and bodies of requests that write.
	writes    []string
	objects   map[string][]client.Object
	forbidden map[string]bool
}

// serveHub serves the objects. Requests of the plurals in forbidden are refused.
func serveHub(t *testing.T, objects []client.Object, forbidden ...string) *servedHub {
	t.Helper()
	h := &servedHub{objects: map[string][]client.Object{}, forbidden: map[string]bool{}}
	for _, plural := range forbidden {
		h.forbidden[plural] = true
	}
	for _, o := range objects {
		kind, ok := kinds.Of(o)
		if !ok {
			t.Fatalf("%T is not in the table of kinds", o)
		}
		o.SetResourceVersion("1")
		o.GetObjectKind().SetGroupVersionKind(kind.GroupVersion.WithKind(kind.Name))
		h.objects[kind.Plural] = append(h.objects[kind.Plural], o)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.server = server.URL
	h.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}],
 clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], users: [{name: u}]}`
	if err := os.WriteFile(h.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *servedHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer, code := h.answer(r)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that went away
}

// verb is the RBAC verb of a request for a resource, or an object with its name.
func verb(method string, rest []string) string {
	if method == http.MethodGet && len(rest) == 1 {
		return "list"
	}
	return map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPatch: "patch", http.MethodPut: "update", http.MethodDelete: "delete"}[method]
}

func (h *servedHub) answer(r *http.Request) (answer any, code int) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, http.StatusOK
	case r.URL.Path == "/apis":
		return discovered(), http.StatusOK
	case len(parts) == 3:
		return resources(parts[1] + "/" + parts[2]), http.StatusOK
	}
	h.mu.Lock()
	h.requests = append(h.requests, r.URL.Path)
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body) // a client that went away
		h.writes = append(h.writes, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	h.mu.Unlock()
	namespace, rest := "", parts[3:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	if h.forbidden[rest[0]] {
		return status(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("User \"dev\" cannot %s resource %q in API group %q in the namespace %q", verb(r.Method, rest), rest[0], parts[1], namespace)), http.StatusForbidden
	}
	switch {
	case rest[0] == "selfsubjectreviews":
		return authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "ann"}},
		}, http.StatusCreated
	case r.Method == http.MethodPost:
		created := &unstructured.Unstructured{}
		if err := json.NewDecoder(r.Body).Decode(created); err != nil {
			return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()), http.StatusBadRequest
		}
		return created, http.StatusCreated
	}
	items := []client.Object{}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()), http.StatusBadRequest
	}
	for _, o := range h.objects[rest[0]] {
		switch {
		case namespace != "" && o.GetNamespace() != namespace:
		case len(rest) == 1 && !selector.Matches(labels.Set(o.GetLabels())):
		case len(rest) == 1:
			items = append(items, o)
		case o.GetName() == rest[1]:
			return o, http.StatusOK
		}
	}
	if len(rest) > 1 {
		return status(http.StatusNotFound, metav1.StatusReasonNotFound, rest[1]+" not found"), http.StatusNotFound
	}
	kind, _ := kinds.Named(rest[0])
	return map[string]any{"kind": kind.Name + "List", "apiVersion": kind.GroupVersion.String(), "metadata": map[string]any{}, "items": items}, http.StatusOK
}

func status(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: code, Message: message}
}

// discovered lists the groups of the table of kinds.
func discovered() metav1.APIGroupList {
	list, versions := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}, map[string][]metav1.GroupVersionForDiscovery{}
	seen := map[string]bool{}
	for _, kind := range kinds.All() {
		gv := kind.GroupVersion
		if !seen[gv.String()] {
			seen[gv.String()] = true
			versions[gv.Group] = append(versions[gv.Group], metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		}
	}
	versions["authentication.k8s.io"] = []metav1.GroupVersionForDiscovery{{GroupVersion: "authentication.k8s.io/v1", Version: "v1"}}
	for group, all := range versions {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: all, PreferredVersion: all[0]})
	}
	return list
}

func resources(gv string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	if gv == "authentication.k8s.io/v1" {
		list.APIResources = []metav1.APIResource{{Name: "selfsubjectreviews", Kind: "SelfSubjectReview", Verbs: metav1.Verbs{"create"}}}
	}
	for _, kind := range kinds.All() {
		if kind.GroupVersion.String() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind.Plural, Kind: kind.Name, Namespaced: kind.Namespaced, Verbs: metav1.Verbs{"get", "list"}})
		}
	}
	return list
}

// run runs a command of kubectl placement against the hub.
func (h *servedHub) run(args ...string) (out, stderr string, code int) {
	root := NewKubectlCommand()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	code = Run(root, append(args, "--kubeconfig", h.kubeconfig))
	return o.String(), e.String(), code
}
