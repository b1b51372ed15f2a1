package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// observer watches the Placements and their pages, as a consumer does, and for some rows their
// records and evictions.
type observer struct {
	mu     sync.Mutex
	views  map[types.NamespacedName]*view
	waiter *waiter
	// gone follows which clusters Placements leave; nil if nothing does.
	gone *departures
	// written counts the writes since the start.
	written writes
}

// writes counts the requests that a watch reported: of pages, of the status of Placements, of
// records (creation, status and deletion), and of the status of evictions.
type writes struct{ pages, statuses, records, evictions int }

func (w writes) plus(o writes) writes {
	return writes{w.pages + o.pages, w.statuses + o.statuses, w.records + o.records, w.evictions + o.evictions}
}

func (w writes) minus(o writes) writes {
	return writes{w.pages - o.pages, w.statuses - o.statuses, w.records - o.records, w.evictions - o.evictions}
}

// view is the observed state of one Placement.
type view struct {
	pages     map[string][]string // clusters by page
	exists    bool
	satisfied bool // the status says that all decisions are scheduled
	selected  int32
	// progressing is true while the status says that a change is published in steps.
	progressing bool
	executed    int // executed evictions
}

func (v *view) clusters() int {
	n := 0
	for _, page := range v.pages {
		n += len(page)
	}
	return n
}

// names returns the clusters on all pages.
func (v *view) names() []string {
	var names []string
	for _, page := range v.pages {
		names = append(names, page...)
	}
	return names
}

func (v *view) lists(cluster string) bool {
	for _, page := range v.pages {
		if slices.Contains(page, cluster) {
			return true
		}
	}
	return false
}

// waiter waits until each of some Placements has the wanted state.
type waiter struct {
	pending map[types.NamespacedName]bool
	want    func(*view) bool
	done    chan time.Time
}

// observe watches objects of some kinds in the namespaces until ctx ends.
func observe(ctx context.Context, h *hub, kinds []client.Object, namespaces ...string) (*observer, error) {
	o := &observer{views: map[types.NamespacedName]*view{}}
	within := map[string]cache.Config{}
	for _, namespace := range namespaces {
		within[namespace] = cache.Config{}
	}
	watches, err := cache.New(h.config, cache.Options{Scheme: h.Scheme(), DefaultNamespaces: within})
	if err != nil {
		return nil, fmt.Errorf("building the observer: %w", err)
	}
	for _, kind := range kinds {
		informer, err := watches.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { o.handle(nil, object, false) },
			UpdateFunc: func(before, object any) { o.handle(before, object, false) },
			DeleteFunc: func(object any) {
				if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
					object = last.Obj
				}
				o.handle(nil, object, true)
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	go func() { _ = watches.Start(ctx) }() // it ends with ctx, and what goes wrong before shows as a wait in vain
	if !watches.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watching: %w", context.Cause(ctx))
	}
	return o, nil
}

func (o *observer) handle(before, object any, gone bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	var key types.NamespacedName
	switch x := object.(type) {
	case *berthv1alpha1.PlacementChange:
		o.written.records++
		return
	case *berthv1alpha1.PlacementEviction:
		key = types.NamespacedName{Namespace: x.Namespace, Name: x.Spec.Placement}
		if before == nil {
			return
		}
		o.written.evictions++
		was := meta.IsStatusConditionTrue(before.(*berthv1alpha1.PlacementEviction).Status.Conditions, berthv1alpha1.EvictionExecuted)
		if !was && meta.IsStatusConditionTrue(x.Status.Conditions, berthv1alpha1.EvictionExecuted) {
			o.view(key).executed++
		}
	case *v1alpha1.PlacementDecision:
		o.written.pages++
		key = types.NamespacedName{Namespace: x.Namespace, Name: x.PlacementName()}
		gone = gone || !(&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}).Publishes(x)
		names := make([]string, len(x.Status.Decisions))
		for i, d := range x.Status.Decisions {
			names[i] = d.ClusterName
		}
		if gone {
			delete(o.view(key).pages, x.Name)
		} else {
			o.view(key).pages[x.Name] = names
		}
	case *v1alpha1.Placement:
		key = client.ObjectKeyFromObject(x)
		if old, ok := before.(*v1alpha1.Placement); ok && !equality.Semantic.DeepEqual(old.Status, x.Status) {
			o.written.statuses++
		}
		v := o.view(key)
		v.exists, v.selected = !gone, x.Status.NumberOfSelectedClusters
		v.satisfied = !gone && meta.IsStatusConditionTrue(x.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
		v.progressing = meta.FindStatusCondition(x.Status.Conditions, v1alpha1.PlacementConditionDecisionProgressing) != nil
	}
	o.checkWaiter(key, now)
	if o.gone != nil {
		o.gone.show(key, o.view(key).names(), now)
	}
}

// follow begins to follow which clusters Placements leave.
func (o *observer) follow() *departures {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = &departures{listing: map[string]map[types.NamespacedName]bool{}, listed: map[types.NamespacedName][]string{}, leaving: map[string]*departure{}}
	for key, v := range o.views {
		o.gone.show(key, v.names(), time.Now())
	}
	return o.gone
}

// unfollow ends that.
func (o *observer) unfollow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = nil
}

func (o *observer) view(key types.NamespacedName) *view {
	if o.views[key] == nil {
		o.views[key] = &view{pages: map[string][]string{}}
	}
	return o.views[key]
}

func (o *observer) checkWaiter(key types.NamespacedName, now time.Time) {
	w := o.waiter
	if w == nil || !w.pending[key] || !w.want(o.view(key)) {
		return
	}
	delete(w.pending, key)
	if len(w.pending) == 0 {
		w.done <- now
		o.waiter = nil
	}
}

// expect begins to wait for the Placements; a Placement that has the wanted state already counts.
// Only one wait at a time.
func (o *observer) expect(keys []types.NamespacedName, want func(*view) bool) *waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &waiter{pending: map[types.NamespacedName]bool{}, want: want, done: make(chan time.Time, 1)}
	for _, key := range keys {
		w.pending[key] = true
	}
	o.waiter = w
	for _, key := range keys {
		o.checkWaiter(key, time.Now())
	}
	return w
}

// counted returns the writes reported so far.
func (o *observer) counted() writes {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

// firstCluster returns a cluster that a Placement lists; empty if there is none.
func (o *observer) firstCluster(key types.NamespacedName) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := ""
	for _, page := range o.view(key).pages {
		for _, name := range page {
			if first == "" || name < first {
				first = name
			}
		}
	}
	return first
}
