// Command gc runs the parts of kube-controller-manager that a local hub needs: the garbage
// collector, which removes the dependants of deleted owners, and the namespace controller, which
// empties deleted namespaces. It runs the unmodified Kubernetes packages against the API server of
// --kubeconfig, until SIGINT or SIGTERM.
//
// Each of the two has its own identity, from the contexts generic-garbage-collector and
// namespace-controller of the kubeconfig. As in kube-controller-manager, they should be the service
// accounts of these names in kube-system. An owner reference then cannot delete an object that
// admission policies protect from the garbage collector.
//
// The served kinds change while gc runs, because CRDs are created and deleted. Every syncPeriod, gc
// compares discovery with the kinds that it watches.
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
	// syncPeriod is how long an object of a new CRD may wait before the garbage collector sees it.
	// A call to discovery costs a local API server about a millisecond.
	syncPeriod = 2 * time.Second
	// initialSyncTimeout is how long collecting waits for the first lists; it then goes on without
	// the slow ones.
	initialSyncTimeout = 30 * time.Second
	resyncPeriod       = 12 * time.Hour
	workers            = 4

	// The contexts of the kubeconfig.
	collectorContext  = "generic-garbage-collector"
	namespacesContext = "namespace-controller"
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "path to the kubeconfig, with the contexts "+collectorContext+" and "+namespacesContext+" (required)")
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

// clients are those of one controller.
type clients struct {
	config   *rest.Config
	typed    kubernetes.Interface
	metadata metadata.Interface
}

func newClients(kubeconfig, context string) (*clients, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "berth-gc"
	// The API server has a handful of clients and its own flow control; waiting here would only
	// make deletions slow.
	config.QPS = -1
	c := &clients{config: config}
	if c.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("building the metadata client: %w", err)
	}
	return c, nil
}

// run returns nil once ctx is done and an error if the controllers cannot be started.
func run(ctx context.Context, kubeconfig string) error {
	collecting, err := newClients(kubeconfig, collectorContext)
	if err != nil {
		return err
	}
	emptying, err := newClients(kubeconfig, namespacesContext)
	if err != nil {
		return err
	}
	if _, err := collecting.typed.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("reaching the API server: %w", err)
	}

	namespaceInformers := informers.NewSharedInformerFactory(emptying.typed, resyncPeriod)
	namespaces := namespace.NewNamespaceController(ctx, emptying.typed, emptying.metadata, emptying.typed.Discovery().ServerPreferredNamespacedResources,
		namespaceInformers.Core().V1().Namespaces(), resyncPeriod, v1.FinalizerKubernetes)

	typed := informers.NewSharedInformerFactory(collecting.typed, resyncPeriod)
	untyped := metadatainformer.NewSharedInformerFactory(collecting.metadata, resyncPeriod)
	started := make(chan struct{})
	collector, monitored, err := newCollector(ctx, collecting,
		informerfactory.NewInformerFactory(typed, untyped), started)
	if err != nil {
		return err
	}
	namespaceInformers.Start(ctx.Done())
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

// newCollector also returns the discovery client that Sync polls. It must not be the one behind the
// collector's REST mapper: a reset of the mapper would invalidate it in the middle of a comparison.
func newCollector(
	ctx context.Context, c *clients, factory informerfactory.InformerFactory, started <-chan struct{},
) (*garbagecollector.GarbageCollector, discovery.DiscoveryInterface, error) {
	monitored, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, nil, fmt.Errorf("building the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.typed.Discovery()))
	collector, err := garbagecollector.NewGarbageCollector(ctx, c.typed, c.metadata, mapper,
		garbagecollector.DefaultIgnoredResources(), factory, started)
	if err != nil {
		return nil, nil, fmt.Errorf("building the garbage collector: %w", err)
	}
	return collector, monitored, nil
}
