package flicker

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a step may take on a busy machine.
const patience = 60 * time.Second

var (
	hub *testhub.Hub
	// throughProxy is a kubeconfig file that leads to the hub through faulty.
	throughProxy string
	// faulty stands between the controller and the hub.
	faulty *faults.Proxy
)

// TestMain is the observer when it is started as one.
func TestMain(m *testing.M) {
	faults.ObserveIfAsked()
	os.Exit(m.Run())
}

func TestFlicker(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Flicker")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.StartServer()
	faulty = faults.StartProxy(hub.Config)
	throughProxy = faulty.Kubeconfig()
})
