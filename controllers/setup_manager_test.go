package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/memoryhub"
)

// memoryCache has informers without objects, to which tests give events.
type memoryCache struct {
	*informertest.FakeInformers
	// watched are the kinds that informers were asked for, in that order; blocking are those of
	// them for which the caller waits until they have synced.
	watched, blocking []string
	handlers          map[string][]toolscache.ResourceEventHandler
	// refuse, when set, may fail an informer. unhandled is a kind whose informer takes no handler.
	refuse    func(kind string) error
	unhandled string
	// missing is the answer to reads.
	missing error
}

func (c *memoryCache) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	kind := kindOf(o)
	if _, ok := o.(*corev1.ConfigMap); ok {
		kind = "ConfigMap"
	}
	if c.refuse != nil {
		if err := c.refuse(kind); err != nil {
			return nil, err
		}
	}
	asked := cache.InformerGetOptions{}
	for _, option := range options {
		option(&asked)
	}
	c.watched = append(c.watched, kind)
	if asked.BlockUntilSynced == nil || *asked.BlockUntilSynced {
		c.blocking = append(c.blocking, kind)
	}
	if kind == c.unhandled {
		return deafInformer{}, nil
	}
	return &handledInformer{c.informer(o), c, kind}, nil
}

// deliver gives an event to the handlers of a kind.
func (c *memoryCache) deliver(kind string, event func(toolscache.ResourceEventHandler)) {
	for _, handler := range c.handlers[kind] {
		event(handler)
	}
}

// handledInformer keeps its handlers in the cache.
type handledInformer struct {
	*controllertest.FakeInformer
	cache *memoryCache
	kind  string
}

func (i *handledInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.cache.handlers == nil {
		i.cache.handlers = map[string][]toolscache.ResourceEventHandler{}
	}
	i.cache.handlers[i.kind] = append(i.cache.handlers[i.kind], handler)
	return i.FakeInformer.AddEventHandler(handler)
}

// informer is that of the object's kind.
func (c *memoryCache) informer(o client.Object) *controllertest.FakeInformer {
	kind, err := apiutil.GVKForObject(o, c.Scheme)
	if err != nil {
		panic(err)
	}
	informer, err := c.FakeInformerForKind(context.Background(), kind)
	if err != nil {
		panic(err)
	}
	return informer
}

// deafInformer takes no handler.
type deafInformer struct{ cache.Informer }

func (deafInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, errors.New("the informer has stopped")
}

func (c *memoryCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return c.missing
}

// memoryManager keeps what is set up on it, and starts nothing.
type memoryManager struct {
	memoryhub.Manager
	client  client.Client
	reader  client.Reader
	cache   *memoryCache
	elected chan struct{}
	// health and ready are the probes by name.
	health, ready map[string]healthz.Checker
	// served are the handlers of the server of metrics, by path.
	served map[string]http.Handler
	// refuse, when set, may fail a call: "add *controllers.queueConfig", "health ping", "ready
	// fleet".
	refuse func(call string) error
}

func (m *memoryManager) GetClient() client.Client             { return m.client }
func (m *memoryManager) GetAPIReader() client.Reader          { return m.reader }
func (m *memoryManager) GetCache() cache.Cache                { return m.cache }
func (m *memoryManager) GetScheme() *runtime.Scheme           { return m.client.Scheme() }
func (m *memoryManager) GetRESTMapper() meta.RESTMapper       { return m.client.RESTMapper() }
func (m *memoryManager) GetFieldIndexer() client.FieldIndexer { return m.cache }
func (m *memoryManager) Elected() <-chan struct{}             { return m.elected }

func (m *memoryManager) Add(r manager.Runnable) error {
	if err := m.refused(fmt.Sprintf("add %T", r)); err != nil {
		return err
	}
	return m.Manager.Add(r)
}

func (m *memoryManager) AddHealthzCheck(name string, check healthz.Checker) error {
	m.health[name] = check
	return m.refused("health " + name)
}

func (m *memoryManager) AddReadyzCheck(name string, check healthz.Checker) error {
	m.ready[name] = check
	return m.refused("ready " + name)
}

func (m *memoryManager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	m.served[path] = handler
	return m.refused("serve " + path)
}

func (m *memoryManager) refused(call string) error {
	if m.refuse == nil {
		return nil
	}
	return m.refuse(call)
}

