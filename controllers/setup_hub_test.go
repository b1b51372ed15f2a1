package controllers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// steppedCRDs are served by Open Cluster Management's hub with Berth's own kinds.
var steppedCRDs = map[string][]string{
	v1alpha1.GroupName:      {"placements", "placements/status", "placementdecisions", "placementdecisions/status"},
	berthv1alpha1.GroupName: {"placementchanges", "placementchanges/status", "placementevictions", "placementevictions/status", "disruptionpolicies", "disruptionpolicies/status", "selectionpolicies", "selectionpolicies/status"},
}

// setUpHub is a hub in memory with all that setUp makes. Nothing runs: tests take events in and
// reconcile on their own. Placement n/p may use the set s1.
type setUpHub struct {
	t   *testing.T
	hub client.Client
	mgr *memoryManager
	// reconciler is what setUp made; nil if it failed.
	reconciler *PlacementReconciler
	background *managerWithBackground
	probe      *probePlugin
	now        time.Time
	// refuse, when set, may fail a request of the controller: "create PlacementDecision
	// p-decision-1".
	refuse func(request string) error
	// lose, when set, may fail a request that succeeded: its response is lost. unreadable fails all
	// reads past the caches.
	lose       func(request string) error
	unreadable error
	// requests are the writes of the controller, in order.
	requests []string
	version  int
}

// hubOptions are what a test chooses.
type hubOptions struct {
	Options
	serves  map[string][]string
	failing map[string]int
	// prepare, when set, may change the manager and what has been built before setUp begins.
	prepare func(h *setUpHub)
	// systemClock leaves Options.Now unset.
	systemClock bool
}

func newSetUpHub(t *testing.T, o hubOptions) (*setUpHub, error) {
	t.Helper()
	h := &setUpHub{t: t, now: fixture.Now, probe: &probePlugin{}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	statuses := []client.Object{
		&v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}, &berthv1alpha1.PlacementChange{}, &berthv1alpha1.SelectionPolicy{},
	}
	h.hub = memoryhub.BuilderFor(scheme).WithStatusSubresource(statuses...).WithGlobalResourceVersionCounter().Build()
	h.mgr = &memoryManager{
		client: interceptor.NewClient(h.hub.(client.WithWatch), h.intercept()), reader: interceptor.NewClient(h.hub.(client.WithWatch), h.reads()),
		cache:   &memoryCache{FakeInformers: &informertest.FakeInformers{Scheme: scheme}},
		Manager: memoryhub.Manager{Webhooks: webhook.NewServer(webhook.Options{})}, elected: make(chan struct{}),
		health: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{},
	}
	if o.serves == nil {
		o.serves = steppedCRDs
	}
	if o.Config == nil {
		o.Config = &config.PlacementSchedulerConfiguration{}
	}
	o.Config.CycleTimeout = &metav1.Duration{Duration: time.Minute}
	if o.Now == nil && !o.systemClock {
		o.Now = func() time.Time { return h.now }
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	h.background = &managerWithBackground{Manager: h.mgr, events: newEventSender(nil, logr.Discard())}
	if o.prepare != nil {
		o.prepare(h)
	}
	err := setUp(t.Context(), h.mgr, h.background, discoveryServer(t, o.serves, o.failing), o.Options)
	for reconciler := range h.mgr.controllers() {
		if r, ok := reconciler.(*PlacementReconciler); ok {
			h.reconciler = r
		}
	}
	return h, err
}

// startSetUpHub has the probe among the plugins, and clusters of the set s1.
func startSetUpHub(t *testing.T, o hubOptions, clusters ...string) *setUpHub {
	t.Helper()
	prepare := o.prepare
	o.Plugins = framework.Registry{}
	o.prepare = func(h *setUpHub) {
		o.Plugins[probeName] = h.probe.build
		if prepare != nil {
			prepare(h)
		}
	}
	o.Config = &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
		Name:    config.DefaultProfile,
		Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: probeName}}}},
	}}}
	h, err := newSetUpHub(t, o)
	if err != nil {
		t.Fatal(err)
	}
	inv := h.reconciler.Inventory
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("n", "s1"))
	for _, name := range clusters {
		inv.Update(fixture.Cluster(name).Set("s1").Obj())
	}
	return h
}

