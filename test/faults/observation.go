package faults

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Observation is a running observer, as the test sees it.
type Observation struct {
	command *exec.Cmd
	orders  io.Closer
	ended   chan struct{}

	mu     sync.Mutex
	latest Seen
}

// StartObserver runs the test binary as the observer; its TestMain must call ObserveIfAsked.
func StartObserver(what Orders) *Observation {
	GinkgoHelper()
	text, err := json.Marshal(what)
	Expect(err).NotTo(HaveOccurred())
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	o := &Observation{command: exec.Command(self), ended: make(chan struct{})}
	o.command.Env = append(os.Environ(), observerVariable+"="+string(text))
	o.command.Stderr = GinkgoWriter
	o.orders, err = o.command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out, err := o.command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(o.command.Start()).To(Succeed())
	go func() {
		defer close(o.ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r Seen
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				o.mu.Lock()
				o.latest = r
				o.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() { _ = o.orders.Close() })
	return o
}

// SoFar returns the latest report.
func (o *Observation) SoFar() Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}

// Stop ends the observer and returns its last report.
func (o *Observation) Stop() Seen {
	GinkgoHelper()
	Expect(o.orders.Close()).To(Succeed())
	Eventually(o.ended).WithTimeout(time.Minute).Should(BeClosed())
	Expect(o.command.Wait()).To(Succeed())
	return o.SoFar()
}