// controllers are the reconcilers of the controllers on the manager, and the controllers
// themselves.
func (m *memoryManager) controllers() map[any]manager.Runnable {
	all := map[any]manager.Runnable{}
	for _, r := range m.Added {
		if c := reflect.ValueOf(r).Elem(); c.Kind() == reflect.Struct && c.FieldByName("Do").IsValid() {
			all[c.FieldByName("Do").Interface()] = r
		}
	}
	return all
}

// discoveryServer answers what kinds it serves, by group; for a group in failing it answers that
// status.
func discoveryServer(t *testing.T, serves map[string][]string, failing map[string]int) *rest.Config {
	t.Helper()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = w.Write([]byte(`{"kind": "APIVersions", "versions": ["v1"]}`))
			return
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}`))
			return
		case "/apis":
			_, _ = w.Write([]byte(`{"kind": "APIGroupList"}`))
			return
		}
		group := strings.Split(r.URL.Path, "/")[2]
		if code := failing[group]; code != 0 {
			w.WriteHeader(code)
			return
		}
		plurals, served := serves[group]
		if !served {
			http.NotFound(w, r)
			return
		}
		list := metav1.APIResourceList{GroupVersion: group + "/v1alpha1"}
		for _, plural := range plurals {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural})
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(hub.Close)
	return &rest.Config{Host: hub.URL}
}

const probeName = "Probe"

// probePlugin is a plugin out of the tree that answers as it is set, and Success where it is not.
type probePlugin struct {
	handle *framework.Handle
	filter func(cluster string) *framework.Status
	permit func() (*framework.Status, time.Duration)
	// postBind is called if it is not nil.
	postBind func()
	// prepare is nil while every Placement is prepared.
	prepare func() bool
	// forgotten are the Placements that were passed to Forget.
	forgotten []types.NamespacedName
	// managers are those passed to SetupWithManager, which returns setUpError.
	managers   []manager.Manager
	setUpError error
	// recounted is how many records it was to start from; -1 before that.
	recounted int
}

func (p *probePlugin) build(_ context.Context, _ json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	p.handle, p.recounted = handle, -1
	return p, nil
}

func (*probePlugin) Name() string { return probeName }

func (*probePlugin) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	return nil, nil
}

func (p *probePlugin) Prepared(*v1alpha1.Placement) bool { return p.prepare == nil }

func (p *probePlugin) Prepare(*v1alpha1.Placement, func() bool) bool { return p.prepare() }

func (p *probePlugin) Filter(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if p.filter == nil {
		return nil
	}
	return p.filter(cluster.Name)
}

func (p *probePlugin) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	if p.permit == nil {
		return nil, 0
	}
	return p.permit()
}

// Reserve and Unreserve do nothing: a Counter is a Reserve plugin.
func (*probePlugin) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

func (*probePlugin) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

func (p *probePlugin) Forget(key types.NamespacedName) { p.forgotten = append(p.forgotten, key) }

func (p *probePlugin) Describe() framework.Traits {
	return framework.Traits{SetupWithManager: p.setUp, Counter: framework.Counter{
		Counts:       func() any { return nil },
		DecodeCounts: func([]byte) (any, error) { return nil, nil },
		Recount:      func(records []*berthv1alpha1.PlacementChange) { p.recounted = len(records) },
		NeedsRecords: func() time.Duration { return 0 },
	}}
}

// TestCachedLeases: only the leases of clusters are cached, with their renewTime alone.
func TestCachedLeases(t *testing.T) {
	options, err := cacheOptions(Options{Housekeeping: []string{"*"}}, runtime.NewScheme())
	if err != nil {
		t.Fatal(err)
	}
	for _, cached := range options.ByObject {
		if got := cached.Field.String(); got != "metadata.name=managed-cluster-lease" {
			t.Errorf("the field selector is %s", got)
		}
	}
	full := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
	want := full.DeepCopy()
	full.Labels, full.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	full.ManagedFields, full.ResourceVersion, full.UID = []metav1.ManagedFieldsEntry{{Manager: "m"}}, "7", "u"
	full.Spec.HolderIdentity = new("holder")
	want.ResourceVersion, want.UID = "7", "u"
	got, err := options.DefaultTransform(full)
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}
