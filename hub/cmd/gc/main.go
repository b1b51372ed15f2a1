// Command gc is the part of kube-controller-manager that a local hub cannot do without: the garbage collector, which
// removes the dependants of deleted owners, and the namespace controller, which empties deleted namespaces. It runs
// the two Kubernetes packages as they are, against the API server that --kubeconfig names, until SIGINT or SIGTERM.
//
// The kinds an API server serves change while gc runs, as CRDs come and go: every syncPeriod gc compares discovery
// with the kinds it watches.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	// syncPeriod is how long an object of a new CRD may wait before the garbage collector sees it. A call to
	// discovery costs a local API server about a millisecond.
	syncPeriod = 2 * time.Second
	// initialSyncTimeout is how long collecting waits for the first lists; it then goes on without the slow ones.
	initialSyncTimeout = 30 * time.Second
	resyncPeriod       = 12 * time.Hour
	workers            = 4
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "path to the kubeconfig of the API server (required)")
	flag.Parse()
	if *kubeconfig == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "gc: usage: gc --kubeconfig FILE")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		klog.Flush()
		fmt.Fprintln(os.Stderr, "gc:", err)
		os.Exit(1)
	}
	klog.Flush()
}

// run returns nil once ctx is done and an error if the controllers cannot be started.
func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "berth-gc"
	// The API server has a handful of clients and its own flow control; waiting here would only make deletions slow.
	config.QPS = -1

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the metadata client: %w", err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("reaching the API server: %w", err)
	}

	typed := informers.NewSharedInformerFactory(client, resyncPeriod)
	untyped := metadatainformer.NewSharedInformerFactory(metadataClient, resyncPeriod)
	namespaces := namespace.NewNamespaceController(ctx, client, metadataClient,
		client.Discovery().ServerPreferredNamespacedResources, typed.Core().V1().Namespaces(), resyncPeriod, v1.FinalizerKubernetes)

	started := make(chan struct{})
	collector, monitored, err := newCollector(ctx, config, client, metadataClient,
		informerfactory.NewInformerFactory(typed, untyped), started)
	if err != nil {
		return err
	}
	typed.Start(ctx.Done())
	untyped.Start(ctx.Done())
	close(started)

	var wg sync.WaitGroup
	wg.Go(func() { namespaces.Run(ctx, workers) })
	wg.Go(func() { collector.Run(ctx, workers, initialSyncTimeout) })
	wg.Go(func() { collector.Sync(ctx, monitored, syncPeriod) })
	wg.Wait()
	if ctx.Err() == nil {
		return errors.New("the controllers stopped by themselves")
	}
	return nil
}

// newCollector also returns the discovery client that Sync polls. It must not be the one behind the collector's REST
// mapper: a reset of the mapper would invalidate it in the middle of a comparison.
func newCollector(
	ctx context.Context, config *rest.Config, client kubernetes.Interface, metadataClient metadata.Interface,
	factory informerfactory.InformerFactory, started <-chan struct{},
) (*garbagecollector.GarbageCollector, discovery.DiscoveryInterface, error) {
	monitored, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		garbagecollector.DefaultIgnoredResources(), factory, started)
	if err != nil {
		return nil, nil, fmt.Errorf("building the garbage collector: %w", err)
	}
	return collector, monitored, nil
}
