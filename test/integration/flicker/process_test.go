package flicker

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// binary is the path of the program under test.
func binary() string {
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

// process is one run of the controller.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

// startController runs the controller behind the proxy until the spec ends, if nobody kills it before.
func startController(flags ...string) *process {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "controller.log")
	log, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	p := &process{ended: make(chan struct{})}
	p.command = exec.Command(binary(), append([]string{
		"controller", "--kubeconfig", throughProxy, "--leader-elect=false", "--health-probe-bind-address=0", "--housekeeping=",
	}, flags...)...)
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
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(tail(path))
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

// alive is for a process that nobody has killed.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func tail(path string) string {
	const most = 4096
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// seconds rounds for a report.
func seconds(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
