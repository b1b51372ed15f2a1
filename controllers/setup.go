package controllers

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/admission/validation"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/queue"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// Options are the settings of a deployment.
type Options struct {
	// LeaderElection makes only one of several replicas decide. The lease LeaseName, by default
	// berth.berth.dev, is in LeaderElectionNamespace.
	LeaderElection                     bool
	LeaderElectionNamespace, LeaseName string
	// Lease has the times of the lease. Default defaultLease. Simulated worlds have longer ones,
	// because most of their requests would be renewals.
	Lease LeaseTimes
	// MetricsAddress, HealthAddress and PprofAddress are host:port; "0" switches a listener off. If
	// the first two are equal, one server has metrics and probes.
	MetricsAddress, HealthAddress, PprofAddress string
	// MetricsSecure serves metrics over TLS, to users with the permission to get them. Otherwise
	// every client gets them, in plain HTTP. MetricsCertDir has tls.crt and tls.key; if it is
	// empty, a certificate is generated.
	MetricsSecure  bool
	MetricsCertDir string
	// TLS configures the server of metrics. Webhooks has its own.
	TLS []func(*tls.Config)
	// Housekeeping names the controllers that maintain sets and clusters: "*" for all, a name for
	// one, "-name" to leave one out. Entries apply in order; if the first is a "-name", "*" comes
	// before it. On CRDs of Open Cluster Management, "*" adds none. An unknown name is an error.
	Housekeeping []string
	// ClusterProfiles configures the housekeeping controller cluster-profile, which "*" does not
	// include.
	ClusterProfiles housekeeping.ClusterProfileOptions
	// Config is the scheduler's configuration file; nil is the default profile. Plugins are the
	// out-of-tree plugins that it may name.
	Config  *config.PlacementSchedulerConfiguration
	Plugins framework.Registry
	// QueueConfig names the ConfigMap with the queues; without a name there are no queues. Webhooks
	// configures the server of the admission handlers: those of queues, and those that validate.
	// Nil serves none.
	QueueConfig types.NamespacedName
	Webhooks    *webhook.Options
	// CheckSkips runs attempts that are skipped because they cannot change the answer all the same,
	// and logs an error if one of them would change it.
	CheckSkips bool
	// Workers is how many Placements are published at once; only one decides at a time. Default 16.
	Workers int
	// LoopWorkers is how many objects a loop without its own number handles at once. Default 1.
	// Simulated worlds have more, so that the order of their queues does not matter.
	LoopWorkers int
	// Informers changes the informers of the cache; nil changes none. Simulated worlds deliver one
	// event at a time.
	Informers func(toolscache.SharedIndexInformer) toolscache.SharedIndexInformer
	// Now is the clock of decisions. Default time.Now.
	Now func() time.Time
	// Recording says where the inputs of decisions, and the decisions, are recorded. Without a Dir
	// nothing is.
	Recording recording.Options
	// Version and Commit of the program, for the metric berth_build_info.
	Version, Commit string
	// Log receives the controller's log.
	Log logr.Logger
}

// LeaseTimes are the times of leader election. A replica that cannot renew its lease continues to
// decide: for up to RetryPeriod and RenewDeadline after the last renewal, then for up to another
// RenewDeadline while it tries to release the lease. Duration must be longer than the sum of these.
type LeaseTimes struct{ Duration, RenewDeadline, RetryPeriod time.Duration }

var defaultLease = LeaseTimes{Duration: 15 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 2 * time.Second}

func (o Options) lease() string { return cmp.Or(o.LeaseName, leaseName) }

func (o Options) leaseTimes() LeaseTimes { return cmp.Or(o.Lease, defaultLease) }

// stopTime is how long the manager may take to stop. Events and records follow, for up to
// eventFlushTime and recordFlush.
const stopTime = 10 * time.Second

