package explore

import (
	"strings"
	"testing"
)

// TestSessionNames: the page says who looks at which hub.
func TestSessionNames(t *testing.T) {
	s, _ := newActingServer(t)
	s.viewer.Hub, s.viewer.Context = "https://hub:6443", "production"
	var got Session
	read(t, get(s, nil, "api/session"), 200, &got)
	if got.User != "ann" || got.Hub != "https://hub:6443" || got.Context != "production" {
		t.Errorf("session %+v", got)
	}
}

// TestListsOfEmptyHub: the lists that the page reads without asking are never null.
func TestListsOfEmptyHub(t *testing.T) {
	s := newTestServer(t, nil)
	for _, path := range []string{"api/fleet", "api/columns?placement=ns/none"} {
		if got := get(s, nil, path).Body.String(); strings.Contains(got, "null") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
