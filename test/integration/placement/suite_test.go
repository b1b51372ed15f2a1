// Package placement tests the controller, with its own permissions, on a real kube-apiserver with
// the garbage collector: decisions, pages, conditions, events and repairs.
package placement

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a decision may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

var (
	hub *testhub.Hub
	// berth is the controller under test.
	berth *testhub.Controller
)

func TestPlacement(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Placement")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.Start(ctx)
	startBerth()
	DeferCleanup(func() { berth.Stop() })
})

func startBerth() {
	GinkgoHelper()
	berth = hub.StartController(controllers.Options{})
}
