package framework

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/controllers"
	schedulerconfig "github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// The profiles that Placements choose from. The default one is built in.
const (
	hasty     = "hasty"
	patient   = "patient"
	careful   = "careful"
	fleetwide = "fleetwide"
	guarded   = "guarded"
	yearly    = "yearly"
	exempting = "exempting"
	always    = "always"
)

// hastyTimeout is how long a change waits in the profile hasty.
const hastyTimeout = 3 * time.Second

// lastOpening was a day ago or two, so that the next is most of a year away.
var lastOpening = func() time.Time {
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	if day.Month() == time.February && day.Day() == 29 {
		day = day.AddDate(0, 0, -1)
	}
	return day
}()

// configuration is what every controller of the suite obeys.
func configuration() (*schedulerconfig.PlacementSchedulerConfiguration, error) {
	yearlyWindow := fmt.Sprintf("{schedule: 0 0 %d %d *, duration: 1m}", lastOpening.Day(), lastOpening.Month())
	profiles := []struct{ name, pluginConfig string }{
		{hasty, ""},
		{patient, ""},
		{careful, "{name: BlastRadius, args: {maxRemoved: 20%, settle: 1s}}"},
		{fleetwide, "{name: BlastRadius, args: {fleetMaxRemoved: 10, settle: 1s}}"},
		{guarded, "{name: BlastRadius, args: {maxRemoved: 50%, settle: 300ms}}"},
		{yearly, "{name: MaintenanceWindow, args: {windows: [" + yearlyWindow + "]}}"},
		{exempting, "{name: MaintenanceWindow, args: {windows: [" + yearlyWindow + "], approvable: true}}"},
		{always, "{name: MaintenanceWindow, args: {windows: [{schedule: 0 * * * *, duration: 2h}]}}"},
	}
	text := "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles:\n"
	for _, p := range profiles {
		text += "- {name: " + p.name + ", pluginConfig: [" + p.pluginConfig + "]}\n"
	}
	return schedulerconfig.Load([]byte(text))
}

// berth is the controller of the spec, in this process.
var berth *testhub.Controller

// runBerth runs the controller until the spec ends, or the container whose BeforeAll calls it.
// Without workers it has the default.
func runBerth(workers int) {
	GinkgoHelper()
	startBerth(workers)
	DeferCleanup(func() { berth.Stop() })
}

func startBerth(workers int) {
	GinkgoHelper()
	config, err := configuration()
	Expect(err).NotTo(HaveOccurred())
	berth = hub.StartController(controllers.Options{Config: config, Workers: workers})
}

// startBehindProxy runs this very binary as a controller behind a proxy, until the spec ends.
func startBehindProxy() *faults.Proxy {
	GinkgoHelper()
	proxy := faults.StartProxy(hub.Config)
	faults.StartTestController(proxy.Kubeconfig())
	return proxy
}

// failWrites has the next writes to a path with this end fail, and counts those that are left.
func failWrites(proxy *faults.Proxy, end string, writes int64) *atomic.Int64 {
	left := &atomic.Int64{}
	left.Store(writes)
	proxy.Fail(func(r *http.Request) faults.Fault {
		if faults.IsWrite(r) && path.Base(r.URL.Path) == end && left.Add(-1) >= 0 {
			return faults.Fault{Code: http.StatusInsufficientStorage}
		}
		return faults.Fault{}
	})
	return left
}

// reconcilesNothing waits until all loops rest. An event may still be on its way when a spec sees
// what it asks for.
func reconcilesNothing(ctx context.Context) {
	GinkgoHelper()
	reconciles := func() float64 { return testhub.Metric("controller_runtime_reconcile_total") }
	Expect(reconciles()).To(BeNumerically(">", 0))
	Eventually(ctx, func(g Gomega) {
		g.Consistently(reconciles).Should(Equal(reconciles()))
	}).Should(Succeed(), "waiting costs nothing")
}
