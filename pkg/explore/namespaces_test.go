package explore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/pkg/simulator"
)

// TestEvictedNamespace: when a viewer has looked at too many namespaces, those that no page shows
// are dropped first; a page of one that is dropped reads everything again.
func TestEvictedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := NewViewer(simulator.Options{}, newLimitedHub(t, &controller{}), nil, "")
		v.namespaces.ctx = t.Context()
		v.namespaces.follow = func(ctx context.Context, _ *LiveWorld, _ string) { <-ctx.Done() }
		hubOf := func(namespace string) *LiveWorld {
			t.Helper()
			shown, err := v.worldOf(t.Context(), "", namespace)
			if err != nil {
				t.Fatal(err)
			}
			return shown.(*LiveWorld)
		}
		follow := func(namespace string) (text func() string) {
			h, w := hubOf(namespace), httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/?since="+strconv.FormatInt(h.version, 10), http.NoBody).WithContext(t.Context())
			go stream(w, r, h)
			synctest.Wait()
			return func() string {
				synctest.Wait()
				return w.Body.String()
			}
		}
		one := follow("one")
		first := hubOf("one")
		for _, namespace := range []string{"two", "three", "four"} {
			hubOf(namespace)
		}
		if hubOf("one") != first || strings.Contains(one(), "reload") {
			t.Errorf("a namespace that a page shows was dropped: %s", one())
		}
		three, four := follow("three"), follow("four")
		hubOf("five")
		if !strings.Contains(one(), "event: reload") {
			t.Errorf("the page of a namespace that was dropped is told %s", one())
		}
		if strings.Contains(three()+four(), "reload") {
			t.Error("another namespace was dropped")
		}
	})
}
