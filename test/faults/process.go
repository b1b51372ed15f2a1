package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/test/testhub"
)

// controllerVariable holds the kubeconfig for a test binary that runs as a controller,
// metricsVariable its metrics address.
const (
	controllerVariable = "BERTH_TEST_CONTROLLER"
	metricsVariable    = "BERTH_TEST_METRICS"
)

// MetricsAddress is the option of a controller that ControlIfAsked runs.
func MetricsAddress() string { return os.Getenv(metricsVariable) }

// ControlIfAsked runs the controller of newManager in this process if StartTestController started
// it, and then does not return. TestMain calls it.
func ControlIfAsked(newManager func(ctx context.Context, hub *rest.Config) (manager.Manager, error)) {
	path := os.Getenv(controllerVariable)
	if path == "" {
		return
	}
	if err := control(path, newManager); err != nil {
		_, _ = os.Stderr.WriteString("controller: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

func control(path string, newManager func(ctx context.Context, hub *rest.Config) (manager.Manager, error)) error {
	ctrl.SetLogger(logr.Discard())
	hub, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("finding the hub: %w", err)
	}
	ctx := context.Background()
	m, err := newManager(ctx, hub)
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// Process is one run of the controller as a process.
type Process struct {
	Command *exec.Cmd
	// Ended is closed when the process has exited.
	Ended chan struct{}
	log   string
	// metrics is the address of the metrics, recording the folder of the recording.
	metrics, recording string
}

// StartController runs the controller with a kubeconfig until the spec ends or a test kills it. The
// flags are appended. If it runs until the end, the fleet must be at rest then.
func StartController(kubeconfig string, flags ...string) *Process {
	GinkgoHelper()
	p := &Process{metrics: testhub.FreeAddress(), recording: recordingOf()}
	p.start(exec.Command(testhub.Binary(), append([]string{
		"controller", "--kubeconfig", kubeconfig, "--leader-elect=false", "--health-probe-bind-address=0", "--metrics-bind-address", p.metrics,
		"--housekeeping=", "--record", p.recording, "--check-skips",
	}, flags...)...))
	return p
}

// StartTestController is StartController for the controller that the test binary passes to
// ControlIfAsked. The environment variables, as NAME=value, are added.
func StartTestController(kubeconfig string, environment ...string) *Process {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	p := &Process{metrics: testhub.FreeAddress()}
	command := exec.Command(self)
	command.Env = append(append(os.Environ(), controllerVariable+"="+kubeconfig, metricsVariable+"="+p.metrics), environment...)
	p.start(command)
	return p
}

func (p *Process) start(command *exec.Cmd) {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "controller.log")
	log, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	p.Command, p.Ended, p.log = command, make(chan struct{}), path
	p.Command.Stdout, p.Command.Stderr = log, log
	Expect(p.Command.Start()).To(Succeed())
	go func() {
		// Most processes end by SIGKILL, which is an error.
		_ = p.Command.Wait()
		_ = log.Close()
		close(p.Ended)
	}()
	DeferCleanup(func() {
		if p.Alive() {
			testhub.ExpectRest(p.attempts, p.attempted)
		}
		p.Kill()
		out, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(out)).NotTo(ContainSubstring("would have been skipped, but changes the answer"))
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(tail(path))
		}
	})
}

// Metric is the sum of a metric over all series.
func (p *Process) Metric(name string) (float64, error) { return testhub.MetricAt(p.metrics, name) }

// attempts is the number of attempts; 0 if the process has ended.
func (p *Process) attempts() (float64, error) {
	if !p.Alive() {
		return 0, nil
	}
	return p.Metric(testhub.AttemptsMetric)
}

// attempted says which Placements were decided last, as far as a recording tells it.
func (p *Process) attempted() string {
	r, err := recording.Open(p.recording)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	counts, since := map[string]int{}, time.Now().Add(-nameTime)
	for entry, err := range r.Entries() {
		if err == nil && entry.Type == recording.TypeDecision && entry.Time.After(since) {
			counts[entry.Decision.Key().String()]++
		}
	}
	return fmt.Sprintf("within %s: %s", nameTime, testhub.ListCounts(counts))
}

// nameTime is how long before its end the recorded decisions of a fleet are counted that is not at
// rest.
const nameTime = 10 * time.Second

// Kill sends SIGKILL.
func (p *Process) Kill() {
	// An error means that the process has already exited.
	_ = p.Command.Process.Kill()
	<-p.Ended
}

// Terminate sends SIGTERM, which asks the process to stop.
func (p *Process) Terminate() {
	GinkgoHelper()
	Expect(p.Command.Process.Signal(syscall.SIGTERM)).To(Succeed())
}

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Log returns the output of the process so far.
func (p *Process) Log() (string, error) {
	text, err := os.ReadFile(p.log)
	return string(text), err
}

// ResidentMemory returns the resident memory of the process in MB (10⁶ bytes). It needs Linux.
func (p *Process) ResidentMemory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0, fmt.Errorf("reading resident memory: %w", err)
	}
	return kib * 1024 / 1e6, nil
}

func tail(path string) string {
	const most = 4096
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
