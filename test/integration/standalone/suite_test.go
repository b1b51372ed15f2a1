// Package standalone tests Berth on two hubs. On the first one Berth is alone: it maintains sets,
// bindings and clusters, under the admission policies, with an account that has only the
// permissions of config/rbac. The second one has the CRDs of Open Cluster Management; there Berth
// must do only its own tasks. `berth report` runs as a process; BERTH_BIN selects another binary.
package standalone

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

var (
	// alone has nothing but Berth.
	alone = &server{}
	// beside has the CRDs of Open Cluster Management.
	beside = &server{}
)

func TestStandalone(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Standalone")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	alone.Hub = testhub.StartServer()
	alone.InstallRoles(ctx)
	alone.InstallPolicies(ctx)
	beside.Hub = testhub.StartServer(func(e *envtest.Environment) { e.CRDs = foreignCRDs() })
	beside.InstallRoles(ctx)

	alone.startBerth("*")
	DeferCleanup(alone.stopBerth)
	beside.startBerth("*")
	DeferCleanup(beside.stopBerth)
})

// server is an API server, and Berth's controller on it.
type server struct {
	*testhub.Hub
	berth *testhub.Controller
}

func (s *server) startBerth(housekeeping ...string) {
	GinkgoHelper()
	s.berth = s.StartController(controllers.Options{Housekeeping: housekeeping})
}

func (s *server) stopBerth() {
	GinkgoHelper()
	s.berth.Stop()
}

// restartBerth runs Berth with other housekeeping until the spec ends.
func (s *server) restartBerth(housekeeping ...string) {
	GinkgoHelper()
	s.stopBerth()
	s.startBerth(housekeeping...)
	DeferCleanup(func() {
		s.stopBerth()
		s.startBerth("*")
	})
}
