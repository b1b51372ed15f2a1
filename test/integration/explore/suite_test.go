// Package explore tests the server of `berth explore` on a real kube-apiserver: what the page is
// told while objects change, and while the connection to the hub is lost.
package explore

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 30 * time.Second

var hub *testhub.Hub

func TestExplore(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Explore")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
	berth := hub.StartController(controllers.Options{})
	DeferCleanup(berth.Stop)
})

// page is a server of the page for one viewer.
type page struct {
	*explore.Server
	viewer *explore.Viewer
}

// open serves the page for the user of a configuration until the spec ends.
func open(cfg *rest.Config) *page {
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	viewer, err := explore.NewFollowingViewer(ctx, simulator.Options{}, explore.Follower{Config: cfg, Namespace: "default"}, "")
	Expect(err).NotTo(HaveOccurred())
	return &page{explore.NewServer(simulator.Options{}, viewer), viewer}
}

// get reads one answer.
func get[T any](g Gomega, p *page, path string) T {
	r := httptest.NewRequest(http.MethodGet, p.Path()+path, http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	var answer T
	g.Expect(json.Unmarshal(w.Body.Bytes(), &answer)).To(Succeed())
	return answer
}
