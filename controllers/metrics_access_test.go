package controllers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/pkg/access"
	"github.com/berth-dev/berth/test/fixture"
)

// reviewHub is a hub behind a guard, which logs to log and counts in next what it serves.
type reviewHub struct {
	*fixture.ReviewHub
	next int
	log  []string
}

func newReviewHub() *reviewHub { return &reviewHub{ReviewHub: fixture.NewReviewHub()} }

func (h *reviewHub) guard() *access.Guard {
	return access.NewGuard(h, h.logger(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { h.next++ }))
}

func (h *reviewHub) logger() logr.Logger {
	return funcr.New(func(_, line string) { h.log = append(h.log, line) }, funcr.Options{})
}

func TestGuardMetrics(t *testing.T) {
	if _, err := guardMetrics(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}, nil); !strings.HasPrefix(errorText(err), "building the client that asks who may read metrics: ") {
		t.Errorf("got %v", err)
	}
	filter, err := guardMetrics(&rest.Config{Host: "localhost"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusUnauthorized || served != 0 {
		t.Errorf("got %d; served %d times", w.Code, served)
	}
}
