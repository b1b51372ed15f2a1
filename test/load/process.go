package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one run of the controller.
type process struct {
	command *exec.Cmd
	log     string
	metrics string // host:port; empty when the controller was not told one
	ended   chan struct{}
}

func startProcess(o options, kubeconfig, dir string) (*process, error) {
	p := &process{log: filepath.Join(dir, "controller.log")}
	args := strings.ReplaceAll(strings.ReplaceAll(o.args, "{kubeconfig}", kubeconfig), "{recording}", recordingIn(dir))
	if strings.Contains(args, "{metrics}") {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a port for the metrics: %w", err)
		}
		p.metrics = listener.Addr().String()
		if err := listener.Close(); err != nil {
			return nil, fmt.Errorf("freeing the port for the metrics: %w", err)
		}
		args = strings.ReplaceAll(args, "{metrics}", p.metrics)
	}
	started, err := startCommand(exec.Command(o.controller, strings.Fields(args)...), p.log)
	if err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	started.metrics = p.metrics
	return started, nil
}

// startCommand starts a program that writes a log.
func startCommand(command *exec.Cmd, path string) (*process, error) {
	p := &process{log: path, ended: make(chan struct{}), command: command}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		_ = log.Close()
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // the outcome is in ProcessState
		_ = log.Close()
		close(p.ended)
	}()
	return p, nil
}

// recordingIn is the folder of the recording.
func recordingIn(dir string) string { return filepath.Join(dir, "recording") }

// stop asks the controller to stop, and kills it after a timeout.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails when it is gone, which is what is wanted
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// exitError returns the error of a controller that exited by itself; nil while it runs.
func (p *process) exitError() error {
	select {
	case <-p.ended:
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		return fmt.Errorf("the controller ended by itself: %s; its log ends with\n%s", p.command.ProcessState, text[max(0, len(text)-2000):])
	default:
		return nil
	}
}

// cpu returns the processor time so far, in kernel ticks of 10 ms.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, errors.Join(p.exitError(), err)
	}
	// The name in brackets may contain spaces; utime and stime are the 12th and 13th field after
	// it.
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.command.Process.Pid, len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// peak returns the peak of resident memory, in MB (10⁶ bytes).
func (p *process) peak() (float64, error) {
	return p.status("VmHWM:")
}

// resident returns the resident memory now, in MB.
func (p *process) resident() (float64, error) { return p.status("VmRSS:") }

// status returns an amount of memory of the kernel's description of the process, in MB.
func (p *process) status(name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, errors.Join(p.exitError(), err)
	}
	_, after, _ := strings.Cut(string(text), name)
	var kib float64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0, fmt.Errorf("reading resident memory: %w", err)
	}
	return kib * 1024 / 1e6, nil
}

// resetPeak starts a new measurement of the peak of resident memory.
func (p *process) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0)
}

// metric returns the sum of the metrics with the prefix; false if the controller has no metrics.
func (p *process) metric(prefix string) (float64, bool, error) {
	if p.metrics == "" {
		return 0, false, nil
	}
	answer, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return 0, false, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer answer.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		x, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, false, fmt.Errorf("reading the metric %q: %w", line, err)
		}
		sum += x
	}
	return sum, true, lines.Err()
}

// histogram is a histogram of the controller: how many values are at most a bound, by the bounds in
// ascending order.
type histogram struct {
	bounds, counts []float64
}

// histogram reads the sum of the histograms that have a label; an empty one if the controller does
// not have it.
func (p *process) histogram(name, label string) (h histogram, err error) {
	if p.metrics == "" {
		return h, nil
	}
	answer, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return h, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var bound, count float64
		labels, found := strings.CutPrefix(lines.Text(), name+`_bucket{`)
		_, rest, _ := strings.Cut(","+labels, `,le="`)
		text, after, _ := strings.Cut(rest, `"} `)
		if !found || !strings.Contains(labels, label) {
			continue
		}
		if bound, err = strconv.ParseFloat(text, 64); err == nil {
			count, err = strconv.ParseFloat(after, 64)
		}
		if err != nil {
			return h, fmt.Errorf("reading the metric %q: %w", lines.Text(), err)
		}
		i := slices.Index(h.bounds, bound)
		if i < 0 {
			i, h.bounds, h.counts = len(h.bounds), append(h.bounds, bound), append(h.counts, 0)
		}
		h.counts[i] += count
	}
	return h, lines.Err()
}

// since returns the values since an earlier state.
func (h histogram) since(before histogram) histogram {
	if len(before.counts) != len(h.counts) {
		return h
	}
	next := histogram{bounds: h.bounds, counts: make([]float64, len(h.counts))}
	for i := range h.counts {
		next.counts[i] = h.counts[i] - before.counts[i]
	}
	return next
}

// total is the number of values.
func (h histogram) total() float64 {
	if len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// quantile returns a bound that a share q of the values does not exceed.
func (h histogram) quantile(q float64) float64 {
	for i, n := range h.counts {
		if n >= q*h.counts[len(h.counts)-1] {
			return h.bounds[i]
		}
	}
	return 0
}
