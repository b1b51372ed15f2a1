package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
)

// workers is the number of concurrent requests of the plain client.
const workers = 16

// hub is a real API server.
type hub struct {
	client.Client
	config     *rest.Config
	kubeconfig string
	stop       func() error
}

// openHub starts a hub unless the options name one. Its etcd does not wait for the disk: a slow
// disk would make every ratio look better than it is.
func openHub(o options, dir string) (*hub, error) {
	h := &hub{kubeconfig: o.kubeconfig, stop: func() error { return nil }}
	var err error
	if o.kubeconfig == "" {
		err = h.start(o.assets, filepath.Join(dir, "kubeconfig"))
	} else {
		h.config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	h.config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, berthv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return h, fmt.Errorf("building the scheme: %w", err)
		}
	}
	h.Client, err = client.New(h.config, client.Options{Scheme: scheme})
	return h, err
}

// apart returns a client of the same hub with a connection of its own, which does not wait for the
// requests of others.
func (h *hub) apart() (*hub, error) {
	other := *h
	other.config = rest.CopyConfig(h.config)
	other.config.Dial = (&net.Dialer{}).DialContext
	var err error
	other.Client, err = client.New(other.config, client.Options{Scheme: h.Scheme()})
	return &other, err
}

func (h *hub) start(assets, kubeconfig string) error {
	if assets == "" {
		if assets = os.Getenv("KUBEBUILDER_ASSETS"); assets == "" {
			assets = filepath.Join("bin", "hub")
		}
	}
	crds, err := crd.All()
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	if h.config, err = environment.Start(); err != nil {
		return fmt.Errorf("starting a hub from %s (make hub builds it): %w", assets, err)
	}
	h.kubeconfig, h.stop = kubeconfig, environment.Stop
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		_ = environment.Stop() // the first error is the one to tell
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// each runs n calls, with the plain client's number of workers, and returns the first error.
func each(n int, call func(i int) error) error {
	next := make(chan int)
	var running sync.WaitGroup
	var once sync.Once
	var first error
	failed := make(chan struct{})
	for range workers {
		running.Go(func() {
			for i := range next {
				if err := call(i); err != nil {
					once.Do(func() { first = err; close(failed) })
				}
			}
		})
	}
feeding:
	for i := range n {
		select {
		case next <- i:
		case <-failed:
			break feeding
		}
	}
	close(next)
	running.Wait()
	return first
}

// removeAll deletes all objects of the kinds in a namespace.
func (h *hub) removeAll(ctx context.Context, namespace string, kinds ...client.Object) error {
	for _, kind := range kinds {
		if err := h.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("deleting the objects in %s: %w", namespace, err)
		}
	}
	return nil
}
