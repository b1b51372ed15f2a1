package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/queue"
)

// Options are what a deployment chooses.
type Options struct {
	// LeaderElection lets one of several replicas decide; the lease is in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// MetricsAddress, HealthAddress and PprofAddress are host:port; "0" switches a listener off.
	MetricsAddress, HealthAddress, PprofAddress string
	// MetricsSecure serves metrics over TLS to those whom the hub lets get them; else they are there for everybody, in plain HTTP.
	// MetricsCertDir has the tls.crt and tls.key for it; without one the certificate is made up.
	MetricsSecure  bool
	MetricsCertDir string
	// Housekeeping names the controllers that keep sets and clusters in order: "*" for all of them
	// (none where another's CRDs show that Open Cluster Management keeps them), a name for one,
	// "-name" for all but one. They count in their order; where the first is a "-name", "*" goes
	// before it. An unknown name is refused.
	Housekeeping []string
	// Config is the scheduler's configuration file; nil is the default profile. Plugins are those out of the tree that it may name.
	Config  *config.PlacementSchedulerConfiguration
	Plugins framework.Registry
	// QueueConfig names the ConfigMap with the queues; without a name there are none. Webhooks serves the admission handlers
	// that go with them; nil leaves them to others.
	QueueConfig types.NamespacedName
	Webhooks    *webhook.Options
	// Workers is how many Placements are published at once; cycles are serial. Default 16.
	Workers int
	// Now is the clock that decisions obey; time.Now by default.
	Now func() time.Time
	// Log takes the controller's lines.
	Log logr.Logger
}

// A replica that cannot renew its lease decides on for a retryPeriod and a renewDeadline after the last renewal, and then for up
// to another renewDeadline while it tries to give the lease up: all of that must be over when another may take the lease.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = 2 * time.Second
)

// stopTime is how long everything may take to stop when the process is asked to end. Events follow, for eventFlushTime.
const stopTime = 10 * time.Second

// NewManager builds a manager with every loop and watch of Berth. Start it to run.
//
//	feed                   watches the six kinds and tells the inventory, which says whom to wake; also watches the clock
//	placement              decides and publishes one Placement, writes its status and events
//	queues                 reads the queues' ConfigMap, where one is named, and answers admission requests
//	events                 sends events at the hub's pace, after decisions
//
// and, as Housekeeping says, what a hub without Open Cluster Management's registration controller lacks:
//
//	clusterset             creates the default and global sets; condition ClusterSetEmpty
//	clustersetbinding      condition Bound
//	cluster-default-set    puts new clusters into the default set
//	cluster-taint-time     stamps timeAdded on taints
//	cluster-availability   turns an Available condition of False or Unknown into a NoSelect taint
func NewManager(ctx context.Context, cfg *rest.Config, o Options) (ctrl.Manager, error) {
	cfg = rest.CopyConfig(cfg)
	// API Priority and Fairness says how fast a client may be.
	cfg.QPS = -1
	if o.Now == nil {
		o.Now = time.Now
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	cached := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	if o.QueueConfig.Name != "" {
		if err := corev1.AddToScheme(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
		cached.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			o.QueueConfig.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", o.QueueConfig.Name)},
		}}}
	}
	var webhooks webhook.Server
	if o.Webhooks != nil {
		webhooks = webhook.NewServer(*o.Webhooks)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        o.Log,
		Cache:                         cached,
		WebhookServer:                 webhooks,
		Metrics:                       metricsServer(o),
		HealthProbeBindAddress:        o.HealthAddress,
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "berth.berth.dev",
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(stopTime),
	})
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	client, err := newEventsClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the events client: %w", err)
	}
	events := newEventSender(client, o.Log.WithName("events"))
	return managerWithEvents{mgr, events}, setUp(ctx, mgr, events, cfg, o)
}

func metricsServer(o Options) server.Options {
	if !o.MetricsSecure {
		return server.Options{BindAddress: o.MetricsAddress}
	}
	return server.Options{BindAddress: o.MetricsAddress, SecureServing: true, CertDir: o.MetricsCertDir, FilterProvider: guardMetrics}
}

