package testhub

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/controllers"
)

// Account is the service account of the controller, as in config/rbac.
const Account = "system:serviceaccount:berth-system:berth"

// Controller is one run of Berth's controller in this process.
type Controller struct {
	cancel  context.CancelFunc
	stopped chan error
	names   attemptedNames
}

// StartController runs Berth's controller with the given options and the permissions of its service
// account, which InstallRoles grants. Call Stop to end it.
func (h *Hub) StartController(o controllers.Options) *Controller {
	GinkgoHelper()
	config := rest.CopyConfig(h.Config)
	config.Impersonate.UserName = Account
	return StartController(config, o)
}

// StartController runs Berth's controller with the permissions of config. The controller serves
// metrics and probes only if the options have an address, and logs to Ginkgo unless they have a
// logger.
func StartController(config *rest.Config, o controllers.Options) *Controller {
	GinkgoHelper()
	if o.MetricsAddress == "" {
		o.MetricsAddress = "0"
	}
	if o.HealthAddress == "" {
		o.HealthAddress = "0"
	}
	if o.Log.IsZero() {
		o.Log = GinkgoLogr
	}
	c := &Controller{stopped: make(chan error, 1)}
	o.Log = c.names.wrap(o.Log)
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), o.Log))
	c.cancel = cancel
	manager, err := controllers.NewManager(ctx, config, o)
	Expect(err).NotTo(HaveOccurred())
	go func() { c.stopped <- manager.Start(ctx) }()
	return c
}

// Stop expects that the fleet comes to rest (ExpectRest), ends the run and waits until it has
// ended.
func (c *Controller) Stop() {
	GinkgoHelper()
	ExpectRest(attempts, c.names.collect)
	c.Interrupt()
}

// Interrupt is Stop while attempts may run.
func (c *Controller) Interrupt() {
	GinkgoHelper()
	c.cancel()
	Eventually(c.stopped).Should(Receive(BeNil()))
}
