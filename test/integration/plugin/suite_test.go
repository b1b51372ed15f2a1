package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 40 * time.Second

// The names under which the plugin is found, and its own.
const (
	pluginName     = "kubectl-placement"
	completionName = "kubectl_complete-placement"
	berthName      = "berth"
)

var (
	root = filepath.Join("..", "..", "..")
	// programs is a folder with the plugin under its names.
	programs string
	hub      *testhub.Hub
)

// TestMain is the plugin when it is started as one.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case pluginName, completionName, berthName:
		os.Exit(app.Run(app.NewCommand(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plugin")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.StartServer()
	hub.InstallRoles(ctx)
	hub.InstallPolicies(ctx)
	hub.InstallEditorPolicy(ctx)
	berth := hub.StartController(controllers.Options{})
	DeferCleanup(berth.Stop)

	programs = GinkgoT().TempDir()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{pluginName, completionName, berthName} {
		Expect(os.Symlink(self, filepath.Join(programs, name))).To(Succeed())
	}
	Expect(os.Setenv("KUBECONFIG", hub.Kubeconfig)).To(Succeed())
})

// result is what a run of the plugin came to.
type result struct {
	code     int
	out, err string
}

// run runs `kubectl placement` with words, and gives it what it reads.
func run(ctx context.Context, in string, words ...string) result {
	GinkgoHelper()
	return runAs(ctx, pluginName, in, words...)
}

func runAs(ctx context.Context, name, in string, words ...string) result {
	GinkgoHelper()
	command := exec.CommandContext(ctx, filepath.Join(programs, name), words...)
	var out, err bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(in), &out, &err
	if failure := command.Run(); failure != nil {
		exit := (*exec.ExitError)(nil)
		Expect(errors.As(failure, &exit)).To(BeTrue(), "%v", failure)
	}
	return result{command.ProcessState.ExitCode(), out.String(), err.String()}
}