func setUp(ctx context.Context, mgr ctrl.Manager, events *eventSender, cfg *rest.Config, o Options) error {
	pages, ownCRDs, err := pageClient(cfg, mgr.GetClient(), mgr.GetAPIReader())
	if err != nil {
		return err
	}
	keepers, err := housekeepers(mgr.GetClient(), o.Now, o.Housekeeping, ownCRDs)
	if err != nil {
		return err
	}
	o.Log.Info("Housekeeping", "controllers", slices.Sorted(maps.Keys(keepers)))
	var known inventory.Options
	for name, keeper := range keepers {
		if err := keeper.SetUp(ctx, mgr); err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
		if name == "cluster-taint-time" {
			known.FirstSeen = o.Now
		}
	}
	// The scheduler is built from the profiles, whose plugins reach the inventory, which asks the scheduler what they read.
	var decides *scheduler.Scheduler
	known.Reads = func(pl *v1alpha1.Placement) framework.Reads { return decides.Reads(pl) }
	inv := inventory.New(known)
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return err
	}
	waiting := scheduler.NewWaiting()
	profiles, err := scheduler.NewProfiles(ctx, o.Config, builtin.DefaultProfile(), registry, &framework.Handle{
		Client: mgr.GetClient(), Pages: pages, Assume: inv.Assume, Announce: inv.Announce, Reserve: inv.Reserve, Unreserve: inv.Unreserve, Waiting: waiting,
		Snapshot: func(key types.NamespacedName) *framework.Snapshot { return inv.Snapshot(key, o.Now()) },
		Event: func(pl *v1alpha1.Placement, eventType, reason, action, note string) {
			events.Send(context.Background(), pl, []scheduler.Event{{Type: eventType, Reason: reason, Action: action, Note: note}})
		},
	})
	if err != nil {
		return err
	}
	decides = scheduler.New(profiles, waiting)
	decides.Timer, decides.LockHeld, decides.CycleTimeout = timePoint, timeLock, o.Config.Timeout()
	placements := &feed{cache: mgr.GetCache(), inventory: inv, waiting: waiting, clock: o.Now}
	if o.QueueConfig.Name != "" {
		if err := placements.seat(mgr, o, events); err != nil {
			return err
		}
	}
	if _, err := placements.watch(ctx); err != nil {
		return err
	}
	held.Store(waiting)
	if err := addProbes(mgr, placements, o); err != nil {
		return err
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("placement").
		WatchesRawSource(placements).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			CacheSyncTimeout:        10 * time.Minute,
			NewQueue:                queue.New(profiles[config.DefaultProfile].QueueSort, inv.Placement, o.Workers),
			RateLimiter:             queue.RateLimiter(),
			// A name is taken once a process otherwise; tests run several managers.
			SkipNameValidation: new(true),
		}).
		Complete(&PlacementReconciler{
			Client:    mgr.GetClient(),
			Inventory: inv,
			Scheduler: decides,
			Queues:    placements.queues,
			Events:    events,
			Now:       o.Now,
		})
	if err != nil {
		return fmt.Errorf("setting up the placement controller: %w", err)
	}
	return nil
}

// housekeeper is a controller beside the placement controller.
type housekeeper interface {
	SetUp(ctx context.Context, mgr ctrl.Manager) error
}

// housekeepers are those that the names choose, one after the other: "*" adds all, a name adds one,
// "-name" takes one away. Names that begin with "-name" leave out of the default, which is "*".
func housekeepers(c client.Client, now func() time.Time, names []string, ownCRDs bool) (map[string]housekeeper, error) {
	all := map[string]housekeeper{
		"clusterset":        &ClusterSetReconciler{Client: c},
		"clustersetbinding": &BindingReconciler{Client: c},
	}
	for _, k := range []*ClusterKeeper{DefaultSetKeeper(c), TaintTimeKeeper(c, now), AvailabilityKeeper(c, now)} {
		all[k.Name] = k
	}
	if len(names) > 0 && strings.HasPrefix(names[0], "-") {
		names = append([]string{"*"}, names...)
	}
	chosen := map[string]housekeeper{}
	for _, name := range names {
		plain := strings.TrimPrefix(name, "-")
		switch {
		case name == "*" && ownCRDs:
			maps.Copy(chosen, all)
		case name == "*":
		case all[plain] == nil:
			return nil, fmt.Errorf("there is no controller %q; there are %s", plain, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		case plain != name:
			delete(chosen, plain)
		default:
			chosen[name] = all[name]
		}
	}
	return chosen, nil
}

// pageClient chooses how pages are written: whole, where v1alpha1 PlacementDecisions have no status subresource, as in Berth's
// own CRDs, else in steps.
func pageClient(cfg *rest.Config, consumers client.Client, reader client.Reader) (pages framework.PageClient, ownCRDs bool, err error) {
	discover, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, false, fmt.Errorf("building the discovery client: %w", err)
	}
	resources, err := discover.ServerResourcesForGroupVersion(v1alpha1.GroupName + "/v1alpha1")
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("asking how PlacementDecisions are served: %w", err)
	}
	served, subresource := false, false
	if err == nil {
		for _, r := range resources.APIResources {
			served = served || r.Name == "placementdecisions"
			subresource = subresource || r.Name == "placementdecisions/status"
		}
	}
	if !served || subresource {
		return lifecycle.SteppedPages(consumers, reader), false, nil
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddPagesToScheme(scheme); err != nil {
		return nil, false, fmt.Errorf("building the pages' scheme: %w", err)
	}
	writer, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, false, fmt.Errorf("building the pages client: %w", err)
	}
	return lifecycle.WholePages(writer), true, nil
}