// NewManager builds a manager with every loop and watch of Berth. Start it to run.
//
//	feed                   watches the kinds that decisions depend on, and the clock; updates the
//	                       inventory and queues the affected Placements
//	placement              decides and publishes one Placement, writes its status and events
//	disruptionpolicy       counts the Placements that a DisruptionPolicy selects; condition Ready
//	placementeviction      conditions of PlacementEvictions; deletes them an hour after they end
//	readiness              watches the objects of the readiness sources that policies use
//	queues                 reads the queues' ConfigMap, if configured; answers admission requests
//	events                 sends events at the hub's pace, after decisions
//	records                writes the history of changes, after decisions
//	placementexplanation   answers PlacementExplanations with its own engine, and deletes them
//	                       after 10 minutes
//
// It adds the loops of package housekeeping, too, that Options.Housekeeping selects.
func NewManager(ctx context.Context, cfg *rest.Config, o Options) (ctrl.Manager, error) {
	cfg = rest.CopyConfig(cfg)
	// API Priority and Fairness limits requests instead.
	cfg.QPS = -1
	guard := &leaseGuard{now: time.Now, lease: o.lease(), lasts: o.leaseTimes().Duration}
	if o.LeaderElection {
		cfg.Wrap(guard.wrap)
	}
	options, err := managerOptions(o)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	mgr = guardedManager{mgr, guard}
	client, err := newEventsClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the events client: %w", err)
	}
	events := newEventSender(client, o.Log.WithName("events"))
	buildInfo.WithLabelValues(o.Version, o.Commit, goruntime.Version()).Set(1)
	background := &managerWithBackground{Manager: mgr, events: events}
	return background, setUp(ctx, mgr, background, cfg, o)
}

// managerOptions returns the options of the manager that NewManager builds.
func managerOptions(o Options) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return ctrl.Options{}, fmt.Errorf("building the scheme: %w", err)
	}
	cached, err := cacheOptions(o, scheme)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("building the scheme: %w", err)
	}
	var webhooks webhook.Server
	if o.Webhooks != nil {
		webhooks = webhook.NewServer(*o.Webhooks)
	}
	return ctrl.Options{
		Scheme: scheme,
		// controller-runtime allows a name once in a process, but tests run several managers.
		Controller:                    ctrlconfig.Controller{MaxConcurrentReconciles: o.LoopWorkers, CacheSyncTimeout: 10 * time.Minute, SkipNameValidation: new(true)},
		Logger:                        o.Log,
		Cache:                         cached,
		MapperProvider:                func(cfg *rest.Config, c *http.Client) (meta.RESTMapper, error) { return mapperFor(cfg, c, cached) },
		WebhookServer:                 webhooks,
		Metrics:                       metricsServer(o),
		HealthProbeBindAddress:        probeAddress(o),
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              o.lease(),
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(o.leaseTimes().Duration),
		RenewDeadline:                 new(o.leaseTimes().RenewDeadline),
		RetryPeriod:                   new(o.leaseTimes().RetryPeriod),
		GracefulShutdownTimeout:       new(stopTime),
	}, nil
}

func metricsServer(o Options) server.Options {
	if !o.MetricsSecure {
		return server.Options{BindAddress: o.MetricsAddress}
	}
	return server.Options{BindAddress: o.MetricsAddress, SecureServing: true, CertDir: o.MetricsCertDir, TLSOpts: o.TLS, FilterProvider: guardMetrics}
}

func setUp(ctx context.Context, mgr ctrl.Manager, m *managerWithBackground, cfg *rest.Config, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	served, err := discoverKinds(ctx, cfg)
	if err != nil {
		return err
	}
	if err := checkKinds(served, o); err != nil {
		return err
	}
	loops, err := setUpHousekeeping(ctx, startManager{mgr}, cfg, m.events, o, served.wholePages)
	if err != nil {
		return err
	}
	known, recorder, err := inventoryOptions(loops, o)
	if m.recording = recorder; err != nil {
		return err
	}
	// The references form a circle: the scheduler needs the profiles, their plugins need the
	// inventory, and the inventory asks the scheduler what a Placement reads.
	var decides *scheduler.Scheduler
	placements := &feed{synced: make(chan struct{})}
	known.AwaitsStart = true
	known.OnAffected = func(keys []inventory.Key) { placements.enqueueIfStarted(keys) }
	known.Reads = func(pl *v1alpha1.Placement) framework.Reads { return decides.Reads(pl) }
	inv := inventory.New(known)
	placements.cache, placements.inventory, placements.held, placements.clock, placements.kinds = mgr.GetCache(), inv, scheduler.NewMemory(), o.Now, served.watched()
	if err := addOwnKinds(ctx, startManager{mgr}, cfg, placements, served.ownKinds, o); err != nil {
		return err
	}
	if err := placements.setUpQueues(mgr, o, m.events); err != nil {
		return err
	}
	if err := addExplanations(ctx, mgr, placements, served, o); err != nil {
		return err
	}
	profiles, err := buildProfiles(ctx, mgr, cfg, placements, m.events, served.wholePages, o)
	if err != nil {
		return err
	}
	decides = scheduler.New(profiles, placements.held)
	decides.Timer, decides.LockHeld, decides.CycleTimeout = timePoint, timeLock, o.Config.Timeout()
	decides.StorePublished, decides.OnDecided, decides.StoreClaim, decides.StoreQuota = inv.SetPublished, onDecided(recorder), inv.StoreClaim, placements.storeQuota
	r := &PlacementReconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Inventory: inv, Scheduler: decides, Queues: placements.queues, Events: m.events, Now: o.Now, Times: &placements.times,
	}
	if served.ownKinds {
		m.records = recordDecisions(mgr, inv, decides, o)
		r.Records, decides.WriteRecordsBefore = m.records, r.writeBefore
	}
	if err := addValidation(mgr, decides, placements.warn, served.ownKinds, o); err != nil {
		return err
	}
	placements.onSynced = func() { placements.start(ctx, decides, recorder) }
	if _, err := placements.watch(ctx); err != nil {
		return err
	}
	held.Store(placements.held)
	if err := addProbes(mgr, placements, o); err != nil {
		return err
	}
	return addPlacementController(mgr, placements, profiles[config.DefaultProfile].QueueSort, r, o)
}