// place puts a Placement on the hub and into the inventory.
func (h *setUpHub) place(pl *v1alpha1.Placement) {
	h.t.Helper()
	pl.ResourceVersion = ""
	if err := h.hub.Create(h.t.Context(), pl); err != nil {
		h.t.Fatal(err)
	}
	h.reconciler.Inventory.Update(pl)
}

// placement is the one on the hub.
func (h *setUpHub) placement() *v1alpha1.Placement {
	h.t.Helper()
	pl := &v1alpha1.Placement{}
	if err := h.hub.Get(h.t.Context(), placementKey, pl); err != nil {
		h.t.Fatal(err)
	}
	return pl
}

// condition is one of the Placement on the hub as "status reason: message"; empty if it has none.
func (h *setUpHub) condition(kind string) string {
	h.t.Helper()
	c := meta.FindStatusCondition(h.placement().Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// published are the clusters on the pages of Placement n/p.
func (h *setUpHub) published() []string {
	h.t.Helper()
	var pages v1alpha1.PlacementDecisionList
	if err := h.hub.List(h.t.Context(), &pages, client.MatchingLabels{v1alpha1.PlacementLabel: "p"}); err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, page := range pages.Items {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	slices.Sort(names)
	return names
}

// reconcile is one attempt for Placement n/p.
func (h *setUpHub) reconcile() (ctrl.Result, error) {
	return h.reconciler.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: placementKey})
}

// succeed is an attempt without an error.
func (h *setUpHub) succeed() ctrl.Result {
	h.t.Helper()
	result, err := h.reconcile()
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

// sent returns the events since it was called last as "Type Reason Action: note".
func (h *setUpHub) sent() []string {
	var all []string
	for _, e := range h.background.events.waiting {
		all = append(all, fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Action, e.Note))
	}
	h.background.events.waiting = nil
	return all
}

// written returns the requests since it was called last.
func (h *setUpHub) written() []string {
	all := h.requests
	h.requests = nil
	return all
}

func (h *setUpHub) intercept() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return h.request("create", o, func() error {
				h.version++
				o.SetUID(types.UID(fmt.Sprint("uid-", h.version)))
				o.SetCreationTimestamp(metav1.NewTime(h.now))
				if record, ok := o.(*berthv1alpha1.PlacementChange); ok {
					record.Status = berthv1alpha1.PlacementChangeStatus{}
				}
				return c.Create(ctx, o, options...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return h.request("update", o, func() error { return c.Update(ctx, o, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return h.request("delete", o, func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return h.request("update "+sub+" of", o, func() error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return h.request("patch "+sub+" of", o, func() error {
				err := c.SubResource(sub).Patch(ctx, o, patch, options...)
				// As the API server does.
				o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "berth"}})
				return err
			})
		},
	}
}

// request notes a write, and fails it, or loses its response, if the test wants that.
func (h *setUpHub) request(verb string, o client.Object, write func() error) error {
	request := fmt.Sprintf("%s %s %s", verb, kindOf(o), o.GetName())
	h.requests = append(h.requests, request)
	if h.refuse != nil {
		if err := h.refuse(request); err != nil {
			return err
		}
	}
	if h.lose != nil {
		if lost := h.lose(request); lost != nil {
			// The caller's object stays as it was sent.
			sent := o.DeepCopyObject()
			if err := write(); err != nil {
				return err
			}
			reflect.ValueOf(o).Elem().Set(reflect.ValueOf(sent).Elem())
			return lost
		}
	}
	return write()
}

// reads are the reads past all caches.
func (h *setUpHub) reads() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if h.unreadable != nil {
				return h.unreadable
			}
			return c.Get(ctx, key, o, options...)
		},
	}
}
