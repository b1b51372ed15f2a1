package framework

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds, the end of a
// lease a quarter of a minute.
const patience = 40 * time.Second

var hub *testhub.Hub

// TestMain is the controller when it is started as one.
func TestMain(m *testing.M) {
	faults.ControlIfAsked(func(ctx context.Context, to *rest.Config) (ctrl.Manager, error) {
		config, err := configuration()
		if err != nil {
			return nil, fmt.Errorf("configuring: %w", err)
		}
		to.Impersonate.UserName = testhub.Account
		return controllers.NewManager(ctx, to, controllers.Options{
			Config: config, MetricsAddress: faults.MetricsAddress(), HealthAddress: "0",
		})
	})
	os.Exit(m.Run())
}

func TestFramework(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Framework")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.StartServer()
	hub.InstallRoles(ctx)
	hub.InstallPolicies(ctx)
})
