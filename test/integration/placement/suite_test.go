// Package placement tests the controller against a real kube-apiserver, with the hub's garbage collector beside it: what is
// decided, published, said in conditions and events, repaired, and left alone.
package placement

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a decision may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

var (
	config *rest.Config
	// kubeconfig is a file that leads to the hub.
	kubeconfig string
	// hub reads and writes past all caches, in the consumers' versions.
	hub client.WithWatch
	// berth is the controller under test.
	berth = &controller{}
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

	server := testhub.StartServer()
	config, kubeconfig, hub = server.Config, server.Kubeconfig, server.WithWatch
	server.StartCollector()
	berth.start()
	DeferCleanup(berth.stop)
})

// controller is one run of Berth's controller after the other, in this process.
type controller struct {
	cancel  context.CancelFunc
	stopped chan error
}

func (c *controller) start() {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := controllers.NewManager(ctx, config, controllers.Options{MetricsAddress: "0", HealthAddress: "0", Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	c.cancel, c.stopped = cancel, make(chan error, 1)
	go func() { c.stopped <- manager.Start(ctx) }()
}

func (c *controller) stop() {
	GinkgoHelper()
	c.cancel()
	Eventually(c.stopped).Should(Receive(BeNil()))
}
