package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// feed is the only source of the placement controller. It watches the kinds that decisions depend
// on, passes each event to the inventory, and queues the affected Placements. No worker starts
// before every handler has processed its initial list, so that no decision uses an incomplete view.
type feed struct {
	cache     cache.Cache
	inventory *inventory.Inventory
	held      *scheduler.Memory
	clock     func() time.Time
	// queues is nil if no queues are configured. queuesRead is closed when their ConfigMap has been
	// read, or is known to be missing.
	queues     *admission.Queues
	queuesRead <-chan struct{}
	// enqueue adds Placements to the controller's queue. It is nil until Start.
	enqueue  atomic.Pointer[func([]inventory.Key)]
	handlers []toolscache.ResourceEventHandlerRegistration
	// synced is closed when the inventory has all initial lists.
	synced chan struct{}
	// onSynced is called once, just before synced is closed and the first attempt runs.
	onSynced func()
	// times measures how long an event takes to reach the pages.
	times eventTimes
	// clusters counts the ManagedClusters for the metrics.
	clusters availableGauge
	// kinds are the kinds to watch.
	kinds []kinds.Kind
	// readiness follows the DisruptionPolicies; nil if the hub does not serve them.
	readiness *readinessWatches
}

// Start implements source.Source.
func (f *feed) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.held.OnChange(func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
	enqueue := func(keys []inventory.Key) {
		for _, key := range keys {
			queue.Add(reconcile.Request{NamespacedName: key})
		}
	}
	f.enqueue.Store(&enqueue)
	go watchClock(ctx, f.clock, func() { enqueue(f.inventory.Placements()) })
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { enqueue(f.process(obj)) },
		UpdateFunc: func(_, obj any) { enqueue(f.process(obj)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if packed, ok := obj.(*changes.PackedRecord); ok {
				obj = packed.Record()
			}
			if o, ok := obj.(client.Object); ok {
				enqueue(f.delete(o))
			}
		},
	}
	informers, err := f.watch(ctx)
	if err != nil {
		return err
	}
	for _, informer := range informers {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("handling a watch: %w", err)
		}
		f.handlers = append(f.handlers, registration)
	}
	return nil
}

// watch starts an informer for each kind. Called before the cache starts, it makes all lists run at
// once, and a replica that waits for the lease already has the fleet in its cache.
func (f *feed) watch(ctx context.Context) ([]cache.Informer, error) {
	var watched []client.Object
	for _, kind := range f.kinds {
		watched = append(watched, kind.New())
	}
	if f.queues != nil {
		watched = append(watched, namespaceMetadata())
	}
	informers := make([]cache.Informer, len(watched))
	for i, object := range watched {
		var err error
		if informers[i], err = informerOf(ctx, f.cache, object); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return informers, nil
}

// enqueueIfStarted queues Placements for another reason than a watch event. Before Start it does
// nothing.
func (f *feed) enqueueIfStarted(keys []inventory.Key) {
	if enqueue := f.enqueue.Load(); enqueue != nil {
		(*enqueue)(keys)
	}
}

// activate queues Placements for a plugin.
func (f *feed) activate(placements ...types.NamespacedName) { f.enqueueIfStarted(placements) }

// process processes an object of the cache that was added or changed.
func (f *feed) process(object any) []inventory.Key {
	if packed, ok := object.(*changes.PackedRecord); ok {
		return f.updated(&berthv1alpha1.PlacementChange{}, f.inventory.UpdatePacked(packed))
	}
	return f.update(object.(client.Object))
}

func (f *feed) update(o client.Object) []inventory.Key {
	if f.queues != nil {
		switch o := o.(type) {
		case *v1alpha1.Placement:
			f.queues.Update(o)
		case *metav1.PartialObjectMetadata:
			f.queues.Namespace(o.Name, o.Annotations)
		}
	}
	if cluster, ok := o.(*v1alpha1.ManagedCluster); ok {
		f.clusters.set(cluster)
	}
	return f.updated(o, f.inventory.Update(o))
}

func (f *feed) delete(o client.Object) []inventory.Key {
	if f.queues != nil {
		switch o := o.(type) {
		case *v1alpha1.Placement:
			f.queues.Delete(client.ObjectKeyFromObject(o))
		case *metav1.PartialObjectMetadata:
			f.queues.Namespace(o.Name, nil)
		}
	}
	if cluster, ok := o.(*v1alpha1.ManagedCluster); ok {
		f.clusters.remove(cluster)
	}
	return f.updated(o, f.inventory.Delete(o))
}

// updated counts an event of an object that the inventory has processed.
func (f *feed) updated(o client.Object, affected []inventory.Key) []inventory.Key {
	f.followPolicies(o)
	countEvent(o, affected)
	f.times.affected(affected, time.Now())
	return affected
}

// followPolicies lets the watches of readiness sources follow a policy.
func (f *feed) followPolicies(o client.Object) {
	if _, policy := o.(*berthv1alpha1.DisruptionPolicy); policy {
		f.readiness.policiesChanged()
	}
}

// start ends the initial listing. Decisions begin after it.
func (f *feed) start(ctx context.Context, decides *scheduler.Scheduler, recorder *recording.Recorder) {
	f.inventory.Started()
	decides.Recount(f.inventory.RecordsToCount())
	decides.ReserveOpenChanges(ctx, f.inventory.OpenChanges(), func(key types.NamespacedName) *framework.Snapshot {
		return snapshotOf(key, f.inventory, f.queues, f.clock())
	})
	recorder.Begin(f.inventory)
}

// storeQuota is called for Placements with a queue only. It does nothing if the Placement of the
// attempt was deleted or replaced meanwhile.
func (f *feed) storeQuota(subject *framework.Subject, clusters int) {
	if pl := f.inventory.Placement(subject.Key()); pl != nil && pl.UID == subject.Placement.UID {
		f.queues.SetClusters(subject.Key(), clusters)
	}
}

// WaitForSync implements source.SyncingSource.
func (f *feed) WaitForSync(ctx context.Context) error {
	synced := make([]toolscache.InformerSynced, len(f.handlers))
	for i, h := range f.handlers {
		synced[i] = h.HasSynced
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return errNotListed
	}
	if f.queues != nil {
		select {
		case <-f.queuesRead:
		case <-ctx.Done():
			return errors.New("the queue configuration could not be read in time")
		}
	}
	f.onSynced()
	close(f.synced)
	return nil
}

var errNotListed = errors.New("the fleet could not be listed in time")

// afterFleet is a source without events. A loop that reads the inventory watches the channel that
// is closed when the inventory has all initial lists, and begins then.
type afterFleet <-chan struct{}

// Start implements source.Source.
func (afterFleet) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// WaitForSync implements source.SyncingSource.
func (synced afterFleet) WaitForSync(ctx context.Context) error {
	select {
	case <-synced:
		return nil
	case <-ctx.Done():
		return errNotListed
	}
}

func (afterFleet) String() string { return "fleet" }

// warn returns what is probably a mistake in a Placement. It compares it with the fleet when that
// is known.
func (f *feed) warn(pl *v1alpha1.Placement) []string {
	snapshot := &framework.Snapshot{Subject: &framework.Subject{Placement: pl}}
	if isClosed(f.synced) {
		snapshot = f.inventory.SnapshotOfNew(pl, f.clock(), nil)
	}
	return decide.Warnings(snapshot)
}
