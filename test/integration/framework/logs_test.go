package framework

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// lines are what a controller logged, as JSON.
type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) add(text string) {
	var line map[string]any
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		line = map[string]any{"msg": text}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// cycles are the messages about a Placement by the id of the cycle that they are about.
func (l *lines) cycles(namespace, name string) map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string][]string{}
	for _, line := range l.all {
		if line["namespace"] == namespace && line["name"] == name {
			id, _ := line["reconcileID"].(string)
			found[id] = append(found[id], line["msg"].(string))
		}
	}
	return found
}

// refusal answers some requests for the API server.
type refusal struct {
	rest   http.RoundTripper
	refuse func(*http.Request) int
}

func (r refusal) RoundTrip(request *http.Request) (*http.Response, error) {
	code := r.refuse(request)
	if code == 0 {
		return r.rest.RoundTrip(request)
	}
	return &http.Response{StatusCode: code, Request: request, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

var _ = Describe("The log", func() {
	It("has the same reconcileID on all lines of an attempt", func(ctx SpecContext) {
		var failed atomic.Bool
		to := rest.CopyConfig(hub.Config)
		to.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return refusal{next, func(r *http.Request) int {
				switch {
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
					return http.StatusForbidden
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/placementdecisions") && failed.CompareAndSwap(false, true):
					return http.StatusInternalServerError
				}
				return 0
			}}
		})
		t := newTeam(ctx)
		t.clusters(ctx, 2)
		pl := t.placement("logged").Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())

		log := &lines{}
		logging := testhub.StartController(to, controllers.Options{Log: funcr.NewJSON(log.add, funcr.Options{})})
		DeferCleanup(logging.Stop)

		cycles := func() map[string][]string { return log.cycles(pl.Namespace, pl.Name) }
		Eventually(cycles).Should(And(
			ContainElement(ContainElements("decision published", "An event could not be sent and is lost")),
			ContainElement(ContainElement("Reconciler error")),
		))
		Expect(cycles()).NotTo(Or(
			HaveKey(""),
			ContainElement(ContainElements("decision published", "Reconciler error")),
		))
	})
})
