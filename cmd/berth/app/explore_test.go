package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExploreOnLoopbackOnly: what the page shows goes unencrypted, so it goes nowhere.
func TestExploreOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:8001", ":8001", "192.0.2.1:8001", "hub.example:8001", "8001", ""} {
		root := NewCommand()
		root.SetErr(io.Discard)
		if code := Run(root, []string{"explore", "--address", address}); code != exitUsage {
			t.Errorf("--address %q: exit code %d, want %d", address, code, exitUsage)
		}
	}
}

// TestExploreInCluster: the flags that make no sense for many people are refused.
func TestExploreInCluster(t *testing.T) {
	for name, args := range map[string][]string{
		"a recording":   {"--recording", t.TempDir()},
		"another user":  {"--as", "ann"},
		"another group": {"--as-group", "ops"},
		"no port":       {"--address", "0.0.0.0"},
	} {
		root := NewCommand()
		var problem strings.Builder
		root.SetOut(io.Discard)
		root.SetErr(&problem)
		if code := Run(root, append([]string{"explore", "--in-cluster"}, args...)); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, exitUsage, &problem)
		}
	}
}

// TestSharedHub: the server needs the address of the hub, and has no credentials.
func TestSharedHub(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	o := &exploreOptions{}
	o.hub.add(&cobra.Command{})
	cfg, err := o.sharedHub()
	if err != nil || cfg.Host != "https://[fd00::1]:443" || cfg.CAFile != podCA {
		t.Errorf("in a pod: %+v, %v", cfg, err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: "https://hub.example:6443"}}]
users: [{name: admin, user: {token: secret}}]
contexts: [{name: hub, context: {cluster: hub, user: admin}}]
current-context: hub
`), 0o600); err != nil {
		t.Fatal(err)
	}
	*o.hub.config.KubeConfig = kubeconfig
	cfg, err = o.sharedHub()
	if err != nil || cfg.Host != "https://hub.example:6443" || cfg.BearerToken != "" {
		t.Errorf("with a kubeconfig: %+v, %v", cfg, err)
	}
}

func TestServeUntil(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveUntil(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTeapot {
		t.Errorf("code %d", response.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("once it is stopped: %v", err)
	}
}
