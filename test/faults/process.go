package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Binary is the path of the program under test: BERTH_BIN, or what make build builds.
func Binary() string {
	GinkgoHelper()
	path := os.Getenv("BERTH_BIN")
	if path == "" {
		path = filepath.Join("..", "..", "..", "bin", "berth")
	}
	path, err := filepath.Abs(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(BeARegularFile(), "make build builds it")
	return path
}

// Process is one run of the controller.
type Process struct {
	Command *exec.Cmd
	// Ended is closed when the process is gone.
	Ended chan struct{}
	log   string
}

// StartController runs the controller with a kubeconfig until the spec ends, if nobody kills it before. Further flags go last.
func StartController(kubeconfig string, flags ...string) *Process {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "controller.log")
	log, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	p := &Process{Ended: make(chan struct{}), log: path}
	p.Command = exec.Command(Binary(), append([]string{
		"controller", "--kubeconfig", kubeconfig, "--leader-elect=false", "--health-probe-bind-address=0", "--housekeeping=",
	}, flags...)...)
	p.Command.Stdout, p.Command.Stderr = log, log
	Expect(p.Command.Start()).To(Succeed())
	go func() {
		// Most end by SIGKILL, which is an error.
		_ = p.Command.Wait()
		_ = log.Close()
		close(p.Ended)
	}()
	DeferCleanup(func() {
		p.Kill()
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(tail(path))
		}
	})
	return p
}

// Kill is SIGKILL.
func (p *Process) Kill() {
	// An error says that it has ended already.
	_ = p.Command.Process.Kill()
	<-p.Ended
}

// Terminate is SIGTERM, which asks the process to end.
func (p *Process) Terminate() {
	GinkgoHelper()
	Expect(p.Command.Process.Signal(syscall.SIGTERM)).To(Succeed())
}

// Alive is for a process that nobody has killed.
func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Log is what the process has said so far.
func (p *Process) Log() (string, error) {
	text, err := os.ReadFile(p.log)
	return string(text), err
}

// Resident is the memory that the process holds now, in MB (10⁶ bytes). It needs Linux.
func (p *Process) Resident() (float64, error) {
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