// recordDecisions returns the writer of PlacementChanges for the decisions of a scheduler.
func recordDecisions(mgr ctrl.Manager, inv *inventory.Inventory, decides *scheduler.Scheduler, o Options) *Recorder {
	r := NewRecorder(mgr.GetClient(), mgr.GetAPIReader(), inv, o.Log.WithName("records"))
	r.Now, r.NeedsRecords = o.Now, decides.NeedsRecords
	return r
}

// newRecorder returns the recorder; nil if nothing is recorded.
func newRecorder(o Options) (*recording.Recorder, error) {
	recorded.Store(nil)
	if o.Recording.Dir == "" {
		return nil, nil
	}
	settings := o.Recording
	settings.Version, settings.Commit, settings.Now, settings.Log = o.Version, o.Commit, o.Now, o.Log.WithName("recording")
	if o.Config != nil {
		var err error
		if settings.Config, err = json.Marshal(o.Config); err != nil {
			return nil, fmt.Errorf("recording the configuration: %w", err)
		}
	}
	recorder, err := recording.New(settings)
	if err != nil {
		return nil, err
	}
	recorded.Store(recorder)
	return recorder, nil
}

// onDecided returns a function that records decisions; nil if nothing is recorded.
func onDecided(recorder *recording.Recorder) func(*plan.Plan) {
	if recorder == nil {
		return nil
	}
	return func(p *plan.Plan) { recorder.Decided(replay.DecisionOf(p), p.Snapshot.PluginCounts) }
}

// inventoryOptions returns the options of the inventory, and the recorder of its inputs; nil if
// nothing is recorded.
func inventoryOptions(loops []string, o Options) (inventory.Options, *recording.Recorder, error) {
	recorder, err := newRecorder(o)
	options := inventory.Options{OnInput: recorder.OnInput(), CheckSettled: o.CheckSkips}
	if !o.CheckSkips {
		options.OnSettled = func(attempts int) { attemptsSkipped.WithLabelValues("Skipped").Add(float64(attempts)) }
	}
	if slices.Contains(loops, housekeeping.TaintTime) {
		options.FirstSeen = o.Now
	}
	return options, recorder, err
}

// addValidation registers the validating webhooks, if webhooks are served.
func addValidation(mgr ctrl.Manager, decides *scheduler.Scheduler, warn validation.Warn, ownKinds bool, o Options) error {
	if o.Webhooks == nil {
		return nil
	}
	var hub client.Reader
	if ownKinds {
		hub = mgr.GetCache()
	}
	return validation.Register(mgr.GetWebhookServer(), decides.Validate, decides.ValidatePolicy, warn, hub)
}

