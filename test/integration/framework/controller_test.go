package framework

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/controllers"
	schedulerconfig "github.com/berth-dev/berth/pkg/scheduler/config"
)

// The profiles that Placements choose from. The default one, which is built in, waits a week for approvals.
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
		{hasty, fmt.Sprintf("{name: Approval, args: {timeout: %s}}", hastyTimeout)},
		{patient, "{name: Approval, args: {timeout: 10m}}"},
		{careful, "{name: BlastRadius, args: {maxRemoved: 20%, settle: 1s}}"},
		{fleetwide, "{name: BlastRadius, args: {fleetMaxRemoved: 10, settle: 1s}}"},
		{guarded, fmt.Sprintf("{name: BlastRadius, args: {maxRemoved: 50%%, settle: 300ms}}, {name: Approval, args: {timeout: %s}}", hastyTimeout)},
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

// newManager builds a controller with the rights of the account in config/rbac and no others.
func newManager(ctx context.Context, to *rest.Config, log logr.Logger, o controllers.Options) (ctrl.Manager, error) {
	to = rest.CopyConfig(to)
	to.Impersonate.UserName = "system:serviceaccount:berth-system:berth"
	var err error
	if o.Config, err = configuration(); err != nil {
		return nil, fmt.Errorf("configuring: %w", err)
	}
	o.MetricsAddress, o.HealthAddress, o.Log = "0", "0", log
	return controllers.NewManager(ctx, to, o)
}

// controller is one run of the controller after the other, in this process.
type controller struct {
	cancel context.CancelFunc
	ended  chan error
}

var berth = &controller{}

// runBerth runs the controller until the spec ends, or the container whose BeforeAll calls it. Without workers it has the default.
func runBerth(workers int) {
	GinkgoHelper()
	berth.start(workers)
	DeferCleanup(berth.stop)
}

func (c *controller) start(workers int) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	manager, err := newManager(ctx, config, GinkgoLogr, controllers.Options{Workers: workers})
	Expect(err).NotTo(HaveOccurred())
	c.cancel, c.ended = cancel, make(chan error, 1)
	go func() { c.ended <- manager.Start(ctx) }()
}

func (c *controller) stop() {
	GinkgoHelper()
	c.cancel()
	Eventually(c.ended).Should(Receive(BeNil()))
}

// reconciles is a check for Consistently: how often controllers of this process were busy with a Placement so far.
func reconciles() float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	n := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// controllerVariable holds the kubeconfig when the test binary is to be a controller. With leaderVariable it needs the lease.
const (
	controllerVariable = "BERTH_FRAMEWORK_CONTROLLER"
	leaderVariable     = "BERTH_FRAMEWORK_LEADER"
)

// control is the controller's main.
func control(path string) error {
	to, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("finding the hub: %w", err)
	}
	ctx := context.Background()
	o := controllers.Options{LeaderElection: os.Getenv(leaderVariable) != "", LeaderElectionNamespace: "berth-system"}
	ctrl.SetLogger(logr.Discard())
	manager, err := newManager(ctx, to, logr.Discard(), o)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// process is a controller that can be killed.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

// startProcess runs this very binary as a controller, until it is killed or the spec ends.
func startProcess(kubeconfig string, leaderElection bool) *process {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	log, err := os.Create(filepath.Join(GinkgoT().TempDir(), "controller.log"))
	Expect(err).NotTo(HaveOccurred())
	p := &process{command: exec.Command(self), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), controllerVariable+"="+kubeconfig)
	if leaderElection {
		p.command.Env = append(p.command.Env, leaderVariable+"=1")
	}
	p.command.Stdout, p.command.Stderr = log, log
	Expect(p.command.Start()).To(Succeed())
	go func() {
		// It ends by a signal, never well.
		_ = p.command.Wait()
		_ = log.Close()
		close(p.ended)
	}()
	DeferCleanup(func() {
		p.kill()
		if text, err := os.ReadFile(log.Name()); err == nil && CurrentSpecReport().Failed() {
			GinkgoWriter.Println(strings.TrimSpace(string(text)))
		}
	})
	return p
}

// kill is SIGKILL.
func (p *process) kill() {
	// An error says that it has ended already.
	_ = p.command.Process.Kill()
	<-p.ended
}
