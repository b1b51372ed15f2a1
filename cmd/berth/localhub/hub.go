package localhub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// etcdTimeout and apiServerTimeout bound the wait for readiness; a slow laptop takes a tenth of
	// them.
	etcdTimeout      = time.Minute
	apiServerTimeout = 3 * time.Minute

	// graceful is how long a child may take to stop before it is killed. hurried is the same after
	// another child has died, because an API server without etcd does not stop by itself.
	graceful = 20 * time.Second
	hurried  = 2 * time.Second

	// servers are the children without gc: etcd and kube-apiserver.
	servers = 2
)

// Options configure a local hub.
type Options struct {
	// DataDir is the folder for all data of the hub. It is created if it does not exist. The user
	// must own it and everything in it. Required.
	DataDir string
	// Assets is the first folder to search for the programs, absolute. Default: the
	// folder in KUBEBUILDER_ASSETS. The folder hub beside the running binary is searched next.
	Assets string
	// Out receives a line for each step that takes more than a second. Nil discards them.
	Out io.Writer
	// APIServerArgs are appended to the arguments of kube-apiserver.
	APIServerArgs []string
}

// Hub is a running local hub. It is safe for concurrent use.
type Hub struct {
	layout   layout
	programs programs
	lock     *dirLock
	spawner  *spawner
	config   *rest.Config

	mu       sync.Mutex // guards children, which no longer change once stopping is closed
	children []*child   // in the order they were started

	stopOnce sync.Once
	stopping chan struct{}
	done     chan struct{}
	err      error // read only after done is closed
}

