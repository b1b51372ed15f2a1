// Package hostile tests, on a real API server, that one tenant's objects neither stop nor delay
// another tenant's decisions. Each spec creates hostile objects next to an ordinary Placement. It
// compares that Placement's decision, pages and reports with a run without them.
package hostile

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// patience bounds each step on a busy machine; most take milliseconds.
const patience = 60 * time.Second

var (
	hub *testhub.Hub
	// berth is the controller under test. A spec that needs other options stops it and starts
	// another.
	berth *testhub.Controller
	// alone is what the ordinary Placement's history looks like without a hostile neighbour.
	alone history
)

func TestHostile(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Hostile")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.Start(ctx)
	berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}})
	DeferCleanup(func() { berth.Stop() })
	alone = ordinary(ctx)
	Expect(alone).NotTo(BeZero())
})
