package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// requestList is a work queue that keeps what was added.
type requestList struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (l *requestList) Add(request reconcile.Request) { l.names = append(l.names, request.String()) }

// drain returns the requests that were added since its last call.
func (l *requestList) drain() []string {
	names := l.names
	l.names = nil
	return names
}

// memoryFeed is a feed whose events tests deliver.
type memoryFeed struct {
	*feed
	cache *memoryCache
	queue requestList
	// syncs counts the calls of onSynced.
	syncs int
}

func newMemoryFeed(t *testing.T) *memoryFeed {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(kinds.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	f := &memoryFeed{cache: &memoryCache{FakeInformers: &informertest.FakeInformers{Scheme: scheme}}}
	f.feed = &feed{
		cache: f.cache, inventory: inventory.New(inventory.Options{}), held: scheduler.NewMemory(), clock: time.Now,
		kinds: kinds.All(), synced: make(chan struct{}), onSynced: func() { f.syncs++ },
	}
	return f
}

// withQueues has the feed keep Placements in queues, whose configuration is not read yet.
func (f *memoryFeed) withQueues(t *testing.T) *queueConfig {
	t.Helper()
	mgr := &memoryManager{cache: f.cache}
	o := Options{QueueConfig: types.NamespacedName{Namespace: "berth-system", Name: "queues"}, Log: logr.Discard(), Now: time.Now}
	if err := f.setUpQueues(mgr, o, newEventSender(nil, logr.Discard())); err != nil {
		t.Fatal(err)
	}
	return mgr.Added[0].(*queueConfig)
}

// start ends with the test; its clock ticks in a bubble only.
func (f *memoryFeed) start(t *testing.T) {
	t.Helper()
	if err := f.Start(t.Context(), &f.queue); err != nil {
		t.Fatal(err)
	}
}

func TestFeedQueuesAffectedPlacements(t *testing.T) {
	f := newMemoryFeed(t)
	f.start(t)
	added := func(kind string, o any) {
		f.cache.deliver(kind, func(h toolscache.ResourceEventHandler) { h.OnAdd(o, true) })
	}
	deleted := func(kind string, o any) {
		f.cache.deliver(kind, func(h toolscache.ResourceEventHandler) { h.OnDelete(o) })
	}
	cluster := fixture.Cluster("a").Set("s1").Obj()
	record := changes.NewRecord(fixture.Placement("n", "p").Obj(), 0, 1, changes.NewChange(nil, []string{"a"}))
	record.UID, record.ResourceVersion, record.Status.Phase = "0e6f3e0b-32a7-4f7c-8f0b-6f6a1b8f2a10", "7", berthv1alpha1.PhasePublished
	packed := changes.PackRecord(record)
	records := func() int { return len(f.inventory.Records()) }
	steps := []struct {
		name        string
		event       func()
		want        []string
		wantMetrics map[string]float64
		wantRecords int
	}{
		{name: "a set", event: func() { added("ManagedClusterSet", fixture.Set("s1")) },
			wantMetrics: map[string]float64{"inventory_events_total ManagedClusterSet ignored": 1}},
		{name: "a binding", event: func() { added("ManagedClusterSetBinding", fixture.Binding("n", "s1")) },
			wantMetrics: map[string]float64{"inventory_events_total ManagedClusterSetBinding ignored": 1}},
		{name: "a Placement", event: func() { added("Placement", fixture.Placement("n", "p").Obj()) },
			want: []string{"n/p"}, wantMetrics: map[string]float64{"inventory_events_total Placement acted": 1}},
		{name: "another", event: func() { added("Placement", fixture.Placement("n", "q").Obj()) },
			want: []string{"n/q"}, wantMetrics: map[string]float64{"inventory_events_total Placement acted": 1}},
		{name: "a packed record", event: func() { added("PlacementChange", packed) },
			wantMetrics: map[string]float64{"inventory_events_total PlacementChange ignored": 1}, wantRecords: 1},
		{name: "it goes", event: func() { deleted("PlacementChange", packed) },
			wantMetrics: map[string]float64{"inventory_events_total PlacementChange ignored": 1}},
		{name: "a cluster", event: func() { added("ManagedCluster", cluster) },
			want: []string{"n/p", "n/q"}, wantMetrics: map[string]float64{"inventory_events_total ManagedCluster acted": 1}},
		{name: "a cluster that changed", event: func() {
			f.cache.deliver("ManagedCluster", func(h toolscache.ResourceEventHandler) {
				h.OnUpdate(cluster, fixture.Cluster("a").Obj())
			})
		}, want: []string{"n/p", "n/q"}, wantMetrics: map[string]float64{"inventory_events_total ManagedCluster acted": 1}},
		{name: "a cluster of no set that is gone", event: func() { deleted("ManagedCluster", fixture.Cluster("a").Obj()) },
			wantMetrics: map[string]float64{"inventory_events_total ManagedCluster ignored": 1}},
		{name: "a deletion that was missed", event: func() {
			deleted("Placement", toolscache.DeletedFinalStateUnknown{Key: "n/q", Obj: fixture.Placement("n", "q").Obj()})
		}, want: []string{"n/q"}, wantMetrics: map[string]float64{"inventory_events_total Placement acted": 1}},
		{name: "a deletion that was missed, without an object", event: func() {
			deleted("Placement", toolscache.DeletedFinalStateUnknown{Key: "n/p"})
		}, wantMetrics: map[string]float64{}},
	}
	for _, step := range steps {
		got := changed(t, step.event, fleetEvents)
		if diff := cmp.Diff(step.want, f.queue.drain()); diff != "" {
			t.Errorf("%s: queued (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.wantMetrics, got); diff != "" {
			t.Errorf("%s: metrics (-want +got):\n%s", step.name, diff)
		}
		if records() != step.wantRecords {
			t.Errorf("%s: %d records, want %d", step.name, records(), step.wantRecords)
		}
	}
	if keys := f.inventory.Placements(); !slices.Equal(keys, []types.NamespacedName{placementKey}) {
		t.Errorf("the inventory has %v", keys)
	}
}

// TestFeedUpdatesQueues: a Placement is in its queue until it is gone, and a change of its
// namespace has it decided again.
func TestFeedUpdatesQueues(t *testing.T) {
	f := newMemoryFeed(t)
	f.withQueues(t)
	pl := fixture.Placement("n", "p").Obj()
	namespace := func(parent string) *metav1.PartialObjectMetadata {
		o := namespaceMetadata()
		o.Name, o.Annotations = "n", map[string]string{assignment.ParentQueueAnnotation: parent}
		return o
	}
	// Before there is a queue nothing can be queued.
	f.update(pl)
	f.update(namespace("root.a"))
	f.start(t)
	for _, step := range []struct {
		name  string
		event func() []inventory.Key
		want  []string
	}{
		{"another parent", func() []inventory.Key { return f.update(namespace("root.b")) }, []string{"n/p"}},
		{"the same parent", func() []inventory.Key { return f.update(namespace("root.b")) }, nil},
		{"the namespace is gone", func() []inventory.Key { return f.delete(namespace("root.b")) }, []string{"n/p"}},
		{"the Placement is gone", func() []inventory.Key { return f.delete(pl) }, nil},
		{"a parent of no Placement", func() []inventory.Key { return f.update(namespace("root.c")) }, nil},
	} {
		f.queue.drain()
		step.event()
		if diff := cmp.Diff(step.want, f.queue.drain()); diff != "" {
			t.Errorf("%s: queued (-want +got):\n%s", step.name, diff)
		}
	}
	got := changed(t, func() { f.update(namespace("root.d")) }, fleetEvents)
	if diff := cmp.Diff(map[string]float64{"inventory_events_total Namespace ignored": 1}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestFeedWatches(t *testing.T) {
	all := make([]string, 0, len(kinds.All()))
	for _, kind := range kinds.All() {
		all = append(all, kind.Name)
	}
	f := newMemoryFeed(t)
	f.start(t)
	if diff := cmp.Diff(all, f.cache.watched); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	if len(f.cache.blocking) > 0 {
		t.Errorf("the feed waits for %v", f.cache.blocking)
	}
	f = newMemoryFeed(t)
	f.withQueues(t)
	f.start(t)
	if diff := cmp.Diff(append(all, "Namespace"), f.cache.watched); diff != "" {
		t.Errorf("watched with queues (-want +got):\n%s", diff)
	}
}

func TestFeedDoesNotStart(t *testing.T) {
	tests := map[string]struct {
		breaks func(f *memoryFeed)
		want   string
	}{
		"a kind may not be watched": {
			breaks: func(f *memoryFeed) {
				f.cache.refuse = func(kind string) error {
					if kind == "Placement" {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "placements"}, "", errors.New("no right"))
					}
					return nil
				}
			},
			want: "watching *v1alpha1.Placement: placements is forbidden: no right",
		},
		"an informer takes no handler": {
			breaks: func(f *memoryFeed) { f.cache.unhandled = "Placement" },
			want:   "handling a watch: the informer has stopped",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newMemoryFeed(t)
			tc.breaks(f)
			if err := f.Start(t.Context(), &f.queue); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestFeedWaitsForSync(t *testing.T) {
	tests := map[string]struct {
		// unsynced is a kind whose list has not come.
		unsynced string
		// queues are configured; read says that their configuration is known.
		queues, read bool
		ended        bool
		want         string
	}{
		"without queues":                                {},
		"queues":                                        {queues: true, read: true},
		"the fleet is not listed":                       {unsynced: "ManagedCluster", ended: true, want: "the fleet could not be listed in time"},
		"the queues' configuration is not read":         {queues: true, ended: true, want: "the queue configuration could not be read in time"},
		"the fleet is not listed, queues are read":      {queues: true, read: true, unsynced: "Placement", ended: true, want: "the fleet could not be listed in time"},
		"the fleet is listed at once, though time ends": {ended: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newMemoryFeed(t)
			if tc.queues {
				config := f.withQueues(t)
				if tc.read {
					close(config.read)
				}
			}
			f.start(t)
			if len(f.handlers) != len(f.cache.watched) {
				t.Errorf("%d handlers for %d kinds", len(f.handlers), len(f.cache.watched))
			}
			for i, kind := range f.cache.watched {
				if kind == tc.unsynced {
					f.handlers[i] = &unsyncedHandler{f.handlers[i]}
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.ended {
				cancel()
			}
			err := f.WaitForSync(ctx)
			if got := errorText(err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if synced := isClosed(f.synced); synced != (tc.want == "") || f.syncs == 1 != synced {
				t.Errorf("synced: %t, onSynced called %d times", synced, f.syncs)
			}
		})
	}
}

// TestLoopsAwaitTheFleet: a loop that reads the inventory begins when that has all initial lists.
func TestLoopsAwaitTheFleet(t *testing.T) {
	tests := map[string]struct {
		object client.Object
		setUp  func(hub *memoryhub.Hub, synced <-chan struct{}) func(context.Context, ctrl.Manager) error
		// reads is the kind that a reconciliation reads, and want what of it.
		reads, want string
	}{
		"disruptionpolicy": {
			object: fixture.ApprovalPolicy("n", "q"), reads: "DisruptionPolicy", want: "n/q",
			setUp: func(hub *memoryhub.Hub, synced <-chan struct{}) func(context.Context, ctrl.Manager) error {
				return (&DisruptionPolicyReconciler{Client: hub, Inventory: inventory.New(inventory.Options{}), Synced: synced}).SetUp
			},
		},
		"placementeviction": {
			object: fixture.Eviction("n", "e", "p", "c").Obj(), reads: "PlacementEvictionList", want: "n",
			setUp: func(hub *memoryhub.Hub, synced <-chan struct{}) func(context.Context, ctrl.Manager) error {
				return (&EvictionReconciler{Client: hub, Inventory: inventory.New(inventory.Options{}), Synced: synced, Now: time.Now}).SetUp
			},
		},
		"placementexplanation": {
			object: &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "e"}}, reads: "PlacementExplanationList", want: "n",
			setUp: func(hub *memoryhub.Hub, synced <-chan struct{}) func(context.Context, ctrl.Manager) error {
				return (&ExplanationReconciler{Client: hub, Reader: hub, Synced: synced, Now: time.Now}).SetUp
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub, synced := newMemoryHub(t), make(chan struct{})
				m := memoryhub.NewManager(t, hub)
				m.Run(t, tc.setUp(hub, synced))
				m.Send(t, memoryhub.Event{After: tc.object})
				time.Sleep(time.Minute)
				hub.CheckRead(t, tc.reads)
				close(synced)
				synctest.Wait()
				hub.CheckRead(t, tc.reads, tc.want)
			})
		})
	}
}

// TestAfterFleetEnds: a loop that awaits the fleet ends when the time for it has passed.
func TestAfterFleetEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := afterFleet(make(chan struct{})).WaitForSync(ctx); !errors.Is(err, errNotListed) {
		t.Errorf("got %v", err)
	}
}

// unsyncedHandler waits for its list.
type unsyncedHandler struct {
	toolscache.ResourceEventHandlerRegistration
}

func (*unsyncedHandler) HasSynced() bool { return false }

// errorText is empty for no error.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestFeedQueuesWhenTheClockWasSet: what runs out does so by the clock.
func TestFeedQueuesWhenTheClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMemoryFeed(t)
		ctx, cancel := context.WithCancel(t.Context())
		var set time.Duration
		f.clock = func() time.Time { return time.Now().Add(set) }
		f.inventory.Update(fixture.Placement("n", "p").Obj())
		f.inventory.Update(fixture.Placement("n", "q").Obj())
		if err := f.Start(ctx, &f.queue); err != nil {
			t.Fatal(err)
		}
		time.Sleep(clockInterval + clockInterval/2)
		synctest.Wait()
		if names := f.queue.drain(); len(names) > 0 {
			t.Errorf("queued: %v", names)
		}
		set = time.Hour
		time.Sleep(clockInterval)
		synctest.Wait()
		if diff := cmp.Diff([]string{"n/p", "n/q"}, f.queue.drain()); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
		cancel()
		synctest.Wait()
	})
}

// TestFeedQueuesAnsweredHolds: a plugin that answers about a held change has the Placement decided
// again.
func TestFeedQueuesAnsweredHolds(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.reconciler.Inventory.Update(fixture.ApprovalPolicy("n", "careful"))
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	f := newMemoryFeed(t)
	f.held = h.probe.handle.HeldChanges.(*scheduler.Memory)
	f.start(t)
	holds := f.held.List()
	if len(holds) != 1 || !f.held.Allow(holds[0].UID, "Approval") {
		t.Fatalf("held: %v", holds)
	}
	if diff := cmp.Diff([]string{"n/p"}, f.queue.drain()); diff != "" {
		t.Errorf("queued (-want +got):\n%s", diff)
	}
	if got := h.condition(pending); !strings.HasPrefix(got, "True Held") {
		t.Errorf("condition %s: %q", pending, got)
	}
}
