package explore

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// realHub is a hub with its controller, started with berth up, and a fleet with things wrong in it.
type realHub struct {
	folder string // the data directory
	berth  *exec.Cmd
}

var (
	startHub = sync.OnceValues(newRealHub)
	stopHub  = func() {}
)

func TestMain(m *testing.M) {
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	code := m.Run()
	stopHub()
	os.Exit(code)
}

// hub returns the hub that all tests share, so a test changes only objects of its own.
func hub(t *testing.T) *realHub {
	t.Helper()
	h, err := startHub()
	if err != nil {
		t.Fatalf("starting a hub (make build hub builds what it needs): %v", err)
	}
	return h
}

// bin is the folder with what make build and make hub build.
func bin(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		panic(err)
	}
	return path
}

func newRealHub() (*realHub, error) {
	folder, err := os.MkdirTemp("", "berth-explore-")
	if err != nil {
		return nil, err
	}
	h := &realHub{folder: folder, berth: exec.Command(bin("berth"), "up", "--data-dir", folder)}
	output, err := h.berth.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.berth.Stderr = os.Stderr
	if err := h.berth.Start(); err != nil {
		return nil, err
	}
	stopHub = func() {
		_ = h.berth.Process.Signal(syscall.SIGTERM)
		_ = h.berth.Wait()
		_ = os.RemoveAll(folder)
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Ctrl-C") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case <-ready:
	case <-time.After(4 * patience):
	}
	return h, h.makeTrouble()
}

// makeTrouble applies the fleet and lets things go wrong in it, each when the controller has done
// what comes before.
func (h *realHub) makeTrouble() error {
	for _, step := range [][]string{
		{"apply", "-f", "testdata/fleet.yaml"},
		{"apply", "-f", "testdata/fleet.yaml", "--server-side", "--force-conflicts", "--subresource=status"},
		{"wait", "placement/web", "-n", "team-search", "--for=jsonpath={.status.numberOfSelectedClusters}=5", "--timeout=60s"},
		{"wait", "placement/cache", "-n", "team-search", "--for=jsonpath={.status.numberOfSelectedClusters}=20", "--timeout=60s"},
		{"apply", "-f", "testdata/trouble.yaml"},
		{"wait", "disruptionpolicy", "--all", "-n", "team-search", "--for=condition=Ready", "--timeout=60s"},
		{"patch", "placement", "web", "-n", "team-search", "--type=merge", "-p", `{"spec":{"numberOfClusters":7}}`},
		{"patch", "placement", "cache", "-n", "team-search", "--type=merge", "-p", `{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"gpu":"true"}}}}],"numberOfClusters":8}}`},
		{"wait", "placement/web", "-n", "team-search", "--for=condition=DecisionPending", "--timeout=60s"},
		{"wait", "placement/cache", "-n", "team-search", "--for=condition=DecisionProgressing", "--timeout=60s"},
		{"wait", "placement/cache", "-n", "team-ml", "--for=condition=PlacementMisconfigured", "--timeout=60s"},
	} {
		if err := h.kubectl(step...); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs the real kubectl as the administrator.
func (h *realHub) kubectl(args ...string) error {
	_, err := h.output(args...)
	return err
}

// output runs kubectl and returns what it prints.
func (h *realHub) output(args ...string) (string, error) {
	cmd := exec.Command(bin("hub/kubectl"), append([]string{"--kubeconfig", h.kubeconfig()}, args...)...)
	var output, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &problem
	if err := cmd.Run(); err != nil {
		return "", &commandError{strings.Join(args, " "), problem.String()}
	}
	return output.String(), nil
}

// run is output for what must work.
func (h *realHub) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := h.output(args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// apply applies objects, and deletes them at the end of the test.
func (h *realHub) apply(t *testing.T, objects string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, "apply", "-f", file)
	t.Cleanup(func() { h.run(t, "delete", "-f", file, "--wait=false") })
}

type commandError struct{ command, output string }

func (e *commandError) Error() string { return "kubectl " + e.command + ": " + e.output }

func (h *realHub) kubeconfig() string { return filepath.Join(h.folder, "kubeconfig") }

func (h *realHub) recording() string { return filepath.Join(h.folder, "recording") }

var printed = regexp.MustCompile(`http://\S+`)

// explore runs berth explore until the test ends, and returns the address that it prints.
func (h *realHub) explore(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin("berth"), append([]string{"explore", "--address", "127.0.0.1:0", "--kubeconfig", h.kubeconfig()}, args...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if address := printed.FindString(lines.Text()); address != "" {
			return address
		}
	}
	t.Fatal("berth explore printed no address")
	return ""
}

// TestRealHub: berth explore shows the fleet of a hub with things wrong in it.
func TestRealHub(t *testing.T) {
	h := hub(t)
	address := h.explore(t, "--recording", h.recording(), "--domains", "label:region")
	b := newBrowser(t)
	b.open(address)
	states := `const f = await (await fetch('api/fleet')).json(); return f.placements.flatMap((p) => p.states.map((s) => p.placement + ' ' + s))`
	var got []string
	for start := time.Now(); len(got) == 0 && time.Since(start) < patience; {
		got = eval[[]string](b, "return (async () => { "+states+" })()")
	}
	for _, want := range []string{"team-search/web held", "team-search/cache moving", "team-ml/api suspended", "team-ml/cache misconfigured", "team-ml/web short", "team-checkout/web satisfied"} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}
