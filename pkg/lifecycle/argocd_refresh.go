package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ArgoCDRefreshName is the plugin's name.
const ArgoCDRefreshName = "ArgoCDRefresh"

// ArgoCDRefreshArgs are the arguments of ArgoCDRefresh.
type ArgoCDRefreshArgs struct {
	// PluginNamespaces are namespaces whose ApplicationSets may read Placements of other namespaces
	// with a plugin generator. Default ["argocd"].
	PluginNamespaces []string `json:"pluginNamespaces,omitempty"`
}

// refreshAnnotation makes Argo CD reconcile an ApplicationSet, and is removed by it.
const refreshAnnotation = "argocd.argoproj.io/application-set-refresh"

// Limits of the refreshes.
const (
	// refreshInterval is the shortest time between two refreshes of an ApplicationSet.
	refreshInterval = time.Second
	// maxRefreshes is how many Placements wait for a refresh, and maxRefreshTries how often one is
	// tried, in intervals that double. Argo CD then reads the decision at its next poll.
	maxRefreshes    = 10000
	maxRefreshTries = 9
	// refreshRequests is how many namespaces are worked on at a time.
	refreshRequests = 4
	refreshTimeout  = 10 * time.Second
	refreshPage     = 100
	// absentTime is how long no ApplicationSets are looked for if the hub does not serve them.
	absentTime = time.Minute
)

// ArgoCDRefreshes counts refreshes by result. docs/metrics.md has the same text.
var ArgoCDRefreshes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_argocd_refreshes_total",
	Help: "ApplicationSets that the plugin ArgoCDRefresh annotated, and attempts that failed, by result (Refreshed, Failed, Dropped). Dropped ones are read at Argo CD's next poll.",
}, []string{"result"})

// ArgoCDRefresh makes Argo CD read a published change at once, instead of at its next poll.
//
// It works in the background and never delays or fails a decision.
type ArgoCDRefresh struct {
	namespaces []string
	refreshes  *refreshes // nil in a simulation
}

// NewArgoCDRefresh is the plugin's factory.
func NewArgoCDRefresh(ctx context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, ArgoCDRefreshArgs{PluginNamespaces: []string{"argocd"}})
	if err != nil {
		return nil, err
	}
	for i, namespace := range args.PluginNamespaces {
		for _, mistake := range validation.IsDNS1123Label(namespace) {
			err = errors.Join(err, fmt.Errorf("pluginNamespaces[%d]: %s", i, mistake))
		}
	}
	p := &ArgoCDRefresh{namespaces: args.PluginNamespaces}
	if handle != nil && handle.Client != nil {
		p.refreshes = framework.Shared(handle, ArgoCDRefreshName, func() *refreshes { return newRefreshes(ctx, handle.Client) })
	}
	return p, err
}

// Name implements framework.Plugin.
func (*ArgoCDRefresh) Name() string { return ArgoCDRefreshName }

// PostBind asks for a refresh if pages were written.
func (a *ArgoCDRefresh) PostBind(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if a.refreshes == nil || len(p.Writes) == 0 {
		return
	}
	key := client.ObjectKeyFromObject(pl)
	a.refreshes.add(key.Namespace, key)
	for _, namespace := range a.namespaces {
		if namespace != key.Namespace {
			a.refreshes.add(namespace, key)
		}
	}
}

// refreshes has the Placements for which ApplicationSets must be refreshed. A namespace of
// ApplicationSets has a worker while any wait.
type refreshes struct {
	ctx   context.Context
	hub   client.Client // without a cache for unstructured objects
	slots chan struct{}

	mu sync.Mutex
	// waiting is by namespace of the ApplicationSets.
	waiting map[string]map[types.NamespacedName]refresh
	count   int
	absent  time.Time // until when the hub is not asked for ApplicationSets
}

// refresh is what waits for one Placement.
type refresh struct {
	at    time.Time
	tries int
	// onlyPlugin is true for the repetition for plugin generators.
	onlyPlugin bool
}

func newRefreshes(ctx context.Context, hub client.Client) *refreshes {
	return &refreshes{ctx: ctx, hub: hub, slots: make(chan struct{}, refreshRequests), waiting: map[string]map[types.NamespacedName]refresh{}}
}

// add must not block.
func (r *refreshes) add(namespace string, placement types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(namespace, placement, refresh{at: time.Now()})
}

