package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
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