// addOwnKinds sets up the status of DisruptionPolicies and PlacementEvictions, and the watches of
// readiness sources, if the hub serves Berth's own kinds.
func addOwnKinds(ctx context.Context, mgr ctrl.Manager, cfg *rest.Config, placements *feed, ownKinds bool, o Options) error {
	watches, err := newReadinessWatches(cfg, mgr.GetRESTMapper(), placements.inventory, o)
	if err != nil || !ownKinds {
		return err
	}
	policies := &DisruptionPolicyReconciler{Client: mgr.GetClient(), Inventory: placements.inventory, Synced: placements.synced, Log: o.Log}
	if err := policies.SetUp(ctx, mgr); err != nil {
		return fmt.Errorf("setting up disruptionpolicy: %w", err)
	}
	evictions := &EvictionReconciler{Client: mgr.GetClient(), Inventory: placements.inventory, Synced: placements.synced, Now: o.Now}
	if err := evictions.SetUp(ctx, mgr); err != nil {
		return fmt.Errorf("setting up placementeviction: %w", err)
	}
	watches.affected, watches.changed = placements.enqueueIfStarted, policies.sourceChanged
	placements.readiness = watches
	if err := mgr.Add(watches); err != nil {
		return fmt.Errorf("setting up readiness sources: %w", err)
	}
	return nil
}

// setUpHousekeeping sets up the selected housekeeping controllers and returns their names.
func setUpHousekeeping(ctx context.Context, mgr ctrl.Manager, cfg *rest.Config, events *eventSender, o Options, ownCRDs bool) ([]string, error) {
	return housekeeping.SetUp(ctx, mgr, cfg, housekeeping.Options{
		Names: o.Housekeeping, OwnCRDs: ownCRDs, ClusterProfiles: o.ClusterProfiles, Retry: readinessRetry, Now: o.Now, Log: o.Log,
		OnReadFailed: func(err error) {
			profileFailures.WithLabelValues(cmp.Or(string(apierrors.ReasonForError(err)), "Unknown")).Inc()
		},
		Event: func(regarding corev1.ObjectReference, eventType, reason, action, note string) {
			events.queue("", regarding, report.Event{Type: eventType, Reason: reason, Action: action, Note: note})
		},
	})
}

// buildProfiles builds the plugins of all profiles.
func buildProfiles(ctx context.Context, mgr ctrl.Manager, cfg *rest.Config, placements *feed, events *eventSender, wholePages bool, o Options) (map[string]*plugins.Profile, error) {
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return nil, err
	}
	pages, err := pageClient(cfg, mgr.GetClient(), mgr.GetAPIReader(), wholePages)
	if err != nil {
		return nil, err
	}
	inv := placements.inventory
	handle := &framework.Handle{
		Client: mgr.GetClient(), Pages: pages, Assume: inv.AssumePage, Announce: inv.Announce,
		HeldChanges: placements.held, Activate: placements.activate,
		Snapshot: func(key types.NamespacedName) *framework.Snapshot { return inv.Snapshot(key, o.Now(), nil) },
		Event: func(pl *v1alpha1.Placement, eventType, reason, action, note string) {
			events.Send(context.Background(), pl, []report.Event{{Type: eventType, Reason: reason, Action: action, Note: note}})
		},
	}
	return newProfiles(ctx, mgr, o.Config, registry, handle)
}

// newProfiles builds and sets up the plugins of all profiles.
func newProfiles(
	ctx context.Context, mgr ctrl.Manager, c *config.PlacementSchedulerConfiguration, registry framework.Registry, handle *framework.Handle,
) (map[string]*plugins.Profile, error) {
	profiles, err := builtin.Profiles(ctx, c, registry, handle)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		if err := profiles[name].SetUp(ctx, mgr); err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
	}
	return profiles, nil
}

func addPlacementController(mgr ctrl.Manager, placements *feed, order framework.QueueSortPlugin, r *PlacementReconciler, o Options) error {
	if o.Workers == 0 {
		o.Workers = 16
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("placement").
		WatchesRawSource(placements).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			NewQueue:                queue.New(order, r.Inventory.Placement, o.Workers),
			RateLimiter:             queue.RateLimiter(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the placement controller: %w", err)
	}
	return nil
}

// pageClient returns the client that writes pages: whole, or in steps on CRDs with a status
// subresource.
func pageClient(cfg *rest.Config, consumers client.Client, reader client.Reader, whole bool) (framework.PageClient, error) {
	if !whole {
		return steppedPagesOf(consumers, reader), nil
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddPagesToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the pages' scheme: %w", err)
	}
	writer, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building the pages client: %w", err)
	}
	return wholePagesOf(writer), nil
}