// addLocked adds what waits for a Placement, and starts the worker of the namespace. What waits
// already is replaced by a refresh that does more or comes earlier.
func (r *refreshes) addLocked(namespace string, placement types.NamespacedName, wanted refresh) {
	if time.Now().Before(r.absent) || r.ctx.Err() != nil {
		return
	}
	all, running := r.waiting[namespace]
	old, waits := all[placement]
	switch {
	case !waits && r.count >= maxRefreshes:
		ArgoCDRefreshes.WithLabelValues("Dropped").Inc()
		return
	case !waits:
		r.count++
	case wanted.onlyPlugin && !old.onlyPlugin:
		return
	}
	if !running {
		all = map[types.NamespacedName]refresh{}
		r.waiting[namespace] = all
		go r.work(namespace)
	}
	all[placement] = wanted
}

// work refreshes the ApplicationSets of a namespace at most once in a refreshInterval, until
// nothing waits.
func (r *refreshes) work(namespace string) {
	for {
		due, next, more := r.take(namespace, time.Now())
		if !more {
			return
		}
		if len(due) > 0 {
			r.refresh(namespace, due)
			next = refreshInterval
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// take removes what is due. more is false if nothing waits: then the worker has ended. next is when
// more is due.
func (r *refreshes) take(namespace string, now time.Time) (due map[types.NamespacedName]refresh, next time.Duration, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[namespace]
	if len(all) == 0 {
		delete(r.waiting, namespace)
		return nil, 0, false
	}
	due, next = map[types.NamespacedName]refresh{}, refreshInterval
	for placement, wanted := range all {
		if wait := wanted.at.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		due[placement] = wanted
		delete(all, placement)
		r.count--
	}
	return due, next, true
}

// refresh refreshes the ApplicationSets that read these Placements, and adds again what must be
// repeated.
func (r *refreshes) refresh(namespace string, due map[types.NamespacedName]refresh) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(r.ctx, refreshTimeout)
	defer cancel()
	again, err := r.refreshAll(ctx, namespace, due)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		// Without the kind there are no ApplicationSets.
		r.absent = time.Now().Add(absentTime)
		return
	case err != nil:
		again = due
		log.FromContext(r.ctx).Info("Refreshing ApplicationSets of Argo CD failed", "namespace", namespace, "error", err.Error())
		ArgoCDRefreshes.WithLabelValues("Failed").Inc()
	}
	for placement, wanted := range again {
		if wanted.tries++; wanted.tries == maxRefreshTries {
			ArgoCDRefreshes.WithLabelValues("Dropped").Inc()
			continue
		}
		wanted.at = time.Now().Add(refreshInterval << (wanted.tries - 1))
		if newer, ok := r.waiting[namespace][placement]; !ok || newer.onlyPlugin && !wanted.onlyPlugin {
			r.addLocked(namespace, placement, wanted)
		}
	}
}

// refreshAll lists the ApplicationSets of a namespace and annotates those that read the Placements.
// It returns what must be repeated: once for plugin generators, because berth generator may see the
// decision later than Argo CD the annotation.
func (r *refreshes) refreshAll(ctx context.Context, namespace string, due map[types.NamespacedName]refresh) (again map[types.NamespacedName]refresh, err error) {
	again = map[types.NamespacedName]refresh{}
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "ApplicationSetList"})
	for more := true; more; more = sets.GetContinue() != "" {
		if err := r.hub.List(ctx, sets, client.InNamespace(namespace), client.Limit(refreshPage), client.Continue(sets.GetContinue())); err != nil {
			return nil, err
		}
		for i := range sets.Items {
			if sets.Items[i].GetDeletionTimestamp() == nil {
				err = errors.Join(err, r.refreshOne(ctx, &sets.Items[i], due, again))
			}
		}
	}
	return again, err
}

// refreshOne annotates an ApplicationSet if it reads one of the Placements. The value is new each
// time: Argo CD keeps the annotation while it cannot read the decision, and then only another value
// makes it try again before its next poll.
func (r *refreshes) refreshOne(ctx context.Context, set *unstructured.Unstructured, due, again map[types.NamespacedName]refresh) error {
	reads := false
	for placement, wanted := range due {
		reading := readingOf(set, placement)
		switch {
		case !reading.plugin && (!reading.decision || wanted.onlyPlugin):
			continue
		case reading.plugin && !wanted.onlyPlugin:
			again[placement] = refresh{onlyPlugin: true}
		}
		reads = true
	}
	if !reads {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, refreshAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	if err := client.IgnoreNotFound(r.hub.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("annotating ApplicationSet %s: %w", set.GetName(), err)
	}
	ArgoCDRefreshes.WithLabelValues("Refreshed").Inc()
	return nil
}