// Start starts a hub and returns when its API server is ready. It starts gc if that is built;
// otherwise Complete does. If another process runs a hub on the same data directory, it returns a
// *RunningError. ctx limits only the start; the hub runs until Stop, or until one of its processes
// dies.
func Start(ctx context.Context, options Options) (*Hub, error) {
	out := options.Out
	if out == nil {
		out = io.Discard
	}
	if !supported {
		return nil, fmt.Errorf("a local hub needs Linux or macOS: this is %s, where all other commands work", runtime.GOOS)
	}
	programs, err := findPrograms(options.Assets)
	if err != nil {
		return nil, err
	}
	files, err := newLayout(options.DataDir)
	if untrusted := (*UntrustedError)(nil); errors.As(err, &untrusted) {
		return nil, untrusted
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the data directory: %w", err)
	}
	lock, err := lockDir(files.root)
	if err != nil {
		return nil, err
	}
	hub := &Hub{
		layout:   files,
		programs: programs,
		lock:     lock,
		spawner:  newSpawner(),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	if err := hub.start(ctx, options.APIServerArgs, out); err != nil {
		hub.stop(err)
		<-hub.done
		return nil, err
	}
	for _, c := range hub.children {
		go hub.watch(c)
	}
	return hub, nil
}

// Complete returns when gc and kubectl are built and gc runs, because `make run` builds them while
// the hub runs already. It must be called at most once.
func (h *Hub) Complete(ctx context.Context, out io.Writer) error {
	if h.missing() != "" {
		fmt.Fprintf(out, "\nNot built yet: %s. `make run` builds them now; otherwise run `make hub`. Commands for another terminal follow.\n"+
			"Until gc runs, objects stay after their owner or namespace is deleted.\n", h.missing())
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if h.programs.path("gc") != "" && len(h.children) == servers {
			if err := h.startGC(); err != nil {
				return err
			}
			go h.watch(h.children[servers])
		}
		if h.missing() == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// missing names what Complete waits for.
func (h *Hub) missing() string {
	var names []string
	for _, name := range []string{"gc", "kubectl"} {
		if h.programs.path(name) == "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// start runs the children one after the other. On an error the caller stops those that run.
func (h *Hub) start(ctx context.Context, extra []string, out io.Writer) error {
	if err := killStale(h.layout); err != nil {
		return fmt.Errorf("ending the processes of an earlier run: %w", err)
	}
	pki, err := ensurePKI(h.layout.path("pki"), time.Now())
	if err != nil {
		return fmt.Errorf("preparing certificates: %w", err)
	}
	ports, err := reservePorts(h.layout.path("ports.json"))
	if err != nil {
		return fmt.Errorf("choosing ports: %w", err)
	}
	defer ports.release()

	ports.etcd.release()
	if err := h.spawn("etcd", etcdArgs(h.layout, pki, ports.etcd.number)); err != nil {
		return err
	}
	etcdReady := probe(pki.etcdClient, ports.etcd.number)
	if err := h.await(ctx, out, "starting etcd", etcdTimeout, etcdReady); err != nil {
		return err
	}

	ports.apiServer.release()
	args := append(apiServerArgs(pki, ports), extra...)
	if err := h.spawn("kube-apiserver", args); err != nil {
		return err
	}
	apiServerReady := probe(pki.admin, ports.apiServer.number)
	if err := h.await(ctx, out, "waiting for the API server", apiServerTimeout, apiServerReady); err != nil {
		return err
	}

	config, err := writeKubeconfigs(h.layout, pki, ports.apiServer.number)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	h.config = config
	if h.programs.path("gc") == "" {
		return nil
	}
	return h.startGC()
}

func (h *Hub) startGC() error {
	return h.spawn("gc", []string{"--kubeconfig=" + h.layout.path("pki", "gc.kubeconfig")})
}

func (h *Hub) spawn(name string, args []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stopping:
		return fmt.Errorf("starting %s: the hub stops", name)
	default:
	}
	c, err := h.spawner.start(h.layout, name, h.programs.path(name), args)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	h.children = append(h.children, c)
	return nil
}

// await calls ready until it returns no error. It returns an error when ctx ends, after the limit,
// or when a child dies.
func (h *Hub) await(ctx context.Context, out io.Writer, step string, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	begin, said := time.Now(), time.Duration(0)
	for {
		lastErr := ready(ctx)
		if lastErr == nil {
			return nil
		}
		if waited := time.Since(begin); waited > time.Second && said == 0 {
			said = waited
			fmt.Fprintf(out, "%s…\n", step)
		} else if said > 0 && waited-said > 10*time.Second {
			said = waited
			fmt.Fprintf(out, "%s… (%d s)\n", step, int(waited.Seconds()))
		}
		for _, c := range h.children {
			if c.hasExited() {
				return c.exitError()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
				return fmt.Errorf("%s: interrupted", step)
			}
			last := h.children[len(h.children)-1]
			return fmt.Errorf("%s: %w: %w%s", step, context.Cause(ctx), lastErr, last.logTail())
		}
	}
}

// watch stops the hub when the child dies unexpectedly.
func (h *Hub) watch(c *child) {
	select {
	case <-c.exited:
		h.stop(c.exitError())
	case <-h.stopping:
	}
}

// stop stops the children in reverse order, releases the data directory and closes done. Only the
// first call has an effect; cause becomes the result of Err.
func (h *Hub) stop(cause error) {
	h.stopOnce.Do(func() {
		h.mu.Lock()
		close(h.stopping)
		h.mu.Unlock()
		patience := graceful
		if cause != nil {
			patience = hurried
		}
		for _, c := range slices.Backward(h.children) {
			c.stop(patience)
		}
		h.spawner.close()
		h.lock.release()
		h.err = cause
		close(h.done)
	})
}

// Stop stops gc, the API server and etcd, in this order, and returns when all have ended.
func (h *Hub) Stop() {
	h.stop(nil)
	<-h.done
}

// Done is closed when the hub has stopped, by Stop or because a process died, and all its processes
// have ended.
func (h *Hub) Done() <-chan struct{} { return h.done }

// Err returns nil before Done is closed and after Stop. Otherwise it returns an error with the
// process that died, its exit status and the last lines of its log.
func (h *Hub) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Config returns a copy of the administrator's client configuration, without client-side rate
// limits.
func (h *Hub) Config() *rest.Config { return rest.CopyConfig(h.config) }

// KubeconfigPath is the absolute path of the administrator's kubeconfig.
func (h *Hub) KubeconfigPath() string { return h.layout.path("kubeconfig") }

// OpenLog opens a new log file in the hub's log folder, for a part of the hub in the caller's
// process. The log of the previous run is renamed to NAME.log.old.
func (h *Hub) OpenLog(name string) (*os.File, error) {
	return openLog(h.layout.path("logs", name+".log"))
}

// layout has the paths in the data directory. They are absolute: children get them as arguments,
// and a later start identifies its processes by them.
type layout struct{ root string }

func newLayout(dataDir string) (layout, error) {
	if dataDir == "" {
		return layout{}, errors.New("no data directory given")
	}
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return layout{}, err
	}
	if err := checkTrust(root, os.Geteuid()); err != nil {
		return layout{}, err
	}
	l := layout{root: root}
	for _, dir := range []string{root, l.path("pki"), l.path("logs"), l.path("run")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return layout{}, err
		}
	}
	// The folder is often inside a Git checkout and contains private keys.
	return l, os.WriteFile(l.path(".gitignore"), []byte("*\n"), 0o600)
}

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.root}, elem...)...)
}
