package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/cmd/berth/localhub"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a step may take on a busy machine.
const patience = 90 * time.Second

// long is the run that takes minutes.
var long = os.Getenv("BERTH_CHAOS") == "long"

// times chooses between the short run and the long one.
func times(short, longer int) int {
	if long {
		return longer
	}
	return short
}

var (
	hub   *testhub.Hub
	local *restartable
)

func TestMain(m *testing.M) {
	faults.ObserveIfAsked()
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Chaos")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	local = &restartable{options: localhub.Options{DataDir: GinkgoT().TempDir(), Assets: testhub.Assets(), Out: GinkgoWriter}}
	local.start(ctx)
	DeferCleanup(func() { local.Stop() })
	hub = testhub.Connect(local.KubeconfigPath())
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	for _, c := range crds {
		Expect(hub.Create(ctx, c)).To(Succeed())
	}
	Eventually(func() error { return served(ctx) }).Should(Succeed())
})

var _ = AfterSuite(func() { printTable() })

// restartable is a hub that can be killed, and started again on the same data and ports.
type restartable struct {
	*localhub.Hub
	options localhub.Options
}

func (r *restartable) start(ctx context.Context) {
	GinkgoHelper()
	var err error
	r.Hub, err = localhub.Start(ctx, r.options)
	Expect(err).NotTo(HaveOccurred())
}

// kill is SIGKILL for one of the hub's programs; the hub ends the others then.
func (r *restartable) kill(program string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(r.options.DataDir, "run", program+".pid"))
	Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	Expect(err).NotTo(HaveOccurred())
	Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
	Eventually(r.Done()).Should(BeClosed())
	Expect(r.Err()).To(MatchError(ContainSubstring(program)))
	_, err = os.Stat(filepath.Join(r.options.DataDir, "run", program+".pid"))
	Expect(errors.Is(err, fs.ErrNotExist)).To(BeTrue(), "%s still runs", program)
}

// again starts what was killed.
func (r *restartable) again(ctx context.Context) {
	GinkgoHelper()
	r.start(ctx)
	Expect(r.Config().Host).To(Equal(hub.Config.Host), "the port is the same")
}

// served says whether all six kinds can be listed.
func served(ctx context.Context) error {
	for _, list := range kinds() {
		if err := hub.List(ctx, list); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	return nil
}
